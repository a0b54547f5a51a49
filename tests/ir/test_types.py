"""Types: values that compare by content, and the relations between types of one value."""

import pickle

import pytest
from hypothesis import given, settings

from passat.ir.shape import ANY, SymDim
from passat.ir.types import (
    FuncType,
    GlobalTypeVar,
    IncompleteType,
    RefType,
    TensorType,
    TupleType,
    Type,
    TypeCall,
    TypeVar,
    compatible,
    refine,
    substitute,
    tensor_type,
)
from tests.strategies import tensor_types, types

n = SymDim.named("n")
f32 = TensorType((), "float32")
a, b = TypeVar("A"), TypeVar("B")


@settings(deadline=None, max_examples=100)
@given(types(), types())
def test_types_are_values(x: Type, y: Type) -> None:
    copy = pickle.loads(pickle.dumps(x))
    assert copy == x
    assert hash(copy) == hash(x)
    assert repr(copy) == repr(x)
    assert (x == y) == (y == x)
    assert x != repr(x)  # type: ignore[comparison-overlap]  # that is the point


@settings(deadline=None, max_examples=100)
@given(tensor_types(), tensor_types())
def test_what_two_types_of_one_value_say_together(x: Type, y: Type) -> None:
    assert compatible(x, x)
    assert refine(x, x) == x
    assert compatible(x, y) == compatible(y, x)
    if compatible(x, y):
        both = refine(x, y)
        assert compatible(both, x)
        assert compatible(both, y)
        assert refine(both, x) == both


def test_refining_prefers_integers_to_names_to_nothing() -> None:
    assert refine(TensorType((ANY, n, 3)), TensorType((4, ANY, n))) == TensorType((4, n, 3))
    assert refine(IncompleteType(), f32) == f32
    assert refine(TupleType([f32, IncompleteType()]), TupleType([IncompleteType(), f32])) == TupleType([f32, f32])
    assert refine(TypeCall(GlobalTypeVar("List"), [IncompleteType()]), TypeCall(GlobalTypeVar("List"), [f32])).args == (f32,)  # type: ignore[attr-defined]  # a call of List


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (TensorType((2,)), TensorType((3,))),
        (TensorType((2,)), TensorType((2, 1))),
        (f32, TensorType((), "float16")),
        (TupleType([f32]), TupleType([f32, f32])),
        (TupleType([f32]), f32),
        (TypeCall(GlobalTypeVar("List"), [f32]), TypeCall(GlobalTypeVar("List"), [TensorType((), "int8")])),
        (FuncType([f32], f32), FuncType([f32, f32], f32)),
        (RefType(f32), RefType(TensorType((2,)))),
        (RefType(f32), f32),
    ],
)
def test_types_that_no_value_shares(x: Type, y: Type) -> None:
    assert not compatible(x, y)
    assert x != y


def test_incomplete_types_are_compatible_at_any_depth() -> None:
    unknown = IncompleteType()
    assert compatible(TupleType([f32, unknown]), TupleType([unknown, f32]))
    assert compatible(FuncType([unknown], f32), FuncType([f32], unknown))
    assert compatible(RefType(unknown), RefType(f32))
    assert compatible(TypeCall(GlobalTypeVar("List"), [unknown]), TypeCall(GlobalTypeVar("List"), [f32]))


def test_substitution_respects_the_parameters_of_function_types() -> None:
    solution = {a: f32}
    assert substitute(TupleType([a, b]), solution) == TupleType([f32, b])
    assert substitute(RefType(TypeCall(GlobalTypeVar("List"), [a])), solution) == RefType(TypeCall(GlobalTypeVar("List"), [f32]))
    assert substitute(FuncType([a, b], a, [b]), solution) == FuncType([f32, b], f32, [b])
    assert substitute(FuncType([a], a, [a]), solution) == FuncType([a], a, [a])
    assert substitute(a, {}) is a


def test_tensor_types_know_their_axes_and_sizes() -> None:
    type_ = TensorType((2, n, 4), "int8")
    assert (type_.ndim, type_.size, type_.is_static) == (3, 8 * n, False)
    assert (type_.axis(-1), type_.axis(0)) == (2, 0)
    assert TensorType((2, 4), "int4").nbytes == 4
    assert type_.with_dtype("bool").with_shape([1]) == TensorType((1,), "bool")
    with pytest.raises(ValueError, match=r"Tensor\[\(2, n, 4\), int8\] has no axis 3"):
        type_.axis(3)


def test_types_that_must_be_tensors() -> None:
    assert tensor_type(f32) is f32
    with pytest.raises(TypeError, match=r"the data has type \(float32,\), a tensor is needed"):
        tensor_type(TupleType([f32]), "the data")


@pytest.mark.parametrize(
    ("type_", "text"),
    [
        (TensorType((1, ANY, n)), "Tensor[(1, ?, n), float32]"),
        (TensorType((3,)), "Tensor[(3,), float32]"),
        (f32, "float32"),
        (TupleType([]), "()"),
        (TupleType([f32]), "(float32,)"),
        (FuncType([a], a, [a]), "fn [A](A) -> A"),
        (FuncType([], f32), "fn () -> float32"),
        (RefType(f32), "ref(float32)"),
        (TypeCall(GlobalTypeVar("List"), [a]), "List[A]"),
        (IncompleteType(), "_"),
    ],
)
def test_text_of_types(type_: Type, text: str) -> None:
    assert repr(type_) == text
