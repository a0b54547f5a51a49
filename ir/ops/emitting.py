"""Helpers of ONNX writers: nodes whose form changed between opsets, and 32-bit float attributes."""

from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Span
from passat.ir.onnx_mapping import TYPE_NUMBERS, Emitter, OnnxNode
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType


def transpose(emit: Emitter, name: str, perm: Sequence[int]) -> str:
    """Permutes the axes of a value; emits nothing for the identity permutation."""
    return name if list(perm) == sorted(perm) else emit.node("Transpose", [name], {"perm": tuple(perm)})


def unsqueeze(emit: Emitter, name: str, axes: Sequence[int]) -> str:
    """Inserts axes of size 1 (Unsqueeze: axes are an input since opset 13)."""
    if not axes:
        return name
    if emit.opset < 13:
        return emit.node("Unsqueeze", [name], {"axes": tuple(axes)})
    return emit.node("Unsqueeze", [name, emit.constant(np.array(axes, np.int64))])


def reduced(emit: Emitter, op_type: str, name: str, axes: Sequence[int]) -> str:
    """Emits a reduction that keeps its axes with size 1. Axes are an input since opset 18, for ReduceSum since opset 13."""
    keepdims = {"keepdims": 1}  # the default, but fusions of ONNX Runtime's optimizer of transformers require it
    if emit.opset < (13 if op_type == "ReduceSum" else 18):
        return emit.node(op_type, [name], {"axes": tuple(axes), **keepdims})
    return emit.node(op_type, [name, emit.constant(np.array(axes, np.int64))], keepdims)


def cast(emit: Emitter, name: str, from_dtype: str, to_dtype: str) -> str:
    """Casts a value to another element type; emits nothing if the types are equal."""
    return name if from_dtype == to_dtype else emit.node("Cast", [name], {"to": TYPE_NUMBERS[to_dtype]})


def scalar(emit: Emitter, value: float, dtype: str) -> str:
    """Emits a scalar constant and returns its name."""
    return emit.constant(Tensor.splat(value, (), dtype))


def vector_on_axis(emit: Emitter, name: str, axis: int, rank: int) -> str:
    """Reshapes a vector to broadcast along `axis` (non-negative) of a tensor of `rank` dimensions."""
    return unsqueeze(emit, name, range(1, rank - axis))


def shortest(value: float) -> float:
    """The shortest decimal that rounds to the same 32-bit float, the type of float attributes in ONNX.

    >>> shortest(9.999999747378752e-06)
    1e-05
    """
    return float(str(np.float32(value)))


def float_attr(node: OnnxNode, name: str, default: float) -> float:
    """Returns a float attribute of a node as its shortest decimal."""
    return shortest(node.attrs.get(name, default))


def only(node: OnnxNode, *names: str) -> bool:
    """Whether a node has only these attributes."""
    return all(name in names for name in node.attrs)


def part(span: Span | None) -> Span | None:
    """The span of an inner expression of an imported node: the node without its outputs."""
    return None if span is None else span._replace(outputs=())


def same_dtype(*types: TensorType) -> bool:
    """Whether all tensors have one element type."""
    return len({type_.dtype for type_ in types}) == 1
