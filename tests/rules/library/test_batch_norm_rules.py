"""Rules that fold scales and shifts into weights: each on a program that it rewrites, and on one that it does not."""

from collections.abc import Callable
from typing import Any as AnyValue

import pytest

from passat.ir.expr import Constant, Expr, Var
from passat.rules.library import ScaleAxis
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, saturate

CHANNELS = 3


def norm(of: Expr, dtype: str = "float32", **attrs: AnyValue) -> Expr:
    gamma, beta, mean, variance = (numbers((CHANNELS,), dtype, seed) for seed in range(4))
    return ops.nn.batch_norm(of, gamma, beta, mean, variance, **attrs)[0]  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def biased(of: Expr, axis: int) -> Expr:
    return ops.nn.bias_add(of, numbers((CHANNELS,), seed=5), axis=axis)  # type: ignore[no-any-return]  # as above


def convolution(dims: int, suffix: str, **attrs: AnyValue) -> Expr:
    layout = attrs.get("data_layout", "NC")
    sizes = (5, 4, 3)[:dims]
    data = var("x", (1, 2, *sizes) if layout.startswith("NC") else (1, *sizes, 2))
    weight = numbers((2, CHANNELS, *(2,) * dims) if suffix else (CHANNELS, 2, *(2,) * dims))
    return getattr(ops.nn, f"conv{dims}d{suffix}")(data, weight, **attrs)  # type: ignore[no-any-return]  # as above


def column(dims: int) -> Constant:
    return numbers((CHANNELS, *(1,) * dims), seed=6)


def product_cases(name: str, product: Expr, other: Expr, reason: str, axis: int, along: Constant) -> dict[str, Case]:
    """The cases of one kind of product. `other` is a product with channels on another axis, and `reason` says why it is rejected."""
    wrap: dict[str, Callable[[Expr], Expr]] = {
        "normalized[none": norm,
        "normalized[biased": lambda of: norm(biased(of, axis)),
        "scaled[none": lambda of: of * along,
        "scaled[biased": lambda of: biased(of, axis) * along,
        "shifted[none": lambda of: of + along,
        "shifted[biased": lambda of: biased(of, axis) + along,
    }
    return {f"ScaleAxis.{key}, {name}]": case(make(product), make(other), reason) for key, make in wrap.items()}


def convolution_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, suffix, dims in (("convolution", "", 2), ("transposed", "_transpose", 3)):
        layout = {2: "NHWC", 3: "NDHWC"}[dims]
        data = Var("x", var("x", (1, *(3,) * dims, 2)).type_annotation)
        weight = numbers((2, 3, *(1,) * dims) if suffix else (3, 2, *(1,) * dims))
        other = getattr(ops.nn, f"conv{dims}d{suffix}")(data, weight, data_layout=layout)
        found |= product_cases(name, convolution(dims, suffix), other, f"the layouts are {layout}", 1, column(dims))
    return found


x = var("x", (4, 2))
cube = var("cube", (2, 3, 3))
dense, matmul = ops.nn.dense(x, numbers((3, 2))), ops.nn.matmul(x, numbers((2, 3)))
row = numbers((3,), seed=6)
image = var("image", (1, 3, 2, 2))
CASES: dict[str, Case] = {
    **convolution_cases(),
    **product_cases("dense", dense, dense, "", -1, row),
    **product_cases("matmul", matmul, ops.nn.matmul(cube, numbers((3, 3))), "multiplies Tensor[(2, 3, 3), float32]", -1, row),
    "ScaleAxis.normalized[none, dense]": case(norm(dense), norm(ops.nn.dense(cube, numbers((3, 3)))), "the batch norm normalizes axis 1"),
    "ScaleAxis.normalized[biased, dense]": case(
        norm(biased(dense, -1)), norm(biased(ops.nn.dense(cube, numbers((3, 3))), -1)), "the batch norm normalizes axis 1"
    ),
    "ScaleAxis.scaled[none, dense]": case(dense * row, dense * numbers((4, 1)), "varies along an axis other than 1"),
    "ScaleAxis.scaled[biased, dense]": case(
        biased(dense, -1) * row, biased(dense, -1) * numbers((4, 3)), "varies along an axis other than 1"
    ),
    "ScaleAxis.shifted[none, dense]": case(dense + row, dense + numbers((1, 1, 3)), "has more axes than"),
    "ScaleAxis.shifted[biased, dense]": case(
        biased(dense, -1) + row, biased(dense, -1) + numbers((4, 1)), "varies along an axis other than 1"
    ),
    "ScaleAxis.batch_norm_scaled": case(norm(image) * column(2), norm(image) * numbers((2,)), "varies along an axis other than 1"),
    "ScaleAxis.batch_norm_shifted": case(
        norm(image) + column(2), norm(image, scale=False) + column(2), "the batch norm has center=False or scale=False"
    ),
}
TABLE = pairs(CASES, ScaleAxis)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def rejects(body: Expr, rule: str, reason: str, rules: RuleSetMeta = ScaleAxis) -> None:
    outcome = saturate(func(body), rules)
    assert outcome.fired(rule) == 0
    assert any(remark.startswith(rule) and reason in remark for remark in outcome.remarks), outcome.remarks


@pytest.mark.parametrize("dims", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["", "_transpose"])
def test_a_whole_chain_ends_in_one_convolution(dims: int, suffix: str) -> None:
    function = func((norm(biased(convolution(dims, suffix), 1)) * column(dims) + splat(0.5)) * splat(2.0))
    outcome = saturate(function, ScaleAxis, ConstantFolding)
    assert operators(outcome.function) == [f"nn.conv{dims}d{suffix}", "nn.bias_add"]
    assert_equal_in_value(function, outcome.function, exact=False)


def test_groups() -> None:
    data, weight = var("x", (1, 4, 5, 5)), numbers((6, 2, 3, 3))
    grouped = func(ops.nn.conv2d(data, weight, groups=2) * numbers((6, 1, 1), seed=1))
    outcome = saturate(grouped, ScaleAxis, ConstantFolding)
    assert operators(outcome.function) == ["nn.conv2d"]
    assert_equal_in_value(grouped, outcome.function, exact=False)
    rejects(ops.nn.conv2d_transpose(data, numbers((4, 3, 3, 3)), groups=2) * numbers((6, 1, 1)), "ScaleAxis.scaled", "2 groups")


def test_one_number_scales_every_channel() -> None:
    function = func(convolution(2, "") * splat(2.0, (1, 1, 1, 1)) + splat(1.0))
    outcome = saturate(function, ScaleAxis, ConstantFolding)
    assert operators(outcome.function) == ["nn.conv2d", "nn.bias_add"]
    assert_equal_in_value(function, outcome.function, exact=False)


def test_a_normalization_of_another_axis_stays() -> None:
    square = ops.nn.conv2d(var("x", (1, 2, 4, 4)), numbers((3, 2, 2, 2)))
    rejects(norm(square, axis=2), "ScaleAxis.normalized", "the batch norm normalizes axis 2")
    rejects(norm(square, center=False), "ScaleAxis.normalized", "the batch norm has center=False or scale=False")


def test_a_normalization_of_vectors_has_no_channels() -> None:
    rejects(norm(var("v", (3,)), axis=0) * splat(2.0), "ScaleAxis.batch_norm_scaled", "has no axis 1", ScaleAxis)


def test_a_variance_of_nothing_is_not_divided_by() -> None:
    zero = ops.nn.batch_norm(convolution(2, ""), *(numbers((3,), seed=i) for i in range(3)), splat(0.0, (3,)), epsilon=0.0)[0]
    rejects(zero, "ScaleAxis.normalized", "is not finite")
    negative = ops.nn.batch_norm(convolution(2, ""), *(numbers((3,), seed=i) for i in range(3)), const([1.0, -1.0, 2.0]))[0]
    rejects(negative, "ScaleAxis.normalized", "is not finite")


def test_the_epsilon_of_narrow_types_does_not_vanish() -> None:
    data, weight = var("x", (1, 2, 4, 4), "float16"), numbers((3, 2, 2, 2), "float16")
    parts = [numbers((3,), "float16", i) for i in range(3)]
    vanishing = ops.nn.batch_norm(ops.nn.conv2d(data, weight), *parts, splat(0.0, (3,), "float16"), epsilon=1e-12)[0]
    rejects(vanishing, "ScaleAxis.normalized", "is not finite")


def test_weights_of_half_precision_do_not_overflow() -> None:
    data, weight = var("x", (1, 2, 4, 4), "float16"), splat(300.0, (3, 2, 2, 2), "float16")
    rejects(ops.nn.conv2d(data, weight) * splat(300.0, (), "float16"), "ScaleAxis.scaled", "may reach 90000")


@pytest.mark.parametrize("factor", [float("inf"), float("-inf"), float("nan"), 3e38])
def test_factors_that_make_weights_infinite_stay_outside(factor: float) -> None:
    size = splat(factor, ())
    rejects(convolution(2, "") * size, "ScaleAxis.scaled", "the weight times the constant may reach")
    rejects(norm(var("x", (1, CHANNELS, 5))) * size, "ScaleAxis.batch_norm_scaled", "the weight times the constant may reach", ScaleAxis)


def test_named_sizes_are_supported() -> None:
    data = var("x", ("batch", 2, "height", "width"))
    function = func(norm(ops.nn.conv2d(data, numbers((3, 2, 2, 2)))))
    outcome = saturate(function, ScaleAxis, ConstantFolding)
    assert operators(outcome.function) == ["nn.conv2d", "nn.bias_add"]
    assert_equal_in_value(function, outcome.function, exact=False, sizes={"batch": 2, "height": 4, "width": 3})


def test_a_weight_of_one_number_stays_one_number() -> None:
    function = func(ops.nn.conv2d(var("x", (1, 2, 4, 4)), splat(0.5, (3, 2, 2, 2))) * splat(4.0))
    weight = saturate(function, ScaleAxis, ConstantFolding).function.body
    constants = [arg for arg in weight.args if isinstance(arg, Constant)]  # type: ignore[attr-defined]  # a call
    assert [constant.data.is_splat for constant in constants] == [True]


def test_the_mean_and_variance_of_a_normalization_are_fields_too() -> None:
    whole = ops.nn.batch_norm(image, *(numbers((3,), seed=i) for i in range(4)))
    function = func(whole[1] + whole[2])
    assert saturate(function, ScaleAxis).function is function
