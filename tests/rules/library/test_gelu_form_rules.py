"""Rules that recover activations: each on programs where it holds, and on ones where it does not."""

import math
from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Activations
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import func, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import operators, optimise

x = var("x", (4, 3))
x_row = var("row", ("?", 3))
half, one, two = splat(0.5), splat(1.0), splat(2.0)
SLOPE, BEND = math.sqrt(2 / math.pi), 0.044715


def halves(inner: Expr) -> dict[str, Expr]:
    more = one + inner
    return {
        "factor_first": (x * half) * more,
        "factor_inside": x * (half * more),
        "factor_last": (more * x) * half,
        "divisor_first": (x / two) * more,
        "divisor_inside": x * (more / two),
        "divisor_last": (x * more) / two,
    }


def inners(slope: float, root: float) -> dict[str, Expr]:
    c, d = splat(slope), splat(BEND)
    return {
        "erf[divided]": ops.erf(x / splat(root)),
        "erf[scaled]": ops.erf(splat(1 / root) * x),
        "tanh[power]": ops.tanh(c * (x + d * ops.power(x, splat(3.0)))),
        "tanh[product]": ops.tanh((x + (x * (x * x)) * d) * c),
        "tanh[factored]": ops.tanh((x * c) * (one + x * (x * d))),
        "tanh[factored_square]": ops.tanh((x * c) * (one + (x * x) * d)),
    }


def plainly(slope: float, root: float) -> dict[str, Expr]:
    """x * (1 + inner) / 2 as the rules have it, constants last."""
    c, d = splat(slope), splat(BEND)
    found = {
        "erf[divided]": ops.erf(x / splat(root)),
        "erf[scaled]": ops.erf(x * splat(1 / root)),
        "tanh[power]": ops.tanh((x + ops.power(x, splat(3.0)) * d) * c),
        "tanh[product]": ops.tanh((x + ((x * x) * x) * d) * c),
        "tanh[factored]": ops.tanh((x * c) * (((x * d) * x) + one)),
        "tanh[factored_square]": ops.tanh((x * c) * ((x * x) * d + one)),
    }
    return {name: (x * (inner + one)) * half for name, inner in found.items()}


GOOD, PLAIN, BAD = inners(SLOPE, math.sqrt(2)), plainly(SLOPE, math.sqrt(2)), plainly(0.8, 1.5)
step = ops.clip(x + splat(3.0), a_min=0.0, a_max=6.0)
other_step = ops.clip(x + splat(3.0), a_min=0.0, a_max=7.0)
sixth = splat(1 / 6)
wide = var("wide", (4, 3), "float64")
CASES: dict[str, Case] = {
    **{f"Activations.gelu_{name}": case(PLAIN[name], BAD[name], "is not") for name in PLAIN},
    "Activations.halved": case(x / two, x / splat(2.0, (1, 1, 1)), "the types differ"),
    "Activations.half_last": case((x * half) * ops.tanh(x), (x * splat(0.5, (1, 1, 1))) * ops.tanh(x), "the types differ"),
    "Activations.silu": case(x * ops.sigmoid(x), x * ops.sigmoid(ops.tanh(x)), ""),
    "Activations.sigmoid_gelu": case(
        x * ops.sigmoid(splat(1.702) * x), wide * ops.sigmoid(splat(1.702, (), "float64") * wide), "the elements are float64"
    ),
    "Activations.hard_swish": case(
        x * ops.nn.hard_sigmoid(x, alpha=0.16666667, beta=0.5), x * ops.nn.hard_sigmoid(x, alpha=0.2, beta=0.5), "alpha is 0.2"
    ),
    "Activations.hard_swish_of_clip[inside]": case(x * (step / splat(6.0)), x * (other_step / splat(6.0)), "a_max is 7.0"),
    "Activations.hard_swish_of_clip[last]": case((x * step) / splat(6.0), (x * other_step) / splat(6.0), "a_max is 7.0"),
    "Activations.hard_swish_of_clip[scaled]": case((x * step) * sixth, (x * step) * splat(0.2), "is not 0.16666667"),
    "Activations.hard_swish_of_clip[scaled_inside]": case(x * (step * sixth), x * (step * splat(0.2)), "is not 0.16666667"),
    "Activations.softplus": case(ops.log(ops.exp(x) + one), ops.log(ops.exp(x) + x), ""),
    "Activations.mish": case(x * ops.tanh(ops.nn.softplus(x)), x * ops.tanh(ops.exp(x)), ""),
}
TABLE = pairs(CASES, Activations)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


@pytest.mark.parametrize("name", GOOD)
def test_one_operator_is_left(name: str) -> None:
    for whole in halves(GOOD[name]).values():
        assert operators(optimise(func(whole), Activations).function) == ["nn.gelu"]


@pytest.mark.parametrize("digits", [1.4142135, 1.4142135381698608])
def test_constants_as_exporters_round_them(digits: float) -> None:
    function = func(x * (half * (one + ops.erf(x / splat(digits)))))
    assert operators(optimise(function, Activations).function) == ["nn.gelu"]


def test_a_constant_that_adds_axes_is_another_program() -> None:
    function = func((x * (one + ops.erf(x / splat(math.sqrt(2))))) * splat(0.5, (1, 1, 1)))
    assert optimise(function, Activations).function is function


def test_onnx_runtime_has_no_softplus_of_doubles() -> None:
    wide = var("x", (3,), "float64")
    assert "nn.softplus" not in operators(optimise(func(ops.log(ops.exp(wide) + splat(1.0, (), "float64"))), Activations).function.body)


def gelu(of: Expr) -> Expr:
    made: Expr = (of * (ops.erf(of / splat(math.sqrt(2))) + one)) * half
    return made


def hard_swish(of: Expr) -> Expr:
    made: Expr = (of * ops.clip(of + splat(3.0), a_min=0.0, a_max=6.0)) / splat(6.0)
    return made


@pytest.mark.parametrize(("make", "name"), [(gelu, "nn.gelu"), (hard_swish, "nn.hard_swish")])
@pytest.mark.parametrize("shape", [("?", 3), ("n", 3), ("?", "?")])
def test_sizes_need_not_be_known(make: Callable[[Expr], Expr], name: str, shape: tuple[int | str, ...]) -> None:
    assert operators(optimise(func(make(var("x", shape))), Activations).function.body) == [name]


def test_constants_that_enlarge_are_no_part_of_an_activation() -> None:
    wide = splat(6.0, (2, 3))
    whole = func((x_row * ops.clip(x_row + splat(3.0), a_min=0.0, a_max=6.0)) / wide)
    outcome = optimise(whole, Activations)
    assert "nn.hard_swish" not in operators(outcome.function.body)
    assert any("the types differ" in remark for remark in outcome.remarks)


@pytest.mark.parametrize(("dtype", "left"), [("float16", ["nn.gelu"]), ("float32", ["nn.gelu"]), ("float64", [])])
def test_the_constants_of_an_approximated_gelu_are_too_coarse_for_float64(dtype: str, left: list[str]) -> None:
    """ONNX defines it by constants of float32, whatever the elements are: with those, results differ in the eighth digit."""
    z = var("z", (4, 3), dtype)
    one_, half_, slope, bend, three = (splat(value, (), dtype) for value in (1.0, 0.5, SLOPE, BEND, 3.0))
    function = func((z * (ops.tanh((z + ops.power(z, three) * bend) * slope) + one_)) * half_)
    assert [name for name in operators(optimise(function, Activations).function) if name == "nn.gelu"] == left
