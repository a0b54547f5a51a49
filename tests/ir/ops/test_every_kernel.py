"""Every operator's kernel is checked: by ONNX Runtime (`tests/rules/engine/test_folded_values.py`), or here by NumPy."""

from collections.abc import Callable
from math import erf
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
import pytest

from passat.ir.evaluate import evaluate_call
from passat.ir.op import get_op, list_ops
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type
from tests.rules.engine.test_folded_values import OPS

RANDOM = np.random.default_rng(11)
SCALE, ZERO, OUT, OUT_ZERO = 0.05, 3, 0.04, -5


class Checked(NamedTuple):
    """Operands and attributes of a call, its value by NumPy, and by how much elements may differ."""

    operands: list[AnyValue]
    attrs: dict[str, AnyValue]
    expected: Array
    within: float = 0


def _int8(*shape: int, low: int = -128) -> Array:
    return RANDOM.integers(low, 128, shape).astype(np.int8)


def _real(x: Array, scale: float = SCALE, zero: int = ZERO) -> Array:
    return (x.astype(np.float64) - zero) * scale


def _quantized(x: Array, scale: float = OUT, zero: int = OUT_ZERO) -> Array:
    return np.clip(np.round(x / scale) + zero, -128, 127).astype(np.int8)


def _numbers(*values: float) -> list[Array]:
    """Scales and zero points, alternating."""
    return [np.array(value, np.int32 if isinstance(value, int) else np.float32) for value in values]


def _of_one(function: Callable[[Array], Array], low: int = -128, **attrs: AnyValue) -> Checked:
    x = _int8(4, 6, low=low)
    return Checked([x, *_numbers(SCALE, ZERO, OUT, OUT_ZERO)], attrs, _quantized(function(_real(x))), 1)


def _of_two(function: Callable[[Array, Array], Array]) -> Checked:
    x, y = _int8(4, 6), _int8(6)
    scales = _numbers(SCALE, ZERO, 0.02, -7, OUT, OUT_ZERO)
    return Checked([x, y, *scales], {}, _quantized(function(_real(x), _real(y, 0.02, -7))), 1)


def _product(x: Array, y: Array, value: Callable[[Array, Array], Array], **attrs: AnyValue) -> Checked:
    """Products are sums of integers in units of the product of the scales."""
    wide = (x.astype(np.int32) - 3, y.astype(np.int32) + 7)
    return Checked([x, y, *_numbers(3, -7, SCALE, 0.02)], attrs, value(*wide).astype(np.int32))


def _convolved(x: Array, w: Array) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    found: Array = np.einsum("nchwij,ocij->nohw", windows, w)
    return found


def _transposed(x: Array, w: Array) -> Array:
    """A convolution of the padded data with the window turned."""
    height, width = w.shape[2:]
    padded = np.pad(x, ((0, 0), (0, 0), (height - 1,) * 2, (width - 1,) * 2))
    return _convolved(padded, w[:, :, ::-1, ::-1].transpose(1, 0, 2, 3))


def _means(x: Array) -> Array:
    return np.stack([part.mean(2) for part in np.array_split(x, 3, 2)], 2)


def _softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True)
    return found


def _cases() -> dict[str, Checked]:
    x, y = _int8(4, 6), _int8(4, 6)
    floats = RANDOM.uniform(-1, 1, (4, 6)).astype(np.float32)
    images = [RANDOM.uniform(-1, 1, (2, 3, 6, *(2,) * rank)).astype(np.float32) for rank in range(3)]
    parts = np.concatenate([_quantized(_real(x)), _quantized(_real(y, 0.02, -7))])
    return {
        "annotation.compiler_begin": Checked([floats], {"compiler": "c"}, floats),
        "annotation.compiler_end": Checked([floats], {"compiler": "c"}, floats),
        "debug": Checked([floats], {}, floats),
        "nn.dropout": Checked([floats], {}, floats),
        "ones": Checked([], {"shape": (2, 3), "dtype": "int8"}, np.ones((2, 3), np.int8)),
        "zeros": Checked([], {"shape": (2, 3), "dtype": "float16"}, np.zeros((2, 3), np.float16)),
        "nn.adaptive_avg_pool1d": Checked([images[0]], {"output_size": (3,)}, _means(images[0]), 1e-6),
        "nn.adaptive_avg_pool2d": Checked([images[1]], {"output_size": (3, 2)}, _means(images[1]), 1e-6),
        "nn.adaptive_avg_pool3d": Checked([images[2]], {"output_size": (3, 2, 2)}, _means(images[2]), 1e-6),
        "qnn.abs": _of_one(np.abs),
        "qnn.erf": _of_one(np.vectorize(erf)),
        "qnn.exp": _of_one(lambda x: np.exp(np.minimum(x, 10))),
        "qnn.hardswish": _of_one(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
        "qnn.leaky_relu": _of_one(lambda x: np.where(x < 0, 0.1 * x, x), alpha=0.1),
        "qnn.log": _of_one(np.log, low=ZERO + 1),
        "qnn.rsqrt": _of_one(lambda x: 1 / np.sqrt(x), low=ZERO + 1),
        "qnn.sigmoid": _of_one(lambda x: 1 / (1 + np.exp(-x))),
        "qnn.sqrt": _of_one(np.sqrt, low=ZERO),
        "qnn.tanh": _of_one(np.tanh),
        "qnn.softmax": Checked([x, *_numbers(SCALE, ZERO, 1 / 256, -128)], {}, _quantized(_softmax(_real(x)), 1 / 256, -128), 8),
        "qnn.add": _of_two(np.add),
        "qnn.subtract": _of_two(np.subtract),
        "qnn.mul": _of_two(np.multiply),
        "qnn.concatenate": Checked(
            [(x, y), tuple(_numbers(SCALE, 0.02)), tuple(_numbers(ZERO, -7)), *_numbers(OUT, OUT_ZERO)], {}, parts, 1
        ),
        "qnn.quantize": Checked([floats, *_numbers(OUT, OUT_ZERO)], {}, _quantized(floats.astype(np.float64)), 1),
        "qnn.dequantize": Checked([x, *_numbers(SCALE, ZERO)], {}, _real(x).astype(np.float32), 1e-6),
        "qnn.requantize": Checked([x, *_numbers(SCALE, ZERO, OUT, OUT_ZERO)], {}, _quantized(_real(x)), 1),
        "qnn.dense": _product(_int8(3, 5), _int8(4, 5), lambda a, b: a @ b.T),
        "qnn.batch_matmul": _product(_int8(2, 3, 5), _int8(2, 4, 5), lambda a, b: a @ b.transpose(0, 2, 1)),
        "qnn.conv2d": _product(_int8(1, 2, 4, 5), _int8(3, 2, 2, 3), _convolved),
        "qnn.conv2d_transpose": _product(_int8(1, 2, 4, 5), _int8(2, 3, 2, 3), _transposed),
        "qnn.avg_pool2d": _pooled(_int8(1, 2, 4, 4)),
    }


def _pooled(x: Array) -> Checked:
    means = x.astype(np.float64).reshape(1, 2, 2, 2, 2, 2).mean((3, 5))
    return Checked([x, *_numbers(SCALE, ZERO, OUT, OUT_ZERO)], {"pool_size": (2, 2), "strides": (2, 2)}, _quantized(_real(means)), 2)


CASES = _cases()


def test_every_kernel_is_checked() -> None:
    """Nodes of ONNX that stay as they are, and operators that tests declare, are no operators of Passat."""
    own = [op for op in list_ops() if op.is_own and not op.name.startswith("onnx.")]
    assert all(op.kernel is not None for op in own)
    assert {op.name for op in own if op not in OPS} == set(CASES)


def _type_of(value: AnyValue) -> Type:
    return TupleType(map(_type_of, value)) if isinstance(value, tuple) else TensorType(value.shape, value.dtype.name)


def _dense(value: AnyValue) -> AnyValue:
    return tuple(map(_dense, value)) if isinstance(value, tuple) else Tensor.dense(value)


@pytest.mark.parametrize("name", sorted(CASES))
def test_values_are_those_of_numpy(name: str) -> None:
    case, op = CASES[name], get_op(name)
    attrs = op.bind_attrs(case.attrs)
    found = evaluate_call(op, [_dense(operand) for operand in case.operands], attrs, op.infer(list(map(_type_of, case.operands)), attrs))
    value = found[0] if isinstance(found, tuple) else found
    assert isinstance(value, Tensor)
    assert value.dtype == case.expected.dtype.name
    np.testing.assert_allclose(value.numpy().astype(np.float64), case.expected.astype(np.float64), rtol=0, atol=case.within)
