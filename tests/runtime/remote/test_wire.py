"""Messages: every value that can be sent arrives, and damaged messages are rejected."""

import contextlib
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.ir.tensor import Tensor
from passat.runtime import cpu
from passat.runtime.remote.wire import Handle, RemoteError, decode, encode


def rejected(value: AnyValue) -> AnyValue:
    raise TypeError(f"a {type(value).__name__}")


def unchanged(handle: Handle) -> Handle:
    return handle


LEAVES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.just(cpu(3))
    | st.builds(Handle, st.integers(0, 1 << 62), st.sampled_from(["array", "module"]), st.just((1, ("a", 2))))
    | st.lists(st.integers(-9, 9)).map(lambda values: Tensor.dense(np.array(values, np.int64)))
)
VALUES = st.recursive(
    LEAVES, lambda parts: st.lists(parts).map(tuple) | st.dictionaries(st.text() | st.integers(), parts, max_size=4), max_leaves=12
)


@given(VALUES)
def test_values_arrive(value: AnyValue) -> None:
    assert decode(encode(value, rejected), unchanged) == value


@given(VALUES, st.data())
def test_damaged_messages_are_rejected_or_other_values(value: AnyValue, data: st.DataObject) -> None:
    message = bytearray(encode(value, rejected))
    message[data.draw(st.integers(0, len(message) - 1))] ^= data.draw(st.integers(1, 255))
    with contextlib.suppress(RemoteError):
        decode(bytes(message), unchanged)


@given(st.binary(max_size=60))
def test_other_bytes_are_rejected(message: bytes) -> None:
    with pytest.raises(RemoteError, match=r"^a message"):
        decode(message, unchanged)


def test_floats_without_a_number_arrive() -> None:
    assert np.isnan(decode(encode(float("nan"), rejected), unchanged))
    assert decode(encode((float("-inf"), -0.0, np.float32(0.5)), rejected), unchanged) == (float("-inf"), -0.0, 0.5)


@pytest.mark.parametrize("value", [object(), 1j, {1, 2}, Tensor.splat(0, (2,), "float8_e5m2"), pytest.param(10**5000, id="long")])
def test_other_values_are_rejected(value: AnyValue) -> None:
    with pytest.raises(TypeError):
        encode((1, value), rejected)


def test_deep_values_are_rejected() -> None:
    value: AnyValue = ()
    for _ in range(100_000):
        value = (value,)
    with pytest.raises(TypeError, match="cannot be sent"):
        encode(value, rejected)
