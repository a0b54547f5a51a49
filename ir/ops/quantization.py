"""Quantized tensors: `real = scale * (integer - zero_point)`, with one scale for all elements or one for each position along an axis.

The operators are Relay's `qnn.*`. FoldConstant keeps them (`non_computational`), so that quantized weights stay small.
"""

import inspect
from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost
from passat.ir.counting import counted
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.op import CostFunction, Op, OpTypeError, Relation, define_op
from passat.ir.ops.fixed_point import COMPUTE_DTYPES, ROUNDINGS, away_from_zero, rescaled, saturated
from passat.ir.shape import may_equal
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, Type

NARROW_QUANTIZED: Final = frozenset({"int8", "uint8", "int16", "uint16"})
QUANTIZED: Final = NARROW_QUANTIZED | {"int32"}
REQUANTIZED: Final = frozenset({"int8", "uint8", "int16", "int32"})


def one_of(what: str, found: str, allowed: frozenset[str] | tuple[str, ...]) -> None:
    """Raises OpTypeError for an element type or mode that is not allowed."""
    if found not in allowed:
        raise OpTypeError(f"{what} must be one of {', '.join(sorted(allowed))}, not {found}")


def check_scales(data: TensorType, scale: TensorType, zero_point: TensorType, axis: int | None, what: str = "") -> None:
    """Checks the scale and zero point of a tensor: scalars, or vectors along an axis. With `axis` None only scalars are allowed."""
    prefix = f"{what}_" if what else ""
    for name, found, dtype in ((f"{prefix}scale", scale, "float32"), (f"{prefix}zero_point", zero_point, "int32")):
        if found.dtype != dtype:
            raise OpTypeError(f"{name} must have element type {dtype}, not {found.dtype}")
        if all(size == 1 for size in found.shape):
            continue
        if axis is None or found.ndim != 1:
            raise OpTypeError(f"{name} must be a scalar{'' if axis is None else ' or a vector'}, but has shape {found.shape}")
        length = data.shape[data.axis(axis)] if data.ndim else 1
        if not may_equal(found.shape[0], length):
            raise OpTypeError(f"{name} has {counted(found.shape[0], 'element')}, but axis {axis} of the data has {length!r}")


def along(values: Array, axis: int, rank: int) -> Array:
    """Returns a scalar unchanged, and a vector in a shape that broadcasts along an axis of a tensor of that rank."""
    if values.size == 1:
        return values.reshape(())
    return values.reshape(-1, *(1,) * (rank - 1 - axis % rank)) if rank else values


def quantized(x: Array, scale: Array, zero_point: Array, dtype: str) -> Array:
    """Quantizes real numbers: rounds to the nearest integers, halves away from zero. The operands broadcast."""
    return saturated(away_from_zero(x / scale) + zero_point.astype(x.dtype), dtype)


def dequantized(x: Array, scale: Array, zero_point: Array) -> Array:
    """Dequantizes integers to real numbers in float32. The operands broadcast."""
    return np.asarray((x.astype(np.int32) - zero_point).astype(np.float32) * scale)


def requantized(
    x: Array,
    scales: tuple[Array, Array],
    zero_points: tuple[Array, Array],
    dtype: str,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
) -> Array:
    """Converts integers from one scale and zero point to another, `(input, output)` each; those of the input may be vectors along an
    axis."""
    shifted = x.astype(np.int32) - along(zero_points[0], axis, x.ndim)
    factors = along(scales[0], axis, x.ndim).astype(np.float64) / scales[1].reshape(()).astype(np.float64)
    return saturated(rescaled(shifted, factors, zero_points[1].reshape(()), rounding, compute_dtype), dtype)


def cost_of(real: Op, operands: int) -> CostFunction:
    """Returns the cost function of the operator on real numbers, applied to the first operands."""

    def cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
        return real.cost(args[:operands], result, attrs)

    return cost


def with_attributes_of(real: Op, relation: Relation) -> Relation:
    """A type relation with the attributes of the operator on real numbers instead of `**attrs`; its own replace those of the same name."""
    own = list(inspect.signature(relation).parameters.values())[:-1]
    operands = [parameter for parameter in own if parameter.kind is not parameter.KEYWORD_ONLY]
    added = own[len(operands) :]
    attrs = [*(each for each in real.attr_params.values() if each.name not in {own.name for own in added}), *added]
    relation.__signature__ = inspect.Signature([*operands, *attrs], return_annotation=TensorType)  # type: ignore[attr-defined]  # see `inspect`
    return relation


def _quantize(data: Array, scale: Array, zero_point: Array, *, out_dtype: str, axis: int) -> Array:
    return quantized(data, along(scale, axis, data.ndim), along(zero_point, axis, data.ndim), out_dtype)


@define_op("qnn.quantize", kernel=_quantize, pattern=0, non_computational=True)
def quantize(
    data: TensorType, output_scale: TensorType, output_zero_point: TensorType, *, out_dtype: str = "int8", axis: int = -1
) -> TensorType:
    """Quantizes real numbers: `round(data / output_scale) + output_zero_point`, with saturation. Halves are rounded away from zero."""
    one_of("the element type", data.dtype, ("float32",))
    one_of("out_dtype", out_dtype, QUANTIZED)
    check_scales(data, output_scale, output_zero_point, axis, "output")
    return data.with_dtype(out_dtype)


def _dequantize(data: Array, scale: Array, zero_point: Array, *, out_dtype: str, axis: int) -> Array:
    real = dequantized(data, along(scale, axis, data.ndim), along(zero_point, axis, data.ndim))
    return np.clip(real, np.finfo(np.float16).min, np.finfo(np.float16).max).astype(np.float16) if out_dtype == "float16" else real


@define_op("qnn.dequantize", kernel=_dequantize, pattern=0, non_computational=True)
def dequantize(
    data: TensorType, input_scale: TensorType, input_zero_point: TensorType, *, out_dtype: str = "float32", axis: int = -1
) -> TensorType:
    """Dequantizes integers: `input_scale * (data - input_zero_point)`."""
    one_of("the element type", data.dtype, QUANTIZED)
    one_of("out_dtype", out_dtype, ("float16", "float32"))
    check_scales(data, input_scale, input_zero_point, axis, "input")
    return data.with_dtype(out_dtype)


def _requantize(
    data: Array,
    input_scale: Array,
    input_zero_point: Array,
    output_scale: Array,
    output_zero_point: Array,
    *,
    axis: int,
    rounding: str,
    compute_dtype: str,
    out_dtype: str,
) -> Array:
    scales, zero_points = (input_scale, output_scale), (input_zero_point, output_zero_point)
    return requantized(data, scales, zero_points, out_dtype, axis, rounding, compute_dtype)


@define_op("qnn.requantize", kernel=_requantize, pattern=0, non_computational=True)
def requantize(
    data: TensorType,
    input_scale: TensorType,
    input_zero_point: TensorType,
    output_scale: TensorType,
    output_zero_point: TensorType,
    *,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> TensorType:
    """Converts integers from one scale and zero point to another.

    `rounding` is UPWARD (halves toward positive infinity) or TONEAREST (halves away from zero). `compute_dtype` is the type in which the
    factor of the scales is multiplied: int64 (by a multiplier of 32 bits and a shift), float32 or float64. "None" is UPWARD and int64.
    """
    one_of("the element type", data.dtype, REQUANTIZED | {"int64"})
    one_of("out_dtype", out_dtype, REQUANTIZED)
    one_of("rounding", rounding, ROUNDINGS)
    one_of("compute_dtype", compute_dtype, COMPUTE_DTYPES)
    check_scales(data, input_scale, input_zero_point, axis, "input")
    check_scales(data, output_scale, output_zero_point, None, "output")
    return data.with_dtype(out_dtype)


def region_before(end: Expr) -> list[Call] | None:
    """The calls from qnn.dequantize to an expression, operands first; None if anything but calls, tuples and constants is among them."""
    nodes = post_order(end, into=lambda node: not (isinstance(node, Call) and node.op is dequantize))
    if all(isinstance(node, (Call, Op, Tuple, TupleGetItem, Constant)) for node in nodes):
        return [node for node in nodes if isinstance(node, Call)]
    return None
