"""The `dyn.*` operators, whose shapes, positions and counts are operands computed at run time. Shape inference uses the known elements of
these.

`passat.ir.ops.static_forms` converts a call to the operator with attributes once enough is known.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.cost import reduction, view
from passat.ir.counting import counted
from passat.ir.expr import Call, Constant
from passat.ir.onnx_mapping import Emitter, need_opset, to_onnx
from passat.ir.op import Known, OpTypeError, define_op
from passat.ir.ops.creation import emit_full, scalar_type
from passat.ir.ops.movement import tiled
from passat.ir.ops.newshape import reshaped
from passat.ir.ops.padding import pad_array, padded, zip_pads
from passat.ir.ops.reshaping import int64
from passat.ir.ops.selection import emit_one_hot, one_hot_array, one_hot_type, topk_arrays, topk_attrs, topk_type
from passat.ir.ops.slicing import clamped, selected_cost, slice_length
from passat.ir.shape import ANY, Dim, broadcast
from passat.ir.tensor import Array
from passat.ir.types import IncompleteType, TensorType, TupleType, Type, tensor_type

UNKNOWN: Final = IncompleteType()
"""The type of a tensor whose rank is known only at run time."""


def vector(operand: Known, what: str) -> list[Dim] | None:
    """Returns the known elements of a vector of integers; None if its length is unknown. Raises OpTypeError for other types."""
    type_ = operand.type
    if type_.ndim != 1 or type_.dtype not in ("int32", "int64"):
        raise OpTypeError(f"{what} must be a vector of int32 or int64, but is {type_!r}")
    return operand.dims()


def _sizes(operand: Known, what: str, lowest: int = 0) -> list[Dim] | None:
    dims = vector(operand, what)
    for dim in dims or ():
        if isinstance(dim, int) and dim < lowest:
            raise OpTypeError(f"{what} has the invalid entry {dim}")
    return dims


def _one(operand: Known, what: str) -> Dim:
    if operand.type.size != 1 or operand.type.dtype not in ("int32", "int64"):
        raise OpTypeError(f"{what} must be a single int32 or int64, but is {operand.type!r}")
    return (operand.dims() or [ANY])[0]


def _elements(array: Array) -> list[Dim]:
    return array.reshape(-1).tolist()


def _integers(array: Array) -> list[int]:
    elements = _elements(array)
    found = [element for element in elements if isinstance(element, int)]
    if len(found) != len(elements):
        raise ValueError("an element is unknown")
    return found


def _as_int64(emit: Emitter, name: str, type_: Type) -> str:
    return name if tensor_type(type_).dtype == "int64" else emit.node("Cast", [name], {"to": 7})


def _reshape(data: Array, shape: Array, allowzero: bool) -> Array:
    return data.reshape(reshaped(data.shape, _elements(shape), allowzero))  # type: ignore[arg-type]  # all integers, or reshape raises


@define_op("dyn.reshape", exact="always", kernel=_reshape, cost=view, pattern=2, shape_arith=True)
def dyn_reshape(data: TensorType, shape: Known, *, allowzero: bool = False) -> Type:
    """Reshapes `data` to the shape in the vector `shape`, in row-major order. ONNX Reshape (5, 13, 14 ... 25).

    An entry of 0 copies the size from `data` (unless `allowzero`), and one entry may be -1 for the remaining elements. Symbolic entries
    count as sizes, although they may be 0 at run time. One unknown entry is inferred from the number of elements.
    """
    dims = _sizes(shape, "shape", -1)
    return UNKNOWN if dims is None else data.with_shape(reshaped(tensor_type(data, "data").shape, dims, allowzero))


@to_onnx(dyn_reshape)
def _write_reshape(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    if call.attrs.allowzero:
        need_opset(emit, 14, dyn_reshape)
    shape = _as_int64(emit, inputs[1], call.args[1].checked_type)
    return emit.node("Reshape", [inputs[0], shape], {"allowzero": 1} if call.attrs.allowzero else {})


def _broadcast_to(data: Array, shape: Array) -> Array:
    return np.broadcast_to(data, broadcast(data.shape, tuple(_elements(shape))))  # type: ignore[arg-type]  # as above


@define_op("dyn.broadcast_to", exact="always", kernel=_broadcast_to, pattern=2, shape_arith=True)
def dyn_broadcast_to(data: TensorType, shape: Known) -> Type:
    """`data` broadcast with the shape in `shape`. ONNX Expand (8, 13)."""
    dims = _sizes(shape, "shape")
    return UNKNOWN if dims is None else data.with_shape(broadcast(tensor_type(data, "data").shape, tuple(dims)))


@to_onnx(dyn_broadcast_to)
def _write_broadcast_to(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 8, dyn_broadcast_to)
    return emit.node("Expand", [inputs[0], _as_int64(emit, inputs[1], call.args[1].checked_type)])


def _full(fill_value: Array, shape: Array, dtype: str | None) -> Array:
    return np.broadcast_to(fill_value, _integers(shape))


@define_op("dyn.full", exact="always", kernel=_full, pattern=0, shape_arith=True)
def dyn_full(fill_value: TensorType, shape: Known, *, dtype: str | None = None) -> Type:
    """A tensor of the shape in `shape`, filled with the scalar `fill_value`. ONNX ConstantOfShape (9, 20 ... 25)."""
    dims, kind = _sizes(shape, "shape"), scalar_type(fill_value, dtype)
    return UNKNOWN if dims is None else TensorType(tuple(dims), kind)


@to_onnx(dyn_full)
def _write_full(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    fill, shape = call.args[0], _as_int64(emit, inputs[1], call.args[1].checked_type)
    if isinstance(fill, Constant):
        return emit_full(emit, fill.data, shape)
    need_opset(emit, 8, dyn_full)
    return emit.node("Expand", [inputs[0], shape])


def _strided_slice(data: Array, begin: Array, end: Array, strides: Array, axes: Array) -> Array:
    parts: list[slice] = [slice(None)] * data.ndim
    for axis, *part in zip(*map(_integers, (axes, begin, end, strides)), strict=True):
        parts[axis] = clamped(data.shape[axis], *part)
    return data[tuple(parts)]


@define_op("dyn.strided_slice", exact="always", kernel=_strided_slice, cost=selected_cost, pattern=2, shape_arith=True)
def dyn_strided_slice(data: TensorType, begin: Known, end: Known, strides: Known, axes: Known) -> TensorType:
    """The elements from `begin` up to `end`, exclusive, in steps of `strides` along `axes`, as in strided_slice. ONNX Slice (10, 11,
    13)."""
    rank = tensor_type(data, "data").ndim
    operands = {"begin": begin, "end": end, "strides": strides, "axes": axes}
    parts = [vector(operand, what) for what, operand in operands.items()]
    known = [part for part in parts if part is not None]
    if len({len(part) for part in known}) > 1:
        raise OpTypeError("begin, end, strides and axes have different lengths")
    shape: list[Dim] = list(data.shape)
    places = parts[3]
    seen: set[int] = set()
    if len(known) != 4 or places is None or not all(isinstance(axis, int) for axis in places):
        return data.with_shape((ANY,) * rank)
    for first, last, stride, axis in zip(*known, strict=True):
        if not isinstance(axis, int) or not -rank <= axis < rank:
            raise OpTypeError(f"axis {axis} is out of range for {counted(rank, 'dimension')}")
        if axis % rank in seen:
            raise OpTypeError(f"axes={tuple(places)} names an axis twice")
        if stride == 0:
            raise OpTypeError("a stride is 0")
        seen.add(axis % rank)
        shape[axis] = slice_length(shape[axis], first, last, stride)
    return data.with_shape(shape)


@to_onnx(dyn_strided_slice)
def _write_strided_slice(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 10, dyn_strided_slice)
    data, begin, end, strides, axes = inputs
    if not tensor_type(call.args[0].checked_type).ndim:
        return emit.node("Identity", [data])  # ONNX Runtime slices and pads no scalars
    parts = [begin, end, axes, strides]
    types = [tensor_type(call.args[i].checked_type) for i in (1, 2, 4, 3)]
    if len({type_.dtype for type_ in types}) > 1:
        parts = [_as_int64(emit, name, type_) for name, type_ in zip(parts, types, strict=True)]
    return emit.node("Slice", [data, *parts])


def _tile(data: Array, reps: Array) -> Array:
    return np.tile(data, _integers(reps))


@define_op("dyn.tile", exact="always", kernel=_tile, pattern=2, shape_arith=True)
def dyn_tile(data: TensorType, reps: Known) -> TensorType:
    """`data` repeated along each axis by the counts in the vector `reps`. ONNX Tile (6, 13)."""
    dims = _sizes(reps, "reps") or [ANY] * tensor_type(data, "data").ndim
    if len(dims) != data.ndim:
        raise OpTypeError(f"reps has {counted(len(dims), 'entry')}, but data has {counted(data.ndim, 'dimension')}")
    return data.with_shape(tiled(data.shape, dims))


@to_onnx(dyn_tile)
def _write_tile(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Tile", [inputs[0], _as_int64(emit, inputs[1], call.args[1].checked_type)])


def _pad(data: Array, pad_width: Array, pad_value: Array, pad_mode: str) -> Array:
    widths = _integers(pad_width)
    return pad_array(data, list(zip(widths[: data.ndim], widths[data.ndim :], strict=True)), pad_mode, pad_value.reshape(()))


@define_op("dyn.pad", exact="always", kernel=_pad, pattern=2, shape_arith=True)
def dyn_pad(data: TensorType, pad_width: Known, pad_value: TensorType, *, pad_mode: str = "constant") -> TensorType:
    """`data` padded, as in nn.pad, by the widths in the vector `pad_width`: first those before each axis, then those after.

    ONNX Pad (11, 13, 18 ... 25); Relay's dyn.nn.pad takes pairs of widths.
    """
    rank = tensor_type(data, "data").ndim
    if tensor_type(pad_value, "pad_value").dtype != data.dtype or pad_value.size != 1:
        raise OpTypeError(f"pad_value must be a single {data.dtype}, but is {pad_value!r}")
    dims = vector(pad_width, "pad_width") or [ANY] * (2 * rank)
    if len(dims) != 2 * rank:
        raise OpTypeError(f"pad_width has {counted(len(dims), 'entry')} for {counted(rank, 'dimension')}")
    return data.with_shape(padded(data.shape, zip_pads(dims), pad_mode))


@to_onnx(dyn_pad)
def _write_pad(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 19 if call.attrs.pad_mode == "wrap" else 11, dyn_pad)
    data, widths, value = inputs
    if not tensor_type(call.args[0].checked_type).ndim:
        return emit.node("Identity", [data])
    return emit.node("Pad", [data, _as_int64(emit, widths, call.args[1].checked_type), value], {"mode": call.attrs.pad_mode})


def _one_hot(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int, dtype: str | None) -> Array:
    return one_hot_array(indices, on_value, off_value, int(depth.reshape(())), axis)


@define_op("dyn.one_hot", exact="integers", kernel=_one_hot, pattern=4, shape_arith=True)
def dyn_one_hot(
    indices: TensorType, depth: Known, on_value: TensorType, off_value: TensorType, *, axis: int = -1, dtype: str | None = None
) -> TensorType:
    """one_hot with the size of the new axis given by the integer operand `depth`. ONNX OneHot (9, 11, 28)."""
    return one_hot_type(indices, on_value, off_value, _one(depth, "depth"), axis=axis, dtype=dtype)


@to_onnx(dyn_one_hot)
def _write_one_hot(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit_one_hot(call, inputs[0], inputs[1], inputs[2:], emit)


def _topk(data: Array, k: Array, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    return topk_arrays(data, int(k.reshape(())), axis, largest, sorted)


@define_op("dyn.topk", exact="always", kernel=_topk, cost=reduction, results=2)
def dyn_topk(data: TensorType, k: Known, *, axis: int = -1, largest: bool = True, sorted: bool = True) -> TupleType:
    """topk with the number of elements given by the integer operand `k`. ONNX TopK (10, 11, 24)."""
    return topk_type(data, _one(k, "k"), axis)


@to_onnx(dyn_topk)
def _write_topk(call: Call, inputs: Sequence[str], emit: Emitter) -> Sequence[str]:
    need_opset(emit, 10, dyn_topk)
    k = _as_int64(emit, inputs[1], call.args[1].checked_type)
    if tensor_type(call.args[1].checked_type).ndim != 1:
        k = emit.node("Reshape", [k, int64(emit, (1,))])
    return emit.nodes("TopK", [inputs[0], k], topk_attrs(call, emit), outputs=2)
