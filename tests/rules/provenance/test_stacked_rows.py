"""Rules on stacks of rows: each on a program that it rewrites, and on one that it does not."""

import pytest

from passat.rules.provenance.stacked_rows import StackedRows
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import saturate

x = var("x", (2, 3, 4))
named = var("named", ("batch", "sequence", 4))
unknown = var("unknown", ("?", 3, 4))
weight = numbers((4, 5))
gamma, beta = numbers((4,)), numbers((4,), seed=1)
other, row, column = var("partner", (2, 3, 4)), numbers((4,)), var("partner", (3, 1))
deep = var("deep", ("batch", "sequence", 1))

CASES: dict[str, Case] = {
    "StackedRows.elementwise": case(ops.nn.gelu(x), ops.nn.gelu(unknown), "is not a stack of rows of known size"),
    "StackedRows.arithmetic[stack]": case(named / deep, x / column, "is not a stack like"),
    "StackedRows.arithmetic[row]": case(x - row, x - column, "is not one row for"),
    "StackedRows.arithmetic[row_first]": case(row - x, column - x, "is not one row for"),
    "StackedRows.reductions": case(ops.mean(x, axis=(2,), keepdims=True), ops.mean(x, axis=(1,), keepdims=True), "is not the last axis of"),
    "StackedRows.product": case(ops.nn.matmul(named, weight), ops.nn.matmul(x, numbers((2, 4, 5))), "is not a matrix"),
    "StackedRows.normalized[nn.layer_norm]": case(
        ops.nn.layer_norm(x, gamma, beta), ops.nn.layer_norm(x, numbers((3, 4)), numbers((3, 4)), axis=1), "is not axis -1"
    ),
    "StackedRows.normalized[nn.rms_norm]": case(
        ops.nn.rms_norm(named, gamma, axis=2), ops.nn.rms_norm(x, numbers((3, 4)), axis=1), "is not axis -1"
    ),
    **{
        ("StackedRows.parts[third]" if i == 2 else f"StackedRows.parts[{which}]"): case(
            ops.split(x, indices_or_sections=(1, 2), axis=2)[i],
            ops.split(x, indices_or_sections=(1, 2), axis=1)[i],
            "is not the last axis of",
        )
        for i, which in enumerate(("first", "second", "third"))
    },
}
TABLE = pairs(CASES, StackedRows)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


@pytest.mark.parametrize("sizes", [(2, 3, 0), (0, 3, 4)])
def test_stacks_without_elements_stay(sizes: tuple[int, int, int]) -> None:
    """A newshape of 0 would mean the size of the operand."""
    assert saturate(func(ops.nn.gelu(var("empty", sizes))), StackedRows).fired("StackedRows.elementwise") == 0
