"""Scatter operators: scatter_elements and scatter_nd."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.indexing import check_indices, check_within
from passat.ir.shape import Shape, may_equal
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

_REDUCTIONS: Final = {"none": None, "add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
_SINCE: Final = {"none": 11, "add": 16, "mul": 16, "max": 18, "min": 18}


def _check(data: TensorType, updates: TensorType, expected: Shape, reduction: str) -> None:
    if reduction not in _REDUCTIONS:
        raise OpTypeError(f"reduction must be one of {', '.join(_REDUCTIONS)}, not {reduction!r}")
    if tensor_type(updates, "updates").dtype != data.dtype:
        raise OpTypeError(f"data has element type {data.dtype}, but updates have {updates.dtype}; cast one")
    if updates.ndim != len(expected) or not all(map(may_equal, updates.shape, expected)):
        raise OpTypeError(f"updates must have shape {expected}, but have {updates.shape}")


def _put(data: Array, places: tuple[Array, ...], updates: Array, reduction: str) -> Array:
    result = data.copy()
    function = _REDUCTIONS[reduction]
    if function is None:
        result[places] = updates
    else:
        function.at(result, places, updates)
    return result


def _scatter_elements(data: Array, indices: Array, updates: Array, axis: int, reduction: str) -> Array:
    places: list[Array] = list(np.indices(indices.shape, sparse=True))
    places[axis] = indices
    return _put(data, tuple(places), updates, reduction)


@define_op("scatter_elements", kernel=_scatter_elements, pattern=8)
def scatter_elements(data: TensorType, indices: TensorType, updates: TensorType, *, axis: int = 0, reduction: str = "none") -> TensorType:
    """Writes each element of `updates` into a copy of `data`, at its own position except along `axis`, where `indices` gives it.

    With a reduction (`add`, `mul`, `max`, `min`), the element is combined with the existing one. Without one, duplicate indices leave an
    unspecified element. Negative indices count from the end. ONNX ScatterElements (11, 13, 16, 18), Scatter (9), Relay scatter_elements.
    """
    at = tensor_type(data, "data").axis(axis)
    if check_indices(indices).ndim != data.ndim:
        raise OpTypeError(f"data and indices must have equally many dimensions, but have {data.ndim} and {indices.ndim}")
    check_within(data, indices, at)
    _check(data, updates, indices.shape, reduction)
    return data


def _read(op: Op, node: OnnxNode, **attrs: int) -> Expr | None:
    reduction = node.attrs.get("reduction", "none")
    if reduction != "none" and node.version < _SINCE.get(reduction, node.version + 1):
        return None
    return Call(op, [node.input(i) for i in range(3)], op.bind_attrs({**attrs, "reduction": reduction}), span=node.span)


@from_onnx("ScatterElements")
def _read_scatter_elements(node: OnnxNode) -> Expr | None:
    return _read(scatter_elements, node, axis=node.attrs.get("axis", 0))


@from_onnx("Scatter")
def _read_scatter(node: OnnxNode) -> Expr | None:
    return _read(scatter_elements, node, axis=node.attrs.get("axis", 0)) if node.version < 11 else None


@to_onnx(scatter_elements)
def _write_scatter_elements(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    axis, reduction = tensor_type(call.checked_type).axis(call.attrs.axis), call.attrs.reduction
    if reduction == "none" and emit.opset in (9, 10):
        return emit.node("Scatter", inputs, {"axis": axis})
    return emit.node("ScatterElements", inputs, {"axis": axis, **_written(scatter_elements, reduction, emit)})


def _written(op: Op, reduction: str, emit: Emitter) -> dict[str, str]:
    need_opset(emit, _SINCE[reduction], op)
    return {} if reduction == "none" else {"reduction": reduction}


def _scatter_nd(data: Array, indices: Array, updates: Array, reduction: str) -> Array:
    return _put(data, tuple(np.moveaxis(indices, -1, 0)), updates, reduction)


@define_op("scatter_nd", kernel=_scatter_nd, pattern=8)
def scatter_nd(data: TensorType, indices: TensorType, updates: TensorType, *, reduction: str = "none") -> TensorType:
    """Writes the slices `updates` into a copy of `data`, or combines them by a reduction, at positions along the last axis of `indices`.

    ONNX ScatterND (11, 13, 16, 18); Relay's scatter_nd has the positions along the first axis of `indices`.
    """
    check_indices(indices)
    length = indices.shape[-1] if indices.ndim else None
    if not isinstance(length, int) or not 1 <= length <= tensor_type(data, "data").ndim:
        raise OpTypeError(f"the last dimension of indices must be from 1 to {data.ndim}, the rank of data, but indices are {indices!r}")
    _check(data, updates, indices.shape[:-1] + data.shape[length:], reduction)
    return data


@from_onnx("ScatterND")
def _read_scatter_nd(node: OnnxNode) -> Expr | None:
    return _read(scatter_nd, node)


@to_onnx(scatter_nd)
def _write_scatter_nd(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("ScatterND", inputs, _written(scatter_nd, call.attrs.reduction, emit))
