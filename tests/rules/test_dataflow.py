"""Callbacks of dataflow patterns as rules."""

from collections.abc import Callable

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Constant, Expr, Function, const
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.relay.dataflow_pattern import (
    DFPattern,
    DFPatternCallback,
    dominates,
    has_type,
    is_constant,
    is_expr,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    rewrite,
    wildcard,
)
from passat.rules import RuleError, RuleSet, rule_pass
from passat.rules.checking.check_sets import check_rules
from passat.rules.dataflow import rules_of

Matches = dict[DFPattern, list[Expr]]


class Callback(DFPatternCallback):
    """A pattern over `x`, `y` and the constant `c`, and a function of its matches."""

    def __init__(self, pattern: "Callable[[Callback], DFPattern]", made: "Callable[[Callback, Expr, Matches], Expr]") -> None:
        super().__init__()
        self.x, self.y, self.c = wildcard(), wildcard(), is_constant()
        self.made = made
        self.pattern = pattern(self)

    def callback(self, pre: Expr, post: Expr, node_map: Matches) -> Expr:  # type: ignore[override]  # a dictionary, as callers pass
        return self.made(self, post, node_map)


def factored(callback: Callback, post: Expr, found: Matches) -> Expr:
    return relay.multiply(found[callback.x][0], relay.add(found[callback.y][0], found[callback.c][0]))


FACTOR = Callback(lambda self: self.x * self.y + self.x * self.c, factored)


def test_holes_have_the_names_of_the_attributes() -> None:
    assert list(map(str, rules_of(FACTOR))) == ["((x * y) + (x * c)) -> (x * (y + c))"]


def test_each_alternative_is_a_rule() -> None:
    callback = Callback(
        lambda self: is_op("nn.relu")((is_op("exp") | is_op("abs"))(self.x)).optional(is_op("negative")),
        lambda self, post, found: found[self.x][0],
    )
    assert list(map(str, rules_of(callback))) == [
        "nn.relu(exp(x)) -> x",
        "nn.relu(abs(x)) -> x",
        "negative(nn.relu(exp(x))) -> x",
        "negative(nn.relu(abs(x))) -> x",
    ]


def test_attributes_that_are_used_become_holes_and_others_match_anything() -> None:
    callback = Callback(
        lambda self: is_op("transpose")(is_op("clip")(self.x).has_attr({"a_min": 0.0})),
        lambda self, post, found: relay.nn.relu(relay.transpose(found[self.x][0], axes=post.attrs.axes)),  # type: ignore[attr-defined]  # a call
    )
    (rule,) = rules_of(callback)
    assert str(rule) == "transpose(clip(x, ..., a_min=0.0), axes=axes_0) -> nn.relu(transpose(x, axes=axes_0))"


def test_types_and_numbers() -> None:
    callback = Callback(
        lambda self: self.x.has_dtype("float32").has_shape((2, 3)) * is_expr(const(2.0)),
        lambda self, post, found: relay.add(found[self.x][0], found[self.x][0]),
    )
    (rule,) = rules_of(callback)
    assert rule.in_full() == "(x * 2.0) -> (x + x) when has_dtype(x, 'float32'), has_shape(x, (2, 3)) [exact]"


def test_tuples_and_the_number_in_a_constant() -> None:
    def made(callback: Callback, post: Expr, found: Matches) -> Expr:
        number = found[callback.c][0].data.numpy().item()  # type: ignore[attr-defined]  # a constant
        return relay.nn.leaky_relu(found[callback.x][0], alpha=number)

    callback = Callback(lambda self: is_tuple_get_item(is_tuple([is_op("nn.prelu")(self.x, self.c), self.y]), 0), made)
    (rule,) = rules_of(callback)
    assert str(rule) == "(nn.prelu(x, c), y)[0] -> nn.leaky_relu(x, alpha=item(c))"


def test_a_rule_does_what_the_callback_does() -> None:
    class Factored(RuleSet):
        (factor,) = (rule.inexact("one rounding less", nonfinite="resolved") for rule in rules_of(FACTOR))

    assert [report.verdict for report in check_rules(Factored.rules, instances=40)] == ["sound"]
    x, y = relay.var("x", shape=(3,)), relay.var("y", shape=(3,))
    two = const(np.asarray([1, 2, 3], np.float32))
    program = infer_type(relay.add(relay.multiply(x, y), relay.multiply(x, two)))
    by_rule = rule_pass(Factored, name="Factors")(IRModule.from_expr(Function([x, y], program)))
    assert relay.analysis.free_vars(rewrite(FACTOR, program)) == [x, y]
    assert str(by_rule["main"].body).count("multiply") == str(rewrite(FACTOR, program)).count("multiply") == 1


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (lambda self: is_op("exp")(is_var()), "VarPattern has no counterpart on the left side of a rule"),
        (lambda self: is_op("exp")(None), "CallPattern of any parts has no counterpart on the left side of a rule"),
        (lambda self: wildcard()(self.x), "a call of something other than an operator"),
        (lambda self: dominates(self.x, wildcard(), is_op("exp")(wildcard())), "DominatorPattern has no counterpart"),
        (lambda self: is_op("exp"), "the pattern is an operator that is not applied"),
        (lambda self: is_op("exp")(has_type(relay.TensorType((2,)), self.x)), "TypePattern has no counterpart"),
        (lambda self: is_op("exp")(is_expr(const(np.ones((2, 2), np.float32)) + const(1.0))), "Call cannot occur in a rule"),
    ],
)
def test_a_pattern_that_no_left_side_can_express_is_rejected(pattern: Callable[[Callback], DFPattern], said: str) -> None:
    with pytest.raises(RuleError, match="Callback cannot become a rule: ") as caught:
        rules_of(Callback(pattern, lambda self, post, found: post))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda self, post, found: post.checked_type, "the callback reads types, which differ from match to match"),
        (lambda self, post, found: post if post.attrs.axis > 0 else found[self.x][0], "axis_0 > 0 is a guard, and has no truth value"),
        (lambda self, post, found: None, "the callback returns None, not an expression"),
        (lambda self, post, found: Constant(const(np.ones((2, 3))).data), "a constant of shape (2, 3) cannot occur in a rule"),
        (lambda self, post, found: post, "both sides are the same"),
    ],
)
def test_a_callback_that_looks_at_the_match_is_rejected(made: Callable[[Callback, Expr, Matches], Expr], said: str) -> None:
    with pytest.raises(RuleError) as caught:
        rules_of(Callback(lambda self: is_op("nn.softmax")(self.x), made))
    assert said in str(caught.value)


def test_a_pattern_that_contains_itself_is_rejected() -> None:
    def chain(callback: Callback) -> DFPattern:
        again = wildcard()
        again.redirect_to(is_op("exp")(again) | callback.x)
        return is_op("abs")(again)

    with pytest.raises(RuleError, match="the pattern contains itself"):
        rules_of(Callback(chain, lambda self, post, found: found[self.x][0]))


def test_too_many_alternatives_are_rejected() -> None:
    def many(callback: Callback) -> DFPattern:
        pattern: DFPattern = callback.x
        for _ in range(7):
            pattern = (is_op("exp") | is_op("abs"))(pattern)
        return pattern

    with pytest.raises(RuleError, match="more than 64 combinations of alternatives"):
        rules_of(Callback(many, lambda self, post, found: found[self.x][0]))


def test_a_callback_without_a_pattern_is_rejected() -> None:
    with pytest.raises(RuleError, match="DFPatternCallback has no pattern"):
        rules_of(DFPatternCallback())
