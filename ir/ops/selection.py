"""Selection of elements by position or rank: one_hot, trilu, topk."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.cost import reduction
from passat.ir.dtypes import FLOATS, INTEGERS, from_numpy
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.creation import scalar_type
from passat.ir.ops.emitting import cast, part, unsqueeze
from passat.ir.ops.indexing import take
from passat.ir.ops.reshaping import int64
from passat.ir.ops.slicing import emit_slice
from passat.ir.shape import Dim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, tensor_type

_LARGEST_MASK: Final = 1 << 24
"""Maximum number of elements of a constant mask that replaces Trilu before opset 14."""

# ---- one_hot


def one_hot_array(indices: Array, on_value: Array, off_value: Array, depth: int, axis: int) -> Array:
    """`on_value` where the position along `axis` equals the index, otherwise `off_value`; negative indices count from `depth`. Fractions
    are dropped."""
    if from_numpy(indices.dtype) in FLOATS:
        given = np.trunc(indices.astype(np.promote_types(indices.dtype, np.float32)))
    else:  # an unsigned index may exceed int64; all indices that are too large are equivalent
        given = np.minimum(indices, depth).astype(np.int64) if indices.dtype.kind == "u" else indices.astype(np.int64)
    places = np.where(given < 0, given + given.dtype.type(depth), given)
    at = axis % (indices.ndim + 1)
    steps = np.arange(depth).reshape((depth,) + (1,) * (indices.ndim - at))
    return np.where(np.expand_dims(places, at) == steps, on_value, off_value)


def _one_hot(indices: Array, on_value: Array, off_value: Array, *, depth: int, axis: int, dtype: str | None) -> Array:
    return one_hot_array(indices, on_value, off_value, depth, axis)


def one_hot_type(
    indices: TensorType, on_value: TensorType, off_value: TensorType, depth: Dim, *, axis: int, dtype: str | None
) -> TensorType:
    """The type of one_hot. Raises OpTypeError."""
    kind = scalar_type(on_value, dtype, "on_value")
    scalar_type(off_value, kind, "off_value")
    if tensor_type(indices, "indices").dtype not in INTEGERS | FLOATS:
        raise OpTypeError(f"indices must be numbers, but have element type {indices.dtype}")
    rank = indices.ndim + 1
    if not -rank <= axis < rank:
        raise OpTypeError(f"axis={axis} is out of range for a result of {rank} dimensions")
    at = axis % rank
    return TensorType((*indices.shape[:at], depth, *indices.shape[at:]), kind)


@define_op("one_hot", exact="integers", kernel=_one_hot, pattern=4, shape_arith=True)
def one_hot(
    indices: TensorType, on_value: TensorType, off_value: TensorType, *, depth: int, axis: int = -1, dtype: str | None = None
) -> TensorType:
    """Inserts an axis of size `depth`, at `axis` of the result: `on_value` where its position equals the index, otherwise `off_value`.

    Indices from -depth count from the end. Indices out of range, and fractional ones, select nothing. ONNX OneHot (9, 11, 28) with a
    constant depth, Relay one_hot, which has no negative indices.
    """
    if depth < 0:
        raise OpTypeError(f"depth={depth} is negative")
    return one_hot_type(indices, on_value, off_value, depth, axis=axis, dtype=dtype)


@from_onnx("OneHot")
def _read_one_hot(node: OnnxNode) -> Expr | None:
    depth, axis = node.constant(1), node.attrs.get("axis", -1)
    if node.type(2).shape != (2,) or node.type(1).size != 1:
        return None
    off, on = (_element(node, 2, i) for i in range(2))
    if depth is not None:
        attrs = one_hot.bind_attrs({"depth": int(depth.numpy().reshape(-1)[0]), "axis": axis})
        return Call(one_hot, [node.input(0), on, off], attrs, span=node.span)
    if node.type(1).dtype not in ("int32", "int64"):
        return None
    op = get_op("dyn.one_hot")
    return Call(op, [node.input(0), node.input(1), on, off], op.bind_attrs({"axis": axis}), span=node.span)


def _element(node: OnnxNode, index: int, place: int) -> Expr:
    """One element of a vector operand, as a scalar."""
    values = node.constant(index)
    if values is not None:
        return Constant(Tensor.dense(values.numpy()[place : place + 1].reshape(())))
    attrs = take.bind_attrs({"axis": 0})
    return Call(take, [node.input(index), Constant(np.array(place, np.int64))], attrs, span=part(node.span))


@to_onnx(one_hot)
def _write_one_hot(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    depth, result = call.attrs.depth, tensor_type(call.checked_type)
    indices, values = (tensor_type(call.args[i].checked_type).dtype for i in (0, 1))
    # ONNX Runtime has kernels for some combinations of element types only.
    kind = "float32" if values == "int32" else "int32" if indices == "int32" and values in ("float16", "float32") else "int64"
    name = cast(emit, inputs[0], indices, "int64") if indices == "int32" != kind else inputs[0]
    made = emit_one_hot(call, name, emit.constant(np.array(depth or 1, kind)), inputs[1:], emit)
    if depth:
        return made
    axis = result.axis(call.attrs.axis)  # a depth of 0 is an error in ONNX Runtime
    return emit_slice(emit, made, result, {axis: (0, 0, 1)})


def emit_one_hot(call: Call, indices: str, depth: str, values: Sequence[str], emit: Emitter) -> str:
    """Emits OneHot for named `indices` and `depth`; `values` are the names of the last two operands of the call, on and off."""
    need_opset(emit, 9, one_hot)
    on, off = call.args[-2:]
    if isinstance(on, Constant) and isinstance(off, Constant):
        pair = emit.constant(np.stack([off.data.numpy(), on.data.numpy()]))
    else:
        pair = emit.node("Concat", [unsqueeze(emit, name, [0]) for name in reversed(values)], {"axis": 0})
    result = tensor_type(call.checked_type)
    if result.ndim == 1:  # OneHot takes no scalar
        return emit.node("Reshape", [emit.node("OneHot", [unsqueeze(emit, indices, [0]), depth, pair]), int64(emit, (-1,))])
    return emit.node("OneHot", [indices, depth, pair], {"axis": result.axis(call.attrs.axis)})


# ---- trilu


def _trilu(data: Array, k: int, upper: bool) -> Array:
    return np.triu(data, k) if upper else np.tril(data, k)


@define_op("trilu", exact="always", kernel=_trilu, pattern=2)
def trilu(data: TensorType, *, k: int = 0, upper: bool = True) -> TensorType:
    """The upper or lower triangle of the matrices in the last two axes, from diagonal `k`; zeros elsewhere. ONNX Trilu (14), Relay
    trilu."""
    if tensor_type(data, "data").ndim < 2 or data.dtype == "string":
        raise OpTypeError(f"data must be numbers with at least 2 dimensions, not {data!r}")
    return data


@from_onnx("Trilu")
def _read_trilu(node: OnnxNode) -> Expr | None:
    k = node.ints(1) if node.has(1) else (0,)
    if k is None or len(k) != 1:
        return None
    attrs = trilu.bind_attrs({"k": k[0], "upper": bool(node.attrs.get("upper", 1))})
    return Call(trilu, [node.input(0)], attrs, span=node.span)


@to_onnx(trilu)
def _write_trilu(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, k, upper = tensor_type(call.checked_type), call.attrs.k, call.attrs.upper
    if emit.opset >= 14:
        diagonal = [emit.constant(np.array(k, np.int64))] if k else []
        return emit.node("Trilu", [inputs[0], *diagonal], {} if upper else {"upper": 0})
    rows, columns = data.shape[-2:]
    if emit.opset < 9 or not isinstance(rows, int) or not isinstance(columns, int) or rows * columns > _LARGEST_MASK:
        raise OnnxVersionError(f"trilu of {data!r} needs ONNX opset 14 or later")
    kept = emit.constant(_trilu(np.ones((rows, columns), np.bool_), k, upper))
    return emit.node("Where", [kept, inputs[0], emit.constant(Tensor.splat(0, (), data.dtype))])


# ---- topk


def topk_arrays(data: Array, k: int, axis: int, largest: bool, sorted_: bool) -> tuple[Array, Array]:
    """The `k` largest or smallest elements along `axis`, and their indices; for ties the first.

    Raises ValueError if the order is unspecified: for NaN, or for unsorted results.
    """
    if not sorted_ or (data.dtype.kind not in "iub" and np.isnan(data).any()):
        raise ValueError("the order of the results is unspecified")
    size = data.shape[axis]
    if k > size:
        raise ValueError(f"cannot select {k} of {size} elements")
    if largest:  # sorted backward, so that ties keep their order after the reversal
        order = size - 1 - np.flip(np.argsort(np.flip(data, axis), axis, kind="stable"), axis)
    else:
        order = np.argsort(data, axis, kind="stable")
    chosen = np.take(order, range(k), axis).astype(np.int64)
    return np.take_along_axis(data, chosen, axis), chosen


def _topk(data: Array, k: int, axis: int, largest: bool, sorted: bool) -> tuple[Array, Array]:
    return topk_arrays(data, k, axis, largest, sorted)


def topk_type(data: TensorType, k: Dim, axis: int) -> TupleType:
    """The type of topk. Raises OpTypeError."""
    at = tensor_type(data, "data").axis(axis)
    size = data.shape[at]
    if isinstance(k, int) and (k < 0 or (isinstance(size, int) and k > size)):
        raise OpTypeError(f"k={k} is out of range for a size of {size}")
    values = data.with_shape((*data.shape[:at], k, *data.shape[at + 1 :]))
    return TupleType((values, values.with_dtype("int64")))


@define_op("topk", exact="always", kernel=_topk, cost=reduction, results=2)
def topk(data: TensorType, *, k: int, axis: int = -1, largest: bool = True, sorted: bool = True) -> TupleType:
    """The `k` largest (or smallest) elements along `axis`, and their int64 indices; for ties the first.

    Sorted with `sorted`, otherwise in unspecified order. ONNX TopK (1, 10, 11, 24) with a constant k; Relay's topk has other names for the
    options.
    """
    return topk_type(data, k, axis)


@from_onnx("TopK")
def _read_topk(node: OnnxNode) -> Expr | None:
    attrs = {name: bool(node.attrs.get(name, 1)) for name in ("largest", "sorted")} | {"axis": node.attrs.get("axis", -1)}
    k = node.ints(1) if node.version >= 10 else (node.attrs["k"],) if "k" in node.attrs else None
    if k is not None:
        return Call(topk, [node.input(0)], topk.bind_attrs({"k": k[0], **attrs}), span=node.span) if len(k) == 1 else None
    if not node.has(1):
        return None
    op = get_op("dyn.topk")
    return Call(op, [node.input(0), node.input(1)], op.bind_attrs(attrs), span=node.span)


@to_onnx(topk)
def _write_topk(call: Call, inputs: Sequence[str], emit: Emitter) -> Sequence[str]:
    k = call.attrs.k
    if emit.opset < 10:
        return emit.nodes("TopK", inputs, {**topk_attrs(call, emit), "k": k}, outputs=2)
    return emit.nodes("TopK", [inputs[0], int64(emit, (k,))], topk_attrs(call, emit), outputs=2)


def topk_attrs(call: Call, emit: Emitter) -> dict[str, int]:
    """The attributes of TopK. Before opset 11 results are always sorted and the largest. Raises OnnxVersionError."""
    axis = tensor_type(call.args[0].checked_type).axis(call.attrs.axis)
    if not call.attrs.largest:
        need_opset(emit, 11, topk)
    if emit.opset < 11:
        return {"axis": axis}
    return {"axis": axis, "largest": int(call.attrs.largest), "sorted": int(call.attrs.sorted)}
