"""Gather operators: take (ONNX Gather), gather (GatherElements), gather_nd."""

from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.counting import counted
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.reshaping import int64
from passat.ir.shape import ANY, may_equal
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type


def check_indices(indices: TensorType) -> TensorType:
    """Returns the type of an index tensor. Raises OpTypeError if its elements are neither int32 nor int64."""
    if tensor_type(indices, "indices").dtype not in ("int32", "int64"):
        raise OpTypeError(f"indices must be int32 or int64, but have element type {indices.dtype}")
    return indices


def _picked(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Reads the indices, and as much of the data as it writes."""
    return Cost(elements(result), nbytes(args[1]) + 2 * nbytes(result))


def _take(data: Array, indices: Array, axis: int | None) -> Array:
    if indices.dtype != np.object_:
        size = data.size if axis is None else data.shape[axis]
        if not data.size and indices.size and not -size <= indices.min() <= indices.max() < size:  # NumPy checks other data
            raise IndexError(f"an index is out of bounds for an axis of size {size}")
        return np.asarray(np.take(data, indices, axis))
    at = 0 if axis is None else axis % data.ndim
    flat = data.reshape(-1) if axis is None else data
    size = flat.shape[at]
    known = np.array([isinstance(index, int) and -size <= index < size for index in indices.flat], np.bool_).reshape(indices.shape)
    found = np.full((*flat.shape[:at], *indices.shape, *flat.shape[at + 1 :]), ANY, np.object_)
    np.moveaxis(found, range(at, at + indices.ndim), range(indices.ndim))[known] = np.moveaxis(
        np.take(flat, indices[known].astype(np.int64), at), at, 0
    )
    return found


@define_op("take", exact="always", kernel=_take, cost=_picked, pattern=2, shape_arith=True)
def take(data: TensorType, indices: TensorType, *, axis: int | None = None) -> TensorType:
    """Gathers slices of `data` along `axis`; without an axis, elements of the flattened tensor. ONNX Gather (1, 11, 13); Relay take.

    The dimensions of `indices` replace the axis. Negative indices count from the end. Indices must be in range; Relay also has modes for
    indices out of range.
    """
    check_indices(indices)
    if axis is None:
        return tensor_type(data, "data").with_shape(indices.shape)
    at = tensor_type(data, "data").axis(axis)
    return data.with_shape((*data.shape[:at], *indices.shape, *data.shape[at + 1 :]))


def clipped_indices(indices: Expr, size: int | None = None) -> Expr:
    """Indices of an axis, those outside of it replaced by its first and last one, as Relay's take does by default."""
    if isinstance(indices, Constant):
        return Constant(np.clip(indices.data.numpy(), 0, None if size is None else size - 1))
    return get_op("clip")(indices, a_min=0.0, a_max=None if size is None else float(size - 1))


@from_onnx("Gather")
def _read_gather(node: OnnxNode) -> Expr | None:
    return Call(take, [node.input(0), node.input(1)], take.bind_attrs({"axis": node.axis()}), span=node.span)


@to_onnx(take)
def _write_take(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, indices = inputs
    axis = call.attrs.axis
    if axis is None:
        data, axis = emit.node("Reshape", [data, int64(emit, (-1,))]), 0
    else:
        axis = tensor_type(call.args[0].checked_type).axis(axis)
    return emit.node("Gather", [data, indices], {"axis": axis})


def _gather(data: Array, indices: Array, axis: int) -> Array:
    at = axis % data.ndim
    window = data[tuple(slice(None) if i == at else slice(size) for i, size in enumerate(indices.shape))]
    if indices.dtype == np.object_:
        size = data.shape[at]
        if not all(isinstance(index, int) and -size <= index < size for index in indices.flat):
            return np.full(indices.shape, ANY, np.object_)
        indices = indices.astype(np.int64)
    return np.take_along_axis(window, indices, at)


@define_op("gather", exact="always", kernel=_gather, cost=_picked, pattern=2, shape_arith=True)
def gather(data: TensorType, indices: TensorType, *, axis: int = 0) -> TensorType:
    """Gathers elements of `data` along `axis`, at the positions of the elements of `indices` in the other axes. ONNX GatherElements (11,
    13), Relay gather.

    `indices` may be smaller than `data` in the other axes. Negative indices count from the end.
    """
    at = tensor_type(data, "data").axis(axis)
    if check_indices(indices).ndim != data.ndim:
        raise OpTypeError(f"data and indices must have equally many dimensions, but have {data.ndim} and {indices.ndim}")
    check_within(data, indices, at)
    return data.with_shape(indices.shape)


def check_within(data: TensorType, indices: TensorType, axis: int) -> None:
    """Raises OpTypeError if `indices` is larger than `data` in an axis other than `axis`."""
    for i, (size, wanted) in enumerate(zip(data.shape, indices.shape, strict=True)):
        if i != axis and isinstance(size, int) and isinstance(wanted, int) and wanted > size:
            raise OpTypeError(f"indices have size {wanted} in axis {i}, but data has {size}")


@from_onnx("GatherElements")
def _read_gather_elements(node: OnnxNode) -> Expr | None:
    return Call(gather, [node.input(0), node.input(1)], gather.bind_attrs({"axis": node.attrs.get("axis", 0)}), span=node.span)


@to_onnx(gather)
def _write_gather(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 11, gather)
    return emit.node("GatherElements", inputs, {"axis": tensor_type(call.checked_type).axis(call.attrs.axis)})


def _gather_nd(data: Array, indices: Array, batch_dims: int) -> Array:
    batch, length = indices.shape[:batch_dims], indices.shape[-1]
    places: tuple[Array, ...] = np.indices(batch, sparse=True)
    around = indices.ndim - 1 - batch_dims
    before = tuple(place.reshape(place.shape + (1,) * around) for place in places)
    return np.asarray(data[(*before, *(indices[..., i] for i in range(length)))])


@define_op("gather_nd", exact="always", kernel=_gather_nd, cost=_picked, pattern=2)
def gather_nd(data: TensorType, indices: TensorType, *, batch_dims: int = 0) -> TensorType:
    """Gathers slices of `data`, whose positions are vectors along the last axis of `indices`; the first `batch_dims` axes are shared.

    ONNX GatherND (11, 12, 13); Relay's gather_nd has the positions along the first axis of `indices`.
    """
    check_indices(indices)
    length = indices.shape[-1] if indices.ndim else None
    if not isinstance(length, int):
        raise OpTypeError(f"the last dimension of indices must be static, but indices are {indices!r}")
    if not 0 <= batch_dims < indices.ndim or not 1 <= length <= tensor_type(data, "data").ndim - batch_dims:
        raise OpTypeError(
            f"indices need {counted(length, 'axis')} after {counted(batch_dims, 'batch dimension')}, but data "
            f"has {counted(data.ndim, 'dimension')}"
        )
    for i, (a, b) in enumerate(zip(data.shape[:batch_dims], indices.shape, strict=False)):
        if not may_equal(a, b):
            raise OpTypeError(f"batch dimension {i} has size {a} in data but {b} in indices")
    return data.with_shape(indices.shape[:-1] + data.shape[batch_dims + length :])


@from_onnx("GatherND")
def _read_gather_nd(node: OnnxNode) -> Expr | None:
    attrs = gather_nd.bind_attrs({"batch_dims": node.attrs.get("batch_dims", 0)})
    return Call(gather_nd, [node.input(0), node.input(1)], attrs, span=node.span)


@to_onnx(gather_nd)
def _write_gather_nd(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    batch = call.attrs.batch_dims
    need_opset(emit, 12 if batch else 11, gather_nd)
    return emit.node("GatherND", inputs, {"batch_dims": batch} if batch else {})
