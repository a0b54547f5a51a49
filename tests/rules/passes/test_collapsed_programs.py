"""CollapseBatchDims on random programs: values are kept, and certificates prove each change."""

import random
from collections.abc import Sequence

import numpy as np
import pytest

from passat.ir.expr import Expr, Function
from passat.ir.infer import infer_type
from passat.rules.passes.collapse_batch_dims import CollapseBatchDims, collapse_batch_dims
from passat.rules.provenance.verdict import gaps_of
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.provenance.proving import written
from tests.rules.running import assert_equal_in_value
from tests.share import share

FEATURES = 8
LEADING: Sequence[tuple[int | str, ...]] = ((2, 3), ("batch", "sequence"), ("batch", 3), (1, 2, 3), ("batch", 2, "sequence"))


def drawn(seed: int) -> Function:
    """A random program of calls on stacks of rows, with calls of other shapes between them."""
    chance = random.Random(seed)
    leading = chance.choice(LEADING)
    rank = len(leading) + 1
    x, y = (var(name, (*leading, FEATURES)) for name in "xy")
    row, scale = numbers((FEATURES,)), numbers((FEATURES,), seed=2)
    # Products of several weights keep the magnitude of values, whose differences would otherwise be rounding.
    weight = const(np.random.default_rng(seed).normal(0, FEATURES**-0.5, (FEATURES, FEATURES)))
    values: list[Expr] = [x, y]

    def step(a: Expr, b: Expr) -> Expr:
        made: Expr
        swapped = (*range(rank - 2), rank - 1, rank - 2)
        match chance.randrange(-8, 11):
            case kind if kind < 3:
                made = ops.nn.matmul(a, weight) + row
            case 3:
                made = ops.nn.matmul(a, weight) + b
            case 4:
                made = ops.tanh(a)
            case 5:
                made = a * b if chance.random() < 0.5 else row - a
            case 6:
                made = ops.nn.layer_norm(a, scale, row, axis=chance.choice((-1, rank - 1)))
            case 7:
                made = a - ops.mean(a, axis=(rank - 1,), keepdims=True)
            case 8:
                parts = ops.split(a, indices_or_sections=2, axis=rank - 1)
                made = ops.concatenate(tup(parts[1], parts[0]), axis=rank - 1)
            case 9:
                made = ops.transpose(ops.tanh(ops.transpose(a, axes=swapped)), axes=swapped)
            case _:
                flat = ops.reshape(a, newshape=(-1, FEATURES))
                made = b + ops.sum(flat, axis=(0,), keepdims=True)
        return made

    for _ in range(chance.randrange(8, 20)):
        values.append(step(chance.choice(values[-3:]), chance.choice(values)))
    results = values[-chance.choice((1, 1, 2)) :]
    return infer_type(func(results[0] if len(results) == 1 else tup(*results)))


@pytest.mark.parametrize("seed", range(share(20, 2000)))
def test_values_are_kept_and_changes_are_proved(seed: int) -> None:
    before = drawn(seed)
    after = collapse_batch_dims(before)
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"batch": 2, "sequence": 3}, rounds=1)
    found = written(before, [CollapseBatchDims()], **{"rules.cost": "roofline"})
    assert gaps_of(found.certificate) == []
    assert found.check().complete


def test_most_programs_change() -> None:
    programs = list(map(drawn, range(20)))
    assert sum(collapse_batch_dims(program) is not program for program in programs) > 10
