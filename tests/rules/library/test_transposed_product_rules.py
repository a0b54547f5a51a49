"""Transposes and products: each rule on a program that it rewrites, and on one that it does not."""

import pytest

from passat.ir.expr import Expr
from passat.rules.library import MatmulAlgebra, Products
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import saturate

x, y = var("x", (4, 3)), var("y", (3, 5))
stack, other, vector = var("stack", (2, 4, 3)), var("other", (3, 5)), var("vector", (3,))
weight, weights = numbers((6, 4)), numbers((2, 6, 4))
RANKS = "the rank of the tensor is 3, not 2"
INTEGERS = "int32, not floating-point numbers"
MORE = "does not just transpose matrices"


def turned(of: Expr, *axes: int) -> Expr:
    made: Expr = ops.transpose(of, axes=axes or (1, 0))
    return made


def product(left: Expr, right: Expr, **flags: bool) -> Expr:
    made: Expr = ops.nn.matmul(left, right, **flags)
    return made


def operand_cases() -> dict[str, Case]:
    """A product of stacks takes no flags. A product that already has flags is rejected for integer operands."""
    deep, i, j = var("deep", (2, 3, 5)), var("i", (4, 3), "int32"), var("j", (3, 5), "int32")
    right, left = var("r", (5, 3)), var("l", (3, 4))
    return {
        "transposed_operand[right, turned]": case(product(x, turned(right)), product(stack, turned(right)), RANKS),
        "transposed_operand[left, turned]": case(product(turned(left), y), product(turned(left), deep), RANKS),
        "transposed_operand[right, back]": case(product(x, turned(y), transpose_b=True), product(i, turned(j), transpose_b=True), INTEGERS),
        "transposed_operand[left, back]": case(product(turned(x), y, transpose_a=True), product(turned(i), j, transpose_a=True), INTEGERS),
        "transposed_weight[right]": case(product(x, numbers((6, 3)), transpose_b=True), product(x, var("r", (6, 3)), transpose_b=True), ""),
        "transposed_weight[left]": case(
            product(numbers((4, 6)), x, transpose_a=True), product(numbers((4, 6)), numbers((4, 3)), transpose_a=True), "is a constant"
        ),
    }


def product_cases() -> dict[str, Case]:
    """Transposes that separate the last two axes, or move others, are not matrix transposes."""
    wide, units = product(stack, y), var("units", (5, 3))
    batches = ops.nn.batch_matmul(stack, var("b", (2, 5, 3)))
    return {
        "transpose_of_product[matmul]": case(turned(wide, 0, 2, 1), turned(wide, 2, 1, 0), MORE),
        "transpose_of_flagged_product[matmul]": case(
            turned(product(x, units, transpose_b=True)), turned(product(x, y)), "neither operand is transposed"
        ),
        "transpose_of_product[dense]": case(turned(ops.nn.dense(stack, units), 0, 2, 1), turned(ops.nn.dense(stack, units), 1, 0, 2), MORE),
        "transpose_of_flagged_product[batch_matmul]": case(turned(batches, 0, 2, 1), turned(batches, 0, 1, 2), MORE),
        "transposed_operands": case(
            product(turned(var("l", (3, 4))), turned(units)), product(turned(var("s", (3, 2, 4)), 1, 2, 0), turned(units)), MORE
        ),
    }


def weight_cases() -> dict[str, Case]:
    """Vectors have no transpose; operators on weights alone are folded."""
    return {
        "weight_last[matmul]": case(product(weights, x), product(weight, var("v", (4,))), "is not a matrix"),
        "weight_last[matmul_turned]": case(
            product(weight, var("r", (5, 4)), transpose_b=True), product(weight, numbers((5, 4)), transpose_b=True), "is a constant"
        ),
        "weight_last[dense]": case(ops.nn.dense(weights, var("r", (5, 4))), ops.nn.dense(weights, numbers((5, 4))), "is a constant"),
    }


CASES: dict[str, Case] = {
    **{f"MatmulAlgebra.{name}": example for name, example in (operand_cases() | product_cases()).items()},
    **{f"Products.{name}": example for name, example in weight_cases().items()},
}
TABLE = pairs(CASES, MatmulAlgebra, Products)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


def test_integers_keep_their_transposes() -> None:
    left, right = var("i", (4, 3), "int32"), var("j", (5, 3), "int32")
    outcome = saturate(func(product(left, turned(right))), MatmulAlgebra)
    assert outcome.fired("MatmulAlgebra.transposed_operand") == 0
    assert any(INTEGERS in remark for remark in outcome.remarks)


def test_vectors_have_no_transpose() -> None:
    outcome = saturate(func(turned(product(stack, vector))), MatmulAlgebra)
    assert outcome.fired("MatmulAlgebra.transpose_of_product") == 0
