"""Certificates prove what HoistSelections did, and nothing else about selections."""

import random
from collections.abc import Callable

import pytest

from passat.ir.expr import Expr, Function
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.passmgr import FunctionPass, PassContext, PassInfo
from passat.rules.passes.hoist_selections import HoistSelections, hoist_selections
from passat.rules.provenance.verdict import gaps_of
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.provenance.proving import written
from tests.share import share

FIRST = const([0], "int64")
x, mask = var("x", ("batch", 6, 4)), var("mask", ("batch", 1, 4))


def drawn(seed: int) -> Function:
    """A random program of calls on stacks of rows, of which it selects positions."""
    chance = random.Random(seed)
    shape = chance.choice(((2, 6, 4), ("batch", "sequence", 4), ("batch", 6, 4)))
    a, b, weight, row = var("a", shape), var("b", shape), numbers((4, 4)), numbers((4,))

    def heads(of: Expr) -> Expr:
        made: Expr = ops.transpose(ops.reshape(of, newshape=(0, 0, 2, 2)), axes=(0, 2, 1, 3))
        return made

    def parts(of: Expr) -> Expr:
        cut = ops.split(of, indices_or_sections=2, axis=2)
        made: Expr = ops.concatenate(tup(cut[1], cut[0]), axis=2)
        return made

    def attention(one: Expr, other: Expr) -> Expr:
        weights = ops.nn.softmax(ops.nn.matmul(heads(one), ops.transpose(heads(other), axes=(0, 1, 3, 2))))
        made: Expr = ops.reshape(ops.transpose(ops.nn.matmul(weights, heads(other)), axes=(0, 2, 1, 3)), newshape=(0, 0, 4))
        return made

    steps: list[Callable[[Expr, Expr], Expr]] = [
        lambda one, _: ops.nn.matmul(one, weight) + row,
        lambda one, other: ops.nn.matmul(one, weight) * other,
        lambda one, _: ops.nn.layer_norm(one, row, row),
        lambda one, _: one - ops.mean(one, axis=(chance.choice((1, 2)),), keepdims=True),
        lambda one, _: ops.squeeze(ops.expand_dims(one, axis=1), axis=(1,)),
        lambda one, _: parts(one),
        attention,
    ]
    selections: list[Callable[[Expr], Expr]] = [
        lambda of: ops.take(of, const(-1, "int64"), axis=1),
        lambda of: ops.take(of, ops.argmax(ops.sum(a, axis=(0, 2)), axis=0), axis=1),
        lambda of: ops.take(of, const([3], "int64"), axis=1),
        lambda of: ops.strided_slice(of, begin=(-1,), end=(1 << 62,), strides=(1,), axes=(1,)),
    ]
    values: list[Expr] = [a, b]
    for _ in range(chance.randrange(5, 12)):
        values.append(chance.choice(steps)(chance.choice(values[-2:]), chance.choice(values)))
    return infer_type(func(chance.choice(selections)(values[-1]), a, b))


@pytest.mark.parametrize("seed", range(share(25, 1000)))
def test_random_programs(seed: int) -> None:
    found = written(drawn(seed), [HoistSelections()], **{"rules.cost": "roofline"})
    assert gaps_of(found.certificate) == []
    assert found.check().complete


def test_most_of_these_programs_change() -> None:
    programs = list(map(drawn, range(20)))
    assert sum(hoist_selections(program) is not program for program in programs) > 10


def first(of: Expr, axis: int = 1) -> Expr:
    made: Expr = ops.take(of, FIRST, axis=axis)
    return made


@pytest.mark.parametrize(
    ("before", "after", "proved"),
    [
        pytest.param(lambda: first(ops.nn.softmax(x, axis=2)), lambda: ops.nn.softmax(first(x), axis=2), True, id="along another axis"),
        pytest.param(lambda: first(ops.nn.softmax(x, axis=1)), lambda: ops.nn.softmax(first(x), axis=1), False, id="along the axis"),
        pytest.param(
            lambda: ops.take(ops.take(x, const([5, 2], "int64"), axis=1), const(1, "int64"), axis=1),
            lambda: ops.take(x, const(2, "int64"), axis=1),
            True,
            id="a selection of selected positions",
        ),
        pytest.param(lambda: first(ops.add(x, mask)), lambda: ops.add(first(x), mask), True, id="an operand without the axis"),
        pytest.param(lambda: first(ops.add(x, x)), lambda: ops.add(first(x), x), False, id="an operand of which all is left"),
        pytest.param(
            lambda: first(ops.transpose(x, axes=(0, 2, 1)), 2), lambda: ops.transpose(first(x), axes=(0, 2, 1)), True, id="a view"
        ),
        pytest.param(lambda: first(ops.transpose(x, axes=(0, 2, 1))), lambda: ops.transpose(first(x), axes=(0, 2, 1)), False, id="columns"),
    ],
)
def test_other_passes(before: Callable[[], Expr], after: Callable[[], Expr], proved: bool) -> None:
    class Claim(FunctionPass):
        """Replaces the program by another one."""

        info = PassInfo(0, "Claim")

        def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
            return claimed

    claimed = func(after(), x, mask)
    found = written(func(before(), x, mask), [Claim()])
    assert found.check().complete is proved
