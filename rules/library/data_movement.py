"""What concatenations undo, and what undoes them; views that move behind what is computed from them, where they meet other views.
Operators: concatenate split strided_slice take transpose reshape, every elementwise operator, nn.softmax nn.log_softmax nn.bias_add.

Sizes along the axis of a concatenation must be known. Elementwise operators do not care where elements are: f(transpose(x)) =
transpose(f(x)). By itself neither is better, so the rules explore; what makes them pay are `Transposes` and `Views`, where two views meet.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.ops.slicing import slice_parts, taken_places
from passat.ir.shape import Dim
from passat.ir.types import TupleType
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, has_rank, is_not_empty, same_rank, same_shape
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.arithmetic import TIES
from passat.rules.library.products import is_scalar, no_axes
from passat.rules.operator_hole import OperatorHole, operator
from passat.rules.parts_hole import tensors_of
from passat.rules.pattern import Computed, Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet

x, y = tensors("x y")
c, d = constants("c d")
a, p, s, t, b, q = attributes("a p s t b q")
MOST: Final = 4
"""Parts of a concatenation that rules look at."""
HOLES: Final = tensors("x1 x2 x3 x4")
PLACES: Final = attributes("b1 b2 b3")
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)


def side_by_side(parts: Sequence[Pattern]) -> PCall:
    """Tensors side by side, along the axis `p`."""
    return op.concatenate(tuple(parts), axis=p)


def _sizes(parts: Sequence[Term], axis: int) -> list[int]:
    """The sizes of tensors along an axis. Refuses where one is not known."""
    sizes = [part.type.shape[part.type.axis(axis)] for part in parts]
    if not all(isinstance(size, int) for size in sizes):
        raise Refuse(f"the sizes along axis {axis} are {sizes}")
    return [int(size) for size in sizes]  # type: ignore[arg-type]  # all are integers


def _field_sizes(split: Term, axis: int) -> list[Dim]:
    if not isinstance(split.type_, TupleType):
        raise Refuse(f"{split.type_!r} is no tuple")
    return [Term(field).type.shape[Term(field).type.axis(axis)] for field in split.type_.fields]


def _joined_parts(dice: Dice, count: int) -> tuple[int, list[tuple[int, ...]], dict[str, AnyValue]]:
    """An axis, shapes that go side by side along it, and the attributes of a split that cuts where they meet."""
    shape = dice.shape(1, 3)
    axis = dice.integer(-len(shape), len(shape) - 1)
    sizes = [dice.dim() for _ in range(count)]
    shapes = [tuple(size if i == axis % len(shape) else dim for i, dim in enumerate(shape)) for size in sizes]
    places = tuple(sum(sizes[:i]) for i in range(1, count))
    whole = count if len(set(sizes)) == 1 and dice.chance(0.5) else places
    return axis, shapes, {"axis": axis % len(shape) - dice.pick((0, len(shape))), "indices_or_sections": whole}


def _a_whole_split(dice: Dice, x: Draft, split: Draft, cut: Draft, axis: Draft, count: int) -> Drafts:
    at, shapes, attrs = _joined_parts(dice, count)
    size = sum(shape[at] for shape in shapes)
    whole = tuple(size if i == at % len(shapes[0]) else dim for i, dim in enumerate(shapes[0]))
    return [Draft(whole), None, Draft(value=attrs), Draft(value=at)]


@condition(draw=_a_whole_split)
def is_whole_split(x: Term, split: Term, cut: Attrs, axis: int, count: int) -> bool | str:
    """The fields are all that a split along this axis has, in order."""
    rank = x.type.ndim
    if cut.axis % rank != axis % rank:
        return f"the split is along axis {cut.axis}, the concatenation along {axis}"
    found = len(_field_sizes(split, axis))
    return found == count or f"the split has {found} parts"


def _a_split_where_joined(dice: Dice, split: Draft, cut: Draft, axis: Draft, *parts: Draft) -> Drafts:
    at, shapes, attrs = _joined_parts(dice, len(parts))
    return [None, Draft(value=attrs), Draft(value=at), *map(Draft, shapes)]


@condition(draw=_a_split_where_joined)
def is_split_where_joined(split: Term, cut: Attrs, axis: int, *parts: Term) -> bool | str:
    """The split cuts the concatenation where its parts meet."""
    rank = parts[0].type.ndim
    if cut.axis % rank != axis % rank:
        return f"the split is along axis {cut.axis}, the concatenation along {axis}"
    sizes, found = _sizes(parts, axis), _field_sizes(split, axis)
    return found == sizes or f"parts of {sizes} are split into {found}"


count = cases("count", "two", "three", "four")
place_of_two = cases("place_of_two", "first", "second")
place_of_three = cases("place_of_three", "first", "second", "third")
place_of_four = cases("place_of_four", "first", "second", "third", "fourth")
_CUT: Final = op.split(x, attrs=a)
_TWO, _THREE, _FOUR = (op.split(side_by_side(HOLES[:parts]), attrs=a) for parts in (2, 3, 4))


@computed
def part_slice(cut: Attrs, axis: int, before: tuple[Term, ...], part: Term, behind: tuple[Term, ...], which: str) -> tuple[int, ...]:
    """A parameter of the slice of one part that is the slice of the whole. Refuses where that reaches into another part."""
    rank = part.type.ndim
    sizes = _sizes([*before, part, *behind], axis)
    start, own = sum(sizes[: len(before)]), sizes[len(before)]
    slices = slice_parts(rank, cut.begin, cut.end, cut.strides, cut.axes)
    if axis % rank not in slices:
        raise Refuse(f"the slice is not along axis {axis}")
    taken = taken_places(sum(sizes), *slices[axis % rank])
    if taken.step < 1 or not taken or taken[0] < start or taken[-1] >= start + own:
        raise Refuse(f"the slice takes {taken}, the part has {start} to {start + own}")
    slices[axis % rank] = (taken[0] - start, taken[-1] + 1 - start, taken.step)
    found = {
        "axes": tuple(slices),
        "begin": tuple(each[0] for each in slices.values()),
        "end": tuple(each[1] for each in slices.values()),
        "strides": tuple(each[2] for each in slices.values()),
    }
    return found[which]


def _slice_of_part(which: str) -> Computed:
    found: Computed = part_slice(a, p, (*xs,), x, (*ys,), which)
    return found


def _some_places(dice: Dice, axes: Draft, strides: Draft, axis: Draft, x: Draft, *places: Draft) -> Drafts:
    shape = list(dice.shape(1, 3))
    at = dice.integer(-len(shape), len(shape) - 1)
    sizes = [dice.integer(1, 3) for _ in places[1:]]
    shape[at] = sum(sizes) + dice.integer(0, 2)
    begin = dice.integer(0, shape[at] - sum(sizes))
    found = [(begin + sum(sizes[:i]),) for i in range(len(places))]
    same = at % len(shape) - dice.pick((0, len(shape)))
    return [Draft(value=(same,)), Draft(value=(1,)), Draft(value=at), Draft(tuple(shape)), *[Draft(value=each) for each in found]]


@condition(draw=_some_places)
def are_adjacent(axes: Sequence[int] | None, strides: Sequence[int] | None, axis: int, x: Term, *places: tuple[int, ...]) -> bool | str:
    """Slices from each place to the next, along that axis alone and in steps of one, leave nothing out and take nothing twice."""
    rank = x.type.ndim
    if tuple(axes if axes is not None else range(len(places[0]))) not in ((axis,), (axis % rank,), (axis % rank - rank,)):
        return f"the slices are along axes {axes}, the concatenation along {axis}"
    if strides is not None and tuple(strides) != (1,):
        return f"the strides are {strides}"
    size = _sizes([x], axis)[0]
    ranges = [taken_places(size, begin[0], end[0], 1) for begin, end in pairwise(places)]
    adjacent = all(ranges) and all(left.stop == right.start for left, right in pairwise(ranges))
    return adjacent or f"the slices take {ranges}"


_FIRST, _BETWEEN, _LAST = PLACES
_CUTS: Final = [op.strided_slice(x, begin=b, end=e, axes=t, strides=s) for b, e in pairwise(PLACES)]
_ONE: Final = op.strided_slice(x, begin=_FIRST, end=_LAST, axes=t, strides=s)
where = cases("where", "first", "later")
inside, before = tensors_of("ys", least=2, most=3), tensors_of("xs", least=1, most=2)
after, behind = tensors_of("zs", least=1, most=2), tensors_of("vs", most=1)


@condition
def is_run(c: Term, x: Term, axis: int | None) -> bool | str:
    """The constant counts up by one within the size of the axis."""
    if axis is None or c.type.ndim != 1:
        return "the indices are no vector along an axis"
    size = _sizes([x], axis)[0]
    indices = c.value().numpy().astype(np.int64)
    run = len(indices) > 0 and bool(np.all(np.diff(indices) == 1)) and indices[0] >= 0 and indices[-1] < size
    return bool(run) or "the indices do not count up by one within the axis"


@computed
def run_bound(c: Term, end: bool) -> tuple[int, ...]:
    """Where indices that count up begin, or end."""
    indices = c.value().numpy()
    return (int(indices[-1]) + 1 if end else int(indices[0]),)


@computed
def axis_of_slice(axis: int, x: Term) -> tuple[int, ...]:
    """The one axis of a slice."""
    return (x.type.axis(axis),)


@condition
def takes_along(axis: int | None) -> bool | str:
    """The elements are taken along an axis that is counted from the front, not from the flattened tensor."""
    return (axis is not None and axis >= 0) or f"takes along axis {axis}"


class Concatenations(RuleSet):
    """Adjacent slices side by side are one slice, nested concatenations one concatenation; slices and splits of concatenations are slices
    of their parts; elements taken by constant indices."""

    of_adjacent_slices = (side_by_side([*xs, *_CUTS, *ys]) >> side_by_side([*xs, _ONE, *ys])).when(are_adjacent(t, s, p, x, *PLACES))
    of_concat = where(
        first=side_by_side([side_by_side([*inside]), *after]), later=side_by_side([*before, side_by_side([*inside]), *behind])
    ) >> where(first=side_by_side([*inside, *after]), later=side_by_side([*before, *inside, *behind]))
    slice_of_part = op.strided_slice(side_by_side([*xs, x, *ys]), attrs=a) >> op.strided_slice(
        x, **{which: _slice_of_part(which) for which in ("begin", "end", "strides", "axes")}
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
    take_twice = (op.take(op.take(x, c, axis=p), d, axis=p) >> op.take(x, op.take(c, d, axis=0), axis=p)).when(
        has_rank(c, 1), takes_along(p), is_not_empty(x)
    )
    take_run = (
        op.take(x, c, axis=p) >> op.strided_slice(x, begin=run_bound(c, False), end=run_bound(c, True), axes=axis_of_slice(p, x))
    ).when(is_run(c, x, p))


BUDGET: Final = 200
_OF_TUPLES: Final = ("elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum")
"""Elementwise operators whose one operand is a tuple."""
f = operator("f", arity=1, elementwise=True, but=("copy", *_OF_TUPLES))


@computed
def transposed_back(axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The permutation that undoes a transpose."""
    rank = x.type.ndim
    order = tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)
    return tuple(order.index(axis) for axis in range(rank))


@computed
def padded_shape(c: Term, x: Term) -> tuple[int, ...]:
    """The shape of a constant with as many axes as another tensor. Refuses where it has more."""
    missing = x.type.ndim - c.type.ndim
    if missing < 0 or 0 in c.type.shape:
        raise Refuse(f"{c.type!r} has more axes than {x.type!r}, or no elements")
    return (1,) * missing + tuple(int(dim) for dim in c.type.shape)  # type: ignore[arg-type]  # constants are static


@condition
def is_no_scalar(c: Term) -> bool | str:
    """The constant has several elements."""
    return c.type.size != 1 or f"{c.type!r} is one number"


_ARITHMETIC: Final = ("add", "subtract", "divide", "power", "equal", "greater", "less", "logical_and", "logical_or")
g = operator("g", "multiply", *_ARITHMETIC)
h = operator("h", *_ARITHMETIC)  # numbers that are factors: see `Scales`
extremum = operator("extremum", "maximum", "minimum")
_TURNED, _VIEWED = op.transpose(x, axes=p), op.reshape(x, attrs=a)
_NUMBER = op.reshape(c, newshape=no_axes(c))


def _passage(rule: Rule) -> Rule:
    return rule.exploring().budget(BUDGET)


def _transposes(of: OperatorHole) -> Rule:
    return _passage((of(_TURNED, op.transpose(y, axes=p)) >> op.transpose(of(x, y), axes=p)).when(same_rank(x, y)))


def _reshapes(of: OperatorHole) -> Rule:
    other = op.reshape(y, attrs=b)
    return _passage((of(_VIEWED, other) >> op.reshape(of(x, y), attrs=a)).when(same_shape(x, y), same_shape(_VIEWED, other)))


def _transpose_and_number(of: OperatorHole) -> Rule:
    return _passage((of(_TURNED, c) >> op.transpose(of(x, _NUMBER), axes=p)).when(is_scalar(c, x)))


def _reshape_and_number(of: OperatorHole) -> Rule:
    return _passage((of(_VIEWED, c) >> op.reshape(of(x, _NUMBER), attrs=a)).when(is_scalar(c, _VIEWED)))


def _transpose_and_constant(of: OperatorHole) -> Rule:
    back = op.transpose(op.reshape(c, newshape=padded_shape(c, x)), axes=transposed_back(p, x))
    return _passage((of(_TURNED, c) >> op.transpose(of(x, back), axes=p)).when(is_no_scalar(c)))


class CommuteBinary(RuleSet):
    """A view that both operands have, or the one that is no constant, may as well be behind the operator."""

    transposes = _transposes(g)
    reshapes = _reshapes(g)
    transpose_and_number = _transpose_and_number(h)
    reshape_and_number = _reshape_and_number(h)
    transpose_and_constant = _transpose_and_constant(g)
    transposes_extremum = _transposes(extremum).inexact(TIES)
    reshapes_extremum = _reshapes(extremum).inexact(TIES)
    transpose_and_number_extremum = _transpose_and_number(extremum).inexact(TIES)
    reshape_and_number_extremum = _reshape_and_number(extremum).inexact(TIES)
    transpose_and_constant_extremum = _transpose_and_constant(extremum).inexact(TIES)


@computed
def axis_before(axis: int, axes: Sequence[int] | None, x: Term) -> int:
    """Which axis of a tensor an axis of its transpose is."""
    rank = x.type.ndim
    return rank - 1 - axis % rank if axes is None else axes[axis % rank] % rank


class CommuteUnary(RuleSet):
    """A view before an elementwise operator of one operand may as well be behind it; transposes move behind what works along one axis."""

    transpose = (f(op.transpose(x, axes=p), attrs=b) >> op.transpose(f(x, attrs=b), axes=p)).exploring().budget(BUDGET)
    reshape = (f(op.reshape(x, attrs=a), attrs=b) >> op.reshape(f(x, attrs=b), attrs=a)).exploring().budget(BUDGET)
    softmax = (
        (op.nn.softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    log_softmax = (
        (op.nn.log_softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.log_softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    bias = (
        op.nn.bias_add(op.transpose(x, axes=p), y, axis=q) >> op.transpose(op.nn.bias_add(x, y, axis=axis_before(q, p, x)), axes=p)
    ).exploring()
    concat = op.concatenate((op.transpose(x, axes=p), op.transpose(y, axes=p)), axis=q) >> op.transpose(
        op.concatenate((x, y), axis=axis_before(q, p, x)), axes=p
    )
