"""Operators along one axis: argmax, argmin and cumulative sums."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.cost import reduction
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Kernel, Op, define_op
from passat.ir.ops.elementwise import ARITHMETIC, WIDE, in_float32, same_type
from passat.ir.ops.reduction import is_reduced
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type


def _place(function: Callable[..., AnyValue]) -> Kernel:
    def kernel(x: Array, axis: int, keepdims: bool, select_last_index: bool) -> Array:
        if not select_last_index:
            return np.asarray(function(x, axis=axis, keepdims=keepdims), np.int64)
        last = function(np.flip(x, axis), axis=axis, keepdims=keepdims)
        return np.asarray(x.shape[axis] - 1 - last, np.int64)

    return kernel


def _place_type(x: TensorType, axis: int, keepdims: bool) -> TensorType:
    gone = same_type(x, ARITHMETIC).axis(axis)
    return TensorType((*x.shape[:gone], *((1,) if keepdims else ()), *x.shape[gone + 1 :]), "int64")


@define_op("argmax", exact="integers", kernel=_place(np.argmax), cost=reduction, pattern=3)
def argmax(x: TensorType, *, axis: int = 0, keepdims: bool = False, select_last_index: bool = False) -> TensorType:
    """The int64 index of the maximum along an axis; for ties the first or the last index. ONNX ArgMax-13."""
    return _place_type(x, axis, keepdims)


@define_op("argmin", exact="integers", kernel=_place(np.argmin), cost=reduction, pattern=3)
def argmin(x: TensorType, *, axis: int = 0, keepdims: bool = False, select_last_index: bool = False) -> TensorType:
    """The int64 index of the minimum along an axis; for ties the first or the last index. ONNX ArgMin-13."""
    return _place_type(x, axis, keepdims)


def _place_mapping(op_type: str, op: Op) -> None:
    def read(node: OnnxNode) -> Expr | None:
        axis = node.axis()
        if not is_reduced(node.type(0), (axis,)):
            return None
        return op(
            node.input(0),
            axis=axis,
            keepdims=bool(node.attrs.get("keepdims", 1)),
            select_last_index=bool(node.attrs.get("select_last_index", 0)),
            span=node.span,
        )

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        # Before opset 11 axes are non-negative, so an axis as read is written unchanged, and a negative one is normalized.
        axis = tensor_type(call.args[0].checked_type).axis(call.attrs.axis)
        attrs = {"axis": axis, "keepdims": int(call.attrs.keepdims)}
        if call.attrs.select_last_index:
            need_opset(emit, 12, op)
            attrs["select_last_index"] = 1
        return emit.node(op_type, inputs, attrs)

    from_onnx(op_type)(read)
    to_onnx(op)(write)


def _from_front(axis: int, ndim: int) -> int:
    return axis + ndim if -ndim <= axis < 0 else axis


_place_mapping("ArgMax", argmax)
_place_mapping("ArgMin", argmin)


def _running_sum(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    along = np.moveaxis(x, axis, 0)
    if reverse:
        along = along[::-1]
    sums = np.cumsum(along, axis=0, dtype=x.dtype)
    if exclusive:
        sums = np.concatenate([np.zeros_like(sums[:1]), sums[:-1]])
    return np.moveaxis(sums[::-1] if reverse else sums, 0, axis)


@define_op("cumsum", exact="integers", kernel=in_float32(_running_sum), cost=reduction)
def cumsum(x: TensorType, *, axis: int, exclusive: bool = False, reverse: bool = False) -> TensorType:
    """Cumulative sums along an axis; excludes the element itself with `exclusive`, and runs from the end with `reverse`.

    ONNX CumSum-14 with a constant axis.
    """
    same_type(x, WIDE).axis(axis)
    return x


@from_onnx("CumSum")
def _read_cumsum(node: OnnxNode) -> Expr | None:
    axes = node.ints(1)
    if axes is None or len(axes) != 1:
        return None
    return cumsum(
        node.input(0),
        axis=_from_front(axes[0], node.type(0).ndim),
        exclusive=bool(node.attrs.get("exclusive", 0)),
        reverse=bool(node.attrs.get("reverse", 0)),
        span=node.span,
    )


@to_onnx(cumsum)
def _write_cumsum(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 11, cumsum)
    axis = emit.constant(np.array(call.attrs.axis, np.int64))
    attrs = {name: 1 for name in ("exclusive", "reverse") if call.attrs[name]}
    return emit.node("CumSum", [inputs[0], axis], attrs)
