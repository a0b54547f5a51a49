"""Tensor creation from shapes and scalars (full, zeros, ones, their `_like` forms, arange), and shape_of and ndarray_size."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import ceiling, positive_part
from passat.ir.cost import view
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Known, KnownValue, Op, OpTypeError, define_op, get_op
from passat.ir.ops.emitting import cast
from passat.ir.ops.movement import emit_expand
from passat.ir.ops.reshaping import int64
from passat.ir.ops.slicing import emit_slice
from passat.ir.shape import ANY, Dim, product
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, Type, tensor_type

_SPLATS: Final = frozenset(
    {"bool", "float16", "bfloat16", "float32", "float64"} | {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
)
"""Element types that ConstantOfShape supports in every version, and bfloat16, for which ONNX Runtime has ConstantOfShape in every opset but
no Expand."""


def scalar_type(fill_value: TensorType, dtype: str | None, what: str = "fill_value") -> str:
    """Returns the element type of a scalar operand, which must equal `dtype` if given. Raises OpTypeError."""
    if tensor_type(fill_value, what).shape:
        raise OpTypeError(f"{what} must be a scalar, but is {fill_value!r}")
    if dtype is not None and dtype != fill_value.dtype:
        raise OpTypeError(f"{what} has element type {fill_value.dtype}, but must have {dtype}; cast it")
    return fill_value.dtype


def emit_full(emit: Emitter, value: Tensor, shape: Sequence[int] | str) -> str:
    """Emits a tensor filled with the scalar `value`; its shape is static, or the name of a value.

    Uses ConstantOfShape for element types it has always supported, otherwise Expand or a constant.
    """
    if emit.opset >= 9 and value.dtype in _SPLATS:
        sizes = shape if isinstance(shape, str) else int64(emit, shape)
        return emit.node("ConstantOfShape", [sizes], {"value": Tensor.dense(value.numpy().reshape(1))})
    if isinstance(shape, str):
        need_opset(emit, 8, full)
        return emit.node("Expand", [emit.constant(value), shape])
    return emit.constant(Tensor.splat(value.uniform(), tuple(shape), value.dtype))


def _full(fill_value: Array, shape: Sequence[int], dtype: str | None) -> Array:
    return np.broadcast_to(fill_value, tuple(shape))


@define_op("full", kernel=_full, movement=True, pattern=0, shape_arith=True)
def full(fill_value: TensorType, *, shape: tuple[int, ...], dtype: str | None = None) -> TensorType:
    """A tensor of `shape` filled with the scalar `fill_value`. `dtype`, if given, must be the element type of the scalar.

    ONNX ConstantOfShape (9, 20 ... 25) of a constant shape; Relay full, which also casts.
    """
    return TensorType(static_sizes(shape), scalar_type(fill_value, dtype))


def static_sizes(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape. Raises OpTypeError unless all sizes are valid integers."""
    if any(not isinstance(dim, int) or dim < 0 for dim in shape):
        raise OpTypeError(f"shape={tuple(shape)} contains an invalid size")
    return tuple(shape)


@from_onnx("ConstantOfShape")
def _read_constant_of_shape(node: OnnxNode) -> Expr | None:
    given = node.attrs.get("value")
    if given is not None and given.size != 1:
        return None
    value = Tensor.splat(0, (), "float32") if given is None else Tensor.splat(given.numpy().reshape(()), (), given.dtype)
    shape = node.ints(0)
    if shape is not None:
        return Call(full, [Constant(value)], full.bind_attrs({"shape": shape}), span=node.span)
    sizes = node.type(0).shape
    if len(sizes) != 1 or not isinstance(sizes[0], int):
        return None
    op = get_op("dyn.full")
    return Call(op, [Constant(value), node.input(0)], op.bind_attrs({}), span=node.span)


@to_onnx(full)
def _write_full(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    fill = call.args[0]
    if isinstance(fill, Constant):
        return emit_full(emit, fill.data, call.attrs.shape)
    return emit_expand(emit, inputs[0], tensor_type(fill.checked_type), tensor_type(call.checked_type), int64(emit, call.attrs.shape))


def _uniform(value: int, shape: Sequence[int], dtype: str | np.dtype[np.generic]) -> Array:
    element = np.asarray(value, to_numpy(dtype) if isinstance(dtype, str) else dtype)
    return np.broadcast_to(element, tuple(shape))


def _zeros(shape: Sequence[int], dtype: str) -> Array:
    return _uniform(0, shape, dtype)


def _ones(shape: Sequence[int], dtype: str) -> Array:
    return _uniform(1, shape, dtype)


@define_op("zeros", exact="always", kernel=_zeros, pattern=0)
def zeros(*, shape: tuple[int, ...], dtype: str = "float32") -> TensorType:
    """A tensor of zeros. Relay zeros; written as ConstantOfShape."""
    return TensorType(static_sizes(shape), _number(dtype))


@define_op("ones", exact="always", kernel=_ones, pattern=0)
def ones(*, shape: tuple[int, ...], dtype: str = "float32") -> TensorType:
    """A tensor of ones. Relay ones; written as ConstantOfShape."""
    return TensorType(static_sizes(shape), _number(dtype))


def _number(dtype: str) -> str:
    if to_numpy(dtype) == np.object_:
        raise OpTypeError("strings have no zeros and ones")
    return dtype


def _zeros_like(data: Array) -> Array:
    return _uniform(0, data.shape, data.dtype)


def _ones_like(data: Array) -> Array:
    return _uniform(1, data.shape, data.dtype)


@define_op("zeros_like", exact="always", kernel=_zeros_like, pattern=0)
def zeros_like(data: TensorType) -> TensorType:
    """Zeros of the shape and element type of `data`. Relay zeros_like; written as ConstantOfShape."""
    _number(tensor_type(data, "data").dtype)
    return data


@define_op("ones_like", exact="always", kernel=_ones_like, pattern=0)
def ones_like(data: TensorType) -> TensorType:
    """Ones of the shape and element type of `data`. Relay ones_like; written as ConstantOfShape."""
    _number(tensor_type(data, "data").dtype)
    return data


def _full_like(data: Array, fill_value: Array) -> Array:
    return np.broadcast_to(fill_value, data.shape)


@define_op("full_like", exact="always", kernel=_full_like, pattern=0)
def full_like(data: TensorType, fill_value: TensorType) -> TensorType:
    """The scalar `fill_value` broadcast to the shape of `data`, of the same element type. Relay full_like; written as ConstantOfShape or
    Expand."""
    scalar_type(fill_value, tensor_type(data, "data").dtype)
    return data


def _write_uniform(op: Op, value: int) -> None:
    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        result = tensor_type(call.checked_type)
        return emit_full(emit, Tensor.splat(value, (), result.dtype), _shape(result, inputs, emit))

    to_onnx(op)(write)


def _shape(result: TensorType, inputs: Sequence[str], emit: Emitter) -> Sequence[int] | str:
    sizes = [dim for dim in result.shape if isinstance(dim, int)]
    return sizes if len(sizes) == result.ndim else emit.node("Shape", inputs[:1])


for _op, _value in ((zeros, 0), (ones, 1), (zeros_like, 0), (ones_like, 1)):
    _write_uniform(_op, _value)


@to_onnx(full_like)
def _write_full_like(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    result, fill = tensor_type(call.checked_type), call.args[1]
    shape = _shape(result, inputs, emit)
    if isinstance(fill, Constant):
        return emit_full(emit, fill.data, shape)
    return emit_expand(emit, inputs[1], result.with_shape(()), result, shape if isinstance(shape, str) else int64(emit, shape))


# ---- arange

_RANGES: Final = frozenset({"float32", "float64", "int16", "int32", "int64"})


def _range_length(start: Dim, stop: Dim, step: Dim) -> Dim:
    if isinstance(step, int) and step != 0:
        return ceiling(positive_part(stop - start if step > 0 else start - stop), abs(step))
    return ANY


def _arange(start: Array, stop: Array, step: Array, dtype: str | None) -> Array:
    if start.dtype == np.object_:
        first, last, stride = start.item(), stop.item(), step.item()
        count = _range_length(first, last, stride)
        if not isinstance(count, int):
            raise ValueError("the length is unknown")
        elements = np.empty(count, np.object_)
        elements[:] = [first + i * stride for i in range(count)]
        return elements
    if start.dtype.kind in "iu":
        return np.arange(int(start), int(stop), int(step), dtype=start.dtype)
    wide = np.result_type(start.dtype, np.float32) if start.dtype.kind == "f" else np.dtype(np.float32)
    begin, end, delta = (value.astype(wide) for value in (start, stop, step))
    lengths = {math.ceil((end - begin) / delta), math.ceil((float(end) - float(begin)) / float(delta))}
    if len(lengths) != 1:
        raise ValueError("the number of elements depends on rounding")
    return np.asarray(begin + np.arange(max(lengths.pop(), 0)).astype(wide) * delta).astype(start.dtype)


@define_op("arange", exact="integers", kernel=_arange, shape_arith=True)
def arange(start: Known, stop: Known, step: Known, *, dtype: str | None = None) -> TensorType:
    """`start`, `start + step` ... up to `stop`, exclusive. ONNX Range (11, 27), Relay arange.

    The operands are scalars of one element type, which `dtype` may repeat. 16-bit floats are computed in float32.
    """
    types = [scalar_type(operand.type, dtype, name) for name, operand in (("start", start), ("stop", stop), ("step", step))]
    if len(set(types)) != 1 or types[0] not in _RANGES | {"float16", "bfloat16"}:
        raise OpTypeError(f"operands must have one signed numeric type, but have {', '.join(types)}")
    bounds = [operand.dims() or [ANY] for operand in (start, stop, step)]
    return TensorType((_range_length(*(bound[0] for bound in bounds)),), types[0])


@from_onnx("Range")
def _read_range(node: OnnxNode) -> Expr | None:
    if node.type(0).dtype not in _RANGES and node.attrs.get("stash_type", 1) != 1:
        return None
    return Call(arange, [node.input(i) for i in range(3)], arange.bind_attrs({}), span=node.span)


@to_onnx(arange)
def _write_arange(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    dtype = tensor_type(call.checked_type).dtype
    fixed = [arg.data.numpy() for arg in call.args if isinstance(arg, Constant)]
    if emit.opset < 11 and len(fixed) == 3:
        return emit.constant(_arange(fixed[0], fixed[1], fixed[2], dtype))
    need_opset(emit, 11, arange)
    if dtype in _RANGES or emit.opset >= 27:
        return emit.node("Range", inputs)
    return cast(emit, emit.node("Range", [cast(emit, name, dtype, "float32") for name in inputs]), "float32", dtype)


# ---- shapes as values


def _shape_of(data: Array, start: int | None, end: int | None, dtype: str) -> Array:
    return np.array(data.shape[start:end], to_numpy(dtype))


def _known_shape(types: Sequence[Type], values: Sequence[KnownValue | None], attrs: Attrs) -> KnownValue:
    return np.array(tensor_type(types[0]).shape[attrs["start"] : attrs["end"]], np.object_)


@define_op("shape_of", exact="always", kernel=_shape_of, cost=view, pattern=8, known=_known_shape)
def shape_of(data: TensorType, *, start: int | None = None, end: int | None = None, dtype: str = "int64") -> TensorType:
    """The shape of `data` as a vector, from axis `start` up to axis `end`, exclusive, clamped as in a slice. ONNX Shape (1, 13, 15 ... 25),
    Relay shape_of."""
    return TensorType((len(tensor_type(data, "data").shape[start:end]),), _integer(dtype))


def _integer(dtype: str) -> str:
    if dtype not in ("int32", "int64"):
        raise OpTypeError(f"dtype must be int32 or int64, not {dtype!r}")
    return dtype


@from_onnx("Shape")
def _read_shape(node: OnnxNode) -> Expr | None:
    rank = node.type(0).ndim
    start, end, _ = slice(node.attrs.get("start"), node.attrs.get("end")).indices(rank)
    attrs = {"start": start or None, "end": None if end == rank else end}
    return Call(shape_of, [node.input(0)], shape_of.bind_attrs(attrs), span=node.span)


@to_onnx(shape_of)
def _write_shape_of(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    rank, attrs = tensor_type(call.args[0].checked_type).ndim, call.attrs
    start, end, _ = slice(attrs.start, attrs.end).indices(rank)
    if emit.opset >= 15:
        name = emit.node("Shape", inputs, {**({"start": start} if start else {}), **({"end": end} if end != rank else {})})
    else:
        name = emit.node("Shape", inputs)
        if (start, end) != (0, rank):
            name = emit_slice(emit, name, TensorType((rank,), "int64"), {0: (start, end, 1)})
    return _emit_integers(emit, name, attrs.dtype)


def _emit_integers(emit: Emitter, name: str, dtype: str) -> str:
    return name if dtype == "int64" else emit.node("Cast", [name], {"to": 6})


def _ndarray_size(data: Array, dtype: str) -> Array:
    return np.array(data.size, to_numpy(dtype))


def _known_size(types: Sequence[Type], values: Sequence[KnownValue | None], attrs: Attrs) -> KnownValue:
    found = np.empty((), np.object_)
    found[()] = product(tensor_type(types[0]).shape)
    return found


@define_op("ndarray_size", exact="always", kernel=_ndarray_size, cost=view, pattern=2, known=_known_size)
def ndarray_size(data: TensorType, *, dtype: str = "int64") -> TensorType:
    """The number of elements of `data`, as a scalar. ONNX Size (1, 13 ... 25), Relay ndarray_size."""
    tensor_type(data, "data")
    return TensorType((), _integer(dtype))


@from_onnx("Size")
def _read_size(node: OnnxNode) -> Expr | None:
    return Call(ndarray_size, [node.input(0)], ndarray_size.bind_attrs({}), span=node.span)


@to_onnx(ndarray_size)
def _write_ndarray_size(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _emit_integers(emit, emit.node("Size", inputs), call.attrs.dtype)
