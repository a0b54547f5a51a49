"""Casts, copies, slices, splits and concatenations. Operators: cast broadcast_to tile concatenate strided_slice nn.pad split take
gather_nd add multiply subtract divide.

Sizes along the axis of a concatenation must be known.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.ops.slicing import compose_slices, is_identity_slice, slice_parts, taken_places
from passat.ir.shape import Dim, same_dim
from passat.ir.types import TupleType
from passat.rules.guards import Reject, Term, computed, guard, same_type
from passat.rules.holes import cases, operator, tensors_of
from passat.rules.library.gathers import (
    PARAMETERS,
    are_along_one_axis,
    are_single,
    axis_before,
    axis_of_slice,
    axis_within,
    before_slice,
    index_of_both,
    is_run,
    order_behind,
    parameter,
    run_bound,
    stays_within,
    within,
)
from passat.rules.pattern import Computed, Pattern, PCall, attributes, constants, op, tensors, value
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
a, b, p, q, s, t, u = attributes("a b p q s t u")


@guard
def loses_nothing(x: Term, through: str) -> bool | str:
    """The intermediate type represents every value of the tensor's element type."""
    source = x.type.dtype
    reason = f"{through} cannot represent every {source}"
    if source in (through, "bool"):
        return True
    if source in INTEGERS and through in INTEGERS:
        signed = source.startswith("int")
        bits, room = int(source.strip("uint")), int(through.strip("uint"))
        return (room >= bits if signed == through.startswith("int") else not signed and room > bits) or reason
    if source in FLOATS and through in FLOATS:
        wider = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}
        return through in wider.get(source, ()) or reason
    if source in INTEGERS and through in ("float32", "float64"):
        return int(source.strip("uint")) <= (16 if through == "float32" else 32) or reason
    return f"{reason} ({to_numpy(source)})"


@guard
def is_whole(attrs: Attrs, x: Term) -> bool | str:
    """The slice takes the whole tensor."""
    return is_identity_slice(x.type, attrs) or f"takes a part of {x.type!r}"


@computed
def sliced_twice(inner: Attrs, outer: Attrs, x: Term, part: str) -> AnyValue:
    """A parameter of the slice equivalent to two nested slices. Rejects unknown sizes."""
    found = compose_slices(x.type.shape, inner, outer)
    if found is None:
        raise Reject(f"the slices do not compose on {x.type!r}")
    return found[part]


@guard
def pads_nothing(width: AnyValue) -> bool | str:
    """All paddings are zero."""
    flat = [side for pair in width for side in (pair if isinstance(pair, tuple) else (pair,))]
    return not any(flat) or f"pads by {width}"


@guard
def one_part(x: Term, whole: Term) -> bool | str:
    """The split has one part."""
    return (isinstance(whole.type_, TupleType) and len(whole.type_.fields) == 1) or "splits into several parts"


@guard
def repeats_single_elements(x: Term, wide: Term) -> bool | str:
    """Each axis keeps its size, or had size 1: copies of several elements in turn are no broadcast, even if sizes allow it at run time."""
    wider = zip(reversed(x.type.shape), reversed(wide.type.shape), strict=False)
    return all(given == 1 or same_dim(given, made) for given, made in wider) or f"repeats several elements of {x.type!r}"


g = operator("g", "add", "multiply", "subtract", "divide")
side = cases("side", "left", "right")
copied = cases("copied", "broadcast", "tiled")
_WIDE: Final = copied(broadcast=op.broadcast_to(x, ...), tiled=op.tile(x, ...))


def _beside(wide: Pattern) -> Pattern:
    """Arithmetic with another operand on either side."""
    return side(left=g(wide, y), right=g(y, wide))


class Copies(RuleSet):
    """Drops data movement without effect, also broadcasts and tiles of operands that arithmetic broadcasts implicitly, and merges chained
    casts and slices of any size."""

    same_cast = (op.cast(x, dtype=t) >> x).when(x.dtype == t)
    casts = (op.cast(op.cast(x, dtype=t), dtype=u) >> op.cast(x, dtype=u)).when(loses_nothing(x, t))
    whole_slice = (op.strided_slice(x, attrs=a) >> x).when(is_whole(a, x))
    slices = op.strided_slice(op.strided_slice(x, attrs=a), attrs=b) >> op.strided_slice(
        x,
        begin=sliced_twice(a, b, x, "begin"),
        end=sliced_twice(a, b, x, "end"),
        strides=sliced_twice(a, b, x, "strides"),
        axes=sliced_twice(a, b, x, "axes"),
    )
    concat_of_one = op.concatenate((x,), ...) >> x
    broadcast_to_same = (_WIDE >> x).when(same_type(x, _WIDE))
    pad_nothing = (op.nn.pad(x, ..., pad_width=p) >> x).when(pads_nothing(p))
    split_into_one = (op.split(x, attrs=a)[0] >> x).when(one_part(x, op.split(x, attrs=a)))
    broadcast_operand = (_beside(_WIDE) >> _beside(x)).when(
        same_type(_beside(x), _beside(_WIDE)), *copied.only("tiled", repeats_single_elements(x, _WIDE))
    )


MOST: Final = 4
"""Maximum number of parts of a concatenation that rules match."""
HOLES: Final = tensors("x1 x2 x3 x4")
PLACES: Final = attributes("b1 b2 b3")
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)


def side_by_side(parts: Sequence[Pattern]) -> PCall:
    """A concatenation along axis `p`."""
    return op.concatenate(tuple(parts), axis=p)


def _sizes(parts: Sequence[Term], axis: int) -> list[int]:
    """The sizes of tensors along an axis. Rejects unknown sizes."""
    sizes = [part.type.shape[part.type.axis(axis)] for part in parts]
    if not all(isinstance(size, int) for size in sizes):
        raise Reject(f"the sizes along axis {axis} are {sizes}")
    return [int(size) for size in sizes]  # type: ignore[arg-type]  # all are integers


def _field_sizes(split: Term, axis: int) -> list[Dim]:
    if not isinstance(split.type_, TupleType):
        raise Reject(f"{split.type_!r} is not a tuple")
    return [Term(field).type.shape[Term(field).type.axis(axis)] for field in split.type_.fields]


@guard
def is_whole_split(x: Term, split: Term, cut: Attrs, axis: int, count: int) -> bool | str:
    """The fields are all parts of a split along this axis, in order."""
    rank = x.type.ndim
    if cut.axis % rank != axis % rank:
        return f"the split is along axis {cut.axis}, the concatenation along axis {axis}"
    found = len(_field_sizes(split, axis))
    return found == count or f"the split has {counted(found, 'part')}"


@guard
def is_split_where_joined(split: Term, cut: Attrs, axis: int, *parts: Term) -> bool | str:
    """The split cuts a concatenation at the boundaries of its parts."""
    rank = parts[0].type.ndim
    if cut.axis % rank != axis % rank:
        return f"the split is along axis {cut.axis}, the concatenation along axis {axis}"
    sizes, found = _sizes(parts, axis), _field_sizes(split, axis)
    return found == sizes or f"parts of sizes {sizes} are split into sizes {found}"


count = cases("count", "two", "three", "four")
place_of_two = cases("place_of_two", "first", "second")
place_of_three = cases("place_of_three", "first", "second", "third")
place_of_four = cases("place_of_four", "first", "second", "third", "fourth")
_CUT: Final = op.split(x, attrs=a)
_TWO, _THREE, _FOUR = (op.split(side_by_side(HOLES[:parts]), attrs=a) for parts in (2, 3, 4))


@computed
def part_slice(cut: Attrs, axis: int, before: tuple[Term, ...], part: Term, behind: tuple[Term, ...], which: str) -> tuple[int, ...]:
    """A parameter of the slice of one part that equals the slice of the whole. Rejects slices that reach into another part."""
    rank = part.type.ndim
    sizes = _sizes([*before, part, *behind], axis)
    start, own = sum(sizes[: len(before)]), sizes[len(before)]
    slices = slice_parts(rank, cut.begin, cut.end, cut.strides, cut.axes)
    if axis % rank not in slices:
        raise Reject(f"the slice is not along axis {axis}")
    taken = taken_places(sum(sizes), *slices[axis % rank])
    if taken.step < 1 or not taken or taken[0] < start or taken[-1] >= start + own:
        raise Reject(f"the slice selects {taken}, the part spans {start} to {start + own}")
    slices[axis % rank] = (taken[0] - start, taken[-1] + 1 - start, taken.step)
    return parameter(slices, which)


def _slice_of_part(which: str) -> Computed:
    found: Computed = part_slice(a, p, (*xs,), x, (*ys,), which)
    return found


@guard
def are_adjacent(axes: Sequence[int] | None, strides: Sequence[int] | None, axis: int, x: Term, *places: tuple[int, ...]) -> bool | str:
    """Slices between consecutive positions, along that axis alone with stride 1, leave no gaps and do not overlap."""
    rank = x.type.ndim
    if tuple(axes if axes is not None else range(len(places[0]))) not in ((axis,), (axis % rank,), (axis % rank - rank,)):
        return f"the slices are along axes {axes}, the concatenation along axis {axis}"
    if strides is not None and tuple(strides) != (1,):
        return f"the strides are {strides}"
    size = _sizes([x], axis)[0]
    ranges = [taken_places(size, begin[0], end[0], 1) for begin, end in pairwise(places)]
    adjacent = all(ranges) and all(left.stop == right.start for left, right in pairwise(ranges))
    return adjacent or f"the slices select {ranges}"


_FIRST, _BETWEEN, _LAST = PLACES
_CUTS: Final = [op.strided_slice(x, begin=b, end=e, axes=t, strides=s) for b, e in pairwise(PLACES)]
_RUN: Final = op.strided_slice(x, begin=_FIRST, end=_LAST, axes=t, strides=s)
where = cases("where", "first", "later")
inside, before = tensors_of("ys", least=2, most=3), tensors_of("xs", least=1, most=2)
after, behind = tensors_of("zs", least=1, most=2), tensors_of("vs", most=1)


element = cases("element", "take", "gather_nd")
_GATHERED: Final = op.take(x, y, axis=p)
_INDICES: Final[dict[str, AnyValue]] = {which: within(p, a, x, y, _GATHERED, which) for which in PARAMETERS}
_ELEMENT: Final = element(take=op.take(x, c, axis=0), gather_nd=op.gather_nd(x, c, batch_dims=0))


class Concatenations(RuleSet):
    """Merges concatenated adjacent slices into one slice, and nested concatenations into one. Rewrites slices and splits of concatenations
    as slices of the parts, and takes with consecutive indices as slices. Merges takes and slices of takes and slices, and moves takes
    of positions before transposes. Positions along one axis are those of a take."""

    of_adjacent_slices = (side_by_side([*xs, *_CUTS, *ys]) >> side_by_side([*xs, _RUN, *ys])).when(are_adjacent(t, s, p, x, *PLACES))
    of_concat = where(
        first=side_by_side([side_by_side([*inside]), *after]), later=side_by_side([*before, side_by_side([*inside]), *behind])
    ) >> where(first=side_by_side([*inside, *after]), later=side_by_side([*before, *inside, *behind]))
    slice_of_part = op.strided_slice(side_by_side([*xs, x, *ys]), attrs=a) >> op.strided_slice(
        x, **{which: _slice_of_part(which) for which in PARAMETERS}
    )
    concat_of_split = (
        count(
            two=side_by_side([_CUT[0], _CUT[1]]),
            three=side_by_side([_CUT[0], _CUT[1], _CUT[2]]),
            four=side_by_side([_CUT[0], _CUT[1], _CUT[2], _CUT[3]]),
        )
        >> x
    ).when(is_whole_split(x, _CUT, a, p, count(two=2, three=3, four=4)))
    split_of_concat = (
        count(
            two=_TWO[place_of_two(first=0, second=1)],
            three=_THREE[place_of_three(first=0, second=1, third=2)],
            four=_FOUR[place_of_four(first=0, second=1, third=2, fourth=3)],
        )
        >> count(
            two=place_of_two(first=HOLES[0], second=HOLES[1]),
            three=place_of_three(first=HOLES[0], second=HOLES[1], third=HOLES[2]),
            four=place_of_four(first=HOLES[0], second=HOLES[1], third=HOLES[2], fourth=HOLES[3]),
        )
    ).when(
        *count.only("two", is_split_where_joined(_TWO, a, p, *HOLES[:2])),
        *count.only("three", is_split_where_joined(_THREE, a, p, *HOLES[:3])),
        *count.only("four", is_split_where_joined(_FOUR, a, p, *HOLES)),
    )
    take_twice = (
        (op.take(_GATHERED, z, axis=q) >> op.take(x, op.take(y, z, axis=axis_within(q, p, x, y, _GATHERED)), axis=p))
        .when(stays_within(x, _GATHERED, q, z))
        .exploring()
    )
    take_element = (
        (op.take(_ELEMENT, d, axis=0) >> op.gather_nd(x, value(index_of_both(c, d)), batch_dims=0))
        .when(are_single(c, d), *element.only("take", stays_within(x, x, 0, c)), stays_within(x, _ELEMENT, 0, d))
        .exploring()
    )
    slice_of_take = (op.strided_slice(_GATHERED, attrs=a) >> op.take(x, op.strided_slice(y, **_INDICES), axis=p)).exploring()
    take_of_slice = (
        (op.take(op.strided_slice(x, attrs=a), c, axis=p) >> op.take(x, value(before_slice(c, p, a, x)), axis=p))
        .when(are_along_one_axis(p, a, x, c))
        .exploring()
    )
    take_of_transpose = (
        (
            op.take(op.transpose(x, axes=t), y, axis=p)
            >> op.transpose(op.take(x, y, axis=axis_before(p, t, x)), axes=order_behind(p, t, x, y))
        )
        .when(y.ndim <= 1)
        .exploring()
    )
    take_of_vectors = (op.gather_nd(x, y, batch_dims=0) >> op.take(x, op.squeeze(y, axis=(-1,)), axis=0)).when(y.shape[-1] == 1).exploring()
    take_run = (
        op.take(x, c, axis=p)
        >> op.strided_slice(x, begin=run_bound(c, x, p, False), end=run_bound(c, x, p, True), axes=axis_of_slice(p, x))
    ).when(is_run(c, x, p))
