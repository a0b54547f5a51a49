"""Layouts of convolutions and poolings. Operators: nn.conv*d nn.conv*d_transpose nn.max_pool*d nn.avg_pool*d nn.global_*_pool*d transpose.

A convolution of transposed data by a transposed weight, transposed back, equals the original. The cost model decides on the better layout
(`passat.rules.passes.layouts`), so the rules explore. `commuting` moves the transposes until they cancel, with guards and computed
attributes defined here; in each, `axes` is the permutation of a transpose of `x`. From Relay's ConvertLayout and AlterOpLayout.
"""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.attrs import Attrs
from passat.ir.op import Op, OpTypeError, list_ops
from passat.ir.ops.movement import permutation
from passat.ir.ops.reduction import reduced_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.ops.windows import SPATIAL, axes_of
from passat.ir.similar_names import did_you_mean
from passat.ir.types import TensorType, TupleType
from passat.rules.guards import Reject, Term, computed, guard
from passat.rules.holes import OperatorHole, operator
from passat.rules.pattern import Pattern, RuleError, attributes, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, w = tensors("x w")
_SCALES: Final = tensors("first second third fourth")
"""Scales and zero points, whose order differs between convolutions and poolings."""
(a,) = attributes("a")
DEFAULT: Final = "default"
"""Selects the kernel layout that matches the data layout."""
LAST: Final = "channels last"
FIRST: Final = "channels first"
"""Selects, for each operator, the data layout with channels as axis 1."""
CONVOLUTIONS: Final = {of.name: of for of in list_ops() if isinstance(of.defaults.get("kernel_layout"), str) and not of.non_computational}
"""Convolutions whose layouts are orders of the axes. Only these have default layouts; convolutions on blocks do not."""
QUANTIZED: Final = {of.name: of for of in list_ops() if {"kernel_layout", "layout"} & set(of.attr_params) and of.non_computational}
"""Quantized convolutions and poolings, whose further operands are zero points and scales."""
POOLINGS: Final = {of.name: of for of in list_ops() if isinstance(of.defaults.get("layout"), str) and not of.non_computational}


_WEIGHTED: Final = frozenset(name for name, of in (CONVOLUTIONS | QUANTIZED).items() if "kernel_layout" in of.attr_params)


def has_weight(name: str) -> bool:
    """True if an operator with layouts is a convolution."""
    return name in _WEIGHTED


def data_attribute(name: str) -> str:
    """The name of the attribute that holds the data layout."""
    return "data_layout" if has_weight(name) else "layout"


def _letters(name: str) -> str:
    """The default data layout of an operator."""
    found: str = (CONVOLUTIONS | QUANTIZED | POOLINGS)[name].defaults[data_attribute(name)]
    return found


def channels_last(of: Op) -> str:
    """The data layout of an operator with channels as the last axis."""
    return f"N{_letters(of.name)[2:]}C"


def channels_first(of: Op) -> str:
    """The data layout of an operator with channels as axis 1."""
    return _letters(of.name)


def check_layouts(name: str, data: str, kernel: str = DEFAULT) -> None:
    """Raises RuleError for operators without layouts, and for layouts that an operator does not have."""
    known = (*CONVOLUTIONS, *QUANTIZED, *POOLINGS)
    if name not in known:
        raise RuleError(f"{name} has no layouts; those that have are {', '.join(known)}{did_you_mean(name, known)}")
    try:
        axes_of(data, _letters(name))
        if kernel != DEFAULT:
            if not has_weight(name):
                raise RuleError(f"{name} has no kernel, and therefore no kernel layout {kernel!r}")
            axes_of(kernel, "OI" + SPATIAL[len(data) - 2])
        elif has_weight(name):
            kernel_layout(name, data, kernel, depthwise=False)
    except OpTypeError as error:
        raise RuleError(f"{name}: {error}") from None


def kernel_layout(name: str, data: str, kernel: str, *, depthwise: bool) -> str:
    """The default weight layout for a data layout: outputs first (inputs, for transposed convolutions) for channels first, and outputs last
    for channels last; HWOI for HWNC and for depthwise convolutions over planes. Raises RuleError."""
    places = _letters(name)[2:]
    if kernel != DEFAULT:
        return kernel
    if data == f"NC{places}":
        return ("IO" if name.endswith("transpose") else "OI") + places
    if data == f"N{places}C":
        return places + ("OI" if depthwise and name.endswith("nn.conv2d") else "IO")
    if data == "HWNC":
        return "HWOI"
    hint = did_you_mean(data, (f"NC{places}", f"N{places}C"))
    raise RuleError(f"{name}: there is no default kernel layout for the data layout {data}; name one{hint}")


def is_depthwise(attrs: Attrs, shape: tuple[AnyValue, ...]) -> bool:
    """True if the convolution with a weight of this shape is depthwise."""
    layout = attrs["kernel_layout"]
    outputs, inputs = shape[layout.index("O")], shape[layout.index("I")]
    return bool(attrs["groups"] > 1 and outputs == attrs["groups"] and inputs == 1)


def wanted(name: str, attrs: Attrs, shape: tuple[AnyValue, ...] | None, data: str, kernel: str) -> dict[str, str]:
    """The layout attributes of a call; `shape` is that of a convolution's weight, if known."""
    if not has_weight(name):
        return {"layout": data}
    depthwise = shape is not None and is_depthwise(attrs, shape)
    return {"data_layout": data, "kernel_layout": kernel_layout(name, data, kernel, depthwise=depthwise)}


def _named(layout: str, of: Op) -> str:
    return {LAST: channels_last, FIRST: channels_first}[layout](of) if layout in (LAST, FIRST) else layout


@guard
def is_laid_out_otherwise(attrs: Attrs, w: Term | None, of: Op, data: str, kernel: str) -> bool | str:
    """The convolution or pooling is not in these layouts yet."""
    goal = wanted(of.name, attrs, None if w is None else w.type.shape, _named(data, of), kernel)
    return any(attrs[key] != layout for key, layout in goal.items()) or f"the layout is already {_named(data, of)}"


@computed
def in_layout(attrs: Attrs, w: Term | None, of: Op, data: str, kernel: str) -> Attrs:
    """The attributes of the call in these layouts."""
    return Attrs(attrs, **wanted(of.name, attrs, None if w is None else w.type.shape, _named(data, of), kernel))


@computed
def to_layout(attrs: Attrs, of: Op, layout: str) -> tuple[int, ...]:
    """The permutation that converts data to the layout."""
    return axes_of(attrs[data_attribute(of.name)], _named(layout, of))


@computed
def from_layout(attrs: Attrs, of: Op, layout: str) -> tuple[int, ...]:
    """The inverse of `to_layout`."""
    return axes_of(_named(layout, of), attrs[data_attribute(of.name)])


@computed
def to_kernel_layout(attrs: Attrs, w: Term, of: Op, data: str, kernel: str) -> tuple[int, ...]:
    """The permutation that converts a weight to the kernel layout."""
    return axes_of(attrs["kernel_layout"], wanted(of.name, attrs, w.type.shape, _named(data, of), kernel)["kernel_layout"])


def conversion(name: str, data: str, kernel: str = DEFAULT) -> Rule:
    """The rule that converts an operator to these layouts. Raises RuleError if it does not have them."""
    check_layouts(name, data, kernel)
    scales = _SCALES if name in QUANTIZED else ()
    if has_weight(name):
        return _of_convolution(operator("conv", name), data, kernel, scales)
    return _of_pooling(operator("pool", name), data, scales)


def _of_convolution(conv: OperatorHole, data: str, kernel: str = DEFAULT, scales: Sequence[Pattern] = ()) -> Rule:
    weight = op.transpose(w, axes=to_kernel_layout(a, w, conv, data, kernel))
    made = conv(op.transpose(x, axes=to_layout(a, conv, data)), weight, *scales, attrs=in_layout(a, w, conv, data, kernel))
    rule = conv(x, w, *scales, attrs=a) >> op.transpose(made, axes=from_layout(a, conv, data))
    return rule.when(is_laid_out_otherwise(a, w, conv, data, kernel)).exploring()


def _of_pooling(pool: OperatorHole, data: str, scales: Sequence[Pattern] = ()) -> Rule:
    made = pool(op.transpose(x, axes=to_layout(a, pool, data)), *scales, attrs=in_layout(a, None, pool, data, DEFAULT))
    rule = pool(x, *scales, attrs=a) >> op.transpose(made, axes=from_layout(a, pool, data))
    return rule.when(is_laid_out_otherwise(a, None, pool, data, DEFAULT)).exploring()


conv, pool = operator("conv", *CONVOLUTIONS), operator("pool", *POOLINGS)


class ChannelsLast(RuleSet):
    """Converts convolutions and poolings to channels-last data (NHWC)."""

    convolution = _of_convolution(conv, LAST)
    pooling = _of_pooling(pool, LAST)


class ChannelsFirst(RuleSet):
    """Converts convolutions and poolings to channels-first data (NCHW)."""

    convolution = _of_convolution(conv, FIRST)
    pooling = _of_pooling(pool, FIRST)


def _order(axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    return permutation(x.type.ndim, axes)


@guard
def lays_out(axes: Sequence[int] | None, x: Term) -> bool | str:
    """The transpose moves the channels of an image (axis 1 to the end, or back), or the batch axis of a tensor of rank 4 or more."""
    rank, order = x.type.ndim, _order(axes, x)
    moved = tuple(range(2, rank))
    if rank >= 3 and order in ((0, *moved, 1), (0, rank - 1, *range(1, rank - 1))):
        return True
    return (rank >= 4 and order[0] != 0) or f"axes={order} does not change the layout of an image"


@guard
def has_fewer_axes(y: Term, x: Term) -> bool | str:
    """`y` has lower rank than `x` and more than one element."""
    if y.type.ndim >= x.type.ndim:
        return f"{y.type!r} does not have fewer axes than {x.type!r}"
    return y.type.size != 1 or f"{y.type!r} is a single number"


@guard
def has_several(y: Term) -> bool | str:
    """The tensor has more than one element."""
    return y.type.size != 1 or f"{y.type!r} is a single number"


@guard
def has_part(split: Term, attrs: Attrs, x: Term, i: int) -> bool | str:
    """The split has part `i`."""
    return (isinstance(split.type_, TupleType) and len(split.type_.fields) > i) or f"the split has no part {i}"


@guard
def keeps_samples(of: Op, axes: Sequence[int] | None, x: Term) -> bool | str:
    """The transpose keeps the first axis, or the operator does not normalize per sample."""
    return of.name == "nn.lp_normalize" or _order(axes, x)[0] == 0 or f"axes={_order(axes, x)} moves the first axis"


@computed
def missing_axes(y: Term, x: Term) -> int:
    """The rank difference of two tensors."""
    return x.type.ndim - y.type.ndim


@computed
def axis_behind(axis: int, axes: Sequence[int] | None, x: Term) -> int:
    """The axis of the transpose that corresponds to an axis of the tensor."""
    return _order(axes, x).index(x.type.axis(axis))


@computed
def permuted(given: AnyValue, axes: Sequence[int] | None, x: Term) -> AnyValue:
    """A per-axis attribute, such as widths or a layout, in the axis order of the transpose."""
    return _in_order(given, _order(axes, x))


@computed
def permuted_back(given: AnyValue, axes: Sequence[int] | None, x: Term) -> AnyValue:
    """A per-axis attribute of the transpose in the axis order of the tensor."""
    order = _order(axes, x)
    return _in_order(given, [order.index(axis) for axis in range(len(order))])


def _in_order(given: AnyValue, places: Sequence[int]) -> AnyValue:
    found = [given[place] for place in places]
    return "".join(found) if isinstance(given, str) else tuple(found)


@computed
def sliced(attrs: Attrs, axes: Sequence[int] | None, x: Term, part: str, behind: bool) -> tuple[int, ...]:
    """A slice parameter after the slice moves to the other side of a transpose."""
    order = _order(axes, x)
    cuts = slice_parts(x.type.ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    moved = {order.index(axis) if behind else order[axis]: cut for axis, cut in cuts.items()}
    if part == "axes":
        return tuple(sorted(moved))
    return tuple(moved[axis][("begin", "end", "strides").index(part)] for axis in sorted(moved))


@computed
def reduced_before(axes: Sequence[int] | None, attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The reduced axes of a tensor that correspond to those of its transpose."""
    order = _order(axes, x)
    return tuple(sorted(order[axis] for axis in _gone(order, attrs, x)))


@computed
def kept_order(axes: Sequence[int] | None, attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The permutation that relates the reduced tensor to the reduced transpose."""
    left = _left_over(axes, attrs, x)
    return tuple(sorted(left).index(axis) for axis in left)


def _gone(order: tuple[int, ...], attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes of a transpose that a reduction, argmax, argmin or squeeze removes."""
    if "exclude" in attrs:
        return reduced_axes(x.type.ndim, attrs.axis, attrs.exclude)
    named = attrs.axis
    if named is None:  # squeeze of a tensor with known sizes
        return tuple(place for place, axis in enumerate(order) if x.type.shape[axis] == 1)
    return tuple(axis % x.type.ndim for axis in ((named,) if isinstance(named, int) else named))


def _left_over(axes: Sequence[int] | None, attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes of a tensor that a reduction of its transpose keeps, in the order of the transpose."""
    order = _order(axes, x)
    if attrs.get("keepdims", False):
        return order
    gone = _gone(order, attrs, x)
    return tuple(axis for place, axis in enumerate(order) if place not in gone)


class _Blocks(NamedTuple):
    """A reshape of a transpose, expressed as a transpose of a reshape of a transpose: inner permutation, newshape, outer permutation."""

    inner: tuple[int, ...]
    newshape: tuple[int, ...]
    outer: tuple[int, ...]


def _sizes(type_: TensorType) -> tuple[int, ...]:
    sizes = tuple(size for size in type_.shape if isinstance(size, int))
    if len(sizes) != type_.ndim or 0 in sizes or not sizes:
        raise Reject(f"{type_!r} is empty, or not static")
    return sizes


def _groups(before: tuple[int, ...], after: tuple[int, ...]) -> list[tuple[list[int], list[int]]]:
    """The smallest groups of axes of two shapes that have equal element counts."""
    groups: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(before) and j < len(after):
        ours, theirs, many, others = [i], [j], before[i], after[j]
        i, j = i + 1, j + 1
        while many != others:
            if many < others:
                ours.append(i)
                many, i = many * before[i], i + 1
            else:
                theirs.append(j)
                others, j = others * after[j], j + 1
        groups.append((ours, theirs))
    if groups:  # the remaining axes have size 1
        groups[-1][0].extend(range(i, len(before)))
        groups[-1][1].extend(range(j, len(after)))
    return groups


def _blocks(axes: Sequence[int] | None, x: Term, whole: Term) -> _Blocks:
    """Moves groups of axes that a reshape splits or joins as units, to the position of their first axis in the tensor."""
    order, sizes, made = _order(axes, x), _sizes(x.type), _sizes(whole.type)
    groups = [([order[i] for i in ours], theirs) for ours, theirs in _groups(tuple(sizes[axis] for axis in order), made)]
    moved = sorted(groups, key=lambda group: min(group[0]))
    places = [place for _, theirs in moved for place in theirs]
    inner = tuple(axis for ours, _ in moved for axis in ours)
    return _Blocks(inner, tuple(made[place] for place in places), tuple(places.index(place) for place in range(len(made))))


@guard
def moves_blocks(axes: Sequence[int] | None, x: Term, whole: Term) -> bool | str:
    """The reshape splits image channels that a transpose has moved, or joins them so that one can move them."""
    outer = _blocks(axes, x, whole).outer
    moved = tuple(range(1, len(outer) - 1))
    first = x.type.ndim > 3 and _order(axes, x) in ((0, x.type.ndim - 1, *range(1, x.type.ndim - 1)), (0, *range(2, x.type.ndim), 1))
    then = len(outer) > 3 and outer in ((0, len(outer) - 1, *moved), (0, *range(2, len(outer)), 1))
    return ((first or then) and outer != tuple(range(len(outer)))) or f"{whole.type!r} does not keep the channels of an image separate"


@computed
def inner_order(axes: Sequence[int] | None, x: Term, whole: Term) -> tuple[int, ...]:
    """The inner permutation, which makes groups contiguous."""
    return _blocks(axes, x, whole).inner


@computed
def inner_shape(axes: Sequence[int] | None, x: Term, whole: Term) -> tuple[int, ...]:
    """The newshape of the permuted tensor, with groups split or joined."""
    return _blocks(axes, x, whole).newshape


@computed
def outer_order(axes: Sequence[int] | None, x: Term, whole: Term) -> tuple[int, ...]:
    """The outer permutation, which gives the original result."""
    return _blocks(axes, x, whole).outer
