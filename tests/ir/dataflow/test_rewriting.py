"""Rewriting the matches of dataflow patterns."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from passat import relay
from passat.ir.equality import assert_structural_equal, structural_equal
from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.traverse import post_order
from passat.relay.dataflow_pattern import DFPattern, DFPatternCallback, dominates, is_constant, is_op, is_var, partition, rewrite, wildcard
from passat.transform import Sequential

X, Y, B = (relay.var(name, shape=(2, 3)) for name in "xyb")


class AddZero(DFPatternCallback):
    """`x + 0` is `x`."""

    def __init__(self, rewrite_once: bool = False) -> None:
        super().__init__(rewrite_once=rewrite_once)
        self.x = wildcard()
        self.pattern = self.x + is_constant()

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
        return node_map[self.x][0]


def chain(length: int) -> Expr:
    expr: Expr = X
    for _ in range(length):
        expr = expr + relay.const(0.0)
    return expr


def test_matches_are_replaced_until_none_is_left() -> None:
    assert rewrite(AddZero(), relay.tanh(chain(3))).args[0] is X  # type: ignore[attr-defined]  # a call
    untouched = relay.tanh(X)
    assert AddZero().rewrite(untouched) is untouched


def test_a_callback_that_is_called_once_changes_one_round() -> None:
    """All of a chain is matched in one round, starting at the result; each match but the last is inside another."""

    class Growing(DFPatternCallback):
        def __init__(self, rewrite_once: bool) -> None:
            super().__init__(rewrite_once=rewrite_once)
            self.pattern = is_op("exp")(wildcard())

        def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
            return relay.tanh(post)

    assert structural_equal(rewrite(Growing(True), relay.exp(X)), relay.tanh(relay.exp(X)))
    with pytest.raises(RuntimeError, match="100 rounds"):
        rewrite(Growing(False), relay.exp(X))


def test_callbacks_need_a_pattern() -> None:
    with pytest.raises(ValueError, match="Blank has no pattern"):
        rewrite(type("Blank", (DFPatternCallback,), {})(), X)
    blank = DFPatternCallback()
    blank.pattern = wildcard()
    with pytest.raises(NotImplementedError, match="must override callback"):
        blank.rewrite(X)


class MoreRelus(DFPatternCallback):
    """A callback that makes what its pattern matches, and, as in many scripts, does not call the initializer of its base."""

    def __init__(self) -> None:
        self.pattern = is_op("nn.relu")(wildcard())

    def callback(self, pre: Expr, post: Expr, node_map: Mapping[DFPattern, Sequence[Expr]]) -> Expr:
        return relay.nn.relu(post)


def test_a_callback_that_makes_ever_more_matches_is_stopped() -> None:
    with pytest.raises(RuntimeError, match="rewriting does not end: MoreRelus has 16384 matches after 14 rounds"):
        rewrite(MoreRelus(), relay.nn.relu(X))


def test_modules_are_not_expressions() -> None:
    module: Any = relay.IRModule.from_expr(relay.nn.relu(X))
    for attempt in (lambda: rewrite(AddZero(), module), lambda: wildcard().match(module), lambda: partition(wildcard(), module)):
        with pytest.raises(TypeError, match=r"match expressions, such as the function mod\['main'\], not IRModule"):
            attempt()


def test_a_partition_is_a_call_of_a_function() -> None:
    expr = relay.tanh(relay.nn.relu(X + Y))
    made = (is_op("nn.relu")(wildcard() + wildcard())).partition(expr, {"Composite": "fused"})
    assert isinstance(made, Call)
    inner = made.args[0]
    assert isinstance(inner, Call)
    assert isinstance(inner.op, Function)
    assert dict(inner.op.attrs) == {"PartitionedFromPattern": "add_nn.relu_", "Composite": "fused"}
    assert inner.args == (X, Y)
    assert partition(is_op("add")(wildcard(), wildcard()), made) is made  # it is not searched for matches


def test_calls_with_other_users_are_not_fused() -> None:
    total = X + Y
    pattern = is_op("nn.relu")(wildcard() + wildcard())
    both = relay.Tuple([relay.nn.relu(total), relay.exp(total)])
    assert pattern.partition(both) is both
    assert pattern.partition(relay.nn.relu(total), check=lambda match: False) is not None
    assert structural_equal(pattern.partition(relay.nn.relu(total), check=lambda match: False), relay.nn.relu(total))


def test_constants_that_the_pattern_names_go_inside() -> None:
    expr = X * relay.const(2.0)
    named = (wildcard() * is_constant()).partition(expr)
    either = (wildcard() * (is_var() | is_constant())).partition(expr)
    anything = (is_var("x") * wildcard()).partition(expr)
    assert [len(made.args) for made in (named, either, anything) if isinstance(made, Call)] == [1, 1, 2]


def test_calls_between_dominator_and_root_are_included() -> None:
    top = relay.nn.softmax(X)
    expr = relay.tanh(top) + relay.exp(relay.tanh(top))
    path = is_op("tanh")(wildcard()) | is_op("exp")(wildcard())
    made = dominates(is_op("nn.softmax")(wildcard()), path, wildcard() + wildcard()).partition(expr)
    assert isinstance(made, Call)
    assert isinstance(made.op, Function)
    assert made.args == (X,)
    assert made.op.attrs["PartitionedFromPattern"] == "nn.softmax_tanh_tanh_exp_add_"


def test_partitions_compute_the_same() -> None:
    weight = relay.const(np.arange(12, dtype=np.float32).reshape(4, 3))
    expr = relay.nn.relu(relay.nn.bias_add(relay.nn.dense(X, weight), relay.const(np.ones(4, np.float32))))
    pattern = is_op("nn.bias_add")(is_op("nn.dense")(wildcard(), is_constant()), is_constant())
    made = relay.Function([X], pattern.partition(expr))
    feed = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    run = relay.create_executor("debug")
    before, after = (run.evaluate(function)(feed).numpy() for function in (relay.Function([X], expr), made))
    assert np.array_equal(before, after)
    assert not any(isinstance(node, Constant) for node in post_order(made.body, into=lambda node: not isinstance(node, Function)))


def test_composites_of_dataflow_patterns() -> None:
    function = relay.Function([X, Y], relay.tanh(relay.nn.relu(X + Y)))
    table = [
        ("fused", is_op("nn.relu")(wildcard() + wildcard()), lambda match: True),
        ("none", is_op("tanh")(wildcard()), lambda match: False),
    ]
    module = Sequential([relay.transform.MergeComposite(table)])(relay.IRModule.from_expr(function))
    body = module["main"].body
    assert isinstance(body, Call)
    inner = body.args[0]
    assert isinstance(inner, Call)
    assert isinstance(inner.op, Function)
    assert inner.op.attrs["Composite"] == "fused"
    assert [param.checked_type for param in inner.op.params] == [X.checked_type, Y.checked_type]
    expected = relay.Function([X, Y], relay.tanh(relay.nn.relu(X + Y)))
    assert_structural_equal(function, expected)
    with pytest.raises(TypeError, match="is a function of the expression"):
        relay.transform.MergeComposite([("fused", is_op("tanh")(wildcard()), (1,))])
