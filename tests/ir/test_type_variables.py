"""Type parameters: all, bound and free ones."""

from passat.ir.expr import Function, var
from passat.ir.type_variables import all_type_vars, bound_type_vars, free_type_vars
from passat.ir.types import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, TypeCall, TypeVar

a, b, c = TypeVar("a"), TypeVar("b"), TypeVar("c")


def test_of_types() -> None:
    type_ = FuncType([a, RefType(b), TypeCall(GlobalTypeVar("List"), [c])], TupleType([a, TensorType(())]), [a])
    assert all_type_vars(type_) == [a, b, c]
    assert bound_type_vars(type_) == [a]
    assert free_type_vars(type_) == [b, c]
    assert all_type_vars(TensorType(())) == []


def test_of_expressions() -> None:
    x, y = var("x", a), var("y", b)
    function = Function([x], y, c, [a])
    assert set(all_type_vars(function)) == {a, b, c}
    assert bound_type_vars(function) == [a]
    assert set(free_type_vars(function)) == {b, c}
    assert free_type_vars(function(x)) == free_type_vars(function)
    assert free_type_vars(x) == [a]
