"""Reshape operators: reshape, squeeze, expand_dims, nn.batch_flatten."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.cost import view
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.emitting import unsqueeze
from passat.ir.ops.newshape import reshaped, sources, static_newshape
from passat.ir.shape import Dim, is_static, may_equal, product
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

_MOST_AXES: Final = 64
"""Maximum number of dimensions of NumPy arrays."""


def int64(emit: Emitter, values: Sequence[int]) -> str:
    """Emits a constant int64 vector, the type of shapes, axes and indices in ONNX, and returns its name."""
    return emit.constant(np.array(values, np.int64))


def _reshape(data: Array, newshape: Sequence[int], allowzero: bool) -> Array:
    return data.reshape(reshaped(data.shape, newshape, allowzero))  # type: ignore[arg-type]  # static, as an array's shape is


@define_op("reshape", kernel=_reshape, cost=view, movement=True, shape_arith=True)
def reshape(data: TensorType, *, newshape: tuple[int, ...], allowzero: bool = False) -> TensorType:
    """Reshapes `data` to `newshape`, in row-major order. ONNX Reshape (5, 13, 14, 19 ... 25), Relay reshape.

    Entries of `newshape`:

    * a size;
    * 0: the size of `data` at the same position (with `allowzero`: the size 0);
    * -1, once: inferred from the number of elements;
    * -2 (Relay): all remaining sizes of `data`;
    * -3 (Relay): the product of the next two sizes;
    * -4, a, b (Relay): the next size split into a and b, one of which may be -1.

    With -2, -3 or -4, 0 refers to the next unused size of `data` rather than to the position. Raises OpTypeError if the shapes are
    static and differ in the number of elements.
    """
    tensor_type(data, "data")
    return data.with_shape(reshaped(data.shape, newshape, allowzero))


@from_onnx("Reshape")
def _read_reshape(node: OnnxNode) -> Expr | None:
    allowzero = bool(node.attrs.get("allowzero", 0))
    newshape = node.ints(1)
    if newshape is not None:
        if any(entry < -1 for entry in newshape):
            return None
        attrs = reshape.bind_attrs({"newshape": newshape, "allowzero": allowzero and 0 in newshape})
        return Call(reshape, [node.input(0)], attrs, span=node.span)
    shape = node.type(1).shape
    if len(shape) != 1 or not isinstance(shape[0], int):
        return None
    op = get_op("dyn.reshape")
    return Call(op, [node.input(0), node.input(1)], op.bind_attrs({"allowzero": allowzero}), span=node.span)


@to_onnx(reshape)
def _write_reshape(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, result = tensor_type(call.args[0].checked_type), tensor_type(call.checked_type)
    return emit_reshape(emit, inputs[0], data, result, call.attrs.newshape, allowzero=call.attrs.allowzero)


def emit_reshape(
    emit: Emitter, name: str, data: TensorType, result: TensorType, newshape: Sequence[int], *, allowzero: bool = False
) -> str:
    """Reshapes a value by name. Relay's additional entries are resolved statically if possible, otherwise at run time."""
    if any(entry < -1 for entry in newshape):
        known = static_newshape(data.shape, result.shape)
        if known is None:
            return emit.node("Reshape", [name, _emit_shape(emit, name, data, newshape)])
        newshape, allowzero = known["newshape"], known["allowzero"]
    if allowzero and emit.opset < 14:
        # 0 without allowzero copies the operand's size at that position, which is correct if that is 0 as well.
        if any(entry == 0 and (i >= data.ndim or data.shape[i] != 0) for i, entry in enumerate(newshape)):
            if not is_static(result.shape):
                raise OnnxVersionError("reshape with allowzero needs ONNX opset 14 or later")
            return emit.constant(np.empty(result.shape, to_numpy(result.dtype)))  # type: ignore[arg-type]  # static
        allowzero = False
    return emit.node("Reshape", [name, int64(emit, newshape)], {"allowzero": 1} if allowzero and 0 in newshape else {})


def _emit_shape(emit: Emitter, name: str, data: TensorType, newshape: Sequence[int]) -> str:
    """Emits the result shape of a reshape with Relay's additional entries, computed from the operand's shape at run time."""
    shape = emit.node("Shape", [name])
    parts: list[str] = []
    for entry in sources(data.ndim, newshape):
        if isinstance(entry, int):
            parts.append(int64(emit, (entry,)))
        else:
            sizes = [emit.node("Gather", [shape, int64(emit, (axis,))], {"axis": 0}) for axis in entry]
            parts.append(sizes[0] if len(sizes) == 1 else emit.node("Mul", sizes))
    return emit.node("Concat", parts, {"axis": 0})


def squeezed_axes(shape: Sequence[Dim], axis: int | Sequence[int] | None) -> list[int]:
    """Returns the non-negative axes that squeeze removes. Raises OpTypeError."""
    rank = len(shape)
    if axis is None:
        if not is_static(tuple(shape)):
            raise OpTypeError("squeeze without axis= requires a static shape; list the axes with axis=")
        return [i for i, dim in enumerate(shape) if dim == 1]
    axes = _from_front((axis,) if isinstance(axis, int) else axis, rank)
    for i in axes:
        if not may_equal(shape[i], 1):
            raise OpTypeError(f"axis {i} has size {shape[i]}; only axes of size 1 can be removed")
    return axes


def _from_front(axes: Sequence[int], rank: int) -> list[int]:
    """Returns the axes non-negative and sorted. Raises OpTypeError for axes that are out of range or duplicate."""
    if any(not -rank <= axis < rank for axis in axes):
        raise OpTypeError(f"axis={tuple(axes)} is out of range for {counted(rank, 'dimension')}")
    found = sorted({axis % rank for axis in axes})
    if len(found) != len(axes):
        raise OpTypeError(f"axis={tuple(axes)} names an axis twice")
    return found


def _canonical(axes: Sequence[int], rank: int) -> tuple[int, ...]:
    """Returns the axes non-negative and sorted; unchanged if one is invalid, which type inference reports."""
    return tuple(sorted(axis % rank for axis in axes)) if all(-rank <= axis < rank for axis in axes) else tuple(axes)


def _squeeze(data: Array, axis: int | Sequence[int] | None) -> Array:
    return np.squeeze(data, None if axis is None else tuple(squeezed_axes(data.shape, axis)))


@define_op("squeeze", kernel=_squeeze, cost=view, movement=True, shape_arith=True)
def squeeze(data: TensorType, *, axis: int | tuple[int, ...] | None = None) -> TensorType:
    """Removes axes of size 1: those in `axis`, or all of them for a static shape. ONNX Squeeze (1, 11, 13 ... 25), Relay squeeze."""
    axes = squeezed_axes(tensor_type(data, "data").shape, axis)
    return data.with_shape(dim for i, dim in enumerate(data.shape) if i not in axes)


@from_onnx("Squeeze")
def _read_squeeze(node: OnnxNode) -> Expr | None:
    data = node.type(0)
    axes = node.ints(1) if node.has(1) else node.attrs.get("axes")
    if axes is None:
        if node.has(1) or not data.is_static:
            return None
        axes = [i for i, dim in enumerate(data.shape) if dim == 1]
    elif not axes:
        return None  # runtimes disagree on an empty list of axes: none, or all of size 1
    return Call(squeeze, [node.input(0)], squeeze.bind_attrs({"axis": _canonical(axes, data.ndim)}), span=node.span)


@to_onnx(squeeze)
def _write_squeeze(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit_squeeze(emit, inputs[0], squeezed_axes(tensor_type(call.args[0].checked_type).shape, call.attrs.axis))


def emit_squeeze(emit: Emitter, name: str, axes: Sequence[int]) -> str:
    """Removes axes of size 1 of a value by name (Squeeze: axes are an input since opset 13)."""
    if not axes:
        return emit.node("Identity", [name])
    if emit.opset < 13:
        return emit.node("Squeeze", [name], {"axes": tuple(axes)})
    return emit.node("Squeeze", [name, int64(emit, axes)])


def new_axes(rank: int, axis: int | Sequence[int], num_newaxis: int = 1) -> list[int]:
    """Returns the positions in the result of the axes that expand_dims inserts, non-negative. Raises OpTypeError.

    >>> new_axes(2, -1, 2), new_axes(2, (0, -1))
    ([2, 3], [0, 3])
    """
    if isinstance(axis, int):
        if not -rank - 1 <= axis <= rank:
            raise OpTypeError(f"axis={axis} is out of range for {counted(rank, 'dimension')}")
        if not 0 <= num_newaxis <= _MOST_AXES:
            raise OpTypeError(f"num_newaxis must be from 0 to {_MOST_AXES}, not {num_newaxis}")
        first = axis if axis >= 0 else axis + rank + 1
        return list(range(first, first + num_newaxis))
    if num_newaxis != 1:
        raise OpTypeError("num_newaxis requires an integer axis; a tuple lists every new axis")
    return _from_front(axis, rank + len(axis))


def _expand_dims(data: Array, axis: int | Sequence[int], num_newaxis: int) -> Array:
    return np.expand_dims(data, tuple(new_axes(data.ndim, axis, num_newaxis)))


@define_op("expand_dims", kernel=_expand_dims, cost=view, movement=True, pattern=1, shape_arith=True)
def expand_dims(data: TensorType, *, axis: int | tuple[int, ...], num_newaxis: int = 1) -> TensorType:
    """Inserts axes of size 1. ONNX Unsqueeze (1, 11, 13 ... 25), Relay expand_dims.

    A tuple gives their positions in the result, as in ONNX. An integer, as in Relay, inserts `num_newaxis` axes before that axis of `data`;
    -1 inserts them at the end.
    """
    axes = new_axes(tensor_type(data, "data").ndim, axis, num_newaxis)
    rest = iter(data.shape)
    return data.with_shape(1 if i in axes else next(rest) for i in range(data.ndim + len(axes)))


@from_onnx("Unsqueeze")
def _read_unsqueeze(node: OnnxNode) -> Expr | None:
    axes = node.ints(1) if node.version >= 13 else node.attrs.get("axes")
    if axes is None:
        return None
    axis = _canonical(axes, node.type(0).ndim + len(axes))
    return Call(expand_dims, [node.input(0)], expand_dims.bind_attrs({"axis": axis}), span=node.span)


@to_onnx(expand_dims)
def _write_expand_dims(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    axes = new_axes(tensor_type(call.args[0].checked_type).ndim, call.attrs.axis, call.attrs.num_newaxis)
    return unsqueeze(emit, inputs[0], axes) if axes else emit.node("Identity", [inputs[0]])


def _flat_axis(rank: int, axis: int) -> int:
    if not -rank <= axis <= rank:
        raise OpTypeError(f"axis={axis} is out of range for {counted(rank, 'dimension')}")
    return axis if axis >= 0 else axis + rank


def _batch_flatten(data: Array, axis: int) -> Array:
    at = _flat_axis(data.ndim, axis)
    return data.reshape(int(np.prod(data.shape[:at], dtype=np.int64)), int(np.prod(data.shape[at:], dtype=np.int64)))


@define_op("nn.batch_flatten", kernel=_batch_flatten, cost=view, movement=True, shape_arith=True)
def batch_flatten(data: TensorType, *, axis: int = 1) -> TensorType:
    """Flattens to a matrix: the axes before `axis` become rows, the others columns. ONNX Flatten (1, 9, 11, 13 ... 25); in Relay axis is
    1."""
    at = _flat_axis(tensor_type(data, "data").ndim, axis)
    return data.with_shape((product(data.shape[:at]), product(data.shape[at:])))


@from_onnx("Flatten")
def _read_flatten(node: OnnxNode) -> Expr | None:
    return Call(batch_flatten, [node.input(0)], batch_flatten.bind_attrs({"axis": node.attrs.get("axis", 1)}), span=node.span)


@to_onnx(batch_flatten)
def _write_batch_flatten(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data = tensor_type(call.args[0].checked_type)
    if emit.opset < 9 and data.dtype not in FLOATS:  # Flatten-1 only supports floats
        form = static_newshape(data.shape, tensor_type(call.checked_type).shape)
        if form is None:
            raise OnnxVersionError(f"nn.batch_flatten of {data!r} needs ONNX opset 9 or later")
        return emit.node("Reshape", [inputs[0], int64(emit, form["newshape"])])
    return emit.node("Flatten", [inputs[0]], {"axis": _flat_axis(data.ndim, call.attrs.axis)})
