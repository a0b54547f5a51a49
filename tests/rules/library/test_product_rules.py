"""Rules on products and scales: each on a program that it rewrites, and on one that it does not."""

import numpy as np
import pytest

from passat.ir.expr import Constant, Expr
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.rules.guards import Term
from passat.rules.library import Products
from passat.rules.library.folding import ConstantFolding
from passat.rules.library.products import is_power_of_two
from passat.rules.passes.simplify import FOLDING
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, saturate

x = var("x", (4, 3))
cube = var("cube", (2, 4, 3))
weight, bias = numbers((3, 5)), numbers((5,))
square = numbers((3, 3))


def matmul(a: Expr, b: Expr, **attrs: bool) -> Expr:
    return ops.nn.matmul(a, b, **attrs)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def reshape(a: Expr, *newshape: int) -> Expr:
    return ops.reshape(a, newshape=newshape)  # type: ignore[no-any-return]  # as above


def biased(a: Expr, b: Expr, axis: int = -1) -> Expr:
    return ops.nn.bias_add(a, b, axis=axis)  # type: ignore[no-any-return]  # as above


flat = reshape(cube, -1, 3)
scalar = splat(4.0)
CASES: dict[str, Case] = {
    "Products.bias": case(
        matmul(x, weight) + bias, matmul(cube, weight) + bias, "Tensor[(2, 4, 5), float32] is not a floating-point matrix"
    ),
    "Products.unflatten_biased": case(
        reshape(biased(matmul(flat, weight), bias), 2, 4, 5),
        reshape(biased(matmul(reshape(var("v", (3, 3, 1)), 3, 3), square), numbers((3,)), axis=0), 3, 1, 3),
        "does not have the rows of",
    ),
    "Products.unflatten": case(
        reshape(matmul(flat, weight), 2, 4, 5), reshape(matmul(flat, weight), 4, 2, 5), "may differ from Tensor[(2, 4, 5), float32]"
    ),
    "Products.flatten_biased": case(
        reshape(matmul(reshape(var("v", (8, 3)), 2, 4, 3), weight) + bias, 8, 5),
        reshape(matmul(reshape(var("v", (8, 3)), 2, 4, 3), weight) + numbers((4, 1)), 8, 5),
        "is not a bias for a product with",
    ),
    "Products.through_view[expand_dims]": case(
        ops.expand_dims(x, axis=0) * scalar, ops.expand_dims(x, axis=0) * numbers((4, 3)), "is not a single number"
    ),
    "Products.through_view[squeeze]": case(
        ops.squeeze(reshape(x, 1, 12), axis=(0,)) * scalar,
        ops.squeeze(reshape(x, 1, 12), axis=(0,)) * numbers((12,)),
        "is not a single number",
    ),
    "Products.through_view[reshape]": case(reshape(x, 12) * scalar, reshape(x, 12) * numbers((12,)), "is not a single number"),
    "Products.through_view[transpose]": case(ops.transpose(x) * scalar, ops.transpose(x) * splat(4.0, (1, 1, 1)), "is not a single number"),
    "Products.division": case(x / scalar, x / splat(3.0), "3.0 is not a power of two"),
    "Products.through_sum": case((x + numbers((3,))) * scalar, (x + numbers((4, 1))) * scalar, "is not a bias for"),
    "Products.into_weight": case(matmul(x, weight) * scalar, matmul(x, weight) * numbers((5,)), "is not a single number"),
}
TABLE = pairs(CASES, Products)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def rejected(function_body: Expr, rule: str, reason: str) -> None:
    function = func(function_body)
    outcome = saturate(function, Products)
    assert outcome.fired(rule) == 0
    assert any(remark.startswith(rule) and reason in remark for remark in outcome.remarks), outcome.remarks


def test_a_bias_along_rows_stays_along_rows() -> None:
    """For a square matrix only the attribute distinguishes them."""
    flat_square = reshape(var("v", (3, 1, 3)), 3, 3)
    rejected(reshape(biased(matmul(flat_square, square), numbers((3,)), axis=0), 3, 1, 3), "Products.unflatten_biased", "axis 0 of")


def test_rows_of_unknown_length_are_not_certainly_the_same() -> None:
    unknown = var("v", (2, "?", "?"))
    rejected(reshape(matmul(ops.reshape(unknown, newshape=(-1, 3)), weight), 2, -1, 5), "Products.unflatten", "does not have the rows")


def test_a_stack_of_weights_is_not_a_weight() -> None:
    rejected(reshape(matmul(reshape(x, -1, 3), numbers((2, 3, 5))), 2, 4, 5), "Products.unflatten", "is not a matrix with rows")


def test_a_product_over_nothing_is_left_alone() -> None:
    empty = var("v", ("?", "m"))
    rejected(
        reshape(matmul(reshape(empty, 2, 0), Constant(Tensor.dense(np.zeros((0, 5), np.float32)))), 0, 5),
        "Products.unflatten",
        "is not a matrix with rows",
    )


def test_a_product_between_views_with_named_sizes() -> None:
    named = var("v", ("batch", "seq", 3))
    function = func(ops.reshape(matmul(reshape(named, -1, 3), weight), newshape=(-1, 7, 5)))
    assert saturate(function, Products).fired("Products.unflatten") == 0
    flat = matmul(reshape(named, -1, 3), weight)
    whole = saturate(func(ops.dyn.reshape(flat, ops.concatenate(sizes_of(named, 0, 1)))), Products, *FOLDING)
    assert (whole.fired("Products.unflatten"), operators(whole.function)) == (1, ["nn.matmul"])
    biased_whole = saturate(func(ops.dyn.reshape(biased(flat, bias), ops.concatenate(sizes_of(named, 0, 1)))), Products, *FOLDING)
    assert biased_whole.fired("Products.unflatten_biased") == 1
    exchanged = func(ops.dyn.reshape(flat, ops.concatenate(sizes_of(named, 1, 0))))
    assert saturate(exchanged, Products, *FOLDING).fired("Products.unflatten") == 0


def sizes_of(of: Expr, *axes: int) -> Expr:
    """Sizes of a tensor, and 5."""
    shape = ops.shape_of(of, dtype="int64")
    return tup(*[ops.strided_slice(shape, begin=(axis,), end=(axis + 1,)) for axis in axes], const([5], "int64"))


def test_a_division_becomes_a_product_only_if_exact() -> None:
    for dtype, good, bad in [("float32", -126, -127), ("float16", -14, -15), ("float16", 14, 15), ("float32", 126, 127)]:
        a = var("a", dtype=dtype)
        fires = func(a / splat(2.0**good, (), dtype))
        outcome = saturate(fires, Products)
        assert outcome.fired("Products.division") >= 1
        assert_equal_in_value(fires, outcome.function, exact=True, rounds=6)
        assert saturate(func(a / splat(2.0**bad, (), dtype)), Products).fired("Products.division") == 0


@pytest.mark.parametrize("value", [0.0, -0.0, 3.0, float("inf"), float("nan"), 2.0**-149])
def test_divisors_that_are_not_powers_of_two(value: float) -> None:
    term = Term(TensorType((), "float32"), Tensor.splat(value, (), "float32"))
    assert is_power_of_two(term).function(term) is not True


def test_a_scale_moves_through_everything_into_the_weight() -> None:
    function = func(ops.transpose(reshape(matmul(cube, weight) + bias, 8, 5)) / splat(8.0))
    outcome = saturate(function, Products, ConstantFolding)
    assert operators(outcome.function) == ["nn.matmul", "add", "reshape", "transpose"]
    assert_equal_in_value(function, outcome.function, exact=False)


def test_a_scale_that_adds_axes_stays() -> None:
    vector = var("v", (3,))
    function = func(matmul(vector, weight) * splat(2.0, (1, 1)))
    outcome = saturate(function, Products)
    assert outcome.function is function
    assert any("the right side has type" in remark for remark in outcome.remarks)


def test_biases_of_products_in_a_pipeline_of_both() -> None:
    function = func(reshape(biased(matmul(flat, weight), bias), 2, 4, 5) * splat(0.5))
    outcome = saturate(function, Products, ConstantFolding)
    assert operators(outcome.function).count("nn.matmul") == 1
    assert_equal_in_value(function, outcome.function, exact=False)


def test_infinite_factors_are_not_distributed() -> None:
    """(0 + 1) * inf is inf, but 0 * inf + 1 * inf is NaN."""
    outcome = saturate(func((x + numbers((3,))) * splat(float("inf"))), Products)
    assert outcome.fired("Products.through_sum") == 0


def test_short_ranges_are_minded() -> None:
    half = var("h", (4, 3), "float16")
    large = splat(300.0, (), "float16")
    into = saturate(func(matmul(half, splat(300.0, (3, 5), "float16")) * large), Products)
    assert into.fired("Products.into_weight") == 0
    assert any("the weight times the constant may reach 90000" in remark for remark in into.remarks)
    small = saturate(func(matmul(half, splat(0.01, (3, 5), "float16")) * splat(1e-4, (), "float16")), Products)
    assert small.fired("Products.into_weight") == 0
    assert any("the weight times the constant reaches only 1.00" in remark for remark in small.remarks)
    through = saturate(func((half + numbers((3,), "float16")) * large), Products)
    assert through.fired("Products.through_sum") == 0
    assert any("a part of the sum may overflow" in remark for remark in through.remarks)
