"""Slices: strided_slice with ONNX's clamping, reverse, and composition of slices on static and symbolic sizes."""

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import FAR, at_least, ceiling, positive_part, smaller
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.counting import counted
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, to_onnx
from passat.ir.op import ENTRY_LIMIT, OpTypeError, define_op, get_op
from passat.ir.ops.reshaping import int64
from passat.ir.shape import ANY, Any, Dim, Shape
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, Type, tensor_type

END: Final = 2**63 - 1
"""The end of a slice up to the end of an axis of any size; negated for a backward slice."""


def clamped(size: int, begin: int, end: int, stride: int) -> slice:
    """Clamps a slice as ONNX Runtime does.

    This is NumPy's clamping with two differences: a backward slice begins at the first element at the earliest, and it extends to the front
    if its end is `END` or `FAR`.

    >>> clamped(4, -9, -9, -1).indices(4), slice(-9, -9, -1).indices(4)
    ((0, -1, -1), (-1, -1, -1))
    """
    if stride > 0:
        return slice(begin, end, stride)
    return slice(max(begin, -size), -END if _goes_to_the_front(end) else end, stride)


def _goes_to_the_front(end: Dim) -> bool:
    return isinstance(end, int) and (end <= -FAR or end in (FAR, END))


def goes_past_the_end(attrs: Mapping[str, AnyValue]) -> bool:
    """Whether a backward slice ends at `END` or `FAR`, which ONNX Runtime's shape inference clamps to the last element, and its kernel does
    not. It is rewritten (`emit_slice`)."""
    return any(stride < 0 and end in (FAR, END) for end, stride in zip(attrs["end"], attrs["strides"] or (), strict=False))


def taken_places(size: int, begin: int, end: int, stride: int) -> range:
    """The positions of an axis that a slice selects."""
    return range(*clamped(size, begin, end, stride).indices(size))


def slice_length(size: Dim, begin: Dim, end: Dim, stride: Dim) -> Dim:
    """The length of a slice, with indices clamped as in ONNX Slice. Integers from 2^31-1 on mean the end of the axis.

    >>> from passat.ir.shape import SymDim
    >>> n = SymDim.named("n")
    >>> slice_length(10, -3, END, 2), slice_length(n, 0, END, 1), slice_length(n + 4, 1, -1, 1), slice_length(n, -1, -END, -1)
    (2, n, n + 2, n)
    >>> slice_length(n, 2, END, 1), slice_length(n, 0, 8, 1)
    (max(0, n - 2), min(8, n))
    """
    if isinstance(size, int) and isinstance(begin, int) and isinstance(end, int) and isinstance(stride, int):
        return len(taken_places(size, begin, end, stride))
    if not isinstance(stride, int):
        return ANY
    if stride < 0:
        return ceiling(_backward(size, begin), -stride) if _goes_to_the_front(end) else ANY
    last = _place(end, size)
    if begin == 0:
        return ceiling(last, stride)
    if last == size and not isinstance(begin, Any):  # then only the begin is clamped
        if at_least(begin, 0):
            return ceiling(positive_part(size - begin), stride)
        if at_least(-1, begin):
            return ceiling(smaller(size, -begin), stride)
    return ceiling(positive_part(last - _place(begin, size)), stride)


def _place(index: Dim, size: Dim) -> Dim:
    """The position of an index, non-negative and clamped to 0 ... size."""
    if isinstance(index, int) and index >= FAR:
        return size
    if at_least(index, 0):
        return smaller(index, size)
    return positive_part(size + index) if at_least(-1, index) else ANY


def _backward(size: Dim, begin: Dim) -> Dim:
    """The number of elements from `begin` back to the front."""
    if isinstance(begin, int) and (begin == -1 or begin >= FAR):
        return size
    if at_least(begin, 0):
        return smaller(begin + 1, size)
    return size + begin + 1 if at_least(-1, begin) and at_least(size + begin, 0) else ANY


def completed_slice(
    begin: Sequence[int | None], end: Sequence[int | None], strides: Sequence[int]
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Begin, end and strides of the leading axes, of equal lengths, as Relay completes them: missing strides are 1, and missing bounds the
    first and last elements.

    >>> completed_slice((1, None), (3,), (2,))
    ((1, 0), (3, 9223372036854775807), (2, 1))
    """
    steps = (*strides, *(1,) * (max(len(begin), len(end)) - len(strides)))
    first = (start if start is not None else 0 if step > 0 else END for start, step in zip_longest(begin, steps))
    last = (stop if stop is not None else END if step > 0 else 0 for stop, step in zip_longest(end, steps))
    return tuple(first), tuple(last), steps


def ends_of_sizes(begin: Sequence[int], sizes: Sequence[int]) -> tuple[int, ...] | None:
    """The ends of a slice that is given by its numbers of elements, where -1 means all remaining ones. None if one counts from the back."""
    if len(begin) != len(sizes) or any(start < 0 <= size for start, size in zip(begin, sizes, strict=True)):
        return None
    return tuple(END if size < 0 else start + size for start, size in zip(begin, sizes, strict=True))


def slice_parts(
    rank: int, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None, axes: Sequence[int] | None
) -> dict[int, tuple[int, int, int]]:
    """Returns begin, end and stride by non-negative axis. Raises OpTypeError."""
    steps = tuple(strides) if strides is not None else (1,) * len(begin)
    places = tuple(axes) if axes is not None else tuple(range(len(begin)))
    if not len(begin) == len(end) == len(steps) == len(places):
        raise OpTypeError(f"begin, end, strides and axes have different lengths: {len(begin)}, {len(end)}, {len(steps)}, {len(places)}")
    found: dict[int, tuple[int, int, int]] = {}
    for part in zip(places, begin, end, steps, strict=True):
        if not -rank <= part[0] < rank:
            raise OpTypeError(f"axis {part[0]} is out of range for {counted(rank, 'dimension')}")
        if part[0] % rank in found:
            raise OpTypeError(f"axes={places} names an axis twice")
        if part[3] == 0:
            raise OpTypeError("a stride is 0")
        found[part[0] % rank] = part[1:]
    return found


def _strided_slice(
    data: Array, begin: Sequence[int], end: Sequence[int], strides: Sequence[int] | None, axes: Sequence[int] | None
) -> Array:
    parts = slice_parts(data.ndim, begin, end, strides, axes)
    return data[tuple(clamped(size, *parts[axis]) if axis in parts else slice(None) for axis, size in enumerate(data.shape))]


def selected_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Reads as much of the data as it writes."""
    return Cost(elements(result), 2 * nbytes(result))


@define_op("strided_slice", kernel=_strided_slice, cost=selected_cost, movement=True, shape_arith=True)
def strided_slice(
    data: TensorType,
    *,
    begin: tuple[int, ...],
    end: tuple[int, ...],
    strides: tuple[int, ...] | None = None,
    axes: tuple[int, ...] | None = None,
) -> TensorType:
    """The elements from `begin` up to `end`, exclusive, in steps of `strides` along `axes` (by default the leading axes).

    Negative indices count from the end. Indices are then clamped to the axis; a backward slice begins at the first element at the earliest.
    ONNX Slice (1, 10, 11, 13) with constant indices; Relay strided_slice with `slice_mode="end"`.
    """
    parts = slice_parts(tensor_type(data, "data").ndim, begin, end, strides, axes)
    return data.with_shape(slice_length(dim, *parts[axis]) if axis in parts else dim for axis, dim in enumerate(data.shape))


@from_onnx("Slice")
def _read_slice(node: OnnxNode) -> Expr | None:
    data = node.type(0)
    if node.version < 10:
        begin, end, axes, strides = node.attrs.get("starts"), node.attrs.get("ends"), node.attrs.get("axes"), None
    else:
        begin, end, axes, strides = (node.ints(i) for i in (1, 2, 3, 4))
        if any(node.has(i) and node.constant(i) is None for i in (1, 2, 3, 4)):
            return _read_dynamic_slice(node)
    if begin is None or end is None:
        return None
    if axes is not None and all(-data.ndim <= axis < data.ndim for axis in axes):
        axes = tuple(axis % data.ndim for axis in axes)
    attrs = {"begin": begin, "end": end, "strides": strides or (1,) * len(begin), "axes": axes or tuple(range(len(begin)))}
    return Call(strided_slice, [node.input(0)], strided_slice.bind_attrs(attrs), span=node.span)


def _read_dynamic_slice(node: OnnxNode) -> Expr | None:
    if not (node.has(1) and node.has(2)):
        return None
    shapes = {node.type(i).shape for i in (1, 2, 3, 4) if node.has(i)}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 1 or not isinstance(shape[0], int) or shape[0] > ENTRY_LIMIT:
        return None
    dtype = node.type(1).dtype
    axes = node.input(3) if node.has(3) else Constant(Tensor.dense(np.arange(shape[0]), dtype))
    strides = node.input(4) if node.has(4) else Constant(Tensor.dense(np.ones(shape[0]), dtype))
    return Call(get_op("dyn.strided_slice"), [node.input(0), node.input(1), node.input(2), strides, axes], span=node.span)


@to_onnx(strided_slice)
def _write_strided_slice(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, attrs = tensor_type(call.args[0].checked_type), call.attrs
    return emit_slice(emit, inputs[0], data, slice_parts(data.ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes))


def emit_slice(emit: Emitter, name: str, data: TensorType, parts: Mapping[int, tuple[int, int, int]]) -> str:
    """Emits a slice of a value by name. Before opset 10 Slice has no strides and is replaced by Gather if sizes are static, except of
    strings, which ONNX Runtime gathers wrongly."""
    if not parts:
        return emit.node("Identity", [name])
    # ONNX's shape inference, which ONNX Runtime uses, does not support FAR or END as the end of a backward slice
    parts = {axis: (begin, -END if stride < 0 and _goes_to_the_front(end) else end, stride) for axis, (begin, end, stride) in parts.items()}
    begin, end, strides = ([part[i] for part in parts.values()] for i in range(3))
    if emit.opset >= 10:
        inputs = [name, *(int64(emit, values) for values in (begin, end, list(parts)))]
        return emit.node("Slice", inputs if set(strides) == {1} else [*inputs, int64(emit, strides)])
    for axis, part in parts.items():
        size = data.shape[axis]
        if part[2] == 1:
            name = emit.node("Slice", [name], {"starts": part[:1], "ends": part[1:2], "axes": (axis,)})
        elif isinstance(size, int) and data.dtype != "string":
            name = emit.node("Gather", [name, int64(emit, taken_places(size, *part))], {"axis": axis})
        else:
            raise OnnxVersionError(f"a slice of {data!r} with a stride other than 1 needs ONNX opset 10 or later")
    return name


def is_identity_slice(data: TensorType, attrs: Mapping[str, AnyValue]) -> bool:
    """Whether a strided_slice selects every axis entirely and in order."""
    parts = slice_parts(data.ndim, attrs["begin"], attrs["end"], attrs["strides"], attrs["axes"])
    return all(_is_whole(data.shape[axis], part) for axis, part in parts.items())


def _is_whole(size: Dim, part: tuple[int, int, int]) -> bool:
    begin, end, stride = part
    if isinstance(size, int):
        return taken_places(size, *part) == range(size)
    return stride == 1 and begin == 0 and end >= FAR


def compose_slices(shape: Shape, first: Mapping[str, AnyValue], then: Mapping[str, AnyValue]) -> dict[str, AnyValue] | None:
    """Returns the attributes of the strided_slice equal to `first` and then `then` on a tensor of `shape`; None if there is none.

    >>> first, then = dict(begin=(2,), end=(END,), strides=(2,), axes=(0,)), dict(begin=(1,), end=(3,), strides=None, axes=None)
    >>> compose_slices((10,), first, then)
    {'begin': (4,), 'end': (7,), 'strides': (2,), 'axes': (0,)}
    """
    rank = len(shape)
    merged = slice_parts(rank, first["begin"], first["end"], first["strides"], first["axes"])
    for axis, part in slice_parts(rank, then["begin"], then["end"], then["strides"], then["axes"]).items():
        found = _compose(shape[axis], merged[axis], part) if axis in merged else part
        if found is None:
            return None
        merged[axis] = found
    merged = {axis: part for axis, part in merged.items() if not _is_whole(shape[axis], part)} or merged
    return {
        "begin": tuple(part[0] for part in merged.values()),
        "end": tuple(part[1] for part in merged.values()),
        "strides": tuple(part[2] for part in merged.values()),
        "axes": tuple(merged),
    }


def _compose(size: Dim, first: tuple[int, int, int], then: tuple[int, int, int]) -> tuple[int, int, int] | None:
    if isinstance(size, int):
        taken = taken_places(size, *first)
        taken = taken[clamped(len(taken), *then)]
        if not taken:
            return (0, 0, 1)
        if len(taken) == 1:  # for any strides, since products of strides would grow without bound
            return (taken[0], taken[0] + 1, 1)
        end = taken[-1] + (1 if taken.step > 0 else -1)
        return (taken[0], -END if end < 0 else end, taken.step)
    if _is_whole(size, first):
        return then
    if _is_whole(size, then):
        return first
    if first[2] == then[2] == 1 and min(*first[:2], *then[:2]) >= 0:
        end = END if then[1] >= FAR else first[0] + then[1]
        return (min(first[0] + then[0], END), min(first[1], end), 1)  # END is the largest integer of 64 bits
    return None


def _reversed_axis(data: TensorType, axis: int) -> int:
    return tensor_type(data, "data").axis(axis)


def _reverse(data: Array, axis: int) -> Array:
    return np.flip(data, axis)


@define_op("reverse", kernel=_reverse, movement=True, shape_arith=True)
def reverse(data: TensorType, *, axis: int) -> TensorType:
    """Reverses the elements along `axis`. Relay reverse; written as Slice with a stride of -1."""
    _reversed_axis(data, axis)
    return data


@to_onnx(reverse)
def _write_reverse(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data = tensor_type(call.args[0].checked_type)
    return emit_slice(emit, inputs[0], data, {data.axis(call.attrs.axis): (-1, -END, -1)})
