"""Matches of dataflow patterns."""

from collections.abc import Callable

import pytest

from passat import relay
from passat.ir.expr import Expr
from passat.relay.dataflow_pattern import (
    DFPattern,
    FunctionPattern,
    dominates,
    has_dtype,
    has_shape,
    has_type,
    is_constant,
    is_expr,
    is_if,
    is_let,
    is_op,
    is_tuple,
    is_tuple_get_item,
    is_var,
    wildcard,
)

X, Y, Z = (relay.var(name, shape=(2, 3)) for name in "xyz")
ONE = relay.const(1.0)


@pytest.mark.parametrize(
    ("pattern", "there", "elsewhere"),
    [
        (is_op("subtract")(is_var("x"), wildcard()), X - Y, Y - X),
        (is_op("add")(is_var("x"), is_var("y")), Y + X, X - Y),
        (is_op("nn.relu")(wildcard()).optional(is_op("tanh")), relay.tanh(relay.nn.relu(X)), relay.nn.relu(relay.tanh(X)) + X),
        (is_op("add")(wildcard(), is_constant()), X + ONE, X + Y),
        (wildcard() * is_expr(relay.const(1.0)), X * ONE, X * relay.const(2.0)),
        (is_tuple([wildcard(), is_var("y")]), relay.Tuple([X, Y]), relay.Tuple([X, Y, Y])),
        (is_tuple(None), relay.Tuple([X, Y, Z]), X),
        (is_tuple_get_item(wildcard(), 1), relay.TupleGetItem(X, 1), relay.TupleGetItem(X, 0)),
        (is_tuple_get_item(wildcard()), relay.TupleGetItem(X, 7), relay.Tuple([X])),
        (is_if(wildcard(), is_var("x"), is_var("y")), relay.If(Z, X, Y), relay.If(Z, Y, X)),
        (is_let(wildcard(), is_constant(), wildcard()), relay.Let(X, ONE, X), relay.Let(X, Y, X)),
        (FunctionPattern([wildcard()], wildcard() + wildcard()), relay.Function([X], X + X), relay.Function([X, Y], X + Y)),
        (wildcard()(None), relay.concatenate([X, Y], 0), X),
        (has_type(relay.TensorType((2, 3), "float32")), X, ONE),
        (has_shape((2, 3), is_var()), X, relay.var("v", shape=(3, 2))),
        (has_dtype("float32"), X, relay.var("v", shape=(2, 3), dtype="int8")),
        (is_op("nn.softmax")(wildcard()).has_attr({"axis": 1}), relay.nn.softmax(X, axis=1), relay.nn.softmax(X, axis=0)),
        (wildcard().has_attr({"TOpPattern": 0})(wildcard()), relay.tanh(X), relay.nn.softmax(X)),
        (wildcard().has_attr({"Composite": "it"}), relay.Function([X], X).with_attr("Composite", "it"), relay.Function([X], X)),
    ],
)
def test_kinds_of_patterns(pattern: DFPattern, there: Expr, elsewhere: Expr) -> None:
    assert pattern.match(there)
    assert not pattern.match(elsewhere)


def test_a_pattern_that_occurs_twice_is_one_expression() -> None:
    both = wildcard()
    assert (both + both).match(X + X)
    assert not (both + both).match(X + Y)
    assert (both + both).match(relay.const(2.0) + relay.const(2.0))
    shared, apart = relay.tanh(X), (relay.tanh(X), relay.tanh(X))
    root = is_op("tanh")(wildcard())
    assert (is_op("exp")(root) * is_op("sqrt")(root)).match(relay.exp(shared) * relay.sqrt(shared))
    assert not (is_op("exp")(root) * is_op("sqrt")(root)).match(relay.exp(apart[0]) * relay.sqrt(apart[1]))


@pytest.mark.parametrize("make", [lambda: (X * Y) / Z, lambda: X * (Y / Z), lambda: Y * (X / Z), lambda: (Y / Z) * X])
def test_products_over_a_divisor_match_in_any_grouping(make: Callable[[], Expr]) -> None:
    a, b = is_var("x"), is_var("y")
    assert (a * b / is_var("z")).match(make())
    assert (a * (b / is_var("z"))).match(make())


def test_a_failed_order_of_operands_leaves_nothing_behind() -> None:
    """The first order binds `a` to the constant before its second operand fails."""
    a = wildcard()
    pattern = is_op("multiply")(a, is_constant()) - a
    assert pattern.match(ONE * X - X)
    assert not pattern.match(ONE * X - Y)


def test_chains_of_any_length() -> None:
    rest = wildcard()
    chain = is_op("tanh")(rest)
    rest.redirect_to(chain | is_op("exp")(is_var("x")))
    deep = relay.exp(X)
    for _ in range(20):
        deep = relay.tanh(deep)
    assert chain.match(deep)
    assert not chain.match(relay.tanh(relay.sqrt(X)))
    assert "WildcardPattern()" in repr(chain)


PARENT, PATH, CHILD = is_op("nn.softmax")(wildcard()), is_op("tanh")(wildcard()), wildcard() + wildcard()


def _dominated(make: Callable[[Expr], Expr]) -> bool:
    return dominates(PARENT, PATH, CHILD).match(make(relay.nn.softmax(X)))


def test_dominators() -> None:
    assert _dominated(lambda top: relay.tanh(top) + relay.tanh(relay.tanh(top)))
    assert _dominated(lambda top: relay.tanh(top) + ONE)
    assert not _dominated(lambda top: relay.tanh(top) + relay.exp(top))
    assert not _dominated(lambda top: relay.tanh(top) + relay.tanh(relay.nn.softmax(Y)))
    assert not _dominated(lambda top: relay.tanh(X) + relay.tanh(X))
    top = relay.nn.softmax(X)
    child = relay.tanh(top) + relay.tanh(relay.tanh(top))
    pattern = is_op("exp")(dominates(PARENT, PATH, CHILD))
    assert pattern.match(relay.exp(child))
    assert CHILD.dominates(PARENT, PATH).match(child)


def test_a_long_chain_below_a_dominator() -> None:
    path = top = relay.nn.softmax(X)
    for _ in range(3000):
        path = relay.tanh(path)
    assert dominates(PARENT, PATH, CHILD).match(path + relay.tanh(top))
