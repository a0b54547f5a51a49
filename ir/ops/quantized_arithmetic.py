"""Arithmetic and functions of quantized tensors, such as `qnn.add`. Each operand and the result have a scale and a zero point."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import reduction
from passat.ir.counting import counted
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.elementwise import broadcast_type
from passat.ir.ops.erf import erf
from passat.ir.ops.fixed_point import away_from_zero, fixed_point_multiply, saturated
from passat.ir.ops.movement import concatenate
from passat.ir.ops.pooling import AVG
from passat.ir.ops.quantization import (
    QUANTIZED,
    along,
    check_scales,
    cost_of,
    dequantized,
    one_of,
    quantized,
    requantized,
    with_attributes_of,
)
from passat.ir.ops.unary import logistic
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, tensor_type

_BYTES: Final = frozenset({"int8", "uint8"})


def _binary_type(
    lhs: TensorType,
    rhs: TensorType,
    lhs_scale: TensorType,
    lhs_zero_point: TensorType,
    rhs_scale: TensorType,
    rhs_zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    axes: tuple[int, int],
) -> TensorType:
    result = broadcast_type((lhs, rhs), QUANTIZED)
    check_scales(lhs, lhs_scale, lhs_zero_point, axes[0], "lhs")
    check_scales(rhs, rhs_scale, rhs_zero_point, axes[1], "rhs")
    check_scales(result, output_scale, output_zero_point, None, "output")
    return result


def _sum(combine: Callable[..., Array]) -> Callable[..., Array]:
    """The kernel of a sum or difference: operands are rescaled to the scale of the result, and then combined in 32 bits."""

    def kernel(
        lhs: Array,
        rhs: Array,
        lhs_scale: Array,
        lhs_zero_point: Array,
        rhs_scale: Array,
        rhs_zero_point: Array,
        output_scale: Array,
        output_zero_point: Array,
        *,
        lhs_axis: int,
        rhs_axis: int,
    ) -> Array:
        offset = output_zero_point.reshape(())
        left = requantized(lhs, (lhs_scale, output_scale), (lhs_zero_point, offset), "int32", lhs_axis)
        right = requantized(rhs, (rhs_scale, output_scale), (rhs_zero_point, offset), "int32", rhs_axis)
        return saturated(combine(left, right, offset), lhs.dtype.name)

    return kernel


def _declare(name: str, kernel: Callable[..., Array], doc: str) -> Op:
    def relation(
        lhs: TensorType,
        rhs: TensorType,
        lhs_scale: TensorType,
        lhs_zero_point: TensorType,
        rhs_scale: TensorType,
        rhs_zero_point: TensorType,
        output_scale: TensorType,
        output_zero_point: TensorType,
        *,
        lhs_axis: int = -1,
        rhs_axis: int = -1,
    ) -> TensorType:
        scales = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
        return _binary_type(lhs, rhs, *scales, (lhs_axis, rhs_axis))

    relation.__doc__ = doc
    return define_op(name, kernel=kernel, pattern=1, non_computational=True)(relation)


quantized_add = _declare("qnn.add", _sum(lambda a, b, offset: a + b - offset), "The sum of two quantized tensors, which broadcast.")
quantized_subtract = _declare(
    "qnn.subtract", _sum(lambda a, b, offset: a - b + offset), "The difference of two quantized tensors, which broadcast."
)


def _mul(
    lhs: Array,
    rhs: Array,
    lhs_scale: Array,
    lhs_zero_point: Array,
    rhs_scale: Array,
    rhs_zero_point: Array,
    output_scale: Array,
    output_zero_point: Array,
    *,
    lhs_axis: int,
    rhs_axis: int,
) -> Array:
    left = lhs.astype(np.int32) - along(lhs_zero_point, lhs_axis, lhs.ndim)
    right = rhs.astype(np.int32) - along(rhs_zero_point, rhs_axis, rhs.ndim)
    scale = along(lhs_scale, lhs_axis, lhs.ndim) * along(rhs_scale, rhs_axis, rhs.ndim)
    factors = scale.astype(np.float64) / output_scale.reshape(()).astype(np.float64)
    return saturated(fixed_point_multiply(left * right, factors) + output_zero_point.reshape(()), lhs.dtype.name)


quantized_mul = _declare("qnn.mul", _mul, "The product of two quantized tensors, which broadcast: multiplied in 32 bits and then rescaled.")


def _unary_type(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    allowed: frozenset[str] = _BYTES,
) -> TensorType:
    one_of("the element type", x.dtype, allowed)
    check_scales(x, scale, zero_point, None)
    check_scales(x, output_scale, output_zero_point, None, "output")
    return x


def _declare_function(name: str, function: Callable[[Array], Array]) -> Op:
    """Declares the quantized form of a function of real numbers: dequantizes, computes in float32, and quantizes."""

    def kernel(x: Array, scale: Array, zero_point: Array, output_scale: Array, output_zero_point: Array) -> Array:
        real = function(dequantized(x, scale.reshape(()), zero_point.reshape(())))
        return quantized(real, output_scale.reshape(()), output_zero_point.reshape(()), x.dtype.name)

    def relation(
        x: TensorType, scale: TensorType, zero_point: TensorType, output_scale: TensorType, output_zero_point: TensorType
    ) -> TensorType:
        return _unary_type(x, scale, zero_point, output_scale, output_zero_point, _BYTES | {"int16", "uint16"})

    relation.__doc__ = f"`{name}` of a quantized tensor: computed in float32 and rounded to the scale of the result."
    return define_op(f"qnn.{name}", kernel=kernel, pattern=0, non_computational=True)(relation)


def _kernel(of: Op) -> Callable[..., AnyValue]:
    assert of.kernel is not None
    return of.kernel


_FUNCTIONS: Final[dict[str, Callable[..., Array]]] = {
    "abs": np.abs,
    "erf": lambda x: erf(x.astype(np.float64)).astype(np.float32),
    "exp": np.exp,
    "hardswish": lambda x: x * np.clip(x + np.float32(3), 0, 6) / np.float32(6),
    "log": np.log,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": logistic,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
}
FUNCTIONS: Final = {name: _declare_function(name, function) for name, function in _FUNCTIONS.items()}
"""Quantized operators, by the names of the functions of real numbers."""


def _leaky_relu(
    x: Array, input_scale: Array, input_zero_point: Array, output_scale: Array, output_zero_point: Array, *, alpha: float
) -> Array:
    offset = output_zero_point.reshape(())
    above = requantized(x, (input_scale, output_scale), (input_zero_point, offset), "int32")
    below = fixed_point_multiply(above, alpha) + fixed_point_multiply(offset, 1 - alpha)
    return saturated(np.where(x.astype(np.int32) < input_zero_point, below, above), x.dtype.name)


@define_op("qnn.leaky_relu", kernel=_leaky_relu, pattern=0, non_computational=True)
def quantized_leaky_relu(
    x: TensorType,
    input_scale: TensorType,
    input_zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    *,
    alpha: float,
) -> TensorType:
    """`nn.leaky_relu` of a quantized tensor."""
    return _unary_type(x, input_scale, input_zero_point, output_scale, output_zero_point)


def _softmax(x: Array, scale: Array, zero_point: Array, output_scale: Array, output_zero_point: Array, *, axis: int) -> Array:
    if not scale.reshape(()) <= 1:
        raise ValueError(f"the approximation needs a scale of at most 1, not {scale.item():g}")
    shifted = x.astype(np.int32) - zero_point.reshape(())
    one = np.int32(away_from_zero(1 / scale.reshape(())))
    below = shifted - shifted.max(axis, keepdims=True)
    power = below + (below >> 1) - (below >> 4)  # below times log2(e), by shifts
    whole = np.clip(np.abs(power) // one, 0, 20)
    rest = power + whole * one
    exponentials = ((rest >> 1) + one) << (whole.max(axis, keepdims=True) - whole)
    parts = ((np.int32(1 << 30) // exponentials.sum(axis, dtype=np.int32, keepdims=True)) * exponentials) >> 23
    scales = (np.asarray(1 / 128, np.float32), output_scale)
    return requantized(parts, scales, (np.zeros((), np.int32), output_zero_point), "int8")


@define_op("qnn.softmax", kernel=_softmax, cost=reduction, non_computational=True)
def quantized_softmax(
    x: TensorType,
    scale: TensorType,
    zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    *,
    axis: int = -1,
) -> TensorType:
    """An approximate softmax of int8, by shifts and one division (Lin et al., arXiv:2207.01405, algorithm 1). The scale is at most 1."""
    x.axis(axis)
    return _unary_type(x, scale, zero_point, output_scale, output_zero_point, frozenset({"int8"}))


def _avg_pool2d(
    data: Array, input_scale: Array, input_zero_point: Array, output_scale: Array, output_zero_point: Array, **attrs: AnyValue
) -> Array:
    rescaled = requantized(data, (input_scale, output_scale), (input_zero_point, output_zero_point), "int32")
    return saturated(np.trunc(_kernel(AVG[2])(rescaled.astype(np.float64), **attrs)), data.dtype.name)


def _avg_pool2d_type(
    data: TensorType,
    input_scale: TensorType,
    input_zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    **attrs: AnyValue,
) -> TensorType:
    """`nn.avg_pool2d` of a quantized tensor, with its attributes: rescaled to the scale of the result; means of integers are rounded toward
    zero."""
    _unary_type(data, input_scale, input_zero_point, output_scale, output_zero_point)
    return tensor_type(AVG[2].infer([data.with_dtype("float32")], Attrs(attrs))).with_dtype(data.dtype)


quantized_avg_pool2d = define_op("qnn.avg_pool2d", kernel=_avg_pool2d, cost=cost_of(AVG[2], 1), pattern=4, non_computational=True)(
    with_attributes_of(AVG[2], _avg_pool2d_type)
)


def _concatenate(
    data: tuple[Array, ...],
    input_scales: tuple[Array, ...],
    input_zero_points: tuple[Array, ...],
    output_scale: Array,
    output_zero_point: Array,
    *,
    axis: int,
) -> Array:
    parts = [
        requantized(part, (scale, output_scale), (zero_point, output_zero_point), part.dtype.name)
        for part, scale, zero_point in zip(data, input_scales, input_zero_points, strict=True)
    ]
    return np.concatenate(parts, axis)


@define_op("qnn.concatenate", kernel=_concatenate, pattern=2, non_computational=True)
def quantized_concatenate(
    data: TupleType,
    input_scales: TupleType,
    input_zero_points: TupleType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    *,
    axis: int = 0,
) -> TensorType:
    """`concatenate` of quantized tensors, each with its own scale and zero point: rescaled to the scale of the result, and then joined."""
    result = tensor_type(concatenate.infer([data], Attrs(axis=axis)))
    one_of("the element type", result.dtype, QUANTIZED)
    if not len(data.fields) == len(input_scales.fields) == len(input_zero_points.fields):
        counts = (
            f"{counted(len(data.fields), 'tensor')}, {counted(len(input_scales.fields), 'scale')} and "
            f"{counted(len(input_zero_points.fields), 'zero point')}"
        )
        raise OpTypeError(f"each tensor needs a scale and a zero point, but there are {counts}")
    for part, scale, zero_point in zip(data.fields, input_scales.fields, input_zero_points.fields, strict=True):
        check_scales(tensor_type(part), tensor_type(scale), tensor_type(zero_point), None, "input")
    check_scales(result, output_scale, output_zero_point, None, "output")
    return result
