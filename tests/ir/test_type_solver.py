"""The solver of types with holes. TVM's tests of it run in `tests/conformance`."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.error import TVMError
from passat.ir.infer import InferError
from passat.ir.shape import ANY
from passat.ir.type_solver import TypeSolver
from passat.ir.types import (
    EnvFunc,
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeKind,
    TypeRelation,
    TypeVar,
)

f2 = TensorType((2,))
f3 = TensorType((3,))
a, b = TypeVar("a"), TypeVar("b")


def relation(name: str, *types: Type) -> TypeRelation:
    return TypeRelation(EnvFunc.get(f"tvm.relay.type_relation.{name}"), types, len(types) - 1)


LEAVES: st.SearchStrategy[Type] = st.sampled_from([f2, f3, TensorType((), "int32"), a])
TYPES: st.SearchStrategy[Type] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(TupleType),
        inner.map(RefType),
        st.lists(inner, min_size=1, max_size=2).map(lambda args: TypeCall(GlobalTypeVar("T"), args)),
        st.builds(FuncType, st.lists(inner, max_size=2), inner),
    ),
    max_leaves=12,
)


def punched(data: st.DataObject, type_: Type) -> Type:
    """A type with some of its parts replaced by holes."""
    if data.draw(st.integers(0, 3)) == 0:
        return IncompleteType()
    if isinstance(type_, TupleType):
        return TupleType([punched(data, field) for field in type_.fields])
    if isinstance(type_, TypeCall):
        return TypeCall(type_.func, [punched(data, arg) for arg in type_.args])
    if isinstance(type_, RefType):
        return RefType(punched(data, type_.value))
    if isinstance(type_, FuncType):
        return FuncType([punched(data, arg) for arg in type_.arg_types], punched(data, type_.ret_type))
    return type_


@given(st.data())
def test_unifying_a_type_with_itself_fills_its_holes(data: st.DataObject) -> None:
    whole = data.draw(TYPES)
    partial = punched(data, whole)
    other = punched(data, whole)
    solver = TypeSolver()
    assert solver.unify(partial, whole) == whole
    assert solver.unify(whole, other) == whole
    assert solver.resolve(partial) == solver.resolve(other) == whole


@given(TYPES, TYPES)
def test_different_types_without_holes_do_not_unify(left: Type, right: Type) -> None:
    if left == right:
        assert TypeSolver().unify(left, right) == left
    else:
        with pytest.raises(InferError, match="differ"):
            TypeSolver().unify(left, right)


def test_the_known_size_of_a_dimension_wins() -> None:
    assert TypeSolver().unify(TensorType((ANY, 2)), TensorType((3, ANY))) == TensorType((3, 2))


def test_a_type_that_contains_itself_is_an_error() -> None:
    hole = IncompleteType()
    with pytest.raises(TVMError, match="would contain itself"):
        TypeSolver().unify(hole, FuncType([hole], f2))


def test_a_type_that_contains_itself_through_another_hole_is_an_error() -> None:
    solver, first, second = TypeSolver(), IncompleteType(), IncompleteType()
    solver.unify(first, RefType(second))
    with pytest.raises(InferError, match="would contain itself"):
        solver.unify(second, RefType(first))


def test_holes_of_different_kinds_are_different() -> None:
    with pytest.raises(InferError, match="an unknown type of the kind Shape cannot be one of the kind Type"):
        TypeSolver().unify(IncompleteType(TypeKind.Shape), IncompleteType())


def test_a_generic_function_is_instantiated() -> None:
    solver = TypeSolver()
    assert solver.unify(FuncType([a], b, [a, b]), FuncType([f2], f3)) == FuncType([f2], f3)
    assert solver.unify(FuncType([a], a, [a]), FuncType([b], b, [b])) == FuncType([b], b, [b])


def test_functions_with_other_numbers_of_parameters_differ() -> None:
    with pytest.raises(InferError, match="differ"):
        TypeSolver().unify(FuncType([f2], f2), FuncType([f2, f2], f2))


def test_a_relation_waits_for_its_operands() -> None:
    solver, operand, result = TypeSolver(), IncompleteType(), IncompleteType()
    solver.add_constraint(relation("Broadcast", operand, TensorType((3, 1)), result))
    assert not solver.solve()
    solver.unify(operand, TupleType([f2]).fields[0])
    assert solver.solve()
    assert solver.resolve(result) == TensorType((3, 2))


def test_relations_in_any_order_are_solved_once_each() -> None:
    solver = TypeSolver()
    holes = [IncompleteType() for _ in range(2_000)]
    for operand, result in reversed(list(pairwise(holes))):
        solver.add_constraint(relation("Broadcast", operand, f2, result))
    assert not solver.solve()
    solver.unify(holes[0], f2)
    assert solver.solve()
    assert solver.resolve(holes[-1]) == f2


def test_a_relation_that_does_not_hold_is_an_error() -> None:
    solver = TypeSolver()
    solver.add_constraint(relation("Broadcast", f2, f3, IncompleteType()))
    with pytest.raises(InferError, match=r"Broadcast does not hold for .*2.*3.*do not broadcast"):
        solver.solve()


def test_an_unknown_relation_is_an_error() -> None:
    with pytest.raises(InferError, match="there is no type relation 'Nothing'; it must be one of Identity, Broadcast"):
        TypeSolver().add_constraint(relation("Nothing", f2, f2))
