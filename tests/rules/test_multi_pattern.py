"""Multi-pattern rules: valid forms, matched calls, results, and linear size."""

from typing import cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext
from passat.passmgr.pass_info import Statistics
from passat.rules.guards import has_rank, is_constant
from passat.rules.library.folding import ConstantFolding
from passat.rules.multi_pattern import MultiRule, each, joined, parts
from passat.rules.pattern import RuleError, attributes, constants, op, tensors
from passat.rules.rule_pass import rule_pass
from passat.rules.rule_set import RuleSet, RuleSetMeta
from tests.rules.building import const, func, ops, tup, var
from tests.rules.running import difference, feeds_of, operators
from tests.rules.running import run as values
from tests.share import share

x, y, w = tensors("x y w")
c, d = constants("c d")
p, q = attributes("p q")


class Products(RuleSet):
    """Merges products of one matrix with several others."""

    matmul = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact("accumulates in blocks of another size")


class Convolutions(RuleSet):
    """Merges convolutions of one image with constant weights."""

    conv2d = each(op.nn.conv2d(x, c, attrs=p), sharing=x) >> parts(op.nn.conv2d(x, joined(c, axis=0), attrs=p), axis=1)


def run(rules: type[RuleSet], function: Function, **config: object) -> tuple[Function, Statistics]:
    with PassContext(config={"rules.cost": "nodes", **config}) as ctx:
        made = rule_pass(rules, ConstantFolding, name="Together")(IRModule.from_expr(function))["main"]
    return made, ctx.statistics


def check_values(before: Function, after: Function) -> None:
    feeds = feeds_of(before, np.random.default_rng(7))
    assert difference(values(after, feeds), values(before, feeds), exact=False) is None


def weights(*columns: int, rows: int = 3) -> list[Expr]:
    return [const([[0.5 * i - j + k for j in range(n)] for i in range(rows)]) for k, n in enumerate(columns)]


def test_products_of_one_matrix_are_merged() -> None:
    a = var("a", (2, 3))
    function = func(tup(*(ops.exp(ops.nn.matmul(a, weight)) for weight in weights(4, 1, 2))))
    made, statistics = run(Products, function)
    assert sorted(operators(made)) == ["exp", "exp", "exp", "nn.matmul", "split"]
    assert statistics.counters["Together"]["fired:Products.matmul"] == 3
    check_values(function, made)


def test_only_calls_with_a_shared_operand_and_equal_attributes_are_merged() -> None:
    image, other = var("image", (1, 2, 6, 6)), var("other", (1, 2, 6, 6))
    weight = [const([[[[0.1 * (k + i + j)] * 3] * 3 for i in range(2)] for j in range(2)]) for k in range(6)]
    strided = {"strides": (2, 2)}
    body = tup(
        ops.nn.conv2d(image, weight[0]),
        ops.nn.conv2d(image, weight[1], **strided),
        ops.nn.conv2d(image, weight[2]),
        ops.nn.conv2d(other, weight[3]),
        ops.nn.conv2d(image, weight[4], **strided),
        ops.nn.conv2d(image, weight[5]),
    )
    function = func(body)
    made, statistics = run(Convolutions, function, **{"rules.cost": "roofline"})
    found, _ = run(Convolutions, function)
    assert statistics.counters["Together"]["fired:Convolutions.conv2d"] == 5
    assert operators(found).count("nn.conv2d") <= 4
    assert any("no other call can be merged with it" in text for text in statistics.remarks["Together"])
    check_values(function, made)
    check_values(function, found)


def test_dependent_calls_are_not_merged() -> None:
    a = var("a", (3, 3))
    first = ops.nn.matmul(a, weights(3)[0])
    second = ops.nn.matmul(a, ops.exp(first))
    others = [ops.nn.matmul(a, weight) for weight in weights(3, 3, 3)[1:]]
    function = func(tup(first, second, *others))
    made, _ = run(Products, function)
    assert operators(made).count("nn.matmul") == 2
    check_values(function, made)


def test_conditions_hold_for_each_match() -> None:
    class Constant(RuleSet):
        matmul = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).when(is_constant(w), has_rank(x, 2)).inexact("blocks")

    a, b = var("a", (2, 3)), var("b", (3, 4))
    function = func(tup(ops.nn.matmul(a, weights(4)[0]), ops.nn.matmul(a, b), ops.nn.matmul(a, weights(4, 4)[1])))
    made, statistics = run(Constant, function)
    assert statistics.counters["Together"]["fired:Constant.matmul"] == 2
    assert "Constant.matmul rejected 1 time: is_constant(w): is not a constant" in statistics.remarks["Together"]
    check_values(function, made)


def test_sizes_that_are_not_known_are_rejected() -> None:
    a = var("a", (2, 3))
    function = func(tup(*(ops.nn.matmul(a, var(name, (3, name))) for name in ("m", "n"))))
    made, statistics = run(Products, function)
    assert made is function or operators(made) == ["nn.matmul", "nn.matmul"]
    assert any("the size of axis 1 is unknown" in text for text in statistics.remarks["Together"])


def test_merges_that_do_not_pay_stay() -> None:
    """Two products and their parts are as many calls as before, so the program stays unchanged."""
    function = func(tup(*(ops.nn.matmul(var("a", (2, 3)), weight) for weight in weights(4, 4))))
    assert run(Products, function)[0] is function or operators(run(Products, function)[0]) == ["nn.matmul", "nn.matmul"]


@pytest.mark.parametrize("count", [10, 20])
def test_the_number_of_new_nodes_is_linear(count: int) -> None:
    """Twelve products for each input."""
    shared = weights(*[4] * 12)
    body = tup(*(ops.nn.matmul(var(f"a{i}", (2, 3)), weight) for i in range(count) for weight in shared))
    _, statistics = run(Products, func(body))
    assert statistics.counters["Together"]["matched:Products.matmul"] == 12 * count
    assert statistics.counters["Together"]["nodes"] <= 30 * count + 30


@settings(max_examples=share(12, 25))
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.booleans()), min_size=1, max_size=8))
def test_values_stay(products: list[tuple[int, int, bool]]) -> None:
    inputs = [var(f"a{i}", (2, 3)) for i in range(3)]
    results: list[Expr] = []
    for source, columns, nested in products:
        made = ops.nn.matmul(inputs[source], weights(columns)[0])
        results.append(ops.exp(made) if nested else made)
    function = func(tup(*results))
    check_values(function, run(Products, function)[0])


def test_rules_with_several_roots_are_rules() -> None:
    rule = Products.rules[0]
    assert isinstance(rule, MultiRule)
    assert rule.name == "Products.matmul"
    assert rule.math == "reassociate"
    assert repr(rule) == "each((x @ w), sharing=x) -> parts((x @ joined(w, axis=-1)), axis=-1)"
    assert [each_.name for each_ in rule.directions()] == ["Products.matmul"]
    a = var("a", (2, 3))
    function = func(tup(*(ops.nn.matmul(a, weight) for weight in weights(4, 4, 4))))
    assert run(Products, function, **{"rules.math": "exact"})[0] is function
    assert run(Products, function, **{"rules.disabled": ["Products.matmul"]})[0] is function


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: each(x, sharing=x), "takes the application of an operator"),
        (lambda: each(x @ w, sharing=y), "y is not a hole of the pattern"),
        (lambda: each(x @ w, sharing=()), "write sharing=x"),
        (lambda: each(x @ w, sharing=x) >> x, r"is parts\(whole, axis=...\)"),  # type: ignore[operator]  # what is rejected
        (lambda: each(x @ w, sharing=x) >> parts(x @ w, axis=-1), "write joined"),
        (lambda: each(x @ w, sharing=x) >> parts(x @ joined(y, axis=-1), axis=-1), "joins a hole that does not differ"),
        (lambda: each(x @ w, sharing=x) >> parts(joined(x, axis=0) @ joined(w, axis=-1), axis=-1), "joins a hole that does not differ"),
        (lambda: each(x @ w, sharing=x) >> parts(op.transpose(x @ joined(w, axis=-1), axes=p), axis=-1), "uses the attribute 'p'"),
        (lambda: (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).when(is_constant(y)), "uses 'y'"),
        (lambda: (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact(""), "state what it changes"),
        ((each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).and_back, "no reverse direction"),
        ((each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).eager, "a multi-pattern rule cannot be eager"),
        ((each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).joining, "a multi-pattern rule cannot be joining"),
        ((each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).lowering, "a multi-pattern rule cannot be lowering"),
        (lambda: each(op.reshape(x), sharing=x) >> parts(x, axis=0), "the left side does not specify newshape of reshape"),
        (lambda: each(op.sum(x, axis=p + 1), sharing=x) >> parts(x, axis=0), "the left side computes a value"),
        (lambda: each(x @ w, sharing=x, at_least=cast(int, "2")), "a group has at least 2 calls, not '2'"),
        (lambda: joined(w, axis=cast(int, "a")), "joins a hole along an axis, which is a number"),
        (lambda: parts(x, axis=cast(int, None)), "the parts of a term along an axis, which is a number"),
    ],
)
def test_invalid_rules_are_rejected(make: object, sentence: str) -> None:
    with pytest.raises(RuleError, match=sentence):
        make()  # type: ignore[operator]  # a function of no arguments


def test_sides_of_different_type_are_rejected_when_the_set_is_made() -> None:
    wrong = each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=0)
    with pytest.raises(RuleError, match="the sides have different types"):
        RuleSetMeta("Wrong", (RuleSet,), {"matmul": wrong})
