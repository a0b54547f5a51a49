"""Lowering: rules expand operators regardless of cost, either completely or not at all."""

import pytest

from passat.ir.expr import Expr
from passat.rules import RuleSet, op, phase, rule_pass, tensors
from passat.rules.guards import has_rank
from passat.rules.rule_pass import RulePass
from tests.rules.building import func, ops, tup, var
from tests.rules.running import apply, assert_equal_in_value, operators

x, y = tensors("x y")
a, b = var("a"), var("b")


class Target(RuleSet):
    """For a target without relu, maximum and subtract."""

    relu = (op.nn.relu(x) >> op.maximum(x, 0.0)).lowering()
    maximum = (op.maximum(x, y) >> op.negative(op.minimum(op.negative(x), op.negative(y)))).lowering()
    subtract = (x - y >> x + op.negative(y)).lowering()


class Negations(RuleSet):
    """A rule that reduces the cost."""

    twice = op.negative(op.negative(x)) >> x


def test_lowering_applies_regardless_of_cost() -> None:
    function = func(a - b)
    outcome = apply(rule_pass(Target), function)
    assert operators(outcome.function) == ["negative", "add"]
    assert outcome.count("lowered") == 1
    assert_equal_in_value(function, outcome.function, exact=True)


def test_results_of_lowering_are_lowered_again() -> None:
    function = func(ops.nn.relu(a) - ops.nn.relu(b))
    outcome = apply(rule_pass(Target), function)
    left = operators(outcome.function)
    assert {"nn.relu", "maximum", "subtract"}.isdisjoint(left)
    assert outcome.count("lowered") == 5, "two relus, the maxima that they became, a difference"
    assert_equal_in_value(function, outcome.function, exact=False)


def test_it_comes_after_the_other_rules() -> None:
    """Lowering applies to the results of the other rules, and these are not applied to its results."""
    function = func(tup(ops.negative(ops.negative(a)) - b, ops.exp(a)))
    for pass_ in (rule_pass(Target, Negations), rule_pass(phase(Target), phase(Negations))):
        outcome = apply(pass_, function)
        assert sorted(operators(outcome.function)) == ["add", "exp", "negative"]


def test_rejected_matches_stay() -> None:
    class Narrow(RuleSet):
        """A rule for matrices only."""

        subtract = (x - y >> x + op.negative(y)).when(has_rank(x, 2)).lowering()

    vector = var("v", (3,))
    outcome = apply(rule_pass(Narrow), func(tup(a - b, vector - vector)))
    assert sorted(operators(outcome.function)) == ["add", "negative", "subtract"]
    assert any("has_rank(x, 2)" in remark for remark in outcome.remarks)


def test_a_program_without_such_calls_is_the_same_object() -> None:
    function = func(ops.exp(a))
    assert apply(rule_pass(Target), function).function is function


def test_recursive_lowerings_are_not_applied() -> None:
    class Circle(RuleSet):
        """A rule whose right side needs lowering again."""

        exp = (op.exp(x) >> op.negative(op.negative(op.exp(x)))).lowering()

    function = func(ops.exp(a))
    outcome = apply(rule_pass(Circle), function)
    assert outcome.function is function
    assert "not lowered by Circle.exp: the results depend on the calls that are replaced" in outcome.remarks


def test_only_recursive_lowerings_are_left_out() -> None:
    class Circles(RuleSet):
        """Rules that need lowering again, by themselves or together, and one that does not."""

        exp = (op.exp(x) >> op.negative(op.negative(op.exp(x)))).lowering()
        relu = (op.nn.relu(x) >> op.abs(x)).inexact("a test").lowering()
        abs = (op.abs(x) >> op.nn.relu(x)).inexact("a test").lowering()
        tanh = (op.tanh(x) >> op.sinh(x) / op.cosh(x)).inexact("a test").lowering()

    outcome = apply(rule_pass(Circles), func(ops.tanh(ops.nn.relu(ops.exp(a)))))
    assert sorted(operators(outcome.function)) == ["cosh", "divide", "exp", "nn.relu", "sinh"]
    assert "not lowered by Circles.exp: the results depend on the calls that are replaced" in outcome.remarks
    assert "not lowered by Circles.abs and Circles.relu: the results depend on the calls that are replaced" in outcome.remarks


class Endless(RuleSet):
    """Rules that match what they make, each by itself or in turn, and one that does not."""

    gelu = (op.nn.gelu(x) >> op.nn.gelu(x * 2.0) * 0.5).inexact("a test").lowering()
    relu = (op.nn.relu(x) >> op.abs(x * 2.0)).inexact("a test").lowering()
    abs = (op.abs(x) >> op.nn.relu(x * 2.0)).inexact("a test").lowering()
    tanh = (op.tanh(x) >> op.sinh(x) / op.cosh(x)).inexact("a test").lowering()


@pytest.mark.parametrize(
    ("of", "operand", "rules"),
    [
        ("nn.gelu", ops.nn.gelu(a), "Endless.gelu: what it makes matches it again"),
        ("nn.relu", ops.nn.relu(a), "Endless.abs and Endless.relu: what they make matches them again"),
    ],
)
def test_rules_that_match_what_they_make_without_end_are_left_out(of: str, operand: Expr, rules: str) -> None:
    outcome = apply(rule_pass(Endless), func(ops.tanh(operand)))
    assert sorted(operators(outcome.function)) == sorted([of, "sinh", "cosh", "divide"])
    assert f"not lowered by {rules}, until saturation stopped at the limit of rounds: more than 12" in outcome.remarks
    assert outcome.count("lowered") == 1


@pytest.mark.parametrize("layers", [1, 300])
def test_large_functions_are_lowered_region_by_region(layers: int) -> None:
    value = a
    for _ in range(layers):
        for _ in range(10):
            value = ops.tanh(ops.nn.relu(value) - b)
    function = func(value)
    outcome = apply(rule_pass(Target), function, rules__region_nodes=200)
    assert {"nn.relu", "maximum", "subtract"}.isdisjoint(operators(outcome.function))
    assert bool(outcome.count("regions")) == (layers == 300)
    assert outcome.count("lowered") == 30 * layers


def test_branches_are_lowered() -> None:
    from passat.ir.expr import If, Var
    from passat.ir.types import TensorType

    flag = Var("flag", TensorType((), "bool"))
    function = func(If(flag, a - b, ops.exp(a)))
    assert sorted(operators(apply(rule_pass(Target), function).function)) == ["add", "exp", "negative"]


def test_disabled_rules_lower_nothing() -> None:
    function = func(a - b)
    assert apply(rule_pass(Target), function, rules__disabled=["Target"]).function is function
    assert isinstance(rule_pass(Target), RulePass)
