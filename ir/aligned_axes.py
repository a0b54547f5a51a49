"""Aligned axes: the axes of operands whose positions are those of an axis of the result.

A call that computes each position of an axis from the same position of its operands may be computed for some positions only. If each entry
of a batch selects a position of its own, the axis of the batch must be aligned, too.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Expr, Tuple, TupleGetItem
from passat.ir.op import Op
from passat.ir.ops.reduction import reduced_axes
from passat.ir.ops.reshaping import new_axes, squeezed_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.shape import Shape, product, same_dim
from passat.ir.traverse import children
from passat.ir.types import TensorType, TupleType, Type, tensor_type

Aligned = tuple[int | None, ...]
"""For each operand its aligned axis; None if the whole operand is needed at each position."""


class Place(NamedTuple):
    """The axis of a tensor of which positions are selected."""

    axis: int
    batch: int | None = None
    """The axis of a batch whose entries select one position each; None if all select the same ones."""
    shared: bool = False
    """True if the tensor broadcasts along the axis of the batch: it has size 1 there, or fewer axes, where `batch` is negative."""


Places = tuple[Place | None, ...]
"""For each operand where its positions are; None if the whole operand is needed at each position."""


def aligned_places(node: Expr, place: Place) -> Places | None:
    """Where the positions of the operands are, for some positions of the result; None if they do not align (see `aligned_axes`).

    >>> from passat.ir.expr import var
    >>> from passat.ir.infer import infer_type
    >>> from passat.ir.op import get_op
    >>> scores, mask = var("scores", shape=(2, 5, 5)), var("mask", shape=(5, 5))
    >>> aligned_places(infer_type(get_op("add")(scores, mask)), Place(1, batch=0))
    (Place(axis=1, batch=0, shared=False), Place(axis=0, batch=-1, shared=True))
    """
    axes = aligned_axes(node, place.axis)
    if axes is None:
        return None
    if place.batch is None:
        return tuple(None if axis is None else Place(axis) for axis in axes)
    batches = aligned_axes(node, place.batch)
    if batches is None:
        return None
    rank = _broadcast_rank(node, place.batch)
    found: list[Place | None] = []
    for axis, batch, part in zip(axes, batches, node.args if isinstance(node, Call) else children(node), strict=True):
        if axis is None:
            found.append(None)
        elif batch is not None:
            found.append(Place(axis, batch))
        elif rank is not None:
            found.append(Place(axis, place.batch - rank + tensor_type(part.checked_type).ndim, shared=True))
        else:
            return None
    return tuple(found)


def _broadcast_rank(node: Expr, axis: int) -> int | None:
    """The number of axes to which operands broadcast, if they broadcast along an axis of the result."""
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    if node.op.name == "nn.attention":
        return _RANK_OF_SCORES if axis == 0 else None
    rank = tensor_type(node.checked_type).ndim if isinstance(node.checked_type, TensorType) else 0
    return rank if node.op.elementwise or (node.op.name == "nn.matmul" and axis < rank - 2) else None


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


def _broadcast_to(types: Sequence[Type], result: Type, attrs: Attrs, axis: int) -> Aligned | None:
    return _broadcast(types, result, axis)


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
    """Of the batch, and of queries. A causal mask depends on their positions."""
    if axis == 2 or (axis == 1 and attrs.is_causal):
        return None
    size = tensor_type(result).shape[axis]
    if axis == 0 and not all(same_dim(tensor_type(type_).shape[0], size) for type_ in types[1:3]):
        return None
    inputs = (1, None, None) if axis else (0, 0, 0)
    mask = types[3]
    at = mask.ndim - _RANK_OF_SCORES + 2 * axis if isinstance(mask, TensorType) else -1
    if at < 0 or tensor_type(mask).shape[at] == 1:
        return (*inputs, None)
    return (*inputs, at) if same_dim(tensor_type(mask).shape[at], size) else None


_RANK_OF_SCORES: Final = 4
"""Of the scores of attention, to which masks broadcast."""


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
    "broadcast_to": _broadcast_to,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
    "strided_slice": _slice,
    "take": _take,
    "split": _other_axis,
    "concatenate": _concatenate,
}
