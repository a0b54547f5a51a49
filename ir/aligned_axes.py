"""Aligned axes: the axes of operands whose positions are those of an axis of the result.

A call that computes each position of an axis from the same position of its operands may be computed for some positions only.
"""

from collections.abc import Callable, Sequence
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.ops.reduction import reduced_axes
from passat.ir.ops.reshaping import new_axes, squeezed_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.shape import Shape, product, same_dim
from passat.ir.types import TensorType, TupleType, Type, tensor_type

Aligned = tuple[int | None, ...]
"""For each operand its aligned axis; None if the whole operand is needed at each position."""


def aligned_axes(node: Expr, axis: int) -> Aligned | None:
    """The aligned axes of the operands of a call, of a tuple's fields, or of the tuple of a projection, whose types are known. None if a
    position of the result depends on several positions of an operand, or if the operator is none of those that are listed here.

    >>> from passat.ir.expr import var
    >>> from passat.ir.infer import infer_type
    >>> from passat.ir.op import get_op
    >>> x, w = var("x", shape=(2, 5, 8)), var("w", shape=(8, 4))
    >>> rows = infer_type(get_op("nn.matmul")(x, w))
    >>> aligned_axes(rows, 1), aligned_axes(rows, 2)
    ((1, None), None)
    """
    if isinstance(node, Tuple):
        return (axis,) * len(node.fields) if _are_alike([field.checked_type for field in node.fields], axis) else None
    if isinstance(node, TupleGetItem):
        return (axis,)
    if not isinstance(node, Call) or not isinstance(node.op, Op) or node.op.stateful:
        return None
    types, result = [arg.checked_type for arg in node.args], node.checked_type
    if node.op.elementwise:
        return _broadcast(types, result, axis)
    rule = _RULES.get(node.op.name)
    if rule is None or not types or not isinstance(types[0], TensorType if node.op.name != "concatenate" else TupleType):
        return None
    return rule(types, result, node.attrs, axis)


def _are_alike(types: Sequence[Type], axis: int) -> bool:
    """True for tensors of one rank whose sizes along the axis are equal."""
    tensors = [type_ for type_ in types if isinstance(type_, TensorType)]
    first = tensors[0] if tensors and len(tensors) == len(types) else None
    return first is not None and all(
        type_.ndim == first.ndim and axis < first.ndim and same_dim(type_.shape[axis], first.shape[axis]) for type_ in tensors
    )


def _broadcast(types: Sequence[Type], result: Type, axis: int) -> Aligned | None:
    """Of operands that broadcast."""
    assert isinstance(result, TensorType)
    found: list[int | None] = []
    for type_ in types:
        if isinstance(type_, TupleType) and not type_.fields:
            found.append(None)  # an absent operand
            continue
        if not isinstance(type_, TensorType):
            return None
        at = axis - result.ndim + type_.ndim
        if at < 0 or type_.shape[at] == 1 != result.shape[axis]:
            found.append(None)
        elif same_dim(type_.shape[at], result.shape[axis]):
            found.append(at)
        else:
            return None
    return tuple(found)


def _first(types: Sequence[Type], at: int | None) -> Aligned | None:
    """Along an axis of the first operand, and all of the others."""
    return None if at is None else (at, *(None,) * (len(types) - 1))


def _matmul(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    left, right, rank = tensor_type(types[0]), tensor_type(types[1]), tensor_type(result).ndim
    if left.ndim < 2 or right.ndim < 2 or axis == rank - 1:
        return None
    if axis == rank - 2:
        return _first(types, left.ndim - 1 if attrs.transpose_a else left.ndim - 2)
    return _broadcast(types, result, axis)


def _dense(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    return _first(types, axis if axis < tensor_type(result).ndim - 1 else None)


def _bias_add(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    return _first(types, axis if axis != tensor_type(result).axis(attrs.axis) else None)


def _other_axis(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    """Of an operator along one axis."""
    return _first(types, axis if axis != tensor_type(types[0]).axis(attrs.axis) else None)


def _leading_axis(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    """Of a normalization over the axes from one on."""
    return _first(types, axis if axis < tensor_type(result).axis(attrs.axis) else None)


def _reduction(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    rank = tensor_type(types[0]).ndim
    gone = reduced_axes(rank, attrs.axis, attrs.exclude)
    at = axis if attrs.keepdims else [place for place in range(rank) if place not in gone][axis]
    return _first(types, None if at in gone else at)


def _transpose(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    rank = tensor_type(result).ndim
    return _first(types, rank - 1 - axis if attrs.axes is None else attrs.axes[axis] % rank)


def _reshape(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    return _first(types, _kept_axis(tensor_type(types[0]).shape, tensor_type(result).shape, axis))


def _kept_axis(source: Shape, target: Shape, axis: int) -> int | None:
    """The axis of a reshaped tensor that is an axis of the result: with as many elements before it and after it."""
    before, after = product(target[:axis]), product(target[axis + 1 :])
    for at, size in enumerate(source):
        if same_dim(size, target[axis]) and same_dim(product(source[:at]), before) and same_dim(product(source[at + 1 :]), after):
            return at
    return None


def _expand_dims(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    new = new_axes(tensor_type(types[0]).ndim, attrs.axis, attrs.num_newaxis)
    return _first(types, None if axis in new else axis - sum(each < axis for each in new))


def _squeeze(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    data = tensor_type(types[0])
    gone = squeezed_axes(data.shape, attrs.axis)
    return _first(types, [place for place in range(data.ndim) if place not in gone][axis])


def _slice(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    cut = slice_parts(tensor_type(result).ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    return _first(types, None if axis in cut else axis)


def _take(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    if attrs.axis is None:
        return None
    at, count = tensor_type(types[0]).axis(attrs.axis), tensor_type(types[1]).ndim
    if at <= axis < at + count:
        return None
    return _first(types, axis if axis < at else axis - count + 1)


def _concatenate(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    return (axis,) if axis != tensor_type(result).axis(attrs.axis) else None


def _attention(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    """Of queries. A causal mask depends on their positions."""
    if axis != 1 or attrs.is_causal:
        return None
    mask = types[3]
    rows = mask.ndim - 2 if isinstance(mask, TensorType) else -1
    if rows < 0 or tensor_type(mask).shape[rows] == 1:
        return (1, None, None, None)
    return (1, None, None, rows) if same_dim(tensor_type(mask).shape[rows], tensor_type(result).shape[1]) else None


_RULES: Final[dict[str, Callable[[Sequence[Type], Type, Attrs, int], Aligned | None]]] = {
    "nn.matmul": _matmul,
    "nn.dense": _dense,
    "nn.bias_add": _bias_add,
    "nn.attention": _attention,
    "nn.softmax": _other_axis,
    "nn.log_softmax": _other_axis,
    "nn.layer_norm": _leading_axis,
    "nn.rms_norm": _leading_axis,
    **dict.fromkeys(("sum", "mean", "max", "min", "prod"), _reduction),
    "transpose": _transpose,
    "reshape": _reshape,
    "dyn.reshape": _reshape,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "strided_slice": _slice,
    "take": _take,
    "split": _other_axis,
    "concatenate": _concatenate,
}
