"""Constants: equality is by value for all kinds of storage, and splats and lazy tensors take little memory."""

import pickle

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.dtypes import NAMES, from_numpy, itemsize, to_numpy
from passat.ir.tensor import Array, Tensor
from tests.share import share
from tests.strategies import tensors

HUGE = (1 << 20, 1 << 20)


def same_elements(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a.dtype == "string":
        return bool(a.numpy().tolist() == b.numpy().tolist())
    return a.numpy().tobytes() == b.numpy().tobytes()


@settings(max_examples=share(25, 150))
@given(tensors(), tensors())
def test_tensors_are_equal_exactly_when_their_elements_are(a: Tensor, b: Tensor) -> None:
    assert (a == b) == same_elements(a, b)
    assert (a.content_key() == b.content_key()) == same_elements(a, b)
    if a == b:
        assert hash(a) == hash(b)


@settings(max_examples=share(18, 100))
@given(tensors())
def test_how_a_tensor_is_stored_does_not_matter(tensor: Tensor) -> None:
    dense = Tensor.dense(tensor.numpy(), tensor.dtype)
    lazy = Tensor.lazy(tensor.dtype, tensor.shape, tensor.numpy, key=("file", 1))
    pickled = pickle.loads(pickle.dumps(tensor))
    for other in (dense, lazy, pickled):
        assert other == tensor
        assert other.content_key() == tensor.content_key()
        assert hash(other) == hash(tensor)
    value = tensor.uniform()
    if value is not None:
        splat = Tensor.splat(value, tensor.shape, tensor.dtype)
        assert splat == tensor
        assert splat.key() == dense.key()
    assert tensor != "a tensor"


@settings(max_examples=share(18, 100))
@given(tensors())
def test_the_value_that_all_elements_have(tensor: Tensor) -> None:
    elements = [tensor.numpy().reshape(-1)[i] for i in range(tensor.size)]
    if tensor.dtype != "string":
        elements = [element.tobytes() for element in elements]
    value = tensor.uniform()
    if value is None:
        assert not elements or any(element != elements[0] for element in elements)
    else:
        first = value if tensor.dtype == "string" else np.asarray(value).tobytes()
        assert all(element == first for element in elements)


@pytest.mark.parametrize("value", [0.0, -0.0, np.nan, np.inf, 1.5])
def test_special_values_repeat_as_themselves(value: float) -> None:
    splat, dense = Tensor.splat(value, (3, 2), "float32"), Tensor.dense(np.full((3, 2), value, np.float32))
    assert splat == dense
    assert splat.key() == dense.key()
    assert np.asarray(dense.uniform()).tobytes() == np.float32(value).tobytes()


def test_zeros_of_different_sign_differ() -> None:
    assert Tensor.dense(np.array([0.0, -0.0])).uniform() is None
    assert Tensor.splat(0.0, (2,), "float64") != Tensor.splat(-0.0, (2,), "float64")
    assert Tensor.dense(np.float32(0.0)) != Tensor.dense(np.float32(-0.0))


def test_bits_of_nan_count() -> None:
    payload = np.array([0x7FC00001, 0x7FC00000], np.uint32).view(np.float32)
    assert Tensor.dense(payload).uniform() is None
    assert Tensor.dense(payload[:1]) != Tensor.dense(payload[1:])
    assert Tensor.dense(payload[:1]) == Tensor.dense(payload[:1].copy())


def test_complex_elements_are_compared_by_both_parts() -> None:
    assert Tensor.dense(np.full(3, 1 + 2j)).uniform() == 1 + 2j
    assert Tensor.dense(np.array([1 + 2j, 1 + 3j])).uniform() is None
    assert Tensor.dense(np.array([1 + 2j, 1 + 3j], np.complex64)).uniform() is None


def test_a_tensor_without_elements_has_no_value() -> None:
    splat, dense = Tensor.splat(3.0, (0, 2), "float32"), Tensor.dense(np.zeros((0, 2), np.float32))
    assert splat.uniform() is dense.uniform() is None
    assert splat == dense
    assert splat != Tensor.splat(3.0, (2, 0), "float32")


def test_huge_splats_take_no_memory() -> None:
    splat = Tensor.splat(2.5, HUGE, "float32")
    assert splat.uniform() == 2.5
    assert splat.nbytes == 4 << 40
    assert splat.numpy().strides == (0, 0)
    assert splat == Tensor.splat(2.5, HUGE, "float32")
    assert splat != Tensor.splat(2.0, HUGE, "float32")
    assert pickle.loads(pickle.dumps(splat)).is_splat


def test_views_of_one_element_are_not_spread_out() -> None:
    view = np.broadcast_to(np.float32(2.5), HUGE)
    assert Tensor.dense(view) == Tensor.splat(2.5, HUGE, "float32")
    assert Tensor.dense(np.broadcast_to(np.array([[1j]]), (2, 3))).uniform() == 1j


def counting(array: Array) -> tuple[Tensor, list[int]]:
    reads: list[int] = []

    def load() -> Array:
        reads.append(1)
        return array

    return Tensor.lazy(from_numpy(array.dtype), array.shape, load, source="a file", key=("file", 7)), reads


def test_lazy_tensors_are_read_once_and_only_when_needed() -> None:
    tensor, reads = counting(np.arange(6.0).reshape(2, 3))
    assert (tensor.ndim, tensor.size, tensor.nbytes, tensor.source, tensor.is_splat) == (2, 6, 48, "a file", False)
    assert tensor.key() == ("file", 7)
    assert tensor != Tensor.dense(np.arange(6.0))
    assert repr(tensor) == "Tensor(float64[2, 3], lazy)"
    assert not reads
    assert tensor == Tensor.dense(np.arange(6.0).reshape(2, 3))
    assert tensor.numpy() is tensor.numpy()
    assert len(reads) == 1


def test_lazy_tensors_of_one_key_are_equal_unread() -> None:
    (a, first), (b, second) = counting(np.ones(3)), counting(np.ones(3))
    assert a == b
    assert not first
    assert not second


def test_a_lazy_tensor_of_an_undeclared_shape_is_rejected() -> None:
    tensor = Tensor.lazy("float64", (2, 2), lambda: np.zeros(3))
    with pytest.raises(ValueError, match=r"a constant declared as float64\[2, 2\] holds 3 elements of shape \[3\]"):
        tensor.numpy()


def test_arrays_are_taken_as_they_are() -> None:
    array = np.ones((2, 2), np.int8)
    assert Tensor.dense(array).numpy() is array
    assert Tensor.dense([1, 2], "float16").dtype == "float16"
    assert Tensor.dense(array[:, ::-1].T) == Tensor.dense(np.ascontiguousarray(array[:, ::-1].T))


def test_strings() -> None:
    a, b = Tensor.dense(np.array(["x", "yes"])), Tensor.dense(np.array(["x", "yes"], np.object_))
    assert a == b
    assert a.dtype == "string"
    assert Tensor.dense(np.array(["x", "x"])) == Tensor.splat("x", (2,), "string")
    assert Tensor.dense(np.array([b"x"], np.object_)) != Tensor.dense(np.array(["x"], np.object_))


@pytest.mark.parametrize("dtype", sorted(NAMES))
def test_every_element_type_has_a_numpy_type(dtype: str) -> None:
    assert from_numpy(to_numpy(dtype)) == dtype
    tensor = Tensor.splat("1" if dtype == "string" else 1, (5,), dtype)
    assert tensor == pickle.loads(pickle.dumps(tensor))
    assert tensor.nbytes == -(-5 * itemsize(dtype) // 1)


def test_narrow_integers_are_equal_by_value() -> None:
    assert Tensor.dense(np.array([-1, 3], ml_dtypes.int4)) == Tensor.dense(np.array([-1.0, 3.0]).astype(ml_dtypes.int4))


def test_unknown_element_types_are_named() -> None:
    with pytest.raises(ValueError, match="unknown element type 'float33'; known: bfloat16, bool"):
        to_numpy("float33")
    with pytest.raises(ValueError, match="no element type corresponds to the NumPy dtype datetime64"):
        Tensor.dense(np.array(["2020-01-01"], "datetime64[D]"))


@given(st.integers(0, 2**32 - 1))
def test_text_of_constants_of_one_element(bits: int) -> None:
    value = np.array(bits, np.uint32)
    assert repr(Tensor.dense(value)) == f"Tensor(uint32[], {bits})"
    assert repr(Tensor.splat(value, (2,), "uint32")) == f"Tensor(uint32[2], splat {bits})"


@given(tensors(dtypes=("float16", "bfloat16", "float32", "int8", "uint64")))
@settings(max_examples=share(25, 150))
def test_no_element_is_beyond_the_largest(tensor: Tensor) -> None:
    with np.errstate(all="ignore"):  # signaling NaN
        elements = np.abs(tensor.numpy().astype(np.float64))
    assert np.array_equal(tensor.largest(), elements.max(initial=0.0), equal_nan=True)
