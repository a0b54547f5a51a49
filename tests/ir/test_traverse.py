"""Walks: each node once, operands first, without recursion."""

import copy
import gc
from collections.abc import Callable

import pytest
from hypothesis import given, settings

from passat.ir.expr import (
    Call,
    Clause,
    Constructor,
    Expr,
    Function,
    If,
    Let,
    Match,
    PatternConstructor,
    PatternTuple,
    PatternVar,
    PatternWildcard,
    RefCreate,
    RefRead,
    RefWrite,
    Tuple,
    Var,
    const,
    var,
)
from passat.ir.traverse import (
    children,
    evaluation_parts,
    pattern_vars,
    post_order,
    post_order_visit,
    rewrite,
    with_children,
)
from passat.ir.types import GlobalTypeVar, TensorType
from tests.share import share
from tests.strategies import programs

x, y, c = var("x", shape=(2,)), var("y", shape=(2,)), var("c", "bool")
let = Let(Var("v"), x, y)
call = Call(x, [y, c])
match = Match(x, [Clause(PatternWildcard(), y), Clause(PatternVar(Var("p")), c)])


@pytest.mark.parametrize(
    ("expr", "parts", "evaluated"),
    [
        (call, (x, y, c), (y, c, x)),
        (Tuple([x, y]), (x, y), (x, y)),
        (Tuple([]), (), ()),
        (x[0], (x,), (x,)),
        (let, (let.var, x, y), (x, let.var, y)),
        (Function([x], y), (x, y), (x, y)),
        (If(c, x, y), (c, x, y), (c, x, y)),
        (RefCreate(x), (x,), (x,)),
        (RefRead(x), (x,), (x,)),
        (RefWrite(x, y), (x, y), (x, y)),
        (match, (x, y, c), (x, y, c)),
        (x, (), ()),
        (const(1), (), ()),
    ],
)
def test_parts_of_expressions(expr: Expr, parts: tuple[Expr, ...], evaluated: tuple[Expr, ...]) -> None:
    assert tuple(children(expr)) == parts
    assert tuple(evaluation_parts(expr)) == evaluated
    assert with_children(expr, parts) is expr
    if parts:
        other = Var("other")
        changed = with_children(expr, (other, *parts[1:]))
        assert type(changed) is type(expr)
        assert tuple(children(changed)) == (other, *parts[1:])
        assert changed.span is expr.span


def test_leaves_have_no_parts_to_replace() -> None:
    with pytest.raises(TypeError, match="Var has no parts to replace"):
        with_children(x, [y])


def test_other_contents_survive_other_parts() -> None:
    function = Function([x], y, TensorType((2,)), attrs={"Primitive": 1})
    changed = with_children(function, (x, x))
    assert isinstance(changed, Function)
    assert (changed.ret_type, changed.attrs) == (function.ret_type, function.attrs)
    incomplete = with_children(Match(x, match.clauses, complete=False), (y, y, c))
    assert isinstance(incomplete, Match)
    assert not incomplete.complete
    assert incomplete.clauses[1].lhs is match.clauses[1].lhs


@settings(max_examples=share(18, 100))
@given(programs(effects=True))
def test_post_order_has_each_node_once_behind_its_parts(program: Function) -> None:
    order = post_order(program)
    place = {id(node): i for i, node in enumerate(order)}
    assert len(place) == len(order)
    assert order[-1] is program
    assert all(place[id(part)] < place[id(node)] for node in order for part in children(node))
    seen: list[Expr] = []
    post_order_visit(program, seen.append)
    assert seen == order
    assert {id(node) for node in post_order(program, parts_of=evaluation_parts)} == set(place)


@settings(max_examples=share(10, 50))
@given(programs(effects=True))
def test_rewriting_nothing_gives_the_same_object(program: Function) -> None:
    assert rewrite(program, lambda old, new: new) is program


def test_rewriting_replaces_from_the_leaves() -> None:
    shared = x + y
    program = Function([x, y], Tuple([shared, shared, y]))
    changed = rewrite(program, lambda old, new: new + new if old is shared else new)
    assert isinstance(changed, Function)
    assert isinstance(changed.body, Tuple)
    assert changed.body[0] is changed.body[1]
    assert changed.body[2] is y
    assert isinstance(changed.body[0], Call)
    assert changed.body[0].args == (shared, shared)


def test_parts_that_are_rejected_are_not_entered() -> None:
    inner = x + y
    function = Function([], inner)
    order = post_order(function(), into=lambda node: not isinstance(node, Function))
    assert function in order
    assert inner not in order


def test_several_roots() -> None:
    first, second = x + y, y + y
    assert post_order(first, second, first)[-1] is second
    assert post_order() == []


def test_variables_of_patterns_come_from_left_to_right() -> None:
    a, b, d = Var("a"), Var("b"), Var("d")
    pair = Constructor("Pair", [TensorType(), TensorType()], GlobalTypeVar("P"))
    pattern = PatternTuple([PatternVar(a), PatternConstructor(pair, [PatternWildcard(), PatternVar(b)]), PatternVar(d)])
    assert pattern_vars(pattern) == [a, b, d]


@pytest.mark.parametrize(
    "step",
    [
        lambda expr: expr + y,
        lambda expr: Let(Var("v"), y, expr),
        lambda expr: Let(Var("v"), expr, y),
        lambda expr: Tuple([expr]),
        lambda expr: If(c, expr, y),
        lambda expr: Function([], expr),
        RefRead,
        lambda expr: Match(y, [Clause(PatternWildcard(), expr)]),
    ],
)
def test_depth_is_data(step: Callable[[Expr], Expr]) -> None:
    length = share(4_000, 20_000)
    deep: Expr = x
    for _ in range(length):
        deep = step(deep)
    assert len(post_order(deep)) > length
    replacement = const(2.0)
    changed = rewrite(deep, lambda old, new: replacement if old is x else new)
    assert changed is not deep
    assert x not in post_order(changed)


def test_paths_are_not_nodes() -> None:
    expr: Expr = x
    for _ in range(100):
        expr = expr + expr
    assert len(post_order(expr)) == 102  # including the operator
    assert rewrite(expr, lambda old, new: new) is expr


def test_functions_keep_their_nodes() -> None:
    """A second walk finds the same nodes, also if the caller changes the list of the first, and copies with other parts have their own."""
    inner = Function([x], x + const(1.0))
    outer = Function([x], inner(x) * x)
    first = post_order(outer)
    expected, nested = list(first), post_order(inner)
    first.clear()
    assert post_order(outer) == expected
    assert expected[-1] is outer
    assert set(nested) < set(expected)
    changed = outer.with_body(x)
    assert post_order(changed) == [x, changed]
    again = copy.deepcopy(outer)
    assert len(post_order(again)) == len(expected)
    assert outer not in post_order(again)


@pytest.mark.parametrize("enabled", [True, False])
def test_a_walk_leaves_the_collector_as_it_was(enabled: bool) -> None:
    def fail(node: Expr) -> bool:
        assert not gc.isenabled()
        raise ValueError("no")

    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        post_order(x)
        assert gc.isenabled() == enabled
        with pytest.raises(ValueError, match="no"):
            post_order(x, into=fail)
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if before else gc.disable)()
