"""Softmax and log-softmax."""

from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import only, transpose
from passat.ir.types import TensorType, Type, tensor_type


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """An exponential and about five simple operations per element."""
    return Cost(25.0 * elements(result), nbytes(args[0]) + nbytes(result))


def _checked(data: TensorType, axis: int) -> TensorType:
    if data.dtype not in FLOATS:
        raise OpTypeError(f"data must have a floating-point type, but has {data.dtype}")
    data.axis(axis)
    return data


def _shifted(data: Array, axis: int) -> Array:
    """Subtracts the maximum along the axis, so that no exponential overflows."""
    x = wide(data)
    return x - x.max(axis, keepdims=True) if x.size else x


def _softmax(data: Array, *, axis: int) -> Array:
    powers = np.exp(_shifted(data, axis))
    return narrow(powers / powers.sum(axis, keepdims=True), data.dtype)


def _log_softmax(data: Array, *, axis: int) -> Array:
    x = _shifted(data, axis)
    return narrow(x - np.log(np.exp(x).sum(axis, keepdims=True)), data.dtype)


@define_op("nn.softmax", kernel=_softmax, cost=_cost, pattern=4)
def softmax(data: TensorType, *, axis: int = -1) -> TensorType:
    """Exponentials divided by their sum along an axis.

    ONNX: Softmax (13). Earlier versions flatten the dimensions from `axis` on, which is equivalent if at most one of them is not 1.
    """
    return _checked(data, axis)


@define_op("nn.log_softmax", kernel=_log_softmax, cost=_cost, pattern=4)
def log_softmax(data: TensorType, *, axis: int = -1) -> TensorType:
    """The logarithm of softmax along an axis, without underflow. ONNX: LogSoftmax (13); earlier versions as for `nn.softmax`."""
    return _checked(data, axis)


_OPS = {"Softmax": softmax, "LogSoftmax": log_softmax}


@from_onnx(*_OPS)
def _read(node: OnnxNode) -> Expr | None:
    data, op = node.type(0), _OPS[node.op_type]
    if not only(node, "axis") or not data.ndim:
        return None
    if node.version >= 13:
        return op(node.input(0), axis=node.attrs.get("axis", -1), span=node.span)
    axis = node.attrs.get("axis", 1)
    if not -data.ndim <= axis < data.ndim:
        return None
    flattened = [place for place in range(axis % data.ndim, data.ndim) if data.shape[place] != 1]
    if len(flattened) > 1:
        return None
    return op(node.input(0), axis=flattened[0] if flattened else axis % data.ndim, span=node.span)


def _write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    assert isinstance(call.op, Op)
    op_type = next(name for name, op in _OPS.items() if op is call.op)
    data = tensor_type(call.args[0].checked_type)
    axis = call.attrs.axis
    if emit.opset >= 13:
        return emit.node(op_type, inputs, {"axis": axis})
    axis %= data.ndim
    if all(dim == 1 for dim in data.shape[axis + 1 :]):
        return emit.node(op_type, inputs, {"axis": axis})
    swap = [*range(axis), data.ndim - 1, *range(axis + 1, data.ndim - 1), axis]
    result = emit.node(op_type, [transpose(emit, inputs[0], swap)], {"axis": data.ndim - 1})
    return transpose(emit, result, swap)


for _op in _OPS.values():
    to_onnx(_op)(_write)
