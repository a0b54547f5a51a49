"""NDArray and TupleValue."""

import numpy as np
import pytest

from passat.ir.tensor import Tensor
from passat.runtime import ConstructorValue, NDArray, RefValue, TupleValue, array, cpu
from tests.share import share


def test_properties_of_arrays() -> None:
    value = NDArray(np.arange(6, dtype=np.int16).reshape(2, 3))
    assert (value.shape, value.dtype, len(value), value.device) == ((2, 3), "int16", 2, cpu())
    assert value.data is value
    assert repr(value) == "NDArray(int16[2, 3], [[0 1 2]\n [3 4 5]])"


def test_arrays_of_anything() -> None:
    assert array([1.5]).dtype == "float64"
    assert NDArray([1.5], "float16").dtype == "float16"
    assert NDArray(Tensor.splat(1, (2,), "int8")) == NDArray(NDArray(np.ones(2, np.int8)))
    assert NDArray(NDArray(np.ones(2)), "float32").dtype == "float32"


def test_equality_is_by_content_and_type() -> None:
    assert array([1, 2]) == array([1, 2])
    assert array([1, 2]) != array([1, 3])
    assert array([1, 2]) != array([1.0, 2.0])
    assert array([1, 2]) != [1, 2]
    with pytest.raises(TypeError, match="unhashable"):
        hash(array(1))


def test_numpy_takes_arrays_as_they_are() -> None:
    np.testing.assert_array_equal(array([1, 2]), [1, 2])
    assert np.asarray(array([1, 2]), np.float32).dtype == np.float32


def test_a_copy_comes_out() -> None:
    value = array([1, 2])
    value.numpy()[0] = 7
    assert value == array([1, 2])


def test_a_scalar_has_no_length() -> None:
    with pytest.raises(TypeError, match="a scalar has no length"):
        len(array(1))


def test_tuples() -> None:
    pair = TupleValue(array(1), TupleValue(array(2)))
    assert (len(pair), pair[0], list(pair)[1][0]) == (2, array(1), array(2))
    assert str(pair) == "(NDArray(int64[], 1), (NDArray(int64[], 2),))"
    assert pair == TupleValue(array(1), TupleValue(array(2))) != TupleValue(array(1))


def test_values_nested_deep_are_compared_and_printed() -> None:
    depth = share(4_000, 100_000)

    def nested(inner: int) -> TupleValue:
        value = TupleValue(inner)
        for _ in range(depth):
            value = TupleValue(value)
        return value

    assert nested(1) == nested(1) != nested(2)
    assert repr(nested(1)).startswith("(" * (depth + 1) + "1,)")
    assert TupleValue(1) != ConstructorValue(0, [1])
    assert repr(TupleValue(1, RefValue(TupleValue()), ConstructorValue(3, [ConstructorValue(2, []), ConstructorValue(1, [0])]))) == (
        "(1, RefValue(()), constructor 3(constructor 2(), ...))"
    )


def test_a_reference_that_contains_itself_is_printed() -> None:
    ref = RefValue(None)
    ref.value = TupleValue(ref, 1)
    assert repr(ref) == "RefValue((..., 1))"
