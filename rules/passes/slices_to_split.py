"""The pass SlicesToSplit: replaces slices that partition a tensor by one split.

Exporters write chunks of a tensor as slices, as a split, or as a sequence whose elements are read one by one; one split is a single node.
Needs all slices of a tensor at once, so it is a walk, not a rule.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from passat.ir.expr import Call, Constant, Expr, Function, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import call_op, get_op
from passat.ir.traverse import post_order, rewrite
from passat.ir.types import TensorType
from passat.passmgr import FunctionPass, PassContext, PassInfo, register_pass


@register_pass("relay._transform.SlicesToSplit")
@dataclass(frozen=True)
class SlicesToSplit(FunctionPass):
    """Replaces slices that partition a tensor along one axis by a split: at least two, without gaps. Elements of sequences from
    SplitToSequence count as slices."""

    info = PassInfo(2, "SlicesToSplit", ["InferType"], provides=("types",), preserves=("types",), after=["SimplifyShapes"])

    def transform_function(self, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        """Joins the slices of one function."""
        return slices_to_split(slice_sequences(func))


def slice_sequences(function: Function) -> Function:
    """The function with slices for the elements of sequences that ONNX's SplitToSequence makes; itself if there are none.

    Keeps a sequence if sizes or positions are unknown, or the element does not exist.
    """

    def slice_part(old: Expr, new: Expr) -> Expr:
        if not isinstance(old, Call) or old.op is not get_op("onnx.SequenceAt"):
            return new
        whole = old.args[0]
        if not isinstance(whole, Call) or whole.op is not get_op("onnx.SplitToSequence") or old.attrs.outputs != "1":
            return new
        cut = _element(whole, old.args[1])
        if cut is None:
            return new
        assert isinstance(new, Call)
        assert isinstance(new.args[0], Call)
        axis, part = cut
        attrs = {"begin": (part.start,), "end": (part.stop,), "strides": (1,), "axes": (axis,)}
        return call_op("strided_slice", new.args[0].args[0], span=new.span, **attrs)

    made = rewrite(function, slice_part)
    return function if made is function else infer_type(made)


def _element(whole: Call, place: Expr) -> tuple[int, range] | None:
    """The axis along which a sequence is split, and the range of one of its elements."""
    type_, axis = whole.args[0].checked_type, whole.attrs.get("axis", 0)
    if not isinstance(type_, TensorType) or not isinstance(place, Constant):
        return None
    if not -type_.ndim <= axis < type_.ndim or place.data.size != 1:
        return None
    if not whole.attrs.get("keepdims", 1):
        return None  # splitting into pieces of size 1 drops the axis, in ONNX Runtime with or without the sizes
    size = type_.shape[axis]
    lengths = _lengths(whole, size) if isinstance(size, int) else None
    if lengths is None:
        return None
    index = int(place.data.numpy().reshape(-1)[0])
    if sum(lengths) != size or not -len(lengths) <= index < len(lengths):
        return None
    begin = sum(lengths[: index % len(lengths)])
    return axis % type_.ndim, range(begin, begin + lengths[index])


def _lengths(whole: Call, size: int) -> list[int] | None:
    """The sizes of the parts of an axis; None if unknown, or if the parts lose the axis."""
    if len(whole.args) == 1:
        return [1] * size if whole.attrs.get("keepdims", 1) else None
    sizes = whole.args[1]
    if not isinstance(sizes, Constant):
        return None
    lengths = [int(length) for length in sizes.data.numpy().reshape(-1)]
    if not lengths or min(lengths) < 0:
        return None
    if not sizes.data.shape:  # one number: parts of that size, and the remainder
        return [min(lengths[0], size - begin) for begin in range(0, size, lengths[0])] if lengths[0] else []
    return lengths


def slices_to_split(function: Function) -> Function:
    """The function with splits for slices that partition a tensor; itself if there are none."""
    found: dict[tuple[int, int], dict[range, list[Call]]] = {}
    for node in post_order(function):
        if isinstance(node, Call) and node.op is get_op("strided_slice"):
            cut = _cut(node)
            if cut is not None:
                axis, span = cut
                found.setdefault((id(node.args[0]), axis), {}).setdefault(span, []).append(node)
    parts: dict[int, tuple[Call, int]] = {}
    for (_, axis), slices in found.items():
        spans = sorted(slices, key=lambda span: span.start)
        whole = slices[spans[0]][0].args[0]
        if not _are_parts(spans, whole, axis):
            continue
        places: int | tuple[int, ...] = tuple(span.start for span in spans[1:])
        if len({len(span) for span in spans}) == 1:
            places = len(spans)
        made = call_op("split", whole, indices_or_sections=places, axis=axis, span=slices[spans[0]][0].span)
        parts.update((id(call), (made, index)) for index, span in enumerate(spans) for call in slices[span])
    if not parts:
        return function
    splits: dict[int, Expr] = {}

    def join(old: Expr, new: Expr) -> Expr:
        if id(old) not in parts:
            return new
        assert isinstance(new, Call)
        split, index = parts[id(old)]
        made = splits.setdefault(id(split), Call(split.op, (new.args[0],), split.attrs, span=split.span))
        return TupleGetItem(made, index)

    return infer_type(rewrite(function, join))


def _cut(call: Call) -> tuple[int, range] | None:
    """The single axis that a slice cuts, and its range; None if the slice is whole or empty, cuts several axes, or has steps."""
    type_, attrs = call.args[0].checked_type, call.attrs
    if not isinstance(type_, TensorType) or attrs.axes is None or len(attrs.axes) != 1 or (attrs.strides or (1,))[0] != 1:
        return None
    axis = type_.axis(attrs.axes[0])
    size = type_.shape[axis]
    span = range(size)[slice(attrs.begin[0], attrs.end[0])] if isinstance(size, int) else range(0)
    return (axis, span) if len(span) > 0 and span != range(size) else None  # type: ignore[arg-type]  # an int where the span is not empty


def _are_parts(spans: Sequence[range], whole: Expr, axis: int) -> bool:
    """True if sorted ranges partition an axis."""
    type_ = whole.checked_type
    assert isinstance(type_, TensorType)
    ends = [0, *(span.stop for span in spans)]
    return len(spans) > 1 and ends[-1] == type_.shape[axis] and all(span.start == end for span, end in zip(spans, ends, strict=False))
