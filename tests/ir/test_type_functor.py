"""Visitors and mutators of types."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.type_functor import TypeFunctor, TypeMutator, TypeVisitor
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
    TypeRelation,
    TypeVar,
)
from tests.share import share

SCALAR = TensorType((), "int8")
KINDS: list[Type] = [
    TypeVar("a"),
    IncompleteType(),
    SCALAR,
    FuncType([SCALAR], TypeVar("a"), [TypeVar("a")]),
    TupleType([SCALAR, SCALAR]),
    RefType(SCALAR),
    GlobalTypeVar("List"),
    TypeCall(GlobalTypeVar("List"), [SCALAR]),
    TypeRelation(EnvFunc("Identity"), [SCALAR, TypeVar("a")], 1),
]


def types() -> st.SearchStrategy[Type]:
    leaves = st.sampled_from([KINDS[0], KINDS[1], KINDS[2], KINDS[6], TensorType((2, 3))])
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, max_size=3).map(TupleType),
            inner.map(RefType),
            st.tuples(st.lists(inner, max_size=2), inner).map(lambda parts: FuncType(*parts)),
            st.lists(inner, max_size=2).map(lambda args: TypeCall(GlobalTypeVar("T"), args)),
        ),
        max_leaves=12,
    )


class Count(TypeVisitor):
    def __init__(self) -> None:
        self.tensors = 0

    def visit_tensor_type(self, typ: TensorType) -> None:
        self.tensors += 1


class Widen(TypeMutator):
    def visit_tensor_type(self, typ: TensorType) -> Type:
        return typ.with_dtype("int64")


def inside(type_: Type) -> Iterator[Type]:
    yield type_
    parts: tuple[Type, ...] = ()
    if isinstance(type_, TupleType):
        parts = type_.fields
    elif isinstance(type_, FuncType):
        parts = (*type_.arg_types, type_.ret_type)
    elif isinstance(type_, RefType):
        parts = (type_.value,)
    elif isinstance(type_, TypeCall):
        parts = type_.args
    for part in parts:
        yield from inside(part)


@pytest.mark.parametrize("type_", KINDS, ids=repr)
def test_each_kind_is_rejected_visited_and_kept(type_: Type) -> None:
    with pytest.raises(NotImplementedError):
        TypeFunctor[None]().visit(type_)
    TypeVisitor().visit(type_)
    assert TypeMutator().visit(type_) == type_


def test_values_that_are_not_types() -> None:
    with pytest.raises(TypeError, match="int is not a kind of type that can be visited"):
        TypeVisitor().visit(1)  # type: ignore[arg-type]  # which is the point


def test_a_type_parameter_stays_one() -> None:
    class Put(TypeMutator):
        def visit_type_var(self, var: TypeVar) -> Type:
            return SCALAR

    with pytest.raises(TypeError, match=r"a type parameter of fn \[a\]\(int8\) -> a became int8, which is not a type parameter"):
        Put().visit(KINDS[3])
    assert Put().visit(TupleType([TypeVar("a")])) == TupleType([SCALAR])


@settings(max_examples=share(15, 80))
@given(types())
def test_all_parts_are_visited_and_rebuilt(type_: Type) -> None:
    tensors = [part for part in inside(type_) if isinstance(part, TensorType)]
    count = Count()
    count.visit(type_)
    assert count.tensors == len(tensors)
    widened = [part for part in inside(Widen().visit(type_)) if isinstance(part, TensorType)]
    assert widened == [tensor.with_dtype("int64") for tensor in tensors]
    assert TypeMutator().visit(type_) == type_
