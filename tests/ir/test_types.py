"""Types: compared by content, and the relations between types."""

import pickle

import pytest
from hypothesis import given, settings

from passat.ir.equality import structural_equal, structural_hash
from passat.ir.shape import ANY, SymDim
from passat.ir.type_variables import free_type_vars
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
from tests.share import share
from tests.strategies import tensor_types, types

n = SymDim.named("n")
f32 = TensorType((), "float32")
a, b, c = TypeVar("A"), TypeVar("B"), TypeVar("C")


@settings(max_examples=share(18, 100))
@given(types(), types())
def test_types_are_values(x: Type, y: Type) -> None:
    copy = pickle.loads(pickle.dumps(x))
    assert copy == x
    assert hash(copy) == hash(x)
    assert repr(copy) == repr(x)
    assert (x == y) == (y == x)
    assert x != repr(x)  # type: ignore[comparison-overlap]  # that is the point


@settings(max_examples=share(18, 100))
@given(tensor_types(), tensor_types())
def test_two_types_of_one_value_are_combined(x: Type, y: Type) -> None:
    assert compatible(x, x)
    assert refine(x, x) == x
    assert compatible(x, y) == compatible(y, x)
    if compatible(x, y):
        both = refine(x, y)
        assert compatible(both, x)
        assert compatible(both, y)
        assert refine(both, x) == both
    elif isinstance(x, TensorType):
        both = refine(x, y)
        assert isinstance(both, TensorType)
        assert (both.ndim, both.dtype) == (x.ndim, x.dtype)
        assert all(old == new for old, new in zip(x.shape, both.shape, strict=True) if isinstance(old, int))


def test_refining_by_a_contradiction_keeps_the_first() -> None:
    pair, other = TupleType([f32, f32]), TupleType([f32])
    assert refine(pair, other) == pair
    assert refine(other, pair) == other
    assert refine(TypeCall(GlobalTypeVar("List"), [f32]), TypeCall(GlobalTypeVar("Map"), [f32, f32])) == TypeCall(
        GlobalTypeVar("List"), [f32]
    )


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
    with pytest.raises(TypeError, match=r"the data must be a tensor, but has type \(float32,\)"):
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


@settings(max_examples=share(18, 100))
@given(types())
def test_names_of_type_parameters_do_not_count(x: Type) -> None:
    generic = FuncType([x, a], TupleType([b, x]), [a, b])
    renamed = FuncType([x, c], TupleType([a, x]), [c, a])
    assert generic == renamed
    assert hash(generic) == hash(renamed)
    assert structural_equal(generic, renamed)
    assert structural_hash(generic) == structural_hash(renamed)
    assert compatible(generic, renamed)
    assert pickle.loads(pickle.dumps(renamed)).type_params == (c, a)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (FuncType([a], a, [a]), FuncType([b], b, [b]), True),
        (FuncType([a], b, [a]), FuncType([b], b, [b]), False),
        (FuncType([a], b, [a]), FuncType([c], b, [c]), True),
        (FuncType([a], a, [a]), FuncType([a], a), False),
        (FuncType([a, b], a, [a, b]), FuncType([a, b], b, [a, b]), False),
        (FuncType([a, b], a, [a, b]), FuncType([b, a], b, [b, a]), True),
        (FuncType([a], FuncType([b], TupleType([a, b]), [b]), [a]), FuncType([c], FuncType([a], TupleType([c, a]), [a]), [c]), True),
        (FuncType([a], FuncType([b], TupleType([a, b]), [b]), [a]), FuncType([c], FuncType([a], TupleType([a, c]), [a]), [c]), False),
        (FuncType([a], FuncType([a], a, [a]), [a]), FuncType([a], FuncType([b], b, [b]), [a]), True),
        (FuncType([a], FuncType([a], a, [a]), [a]), FuncType([a], FuncType([b], a, [b]), [a]), False),
        (RefType(FuncType([a], a, [a])), RefType(FuncType([b], b, [b])), True),
    ],
)
def test_equal_up_to_the_names_of_type_parameters(one: Type, other: Type, same: bool) -> None:
    assert (one == other) == same
    assert structural_equal(one, other) == same
    assert compatible(one, other) == same
    assert not same or (hash(one) == hash(other) and structural_hash(one) == structural_hash(other))


def test_substituted_arguments_are_not_bound_again() -> None:
    inner = FuncType([a], TupleType([a, b]), [a])
    assert substitute(inner, {b: a}) == FuncType([c], TupleType([c, a]), [c])
    assert repr(substitute(inner, {b: a})) == "fn [A1](A1) -> (A1, A)"
    assert substitute(inner, {a: f32}) == inner
    assert free_type_vars(TupleType([a, FuncType([a], b, [a])])) == [a, b]


def test_a_type_may_expand_to_a_large_tree() -> None:
    left: Type = f32
    right: Type = f32
    for _ in range(60):
        left, right = TupleType([left, left]), TupleType([right, right])
    assert left == right
    assert compatible(left, right)
    assert structural_hash(left) == structural_hash(right)
    assert len(repr(left)) < 11_000
    for _ in range(share(4_000, 20_000)):
        left, right = TupleType([left]), TupleType([right])
    assert left == right
    assert structural_hash(left) == structural_hash(right)
    assert left != TupleType([right])
    assert not structural_equal(left, TupleType([right]))
