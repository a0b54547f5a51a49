"""Guards and computed attributes: accepted arguments, and reasons for rejections."""

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.shape import ANY, SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type
from passat.rules import guards as known
from passat.rules.guards import Check, Guard, Reject, Term, computed, guard
from passat.rules.pattern import Computed, tensors

x, y = tensors("x y")
n = SymDim.named("n")


def typed(*shape: object, dtype: str = "float32") -> Term:
    return Term(TensorType(tuple(shape), dtype))  # type: ignore[arg-type]  # dimensions of all kinds


def holding(value: object, dtype: str = "float32") -> Term:
    tensor = Tensor.dense(np.asarray(value), dtype)
    return Term(TensorType(tensor.shape, dtype), tensor)


def ask(value: Guard | Computed) -> object:
    """The answer for plain arguments."""
    return value.function(*value.args)


MATRIX, WIDE, NAMED, UNKNOWN = typed(2, 3), typed(2, 3, dtype="float64"), typed(n, 3), typed(ANY, 3)


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (known.is_all(holding([0, 0]), 0), True),
        (known.is_all(holding([-0.0]), 0), True),
        (known.is_all(holding([0, 1]), 0), "the elements of the constant differ"),
        (known.is_all(holding([2, 2]), 0), "the elements of the constant are 2.0, not 0"),
        (known.is_all(holding(np.zeros((0, 3))), 0), "the elements of the constant differ"),
        (known.is_all(holding([True], "bool"), 1), True),
        (known.is_all(holding([0.1], "float16"), 0.1), True),
        (known.is_uniform(holding([3, 3])), True),
        (known.is_uniform(holding([3, 4])), "the elements of the constant differ"),
        (known.is_uniform(holding([np.nan, np.nan])), True),
        (known.is_constant(holding(1)), True),
        (known.is_constant(MATRIX), "is not a constant"),
        (known.same_type(MATRIX, typed(2, 3)), True),
        (known.same_type(NAMED, NAMED), True),
        (known.same_type(MATRIX, WIDE), "the types differ: Tensor[(2, 3), float32] and Tensor[(2, 3), float64]"),
        (known.same_type(UNKNOWN, UNKNOWN), "the type Tensor[(?, 3), float32] is unknown, or has an unknown dimension"),
        (known.same_dtype(MATRIX, NAMED), True),
        (known.same_dtype(MATRIX, WIDE), "the element types differ: float32 and float64"),
        (known.is_float(MATRIX), True),
        (known.is_float(typed(dtype="bfloat16")), True),
        (known.is_float(typed(dtype="int8")), "the elements are int8, not floating-point numbers"),
        (known.is_float(typed(dtype="bool")), "the elements are bool, not floating-point numbers"),
        (known.has_dtype(MATRIX, "float32"), True),
        (known.has_dtype(MATRIX, "int8"), "the elements are float32, not int8"),
        (known.has_rank(MATRIX, 2), True),
        (known.has_rank(typed(), 2), "the rank of the tensor is 0, not 2"),
        (known.is_identity((0, 1, 2)), True),
        (known.is_identity((0, -2, 2)), True),
        (known.is_identity((1, 0)), "axes=(1, 0) moves an axis"),
        (known.is_identity((), typed()), True),
        (known.is_identity(None, typed(4)), True),
        (known.is_identity(None, MATRIX), "axes=(1, 0) moves an axis"),
        (known.compose((1, 2, 0), (1, 2, 0), typed(1, 1, 1)), (2, 0, 1)),
        (known.compose((-1, 0), None, MATRIX), (0, 1)),
        (known.compose(None, None, typed(1, 2, 3)), (0, 1, 2)),
        (known.shape_of(MATRIX), (2, 3)),
        (known.dtype_of(WIDE), "float64"),
        (known.scalar_of(holding([2.5, 2.5])), 2.5),
        (known.same_shape(MATRIX, WIDE), True),
        (known.same_shape(NAMED, NAMED), True),
        (known.same_shape(NAMED, MATRIX), "the shapes differ: Tensor[(n, 3), float32] and Tensor[(2, 3), float32]"),
        (known.same_shape(UNKNOWN, UNKNOWN), "the shapes differ: Tensor[(?, 3), float32] and Tensor[(?, 3), float32]"),
        (known.same_rank(MATRIX, UNKNOWN), True),
        (known.same_rank(MATRIX, typed()), "the ranks differ: 2 and 0"),
        (known.same_size(MATRIX, typed(7, 3), 1), True),
        (known.same_size(MATRIX, typed(7, 3), -2), "along axis -2 the sizes are 2 and 7"),
        (known.same_size(MATRIX, typed(3), 1), "Tensor[(2, 3), float32] or Tensor[(3,), float32] has no axis 1"),
        (known.is_integer(typed(dtype="uint8")), True),
        (known.is_integer(MATRIX), "the elements are float32, not integers"),
        (known.is_not_empty(typed()), True),
        (known.is_not_empty(typed(2, 0)), "Tensor[(2, 0), float32] may be empty"),
        (known.is_not_empty(UNKNOWN), "Tensor[(?, 3), float32] may be empty"),
        (known.is_not_negative(holding([0, -0.0, 2])), True),
        (known.is_not_negative(holding([1, -1])), "an element of the constant is negative, infinite or NaN"),
        (known.is_not_negative(holding([np.inf])), "an element of the constant is negative, infinite or NaN"),
        (known.is_positive(holding([1, 2])), True),
        (known.is_positive(holding([0, 2])), "an element of the constant is zero, negative, infinite or NaN"),
        (known.has_no_zero(holding([1, np.nan])), True),
        (known.has_no_zero(holding([1, -0.0])), "an element of the constant is 0"),
        (known.is_finite(holding([1, -2])), True),
        (known.is_finite(holding([np.nan])), "an element of the constant is infinite or NaN"),
        (known.is_ungrouped(Attrs(groups=1)), True),
        (known.is_ungrouped(Attrs(groups=2)), "the convolution has 2 groups"),
        (known.is_channels_first(Attrs(layout="NCHW")), True),
        (known.is_channels_first(Attrs(data_layout="NHWC", kernel_layout="OIHW")), "the layouts are NHWC and OIHW"),
        (known.is_usual_convolution(Attrs(groups=1, data_layout="NCHW", kernel_layout="OIHW")), True),
        (
            known.is_usual_convolution(Attrs(groups=2, data_layout="NCHW", kernel_layout="OIHW")),
            "the convolution has 2 groups, and data laid out as NCHW",
        ),
        (known.is_unpadded(Attrs(padding=(0, 0))), True),
        (known.is_unpadded(Attrs(padding=1)), "the padding is 1"),
        (known.has_unit_strides(Attrs(strides=(1, 1))), True),
        (known.has_unit_strides(Attrs(strides=(1, 2))), "the strides are (1, 2)"),
        (known.is_axis(-1, 1, MATRIX), True),
        (known.is_axis(0, 1, MATRIX), "axis 0 of Tensor[(2, 3), float32] is not axis 1"),
        (known.is_axis(0, 2, MATRIX), "Tensor[(2, 3), float32] has no axis 2"),
    ],
    ids=lambda value: "" if isinstance(value, (bool, str, tuple, float)) else value.function.__name__,
)
def test_answers(asked: Guard | Computed, answer: object) -> None:
    assert ask(asked) == answer


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (known.is_all(MATRIX, 0), "is not a constant"),
        (known.is_positive(holding([1j], "complex64")), "the elements are complex numbers"),
        (known.is_float(Term(TupleType(()))), "() is not a tensor type"),
        (known.shape_of(NAMED), "Tensor[(n, 3), float32] is not static"),
        (known.shape_of(UNKNOWN), "Tensor[(?, 3), float32] is not static"),
        (known.scalar_of(holding([1, 2])), "the elements of the constant differ"),
    ],
    ids=lambda value: "" if isinstance(value, str) else value.function.__name__,
)
def test_rejections(asked: Guard | Computed, reason: str) -> None:
    with pytest.raises(Reject) as caught:
        ask(asked)
    assert str(caught.value) == reason


def test_a_rejection_says_which_check_failed() -> None:
    with pytest.raises(Reject) as caught:
        ask(known.is_all(MATRIX, 0))
    assert caught.value.check is Check.CONSTANT
    with pytest.raises(Reject) as caught:
        ask(known.shape_of(UNKNOWN))
    assert caught.value.check is Check.FUNCTION


def test_a_permutation_is_composed_like_two_transposes() -> None:
    array = np.arange(24).reshape(2, 3, 4)
    for first in ((2, 0, 1), (0, 2, 1), None):
        for then in ((1, 2, 0), (-1, 0, 1), None):
            together = known.compose(first, then, typed(2, 3, 4))
            expected = np.transpose(np.transpose(array, first), then)
            assert np.array_equal(np.transpose(array, together.function(*together.args)), expected)


def test_what_a_term_tells() -> None:
    elements = np.array([[n, 3], [ANY, 1]], dtype=object)
    term = Term(TensorType((2, 2), "int64"), known=elements)
    assert term.known == [n, 3, ANY, 1]
    assert term.known_value is elements
    assert term.type == TensorType((2, 2), "int64")
    plain: Type = TupleType(())
    assert Term(plain).type_ is plain
    assert Term(plain).known is None
    assert Term(plain, known=(elements,)).known is None


def test_conditions_of_ones_own() -> None:
    @guard
    def is_long(term: Term, least: int) -> bool | str:
        """True if the vector is long."""
        return term.type.shape[0] >= least or f"{term.type!r} is short"  # type: ignore[operator]  # static in this test

    asked = is_long(x, 4)
    assert repr(asked) == "is_long(x, 4)"
    assert asked.args == (x, 4)
    assert is_long.__doc__ == "True if the vector is long."
    assert asked.function(typed(4), 4) is True
    assert asked.function(typed(3), 4) == "Tensor[(3,), float32] is short"


def test_computed_attributes_of_ones_own() -> None:
    @computed
    def last(term: Term) -> int:
        """The last axis."""
        return term.type.ndim - 1

    assert repr(last(x + y)) == "last((x + y))"
    assert ask(last(MATRIX)) == 1


def test_a_term_shows_its_type() -> None:
    """Messages of errors that guards raise name the terms."""
    assert repr(Term(TensorType((2, 3)))) == "<term of type Tensor[(2, 3), float32]>"
