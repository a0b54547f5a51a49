"""Scales, shifts and transposes before products: each rule on a program where it holds, and on one where it does not."""

from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.rules.library import AffineBefore, TransposedOperands
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import optimise

x, y = var("x", (4, 3)), var("y", (3, 5))
stack, column = var("stack", (2, 4, 3)), numbers((4, 1))
features, one = numbers((3,), seed=1), splat(2.5)
RANKS = "the tensor has 3 dimensions, not 2"


def turned(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(1, 0))
    return made


def product(left: Expr, right: Expr, **flags: bool) -> Expr:
    made: Expr = ops.nn.matmul(left, right, **flags)
    return made


def affine_cases(kind: str, of: AnyValue) -> dict[str, Case]:
    """Of a product with a constant weight."""
    return {
        f"AffineBefore.{kind}_scaled": case(of(x * one), of(x * column), "is not one number"),
        f"AffineBefore.{kind}_scaled_rows": case(of(x * features), of(x * column), "does not scale axis 0"),
        f"AffineBefore.{kind}_shifted_rows": case(of(x + features), of(x + one), "does not scale axis 0"),
    }


def transposed_cases() -> dict[str, Case]:
    """A product of more than matrices takes no flags; one that has them already is refused where its operands are integers."""
    deep = var("deep", (2, 3, 5))
    i, j = var("i", (4, 3), "int32"), var("j", (3, 5), "int32")
    return {
        "TransposedOperands.right_turned": case(product(x, turned(var("r", (5, 3)))), product(stack, turned(var("r", (5, 3)))), RANKS),
        "TransposedOperands.left_turned": case(product(turned(var("l", (3, 4))), y), product(turned(var("l", (3, 4))), deep), RANKS),
        "TransposedOperands.right_back": case(
            product(x, turned(y), transpose_b=True), product(i, turned(j), transpose_b=True), "int32, not floating-point numbers"
        ),
        "TransposedOperands.left_back": case(
            product(turned(x), y, transpose_a=True), product(turned(i), j, transpose_a=True), "int32, not floating-point numbers"
        ),
    }


CASES: dict[str, Case] = {
    **affine_cases("matmul", lambda of: product(of, numbers((3, 8)))),
    **affine_cases("dense", lambda of: ops.nn.dense(of, numbers((8, 3)))),
    **transposed_cases(),
}
TABLE = pairs(CASES, AffineBefore, TransposedOperands)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


def test_integers_keep_their_transposes() -> None:
    left, right = var("i", (4, 3), "int32"), var("j", (5, 3), "int32")
    outcome = optimise(func(product(left, turned(right))), TransposedOperands)
    assert outcome.fired("TransposedOperands.right_turned") == 0
    assert any("int32, not floating-point numbers" in remark for remark in outcome.remarks)


def test_scales_that_are_not_finite_stay_outside_of_weights() -> None:
    outcome = optimise(func(product(x * splat(float("inf")), numbers((3, 8)))), AffineBefore, rules__math="finite")
    assert outcome.fired("AffineBefore.matmul_scaled") == 0
    assert any("infinite" in remark for remark in outcome.remarks)
