"""Kinds of types."""

import pytest

from passat import relay
from passat.ir import EnvFunc, IRModule, TypeRelation
from passat.ir.infer import InferError
from passat.ir.types import FuncType, GlobalTypeVar, RefType, TensorType, TupleType, Type, TypeCall, TypeKind, TypeVar
from passat.relay.analysis import check_kind
from tests.share import share

F32 = TensorType((2,), "float32")
A, SHAPE = TypeVar("A"), TypeVar("S", TypeKind.ShapeVar)
LIST = GlobalTypeVar("List")


@pytest.mark.parametrize(
    ("type_", "kind"),
    [
        (F32, TypeKind.Type),
        (SHAPE, TypeKind.ShapeVar),
        (relay.IncompleteType(TypeKind.Constraint), TypeKind.Constraint),
        (LIST, TypeKind.AdtHandle),
        (GlobalTypeVar("v", TypeKind.Type), TypeKind.Type),
        (TupleType([A, FuncType([], F32)]), TypeKind.Type),
        (RefType(RefType(F32)), TypeKind.Type),
        (TypeCall(LIST, [F32]), TypeKind.Type),
        (TypeRelation(None, [A, F32], 1), TypeKind.Constraint),
        (FuncType([A], F32, [A], [TypeRelation(EnvFunc.get("Identity"), [A, F32], 1)]), TypeKind.Type),
    ],
)
def test_a_type_has_a_kind(type_: Type, kind: TypeKind) -> None:
    assert check_kind(type_) is kind


@pytest.mark.parametrize(
    ("type_", "found"),
    [
        (TupleType([F32, SHAPE]), r"S in the type \(Tensor\[\(2,\), float32\], S\) has the kind ShapeVar, but needs the kind Type"),
        (FuncType([SHAPE], F32, [SHAPE]), "S in the type"),
        (FuncType([], TupleType([SHAPE]), [SHAPE]), "S in the type"),
        (FuncType([A], A, [A], [TypeRelation(None, [SHAPE], 1)]), "S in the type"),
        (RefType(LIST), "has the kind AdtHandle, but needs the kind Type"),
        (TypeCall(A, [F32]), "A in the type A.* has the kind Type, but needs the kind AdtHandle"),
        (TypeRelation(None, [TypeVar("C", TypeKind.Constraint)], 1), "C in the type"),
    ],
)
def test_parts_must_be_of_their_kinds(type_: Type, found: str) -> None:
    with pytest.raises(InferError, match=found):
        check_kind(type_)


def test_a_data_type_takes_the_declared_number_of_arguments() -> None:
    mod = IRModule()
    mod[LIST] = relay.TypeData(LIST, [A], [])
    assert check_kind(TypeCall(LIST, [F32]), mod) is TypeKind.Type
    assert check_kind(mod[LIST], mod) is TypeKind.TypeData
    with pytest.raises(InferError, match=r"the type List takes 1 argument, but List.* has 0"):
        check_kind(TypeCall(LIST, []), mod)
    with pytest.raises(InferError, match="the module does not define Tree"):
        check_kind(TypeCall(GlobalTypeVar("Tree"), [F32]), mod)


def test_a_deep_type_takes_no_stack() -> None:
    type_: Type = F32
    for _ in range(share(4_000, 20_000)):
        type_ = RefType(type_)
    assert check_kind(type_) is TypeKind.Type


def test_function_types_differ_in_their_kinds_and_constraints() -> None:
    def constrained(var: TypeVar, relation: str) -> FuncType:
        return FuncType([var], F32, [var], [TypeRelation(EnvFunc.get(relation), [var, F32], 1)])

    b, other = TypeVar("B"), TypeVar("A", TypeKind.ShapeVar)
    assert constrained(A, "Identity") == constrained(b, "Identity")
    assert constrained(A, "Identity") != constrained(b, "Broadcast")
    assert constrained(A, "Identity") != FuncType([A], F32, [A])
    assert FuncType([A], F32, [A]) != FuncType([other], F32, [other])
    assert relay.structural_hash(FuncType([A], F32, [A])) != relay.structural_hash(FuncType([other], F32, [other]))


def test_a_relation_has_no_more_inputs_than_types() -> None:
    with pytest.raises(ValueError, match="a type relation of 1 type cannot have 2 inputs"):
        TypeRelation(None, [A], 2)
