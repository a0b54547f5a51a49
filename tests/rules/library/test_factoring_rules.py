"""Reordered and regrouped sums and products, cancellations, and functions that invert each other: each rule on a program that it rewrites,
and on one that it does not."""

import numpy as np
import pytest

from passat.ir.expr import Constant, Expr
from passat.ir.traverse import post_order
from passat.rules.library import (
    Arithmetic,
    BackwardScaleAxis,
    Constants,
    Exchanges,
    Factoring,
    MatmulAlgebra,
    Products,
    Reassociate,
)
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import operators, saturate

x, y, z = var("x", (4, 3)), var("y", (4, 3)), var("z", (4, 3))
i, j, k = var("i", (4, 3), "int64"), var("j", (4, 3), "int64"), var("k", (4, 3), "int64")
row, stack = var("row", (1, 3)), var("stack", (2, 4, 3))
two, five, huge = splat(2.0), splat(5.0), splat(3e38)
four = splat(4, (), "int64")
INTEGERS, TYPES, RANGE = "int64, not floating-point numbers", "the types differ", "leaves the range of float32"


def biased(of: Expr, seed: int = 0) -> Expr:
    made: Expr = ops.nn.bias_add(of, numbers((4,), seed=seed), axis=0)
    return made


def negated(of: Expr) -> Expr:
    made: Expr = ops.negative(of)
    return made


def swapped(name: str) -> Case:
    """A commutative operator; values computed from constants keep their place."""
    dtype = "bool" if name.startswith("logical") else "int32" if name.startswith("bitwise") else "float32"
    of, a, b = getattr(ops, name), var("a", (4, 3), dtype), var("b", (4, 3), dtype)
    return case(of(a, b), of(a, splat(1, (), dtype)), "is a constant")


CASES: dict[str, Case] = {
    "Reassociate.commuted": swapped("add"),
    "Reassociate.commuted_extrema": swapped("maximum"),
    "Reassociate.grouped": case((x + y) + z, (x + row) + z, TYPES),
    "Exchanges.constant_operand[add]": case((x + two) + y, (i + four) + j, INTEGERS),
    "Exchanges.constant_operand[multiply]": case((x * two) * y, (x * splat(float("inf"))) * y, "infinite"),
    "Exchanges.constant_bias": case(biased(x) + y, biased(x) + stack, TYPES),
    "Factoring.constants_apart[nested, add]": case(
        ((x + two) + y) + five, ((x + numbers((4, 3))) + y) + numbers((3,)), "have different shapes"
    ),
    "Factoring.constants_apart[beside, add]": case((x + two) + (y + five), (x + huge) + (y + huge), RANGE),
    "Factoring.constants_apart[nested, multiply]": case(((x * two) * y) * five, ((i * four) * j) * four, INTEGERS),
    "Factoring.constants_apart[beside, multiply]": case((x * two) * (y * five), (x * huge) * (y * huge), RANGE),
    "Factoring.constant_less_shifted": case(five - (x + two), huge - (x + splat(-3e38)), RANGE),
    "Factoring.constant_less_difference": case(five - (two - x), four - (four - i), INTEGERS),
    "Factoring.shifted_difference": case((five - x) + two, (numbers((2, 4, 3)) - x) + two, TYPES),
    "Factoring.scaled_quotient[scaled]": case((five / x) * two, (huge / x) * huge, RANGE),
    "Factoring.scaled_quotient[divided]": case((five / x) / two, (five / x) / splat(1e-38), RANGE),
    "Factoring.scaled_quotient[of_quotient]": case(five / (two / x), five / (numbers((2, 4, 3)) / x), TYPES),
    "Factoring.scaled_quotient[of_product]": case(five / (x * two), huge / (x * splat(1e-30)), RANGE),
    "Factoring.scaled_quotient[of_divided]": case(five / (x / two), huge / (x / huge), RANGE),
    "Factoring.scaled_negative[inside]": case(negated(x) * two, negated(i) * four, INTEGERS),
    "Factoring.scaled_negative[outside]": case(negated(x * two), negated(i * four), INTEGERS),
    "Factoring.difference_of_same": case(x - x, i - i, INTEGERS),
    "Factoring.times_zero": case(x * splat(0.0), i * splat(0, (), "int64"), INTEGERS),
    "Factoring.sum_less_part": case((x + y) - x, (x + row) - x, TYPES),
    "Factoring.difference_and_part": case((x - y) + y, (row - y) + y, TYPES),
    "Factoring.negative_of_sum": case(negated(x + two), negated(i + four), INTEGERS),
    "Factoring.log_of_exp": case(ops.log(ops.exp(x)), ops.exp(ops.log(x)), ""),
    "Factoring.log_of_softmax": case(ops.log(ops.nn.softmax(x)), ops.log(ops.nn.log_softmax(x)), ""),
    "Factoring.exp_of_log_softmax": case(ops.exp(ops.nn.log_softmax(x)), ops.exp(ops.nn.softmax(x)), ""),
    "Factoring.product_of_exps": case(ops.exp(x) * ops.exp(y), ops.exp(x) + ops.exp(y), ""),
    "Factoring.root_of_square": case(ops.sqrt(x * x), ops.sqrt(x * y), ""),
    "Factoring.square_of_abs": case(ops.abs(x) * ops.abs(x), ops.abs(x) * ops.abs(y), ""),
    "Factoring.reciprocal_of_quotient": case(ops.reciprocal(x / y), ops.reciprocal(x * y), ""),
    "Factoring.divided_by_quotient": case(z / (x / y), k / (i / j), INTEGERS),
}
TABLE = pairs(CASES, Reassociate, Factoring, Exchanges)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


@pytest.mark.parametrize("body", [x - x, x * splat(0.0), (x + y) - x, (x - y) + y], ids=str)
def test_programs_that_differ_on_nonfinite_values_stay(body: Expr) -> None:
    function = func(body)
    assert saturate(function, Factoring).function is function
    assert operators(saturate(function, Factoring, rules__math="finite").function) != operators(function)


@pytest.mark.parametrize("dtype", ["int8", "int64", "uint8"])
def test_integers_that_vanish_are_left_to_others(dtype: str) -> None:
    whole = var("n", (4, 3), dtype)
    for body in (whole - whole, whole * splat(0, (), dtype)):
        function = func(body)
        outcome = saturate(function, Factoring, rules__math="finite")
        assert outcome.function is function
        assert any(f"the elements are {dtype}" in remark for remark in outcome.remarks)


def test_a_zero_of_no_known_shape_is_not_written() -> None:
    function = func(var("batch", ("n", 3)) * splat(0.0))
    outcome = saturate(function, Factoring, rules__math="finite")
    assert outcome.function is function
    assert any("is not static" in remark for remark in outcome.remarks)


image, weight = var("image", (2, 5, 4, 4)), numbers((6, 5, 1, 1))
channels = numbers((6, 1, 1), seed=1)


def turned(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=[0, 2, 3, 1])
    return made


@pytest.mark.parametrize(
    ("one", "other", "constant"),
    [
        (ops.nn.conv2d(image, weight), ops.nn.conv2d(ops.abs(image), weight), channels),
        (ops.nn.conv2d(image, weight) * channels, ops.nn.conv2d(ops.abs(image), weight), channels),
        (turned(ops.nn.conv2d(image, weight)), turned(ops.nn.conv2d(ops.abs(image), weight)), numbers((6,), seed=1)),
        (ops.nn.matmul(x, numbers((3, 5))), ops.nn.matmul(y, numbers((3, 5))), numbers((5,), seed=1)),
    ],
    ids=["convolutions", "scaled", "channels last", "matrices"],
)
def test_constants_that_fold_into_weights_stay(one: Expr, other: Expr, constant: Expr) -> None:
    summed, absolute = (one + constant) + (other + constant), ops.abs(other)
    for body in (summed, ((one + constant) + absolute) + constant):
        remarks = saturate(func(body), Factoring.only("constants_apart")).remarks
        assert any("becomes part of the bias" in remark for remark in remarks)
    mixed = func((one + constant) + (absolute + constant))
    assert not saturate(mixed, Factoring.only("constants_apart")).remarks
    scaled = func((one * constant) * (other * constant))
    assert not saturate(scaled, Factoring.only("constants_apart")).remarks


small, full, square = splat(1e-30), splat(1e30, (4, 3)), splat(1e30, (3, 3))


@pytest.mark.parametrize(
    "body",
    [
        (x * small) * small,
        small * (small * x),
        (x * huge) + (x * huge),
        (x / full) / full,
        huge / (x / huge),
        (huge / x) + (huge / x),
        (x + huge) + huge,
        ((x + y) + huge) * huge,
        (x + splat(1e30, (3,))) * huge,
        (row + full) * huge,
        ops.nn.matmul(ops.nn.matmul(x, square), square),
    ],
)
def test_constants_that_leave_their_range_together_stay_apart(body: Expr) -> None:
    """The product of the constants is infinite or 0, and their product with 0 or an infinity is NaN."""
    sets = [Arithmetic, Constants, Factoring, Reassociate, Exchanges, BackwardScaleAxis, Products, MatmulAlgebra, ConstantFolding]
    after = saturate(func(body), *sets).function
    found = [each.data.numpy() for each in post_order(after.body) if isinstance(each, Constant)]
    assert all(np.all(np.isfinite(each) & (each != 0)) for each in found)
