"""Rules that recover normalisations: each on a program where it holds, and on one where it does not."""

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Normalizations, Roots
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import func, numbers, ops, splat, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import operators, optimise

x = var("x", (2, 3, 4))
image = var("image", (2, 6, 5, 3))
gamma, beta = numbers((4,)), numbers((4,), seed=1)
epsilon = splat(1e-5)


def mean(a: Expr, axis: int | tuple[int, ...] = -1, keepdims: bool = True) -> Expr:
    return ops.mean(a, axis=axis, keepdims=keepdims)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def standard(a: Expr, axis: int | tuple[int, ...] = -1, over: int | tuple[int, ...] = -1) -> Expr:
    centred = a - mean(a, axis)
    return centred / ops.sqrt(mean(centred * centred, over) + epsilon)  # type: ignore[no-any-return]  # as above


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
    "Roots.square": case(ops.power(x, splat(2.0)), ops.power(x, splat(3.0)), "not 2"),
    "Roots.root": case(ops.power(square, splat(0.5)), ops.power(square, splat(0.25)), "not 0.5"),
    "Roots.inverse_root": case(ops.power(square, splat(-0.5)), ops.power(square, splat(-0.25)), "not -0.5"),
    "Roots.reciprocal": case(ops.reciprocal(ops.sqrt(x)), ops.reciprocal(ops.exp(x)), ""),
    "Roots.one_over": case(splat(1.0) / ops.sqrt(x), splat(2.0) / ops.sqrt(x), "not 1"),
    "Roots.quotient": case(x * ops.rsqrt(x), x * ops.exp(x), ""),
    "Normalizations.layer_norm": case(standard(x) * gamma, standard(x, 1, 1) * gamma, "are not its last axes"),
    "Normalizations.layer_norm_without_scale": case(standard(x), standard(x, 1, 1), "are not its last axes"),
    "Normalizations.layer_norm_shifted": case(normed + beta, normed + numbers((3, 4)), "has not the shape"),
    "Normalizations.rms_norm": case(by_root(x) * gamma, by_root(x, 1) * gamma, "are not its last axes"),
    "Normalizations.rms_norm_without_scale": case(by_root(x), by_root(x, 1), "are not its last axes"),
    "Normalizations.group_norm": case(in_groups(3, numbers((6, 1, 1))), in_groups(3, numbers((5, 3))), "not one number for each channel"),
    "Normalizations.softmax": case(shares(x, 1, 1), shares(x, 1, 2), "differ"),
    "Normalizations.softmax_unshifted": case(
        plain_powers / ops.sum(plain_powers, axis=(1,), keepdims=True),
        plain_powers / ops.sum(plain_powers, axis=(1, 2), keepdims=True),
        "is not one axis",
    ),
}
TABLE = pairs(CASES, Roots, Normalizations)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


def centred(a: Expr) -> Expr:
    return a - mean(a)


WAYS = {
    "a square as a power": beta + gamma * (centred(x) / ops.sqrt(mean(ops.power(centred(x), splat(2.0))) + epsilon)),
    "a reciprocal root": (centred(x) * ops.rsqrt(epsilon + mean(centred(x) * centred(x)))) * gamma + beta,
    "a reciprocal of a root": gamma * (ops.reciprocal(ops.sqrt(mean(centred(x) * centred(x)) + epsilon)) * centred(x)) + beta,
    "a root as a power": gamma * (centred(x) / ops.power(mean(centred(x) * centred(x)) + epsilon, splat(0.5))) + beta,
    "an inverse root as a power": gamma * (centred(x) * ops.power(mean(centred(x) * centred(x)) + epsilon, splat(-0.5))) + beta,
}


@pytest.mark.parametrize("way", WAYS)
def test_layer_normalisation_in_whatever_words(way: str) -> None:
    assert operators(optimise(func(WAYS[way]), Roots, Normalizations, ConstantFolding).function) == ["nn.layer_norm"]


def test_normalisation_over_several_axes() -> None:
    function = func(standard(x, (-2, -1), (1, 2)) * numbers((3, 4)))
    assert operators(optimise(function, Normalizations).function) == ["nn.layer_norm"]


def test_what_is_computed_in_64_bits_stays() -> None:
    wide = var("wide", (2, 4), "float64")
    function = func(wide / ops.sqrt(mean(wide * wide) + splat(1e-5, (), "float64")) * numbers((4,), "float64"))
    assert any("float64" in remark for remark in optimise(function, Normalizations).remarks)


def test_a_variance_of_something_else_is_none() -> None:
    other = var("other", (2, 3, 4))
    function = func((x - mean(x)) / ops.sqrt(mean((x - other) * (x - other)) + epsilon) * gamma)
    assert optimise(function, Normalizations).function is function
