"""Scales and shifts before products: each rule on a program that it rewrites, and on one that it does not."""

from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.rules.library import MatmulAlgebra
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import saturate

x, y = var("x", (4, 3)), var("y", (3, 5))
stack, wide, pair = var("s", (4, 1, 3)), var("t", (6, 2)), numbers((2,), seed=2)
quotient = stack / var("d", (4, 1, 1))
column = numbers((4, 1))
features, one = numbers((3,), seed=1), splat(2.5)


def product(left: Expr, right: Expr) -> Expr:
    made: Expr = ops.nn.matmul(left, right)
    return made


def affine_cases(kind: str, of: AnyValue) -> dict[str, Case]:
    """The cases of a product with a constant weight."""
    return {
        f"MatmulAlgebra.scaled_rows[{kind}, number]": case(of(x * one), of(x * column), "is not a single number"),
        f"MatmulAlgebra.scaled_rows[{kind}, rows]": case(of(x * features), of(x * column), "does not scale axis 0"),
        f"MatmulAlgebra.shifted_rows[{kind}, plain]": case(of(x + features), of(x + one), "does not scale axis 0"),
        f"MatmulAlgebra.shifted_rows[{kind}, reshape]": case(
            of(ops.reshape(quotient * features + features, newshape=(4, 3))),
            of(ops.reshape(wide / pair * pair + pair, newshape=(4, 3))),
            "does not scale axis 0",
        ),
        f"MatmulAlgebra.shifted_rows[{kind}, squeeze]": case(
            of(ops.squeeze(quotient * features + features, axis=(1,))),
            of(ops.squeeze(stack * features + features, axis=(1,))),
            "",
        ),
    }


CASES: dict[str, Case] = {
    **affine_cases("matmul", lambda of: product(of, numbers((3, 8)))),
    **affine_cases("dense", lambda of: ops.nn.dense(of, numbers((8, 3)))),
}
TABLE = pairs(CASES, MatmulAlgebra)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


def test_scales_that_are_not_finite_stay_outside_of_weights() -> None:
    outcome = saturate(func(product(x * splat(float("inf")), numbers((3, 8)))), MatmulAlgebra, rules__math="finite")
    assert outcome.fired("MatmulAlgebra.scaled_rows") == 0
    assert any("may reach inf" in remark for remark in outcome.remarks)
