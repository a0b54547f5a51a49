"""Corrects ONNX's shape inference where it disagrees with measured results of ONNX Runtime."""

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

from onnx import NodeProto

from passat.ir.expr import Var
from passat.ir.onnx.attributes import is_odd_flag
from passat.ir.onnx.value_types import UNKNOWN, result_types
from passat.ir.onnx_mapping import OnnxNode
from passat.ir.op import OpTypeError
from passat.ir.ops.pooling import window_counts
from passat.ir.shape import ANY, Dim, broadcast
from passat.ir.types import FuncType, TensorType, TupleType, Type

_LOSSES: Final = frozenset({"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"})
_POOLING: Final = frozenset({"AveragePool", "LpPool", "MaxPool"})

_VALUES: Final = 2
"""The index of the values among the operands of Attention."""
_PRODUCT: Final = 3
"""The index of the last output of Attention, the product of queries and keys."""
_BROADCASTING: Final = 7
"""The opset since which ONNX uses NumPy broadcasting."""
_UNITING: Final = 11
"""The opset since which ONNX's inference merges the types of both branches of an If."""


def without_doubtful(node: NodeProto, attrs: Mapping[str, AnyValue], operands: Sequence[Type], results: Sequence[Type]) -> list[Type]:
    """Returns ONNX's inferred types without the parts that ONNX Runtime contradicts.

    * Pooling before opset 22: inference counts windows that start in the padding at the end, and applies `pads` despite `auto_pad`.
    * Reductions: ONNX Runtime does not reduce negative axes of empty tensors.
    * Squeeze: ONNX Runtime treats an empty list of axes as all axes.
    * SplitToSequence: ONNX Runtime drops the split axis for pieces of size one, where ONNX ignores keepdims.
    * NonZero: for a scalar ONNX Runtime returns one row, ONNX none.
    * Losses per element: the result has the shape of the targets, even if they do not match the scores.
    * Attention: inference treats unknown sizes as 0.
    """
    if any(map(is_odd_flag, node.attribute)):
        return [UNKNOWN] * len(results)
    if len(operands) < (2 if node.op_type == "PRelu" else 1):  # missing operands are reported by the type check
        return list(results)
    if node.op_type in _POOLING and (_is_padded_alike(attrs) or attrs.get("ceil_mode")):
        return [_with_sizes(type_, 2, _windows(node.op_type, attrs, operands[0])) for type_ in results]
    if _has_paddings_of_two_kinds(node, attrs):
        return [_with_sizes(type_, 2) for type_ in results]
    if node.op_type == "Resize" and attrs.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return [_with_sizes(type_, 0) for type_ in results]
    if node.op_type == "Attention":
        return _attention(node, operands, results)
    if _reduces_nothing(node, operands) or _convolves_others(node, operands):
        return [_with_sizes(type_, 0) for type_ in results]
    if node.op_type == "Squeeze" and _no_axes(attrs, operands):
        return [UNKNOWN]
    if _splits_in_ones(node, attrs, operands):
        return [UNKNOWN] * len(results)
    if _is_places_of_a_scalar(node, operands):
        return [_with_sizes(type_, 0) for type_ in results]
    if node.op_type in _LOSSES and attrs.get("reduction") == "none" and len(operands) > 1 and results:
        return [_with_shape_of(results[0], operands[1]), *results[1:]]
    if node.op_type == "PRelu" and attrs["opset"] >= _BROADCASTING:
        return [_broadcast(*operands)]
    return list(results)


def _with_shape_of(type_: Type, target: Type) -> Type:
    """The type of a loss per element. ONNX Runtime uses the shape of the targets without checking it against the scores."""
    return type_.with_shape(target.shape) if isinstance(type_, TensorType) and isinstance(target, TensorType) else UNKNOWN


def contradiction(node: NodeProto, version: int, attrs: Mapping[str, AnyValue], operands: Sequence[Type]) -> str:
    """Describes why ONNX and ONNX Runtime compute different shapes for the results of a node; empty if they agree.

    Declared types of these results and their users may come from either inference.
    """
    if node.domain not in ("", "ai.onnx") or not operands:
        return ""
    if node.op_type == "If" and version < _UNITING and _is_open_in_one_branch(operands):
        return "has a branch with a result of unknown rank, for which ONNX assumes the rank of the other branch"
    if _is_places_of_a_scalar(node, operands):
        return "has a scalar operand, for which ONNX infers no rows and ONNX Runtime computes one"
    if _has_paddings_of_two_kinds(node, attrs):
        return "has automatic padding, which ONNX and ONNX Runtime compute differently"
    if _reduces_nothing(node, operands):
        return "has an empty operand, which ONNX and ONNX Runtime reduce differently"
    if node.op_type == "Attention" and len(operands) > _VALUES and not _has_known_end(operands[_VALUES]):
        return "has values of unknown size, which ONNX treats as 0"
    if _splits_in_ones(node, attrs, operands):
        return "drops an axis in ONNX Runtime but not in ONNX, which ignores keepdims here"
    if node.op_type == "Squeeze" and _no_axes(attrs, operands):
        data = operands[0]
        if not isinstance(data, TensorType) or any(type(dim) is not int or dim == 1 for dim in data.shape):
            return "has an empty list of axes, which ONNX and ONNX Runtime interpret differently"
    return ""


def _is_open_in_one_branch(operands: Sequence[Type]) -> bool:
    """Whether exactly one branch of an If has a result of unknown rank."""
    branches = [result_types(type_) for type_ in operands if isinstance(type_, FuncType)]
    return any(UNKNOWN in pair and pair != (UNKNOWN, UNKNOWN) for pair in zip(*branches, strict=False))


def _attention(node: NodeProto, operands: Sequence[Type], results: Sequence[Type]) -> list[Type]:
    """Drops sizes that ONNX infers as 0 because they are unknown: those of the values and of past keys.

    Neither ONNX nor ONNX Runtime checks that queries, keys and values have consistent sizes; ONNX Runtime then computes a different size.
    """
    found = list(results)
    if not all(isinstance(operand, TensorType) and operand.is_static for operand in operands if not isinstance(operand, TupleType)):
        found = [type_.with_shape(size or ANY for size in type_.shape) if isinstance(type_, TensorType) else type_ for type_ in found]
    if len(node.output) > _PRODUCT and node.output[_PRODUCT]:
        found[-1] = _with_sizes(found[-1], 3)
    batches = {operand.shape[0] for operand in operands[: _VALUES + 1] if isinstance(operand, TensorType) and operand.shape}
    return found if len(batches) == 1 else [_with_sizes(type_, 0) for type_ in found]


def _is_padded_alike(attrs: Mapping[str, AnyValue]) -> bool:
    """Whether padding is computed from the sizes."""
    return str(attrs.get("auto_pad", "NOTSET")).startswith("SAME")


def _has_paddings_of_two_kinds(node: NodeProto, attrs: Mapping[str, AnyValue]) -> bool:
    """Whether padding is computed from the sizes and combined with dilation or output padding."""
    if not _is_padded_alike(attrs):
        return False
    if node.op_type in _POOLING:
        return any(gap != 1 for gap in attrs.get("dilations", ()))
    return node.op_type == "ConvTranspose" and any(attrs.get("output_padding", ()))


def _has_known_end(type_: Type) -> bool:
    """Whether the last dimension is static."""
    return isinstance(type_, TensorType) and all(isinstance(size, int) for size in type_.shape[-1:])


def _reduces_nothing(node: NodeProto, operands: Sequence[Type]) -> bool:
    return node.op_type.startswith(("Arg", "Reduce")) and isinstance(operands[0], TensorType) and 0 in operands[0].shape


def _convolves_others(node: NodeProto, operands: Sequence[Type]) -> bool:
    """Whether the channels of a CausalConvWithState may differ from those of its weight, which determine ONNX Runtime's result."""
    if node.op_type != "CausalConvWithState":
        return False
    data, weight = operands[:2] if len(operands) > 1 else (UNKNOWN, UNKNOWN)
    if not isinstance(data, TensorType) or not isinstance(weight, TensorType) or data.ndim < 2 or not weight.ndim:
        return True
    return data.shape[1] != weight.shape[0]


def _splits_in_ones(node: NodeProto, attrs: Mapping[str, AnyValue], operands: Sequence[Type]) -> bool:
    return node.op_type == "SplitToSequence" and len(operands) > 1 and not attrs.get("keepdims", 1)


def _is_places_of_a_scalar(node: NodeProto, operands: Sequence[Type]) -> bool:
    return node.op_type == "NonZero" and isinstance(operands[0], TensorType) and not operands[0].shape


def _no_axes(attrs: Mapping[str, AnyValue], operands: Sequence[Type]) -> bool:
    """Whether the list of axes is present and empty."""
    given = operands[1] if len(operands) > 1 else UNKNOWN
    return attrs.get("axes") == () or (isinstance(given, TensorType) and 0 in given.shape)


def _broadcast(x: Type, slope: Type) -> Type:
    """ONNX broadcasts the slope to x; ONNX Runtime also broadcasts x to the slope."""
    if not isinstance(x, TensorType) or not isinstance(slope, TensorType):
        return UNKNOWN
    return x.with_shape(broadcast(x.shape, slope.shape))


def _windows(op_type: str, attrs: Mapping[str, AnyValue], data: Type) -> Sequence[Dim]:
    with contextlib.suppress(OpTypeError):  # no window fits; ONNX Runtime still returns a result
        return window_counts(OnnxNode(op_type, attrs["opset"], [Var("", data)], attrs)) or ()
    return ()


def _with_sizes(type_: Type, start: int, sizes: Sequence[Dim] = ()) -> Type:
    """Replaces the dimensions from `start` on; with unknown ones if no sizes are given."""
    if not isinstance(type_, TensorType):
        return type_
    return type_.with_shape((*type_.shape[:start], *(sizes or (ANY for _ in type_.shape[start:]))))
