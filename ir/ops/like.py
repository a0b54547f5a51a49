"""Relay operators that use an operand only for its shape or element type: cast_like, reshape_like, broadcast_to_like, collapse_sum_like;
and collapse_sum_to, which takes a shape.

Front ends and automatic differentiation create them before types are known. SimplifyExpr replaces them by operators with attributes.
"""

from collections.abc import Callable, Sequence

import numpy as np

from passat.ir.cost import view
from passat.ir.expr import Call
from passat.ir.onnx_mapping import TYPE_NUMBERS, Emitter, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.creation import static_sizes
from passat.ir.ops.elementwise import PLAIN, WIDE, same_type
from passat.ir.ops.emitting import reduced
from passat.ir.ops.movement import emit_expand
from passat.ir.ops.reshaping import int64
from passat.ir.shape import broadcast, may_equal, product, same_dim
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type


def _cast_like(data: Array, dtype_like: Array) -> Array:
    kernel = get_op("cast").kernel
    assert kernel is not None
    found: Array = kernel(data, dtype=dtype_like.dtype.name)
    return found


@define_op("cast_like", exact="always", kernel=_cast_like, pattern=0)
def cast_like(data: TensorType, dtype_like: TensorType) -> TensorType:
    """`data` cast to the element type of the other operand. Relay cast_like; written as Cast."""
    return same_type(data, PLAIN).with_dtype(same_type(dtype_like, PLAIN).dtype)


@to_onnx(cast_like)
def _write_cast_like(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Cast", inputs[:1], {"to": TYPE_NUMBERS[tensor_type(call.checked_type).dtype]})


@define_op("reshape_like", exact="always", kernel=lambda data, shape_like: data.reshape(shape_like.shape), cost=view, pattern=2)
def reshape_like(data: TensorType, shape_like: TensorType) -> TensorType:
    """`data` reshaped to the shape of the other operand, which has equally many elements. Relay reshape_like; written as Reshape."""
    shape = tensor_type(shape_like, "shape_like").shape
    if not may_equal(product(tensor_type(data, "data").shape), product(shape)):
        raise OpTypeError(f"data of shape {data.shape} cannot be reshaped to {shape}, which has a different number of elements")
    return data.with_shape(shape)


@to_onnx(reshape_like)
def _write_reshape_like(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _emit_reshape(emit, inputs[0], emit.node("Shape", [inputs[1]]), tensor_type(call.checked_type))


def _emit_reshape(emit: Emitter, name: str, sizes: str, result: TensorType) -> str:
    """Reshapes a value to computed sizes. Static sizes of 0 need opset 14; before, they are not supported."""
    if all(isinstance(dim, int) and dim > 0 for dim in result.shape):
        return emit.node("Reshape", [name, sizes])
    need_opset(emit, 14, reshape_like)
    return emit.node("Reshape", [name, sizes], {"allowzero": 1})


@define_op("broadcast_to_like", exact="always", kernel=lambda data, broadcast_type: np.broadcast_to(data, broadcast_type.shape), pattern=1)
def broadcast_to_like(data: TensorType, broadcast_type: TensorType) -> TensorType:
    """`data` broadcast to the shape of the other operand. Relay broadcast_to_like; written as Expand."""
    shape = tensor_type(broadcast_type, "broadcast_type").shape
    found = broadcast(tensor_type(data, "data").shape, shape)
    if len(found) != len(shape) or not all(map(may_equal, found, shape)):
        raise OpTypeError(f"data of shape {data.shape} does not broadcast to {shape}")
    return data.with_shape(shape)


@to_onnx(broadcast_to_like)
def _write_broadcast_to_like(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, result = tensor_type(call.args[0].checked_type), tensor_type(call.checked_type)
    return emit_expand(emit, inputs[0], data, result, emit.node("Shape", inputs[1:2]))


def collapsed_axes(data: TensorType, result: TensorType) -> tuple[int, ...]:
    """Returns the axes of `data` to sum so that it gets the shape of `result`.

    Raises OpTypeError unless `result` provably broadcasts to the shape of `data`.
    """
    lead = data.ndim - result.ndim
    pairs = list(zip(data.shape[max(lead, 0) :], result.shape, strict=False))
    if lead < 0 or not all(same_dim(wide, narrow) or narrow == 1 for wide, narrow in pairs):
        raise OpTypeError(f"data of shape {data.shape} does not collapse to {result.shape}")
    inner = [lead + i for i, (wide, narrow) in enumerate(pairs) if narrow == 1 and wide != 1]
    return (*range(lead), *inner)


def _collapse_sum_to(data: Array, shape: tuple[int, ...]) -> Array:
    lead = data.ndim - len(shape)
    narrowed = [lead + i for i, size in enumerate(shape) if size == 1 and data.shape[lead + i] != 1]
    kernel = get_op("sum").kernel
    axes = (*range(lead), *narrowed)
    assert kernel is not None
    found: Array = kernel(data, axis=axes, keepdims=True, exclude=False) if axes else data
    return found.reshape(shape)


def _collapse_sum_like(data: Array, collapse_type: Array) -> Array:
    return _collapse_sum_to(data, collapse_type.shape)


@define_op("collapse_sum_like", kernel=_collapse_sum_like, pattern=3)
def collapse_sum_like(data: TensorType, collapse_type: TensorType) -> TensorType:
    """The sum of `data` over the axes along which the other operand broadcasts to it: the gradient of broadcasting. Relay
    collapse_sum_like; written as ReduceSum and Reshape."""
    collapsed_axes(same_type(data, WIDE), tensor_type(collapse_type, "collapse_type"))
    return data.with_shape(collapse_type.shape)


@to_onnx(collapse_sum_like)
def _write_collapse_sum_like(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _emit_collapsed(call, inputs[0], emit, lambda: emit.node("Shape", [inputs[1]]))


def _emit_collapsed(call: Call, name: str, emit: Emitter, sizes: Callable[[], str]) -> str:
    data, result = tensor_type(call.args[0].checked_type), tensor_type(call.checked_type)
    axes = collapsed_axes(data, result)
    if not axes:
        return emit.node("Identity", [name])
    summed = reduced(emit, "ReduceSum", name, axes)
    return summed if data.ndim == result.ndim else _emit_reshape(emit, summed, sizes(), result)


@define_op("collapse_sum_to", kernel=_collapse_sum_to, pattern=3)
def collapse_sum_to(data: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    """The sum of `data` over the axes along which a tensor of this shape broadcasts to it. Relay collapse_sum_to; written as ReduceSum and
    Reshape."""
    result = same_type(data, WIDE).with_shape(static_sizes(shape))
    collapsed_axes(data, result)
    return result


@to_onnx(collapse_sum_to)
def _write_collapse_sum_to(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _emit_collapsed(call, inputs[0], emit, lambda: int64(emit, call.attrs.shape))
