"""Rules that recover normalizations and activations: each on a program that it rewrites, and on one that it does not."""

import math
from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Arithmetic, Constants, Powers, RaiseOps
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import assert_equal_in_value, operators, saturate

x = var("x", (2, 3, 4))
image = var("image", (2, 6, 5, 3))
gamma, beta = numbers((4,)), numbers((4,), seed=1)
epsilon = splat(1e-5)


def mean(a: Expr, axis: int | tuple[int, ...] = -1, keepdims: bool = True) -> Expr:
    return ops.mean(a, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def standard(a: Expr, axis: int | tuple[int, ...] = -1, over: int | tuple[int, ...] = -1) -> Expr:
    centered = a - mean(a, axis)
    return centered / ops.sqrt(mean(centered * centered, over) + epsilon)  # type: ignore[no-any-return]  # as above


def by_root(a: Expr, axis: int = -1) -> Expr:
    return a / ops.sqrt(mean(a * a, axis) + epsilon)  # type: ignore[no-any-return]  # as above


def shares(a: Expr, axis: int, over: int) -> Expr:
    powers = ops.exp(a - ops.max(a, axis=axis, keepdims=True))
    return powers / ops.sum(powers, axis=over, keepdims=True)  # type: ignore[no-any-return]  # as above


def in_groups(groups: int, scale: Expr, back: tuple[int, ...] = (2, 6, 5, 3)) -> Expr:
    laid = ops.reshape(image, newshape=(2, groups, -1))
    normed = ops.nn.instance_norm(laid, splat(1.0, (groups,)), splat(0.0, (groups,)), epsilon=1e-5)
    return ops.reshape(normed, newshape=back) * scale + numbers((6, 1, 1), seed=2)  # type: ignore[no-any-return]  # as above


square = mean(x * x) + epsilon
plain_powers = ops.exp(x)
normed = ops.nn.layer_norm(x, gamma, tup())
CASES: dict[str, Case] = {
    "Powers.inverse_root_of_mean": case(ops.power(square, splat(-0.5)), ops.power(square, splat(-0.25)), "not -0.5"),
    "Powers.inverse_of_root[reciprocal]": case(ops.reciprocal(ops.sqrt(x)), ops.reciprocal(ops.exp(x)), ""),
    "Powers.inverse_of_root[quotient]": case(splat(1.0) / ops.sqrt(x), splat(2.0) / ops.sqrt(x), "not 1"),
    "Powers.quotient_of_root": case(x * ops.rsqrt(x), x * ops.exp(x), ""),
    "RaiseOps.layer_norm": case(standard(x) * gamma, standard(x, 1, 1) * gamma, "does not name the last axes of"),
    "RaiseOps.layer_norm_without_scale": case(standard(x), standard(x, 1, 1), "does not name the last axes of"),
    "RaiseOps.layer_norm_shifted": case(normed + beta, normed + numbers((3, 4)), "does not have the shape"),
    "RaiseOps.rms_norm": case(by_root(x) * gamma, by_root(x, 1) * gamma, "does not name the last axes of"),
    "RaiseOps.rms_norm_without_scale": case(by_root(x), by_root(x, 1), "does not name the last axes of"),
    "RaiseOps.group_norm": case(
        in_groups(3, numbers((6, 1, 1))), in_groups(3, numbers((5, 3))), "does not have one element for each channel"
    ),
    "RaiseOps.softmax": case(shares(x, 1, 1), shares(x, 1, 2), "differ"),
    "RaiseOps.softmax_unshifted": case(
        plain_powers / ops.sum(plain_powers, axis=(1,), keepdims=True),
        plain_powers / ops.sum(plain_powers, axis=(1, 2), keepdims=True),
        "is not a single axis",
    ),
}


def centered(a: Expr) -> Expr:
    return a - mean(a)


WAYS = {
    "a square as a power": beta + gamma * (centered(x) / ops.sqrt(mean(ops.power(centered(x), splat(2.0))) + epsilon)),
    "a reciprocal root": (centered(x) * ops.rsqrt(epsilon + mean(centered(x) * centered(x)))) * gamma + beta,
    "a reciprocal of a root": gamma * (ops.reciprocal(ops.sqrt(mean(centered(x) * centered(x)) + epsilon)) * centered(x)) + beta,
    "a root as a power": gamma * (centered(x) / ops.power(mean(centered(x) * centered(x)) + epsilon, splat(0.5))) + beta,
    "an inverse root as a power": gamma * (centered(x) * ops.power(mean(centered(x) * centered(x)) + epsilon, splat(-0.5))) + beta,
}
rows = var("x", (4, 3))
x_row = var("row", ("?", 3))
half, one, two = splat(0.5), splat(1.0), splat(2.0)
SLOPE, BEND = math.sqrt(2 / math.pi), 0.044715


def halves(inner: Expr) -> dict[str, Expr]:
    more = one + inner
    return {
        "factor_first": (rows * half) * more,
        "factor_inside": rows * (half * more),
        "factor_last": (more * rows) * half,
        "factor_in_the_sum": (inner * half + half) * rows,
        "divisor_first": (rows / two) * more,
        "divisor_inside": rows * (more / two),
        "divisor_last": (rows * more) / two,
    }


def inners(slope: float, root: float) -> dict[str, Expr]:
    c, d = splat(slope), splat(BEND)
    return {
        "erf[divided]": ops.erf(rows / splat(root)),
        "erf[scaled]": ops.erf(splat(1 / root) * rows),
        "tanh[power]": ops.tanh(c * (rows + d * ops.power(rows, splat(3.0)))),
        "tanh[product]": ops.tanh((rows + (rows * (rows * rows)) * d) * c),
        "tanh[factored]": ops.tanh((rows * c) * (one + rows * (rows * d))),
        "tanh[factored_square]": ops.tanh((rows * c) * (one + (rows * rows) * d)),
    }


def plainly(slope: float, root: float) -> dict[str, Expr]:
    """x * (1 + inner) / 2 and x * (inner / 2 + 1 / 2) in the form of the rules, with constants last."""
    c, d = splat(slope), splat(BEND)
    found = {
        "erf[divided]": ops.erf(rows / splat(root)),
        "erf[scaled]": ops.erf(rows * splat(1 / root)),
        "tanh[power]": ops.tanh((rows + ops.power(rows, splat(3.0)) * d) * c),
        "tanh[product]": ops.tanh((rows + ((rows * rows) * rows) * d) * c),
        "tanh[factored]": ops.tanh((rows * c) * (((rows * d) * rows) + one)),
        "tanh[factored_square]": ops.tanh((rows * c) * ((rows * rows) * d + one)),
    }
    outside = {name.replace("[", "[outside, "): (rows * (inner + one)) * half for name, inner in found.items()}
    return outside | {name.replace("[", "[inside, "): rows * (inner * half + half) for name, inner in found.items()}


GOOD, PLAIN, BAD = inners(SLOPE, math.sqrt(2)), plainly(SLOPE, math.sqrt(2)), plainly(0.8, 1.5)
step = ops.clip(rows + splat(3.0), a_min=0.0, a_max=6.0)
other_step = ops.clip(rows + splat(3.0), a_min=0.0, a_max=7.0)
sixth = splat(1 / 6)
wide = var("wide", (4, 3), "float64")


CASES |= {
    **{f"RaiseOps.gelu_{name}": case(PLAIN[name], BAD[name], "is not") for name in PLAIN},
    "RaiseOps.halved": case(rows / two, rows / splat(2.0, (1, 1, 1)), "the right side has type"),
    "RaiseOps.half_last": case((rows * half) * ops.tanh(rows), (rows * half) * splat(3.0), "is a constant"),
    "RaiseOps.silu[one]": case(rows * ops.sigmoid(rows), rows * ops.sigmoid(ops.tanh(rows)), ""),
    "RaiseOps.silu[scaled]": case(
        rows * ops.sigmoid(splat(1.702) * rows), wide * ops.sigmoid(splat(1.702, (), "float64") * wide), "the elements are float64"
    ),
    "RaiseOps.hard_swish[sigmoid]": case(
        rows * ops.nn.hard_sigmoid(rows, alpha=0.16666667, beta=0.5), rows * ops.nn.hard_sigmoid(rows, alpha=0.2, beta=0.5), "alpha is 0.2"
    ),
    "RaiseOps.hard_swish[first]": case((rows / splat(6.0)) * step, (rows / splat(6.0)) * other_step, "a_max is 7.0"),
    "RaiseOps.hard_swish[scaled_first]": case((rows * sixth) * step, (rows * splat(0.2)) * step, "is not 0.16666667"),
    "RaiseOps.hard_swish[within]": case(
        rows * ops.clip(rows / splat(6.0) + half, a_min=0.0, a_max=1.0),
        rows * ops.clip(rows / splat(6.0) + half, a_min=0.0, a_max=2.0),
        "a_max is 2.0",
    ),
    "RaiseOps.hard_swish[scaled_within]": case(
        rows * ops.clip(rows * sixth + half, a_min=0.0, a_max=1.0),
        rows * ops.clip(rows * splat(0.2) + half, a_min=0.0, a_max=1.0),
        "is not 0.16666667",
    ),
    "RaiseOps.hard_swish[inside]": case(rows * (step / splat(6.0)), rows * (other_step / splat(6.0)), "a_max is 7.0"),
    "RaiseOps.hard_swish[last]": case((rows * step) / splat(6.0), (rows * other_step) / splat(6.0), "a_max is 7.0"),
    "RaiseOps.hard_swish[scaled]": case((rows * step) * sixth, (rows * step) * splat(0.2), "is not 0.16666667"),
    "RaiseOps.hard_swish[scaled_inside]": case(rows * (step * sixth), rows * (step * splat(0.2)), "is not 0.16666667"),
    "RaiseOps.leaky_relu[prelu]": case(
        ops.nn.prelu(rows, splat(0.25, (1,))), ops.nn.prelu(wide, splat(0.25, (1,), "float64")), "the elements are float64"
    ),
    "RaiseOps.leaky_relu[maximum]": case(ops.maximum(rows, rows * splat(0.2)), ops.maximum(rows, rows * splat(-0.2)), "> 0"),
    "RaiseOps.leaky_relu[selected]": case(
        ops.where(ops.greater(rows, splat(0.0)), rows, rows * splat(0.2)), ops.where(ops.greater(rows, one), rows, rows * splat(0.2)), ""
    ),
    "RaiseOps.softplus": case(ops.log(ops.exp(rows) + one), ops.log(ops.exp(rows) + rows), ""),
    "RaiseOps.mish": case(rows * ops.tanh(ops.nn.softplus(rows)), rows * ops.tanh(ops.exp(rows)), ""),
}


def gelu(of: Expr) -> Expr:
    made: Expr = (of * (ops.erf(of / splat(math.sqrt(2))) + one)) * half
    return made


def hard_swish(of: Expr) -> Expr:
    made: Expr = (of * ops.clip(of + splat(3.0), a_min=0.0, a_max=6.0)) / splat(6.0)
    return made


TABLE = pairs(CASES, Powers, RaiseOps)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


@pytest.mark.parametrize("way", WAYS)
def test_layer_normalization_in_all_forms(way: str) -> None:
    assert operators(saturate(func(WAYS[way]), Powers, RaiseOps, ConstantFolding).function) == ["nn.layer_norm"]


def test_normalization_over_several_axes() -> None:
    function = func(standard(x, (-2, -1), (1, 2)) * numbers((3, 4)))
    assert operators(saturate(function, RaiseOps).function) == ["nn.layer_norm"]


def test_float64_computations_stay() -> None:
    wide = var("wide", (2, 4), "float64")
    function = func(wide / ops.sqrt(mean(wide * wide) + splat(1e-5, (), "float64")) * numbers((4,), "float64"))
    assert any("float64" in remark for remark in saturate(function, RaiseOps).remarks)


def test_a_variance_of_something_else_is_none() -> None:
    other = var("other", (2, 3, 4))
    function = func((x - mean(x)) / ops.sqrt(mean((x - other) * (x - other)) + epsilon) * gamma)
    assert saturate(function, RaiseOps).function is function


@pytest.mark.parametrize("name", GOOD)
def test_one_operator_is_left(name: str) -> None:
    for whole in halves(GOOD[name]).values():
        assert operators(saturate(func(whole), RaiseOps).function) == ["nn.gelu"]


@pytest.mark.parametrize("digits", [1.4142135, 1.4142135381698608])
def test_constants_as_exporters_round_them(digits: float) -> None:
    function = func(rows * (half * (one + ops.erf(rows / splat(digits)))))
    assert operators(saturate(function, RaiseOps).function) == ["nn.gelu"]


def test_a_constant_that_adds_axes_does_not_match() -> None:
    function = func((rows * (one + ops.erf(rows / splat(math.sqrt(2))))) * splat(0.5, (1, 1, 1)))
    assert saturate(function, RaiseOps).function is function


def test_onnx_runtime_has_no_softplus_of_doubles() -> None:
    wide = var("x", (3,), "float64")
    assert "nn.softplus" not in operators(saturate(func(ops.log(ops.exp(wide) + splat(1.0, (), "float64"))), RaiseOps).function.body)


def test_a_constant_is_not_doubled_without_end() -> None:
    """Halving last doubled the other constant, and then what it made, until the limit of iterations."""
    outcome = saturate(func(rows * half * two, rows), RaiseOps, Constants, Arithmetic, ConstantFolding)
    assert outcome.fired("RaiseOps.half_last") == 0


@pytest.mark.parametrize(("make", "name"), [(gelu, "nn.gelu"), (hard_swish, "nn.hard_swish")])
@pytest.mark.parametrize("shape", [("?", 3), ("n", 3), ("?", "?")])
def test_sizes_need_not_be_known(make: Callable[[Expr], Expr], name: str, shape: tuple[int | str, ...]) -> None:
    assert operators(saturate(func(make(var("x", shape))), RaiseOps).function.body) == [name]


def test_constants_that_broadcast_the_result_are_not_part_of_an_activation() -> None:
    wide = splat(6.0, (2, 3))
    whole = func((x_row * ops.clip(x_row + splat(3.0), a_min=0.0, a_max=6.0)) / wide)
    outcome = saturate(whole, RaiseOps)
    assert "nn.hard_swish" not in operators(outcome.function.body)
    assert any("the right side has type" in remark for remark in outcome.remarks)


@pytest.mark.parametrize(("dtype", "left"), [("float16", ["nn.gelu"]), ("float32", ["nn.gelu"]), ("float64", [])])
def test_the_constants_of_an_approximated_gelu_are_too_coarse_for_float64(dtype: str, left: list[str]) -> None:
    """ONNX defines it with float32 constants for all element types, so results would differ in the eighth digit."""
    z = var("z", (4, 3), dtype)
    one_, half_, slope, bend, three = (splat(value, (), dtype) for value in (1.0, 0.5, SLOPE, BEND, 3.0))
    function = func((z * (ops.tanh((z + ops.power(z, three) * bend) * slope) + one_)) * half_)
    assert [name for name in operators(saturate(function, RaiseOps).function) if name == "nn.gelu"] == left


@pytest.mark.parametrize("shape", [("batch", 4), (3, "rows"), (0, 4), (3, 0)], ids=str)
def test_a_softmax_of_a_tensor_that_may_be_empty(shape: tuple[int | str, ...]) -> None:
    """The result has the reduced axis, so an empty one leaves no elements in either form."""
    scores = var("scores", shape)
    outcome = saturate(func(shares(scores, 1, 1)), RaiseOps)
    assert operators(outcome.function) == ["nn.softmax"]
    for size in (0, 1, 3):
        assert_equal_in_value(func(shares(scores, 1, 1)), outcome.function, exact=False, sizes={"batch": size, "rows": size})
