"""Binding free variables and parameters."""

import pytest

from passat.ir.bind import bind, bind_params_by_name
from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Function, Let, const, var
from passat.ir.text import parse_expr
from tests.share import share

x, y, z = (var(name, shape=(2,)) for name in "xyz")


def test_a_variable_of_an_expression() -> None:
    assert_structural_equal(bind(x + y, {x: z}), z + y)


def test_unused_variables_change_nothing() -> None:
    expr = x + x
    assert bind(expr, {y: z}) is expr
    function = Function([x], expr)
    assert bind(function, {y: z}) is function


def test_a_parameter_that_is_bound_is_none_any_more() -> None:
    bound = bind(Function([x, y], x + y), {y: const([1.0, 2.0])})
    assert isinstance(bound, Function)
    assert bound.params == (x,)
    assert_structural_equal(bound, Function([x], x + const([1.0, 2.0])))


def test_unused_parameters_are_removed_too() -> None:
    bound = bind(Function([x, y], x), {y: z})
    assert isinstance(bound, Function)
    assert bound.params == (x,)


def test_free_variables_become_parameters() -> None:
    bound = bind(Function([x, y], x + y), {x: z + z})
    assert isinstance(bound, Function)
    assert bound.params == (y, z)


def test_attributes_and_the_declared_result_stay() -> None:
    function = Function([x, y], x + y, x.type_annotation, attrs={"Primitive": 1})
    bound = bind(function, {y: z})
    assert isinstance(bound, Function)
    assert (bound.ret_type, bound.attrs) == (function.ret_type, function.attrs)


def test_a_variable_that_is_bound_inside_is_rejected() -> None:
    with pytest.raises(ValueError, match="%y is bound inside the expression"):
        bind(Let(y, x, y), {y: x})
    with pytest.raises(ValueError, match="%y is bound inside"):
        bind(Function([x], Let(y, x, y)), {y: x})


def test_by_name() -> None:
    bound = bind_params_by_name(Function([x, y], x + y), {"y": const([1.0, 2.0]), "other": const(1)})
    assert bound.params == (x,)
    twice = Function([x, var("x", shape=(2,))], x)
    with pytest.raises(ValueError, match="several parameters are called %x"):
        bind_params_by_name(twice, {"x": const(1.0)})


def test_a_long_chain() -> None:
    expr = x + x
    for _ in range(share(4_000, 20_000)):
        expr = expr + x
    assert bind(expr, {x: y}) is not expr


def test_shared_nodes_stay_shared() -> None:
    total = x + y
    bound = bind(total * total, {x: z})
    assert bound.args[0] is bound.args[1]  # type: ignore[attr-defined]  # a call
    assert_structural_equal(
        bound,
        parse_expr("free_var %z: Tensor[(2), float32]; free_var %y: Tensor[(2), float32]; %0 = add(%z, %y); multiply(%0, %0)"),
        map_free_vars=True,
    )
