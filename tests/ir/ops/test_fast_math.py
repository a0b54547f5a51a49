"""Approximations of exponential functions: close to the exact functions, and odd if these are."""

import numpy as np
import pytest

from passat.ir.evaluate import evaluate_call
from passat.ir.op import OpTypeError, get_op
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

PAIRS = {"fast_exp": "exp", "fast_tanh": "tanh", "fast_erf": "erf", "nn.fast_softmax": "nn.softmax"}
POINTS = np.linspace(-12, 12, 4001)


def value(name: str, x: Array) -> Array:
    op, tensor = get_op(name), Tensor.dense(x)
    found = evaluate_call(op, [tensor], op.bind_attrs({}), TensorType(tensor.shape, tensor.dtype))
    assert isinstance(found, Tensor)
    return found.numpy()


@pytest.mark.parametrize(("fast", "exact"), PAIRS.items())
def test_values_are_near(fast: str, exact: str) -> None:
    x = POINTS.astype(np.float32)
    wanted = value(exact, POINTS)
    assert np.max(np.abs(value(fast, x) - wanted) / np.maximum(np.abs(wanted), 1e-3)) < 2e-5


@pytest.mark.parametrize(("fast", "exact"), PAIRS.items())
def test_wide_floats_are_exact_and_narrow_ones_near(fast: str, exact: str) -> None:
    assert np.allclose(value(fast, POINTS), value(exact, POINTS), rtol=1e-12, atol=0)
    half = POINTS.astype(np.float16)[::50]
    assert np.allclose(value(fast, half).astype(np.float64), value(exact, half).astype(np.float64), rtol=2e-3, atol=1e-3)


def test_ends() -> None:
    ends = np.array([-1000, 1000, -np.inf, np.inf], np.float32)
    powers = value("fast_exp", ends)
    assert np.all(powers[::2] < 1e-37)
    assert np.all(powers[1::2] == np.inf)  # as of `exp`, as which it is written to ONNX
    last = np.array([88.3, 88.5, 88.72], np.float32)
    assert np.allclose(value("fast_exp", last), np.exp(last), rtol=1e-5)
    assert np.allclose(value("fast_tanh", ends), [-1, 1, -1, 1], atol=1e-6)
    assert np.allclose(value("fast_erf", ends), [-1, 1, -1, 1], atol=1e-6)


@pytest.mark.parametrize("fast", ["fast_exp", "fast_tanh", "fast_erf"])
def test_nan_stays_nan(fast: str) -> None:
    assert np.isnan(value(fast, np.array([np.nan], np.float32)))[0]


def test_odd_functions_are_odd() -> None:
    x = POINTS.astype(np.float32)
    for name in ("fast_tanh", "fast_erf"):
        assert np.array_equal(value(name, -x), -value(name, x))


def test_softmax_along_an_axis_and_of_nothing() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    op = get_op("nn.fast_softmax")
    found = evaluate_call(op, [Tensor.dense(x)], op.bind_attrs({"axis": 0}), TensorType((2, 3), "float32"))
    assert isinstance(found, Tensor)
    assert np.allclose(found.numpy().sum(0), 1)
    assert value("nn.fast_softmax", np.zeros((0, 3), np.float32)).shape == (0, 3)


def test_integers_are_rejected() -> None:
    for name in PAIRS:
        with pytest.raises(OpTypeError, match="floating-point"):
            get_op(name).infer([TensorType((2,), "int32")], get_op(name).bind_attrs({}))
