"""Changes of layouts with blocks, such as NCHW16c. Operators: layout_transform transpose expand_dims concatenate strided_slice split repeat
nn.pad every elementwise operator of one or two operands, poolings, reductions.

A call on blocks computes what the call on whole axes computes. `SinkBlocks` merges adjacent changes and keeps data in
blocks as long as operators accept blocks: a change back to whole axes moves from an operand to the result. From Relay's AlterOpLayout.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.ops.blocked_layouts import blocks_of, has_blocks, joined_shape, names_of, parts_of, without_blocks, written
from passat.ir.ops.movement import permutation
from passat.ir.ops.reduction import reduced_axes
from passat.ir.ops.slicing import slice_parts
from passat.ir.ops.windows import axes_of
from passat.ir.shape import Dim, same_dim
from passat.rules.guards import Reject, Term, computed, guard
from passat.rules.holes import OperatorHole, cases, operator, tensors_of
from passat.rules.library.arithmetic import TIES
from passat.rules.library.commuting import quantifier, total
from passat.rules.library.layouts import has_part, missing_axes
from passat.rules.library.products import is_scalar
from passat.rules.pattern import Pattern, PCall, attributes, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y = tensors("x y")
a, p, q, s, d, t, u = attributes("a p q s d t u")
_CHANGED: Final = op.layout_transform(x, src_layout=s, dst_layout=d)

# ---- adjacent changes


def _through(src: str, dst: str, then: str, goal: str) -> str:
    """The layout `goal` in the letters of `src`, after a change from `src` to `dst`, which the next change calls `then`. Rejects changes
    that disagree about the blocks of the tensor between them."""
    ours, theirs = parts_of(dst), parts_of(then)
    letters = {name: mine for (mine, _), (name, _) in zip(ours, theirs, strict=False) if name.isupper()}
    alike = len(ours) == len(theirs) and all(
        size == other and letters[name[0].upper()] == mine[0].upper() and name[1:] == mine[1:]
        for (mine, size), (name, other) in zip(ours, theirs, strict=True)
    )
    if not alike or len({*letters.values()}) != len(letters):
        raise Reject(f"{dst} and {then} have different blocks")
    return _renamed(goal, letters)


def _renamed(layout: str, letters: Mapping[str, str]) -> str:
    """A layout in other letters."""
    named = ((letters[name[0].upper()], name, size) for name, size in parts_of(layout))
    return written([(letter if name.isupper() else letter.lower(), size) for letter, name, size in named])


@guard
def returns(s: str, d: str, t: str, u: str) -> bool | str:
    """The second change undoes the first one."""
    goal = _through(s, d, t, u)
    return goal == s or f"{s} becomes {goal}"


@guard
def leads_to_blocks(s: str, d: str, t: str, u: str) -> bool | str:
    """Both changes together are one change from or to a layout with blocks."""
    goal = _through(s, d, t, u)
    return (goal != s and (has_blocks(s) or has_blocks(goal))) or f"{s} becomes {goal}"


@guard
def leads_to_whole_axes(s: str, d: str, t: str, u: str) -> bool | str:
    """Both changes together are one change between layouts without blocks."""
    goal = _through(s, d, t, u)
    return (goal != s and not has_blocks(s) and not has_blocks(goal)) or f"{s} becomes {goal}"


@computed
def led_to(s: str, d: str, t: str, u: str) -> str:
    """The layout after both changes, in the letters of the first one."""
    return _through(s, d, t, u)


@computed
def order_behind(s: str, d: str, t: str, u: str) -> tuple[int, ...]:
    """The permutation that equals both changes."""
    return axes_of(s, _through(s, d, t, u))


@guard
def has_whole_axes(layout: str, p: Sequence[int] | None) -> bool | str:
    """The layout has no blocks, so a transpose permutes its letters."""
    return not has_blocks(layout) or f"{layout} has blocks"


@computed
def order_before(layout: str, axes: Sequence[int] | None) -> str:
    """The layout of a tensor whose transpose has the given one."""
    order = permutation(len(layout), axes)
    return "".join(layout[order.index(axis)] for axis in range(len(layout)))


@computed
def order_after(layout: str, axes: Sequence[int] | None) -> str:
    """The layout of the transpose of a tensor that has the given one."""
    return "".join(layout[axis] for axis in permutation(len(layout), axes))


result = cases("result", "same", "blocks", "whole_axes")
_TWICE: Final = op.layout_transform(_CHANGED, src_layout=t, dst_layout=u)


# ---- changes that sink


@guard
def leaves_blocks(s: str, d: str, x: Term) -> bool | str:
    """The change is from a layout with blocks to one without."""
    return (has_blocks(s) and not has_blocks(d)) or f"the change from {s} to {d} does not join blocks"


_LEAVES: Final = leaves_blocks(s, d, x)


def _places(src: str, letter: str) -> list[int]:
    """The axes of a tensor that correspond to an axis of another layout: the axis of that name, then its blocks."""
    names = names_of(src)
    return [names.index(letter), *(i for i, name in enumerate(names) if name[0] == letter.lower())]


def _sinks(left: Pattern, right: Pattern) -> Rule:
    """Sinks a change below an operator that has the operand's layout."""
    return (left >> op.layout_transform(right, src_layout=s, dst_layout=d)).when(_LEAVES).lowering()


def _sizes(y: Term, x: Term, src: str, dst: str) -> dict[str, tuple[Dim, Dim]]:
    """The sizes of `y`, aligned with the last axes of `x` in the layout `dst`, and those of `x`, by letter. Missing axes have size 1."""
    missing = len(dst) - y.type.ndim
    if missing < 0:
        raise Reject(f"{y.type!r} has more axes than {dst}")
    whole = dict(zip(without_blocks(src), joined_shape(x.type.shape, src), strict=True))
    return {letter: (size, whole[letter]) for letter, size in zip(dst, (*(1,) * missing, *y.type.shape), strict=True)}


@guard
def is_beside(y: Term, x: Term, s: str, d: str, wider: bool) -> bool | str:
    """Each axis of `y` has the size of `x`, or one of them has size 1; with `wider`, `y` lacks leading axes."""
    if (y.type.ndim < len(d)) is not wider or y.type.size == 1:
        return f"{y.type!r} {'is a single number' if y.type.size == 1 else f'has {y.type.ndim} axes'}"
    fits = all(own == 1 or same_dim(own, other) or other == 1 for own, other in _sizes(y, x, s, d).values())
    return fits or f"{y.type!r} is not known to have the sizes of {x.type!r} in {s}"


@computed
def blocks_beside(y: Term, x: Term, s: str, d: str) -> str:
    """The layout `s` for `y`, with blocks of size 1 along axes where `y` has size 1."""
    sizes = _sizes(y, x, s, d)
    return written([(name, 1 if block and sizes[name[0].upper()][0] == 1 else block) for name, block in parts_of(s)])


other, side = cases("other", "alike", "wider", "number"), cases("side", "left", "right")


def _in_blocks(of: Pattern) -> PCall:
    return op.layout_transform(of, src_layout=d, dst_layout=blocks_beside(y, x, s, d))


_WIDER: Final = op.expand_dims(y, axis=0, num_newaxis=missing_axes(y, _CHANGED))
_Y: Final = other(alike=_in_blocks(y), wider=_in_blocks(_WIDER), number=y)


def _beside(of: OperatorHole) -> Rule:
    """Sinks a change below an operator of two operands, past the other one."""
    return _sinks(side(left=of(_CHANGED, y), right=of(y, _CHANGED)), side(left=of(x, _Y), right=of(_Y, x))).when(
        *other.only("alike", is_beside(y, x, s, d, False)),
        *other.only("wider", is_beside(y, x, s, d, True)),
        *other.only("number", is_scalar(y, _CHANGED)),
    )


@guard
def is_divisible(y: Term, axis: int, s: str, d: str) -> bool | str:
    """The tensor consists of whole blocks along the axis."""
    block, size = prod(blocks_of(s, d[axis])), y.type.shape[axis]
    return block == 1 or (type(size) is int and size % block == 0) or f"{y.type!r} does not consist of blocks of {block} along {d[axis]}"


@guard
def has_no_blocks_along(axis: int | None, s: str, d: str) -> bool | str:
    """The axis is given, and the layout has no blocks along it."""
    if axis is None:
        return "the elements of all axes are repeated"
    return not blocks_of(s, d[axis]) or f"{s} has blocks along {d[axis]}"


@computed
def main_axis(axis: int, s: str, d: str) -> int:
    """The axis of the data in blocks that corresponds to an axis of the data on whole axes."""
    return _places(s, d[axis])[0]


def _pool_layout(layout: str, src: str, dst: str) -> str:
    return _renamed(src, dict(zip(dst, layout, strict=True)))


@guard
def pools_whole_axes(layout: str, s: str, d: str) -> bool | str:
    """The axes over which a pooling moves its window are not divided into blocks."""
    if len(layout) != len(d):
        return f"{layout} does not have the axes of {d}"
    made = _pool_layout(layout, s, d)
    return not any(blocks_of(made, letter) for letter in "DHW") or f"{made} has blocks along an axis that is pooled"


@computed
def pool_layout(layout: str, s: str, d: str) -> str:
    """The layout of a pooling of data in blocks."""
    return _pool_layout(layout, s, d)


_SUMS: Final = "sums in another order"


window = cases("window", "moving", "whole")


def _pools(kind: str) -> Rule:
    """Sinks a change below the poolings of a kind, over a moving window and over the whole image."""
    nn = op.nn
    moving, whole = getattr(nn, f"{kind}_pool2d"), getattr(nn, f"global_{kind}_pool2d")
    moving_blocks, whole_blocks = getattr(nn, f"contrib_{kind}_pool2d_nchwc"), getattr(nn, f"contrib_global_{kind}_pool2d_nchwc")
    before, after = {"attrs": a, "layout": q}, {"attrs": a, "layout": pool_layout(q, s, d)}
    left = window(moving=moving(_CHANGED, **before), whole=whole(_CHANGED, **before))
    return _sinks(left, window(moving=moving_blocks(x, **after), whole=whole_blocks(x, **after))).when(pools_whole_axes(q, s, d))


@computed
def padded(pad_width: Sequence[Sequence[int]], s: str, d: str) -> tuple[tuple[int, ...], ...]:
    """The padding of data in blocks. Rejects padding along an axis that has blocks."""
    return tuple((0, 0) if block else tuple(pad_width[d.index(name)]) for name, block in parts_of(s))


@guard
def pads_whole_axes(pad_width: Sequence[Sequence[int]], s: str, d: str) -> bool | str:
    """No axis with blocks is padded."""
    split = [letter for letter, width in zip(d, pad_width, strict=True) if any(width) and blocks_of(s, letter)]
    return not split or f"{s} has blocks along {split[0]}, which is padded"


_END: Final = 2**63 - 1


def _cuts(attrs: Attrs, src: str, dst: str) -> dict[int, tuple[int, int, int]]:
    """Begin, end and stride by axis of the data in blocks. Rejects slices that divide a block."""
    found = {}
    for axis, (begin, end, stride) in slice_parts(len(dst), attrs.begin, attrs.end, attrs.strides, attrs.axes).items():
        block = prod(blocks_of(src, dst[axis]))
        ends = [end] if abs(end) < _END else []
        if block > 1 and (stride != 1 or any(number % block for number in (begin, *ends))):
            raise Reject(f"from {begin} to {end} in steps of {stride} along {dst[axis]} is not a whole number of blocks of {block}")
        found[_places(src, dst[axis])[0]] = (begin // block, end // block if ends else end, stride)
    return found


@computed
def sliced_blocks(attrs: Attrs, s: str, d: str, part: str) -> tuple[int, ...]:
    """A parameter of the slice of data in blocks."""
    cuts = _cuts(attrs, s, d)
    if part == "axes":
        return tuple(sorted(cuts))
    return tuple(cuts[axis][("begin", "end", "strides").index(part)] for axis in sorted(cuts))


_SLICED: Final = op.strided_slice(x, attrs=a, **{name: sliced_blocks(a, s, d, name) for name in ("begin", "end", "strides", "axes")})


@computed
def split_blocks(attrs: Attrs, x: Term, s: str, d: str) -> AnyValue:
    """The positions of a split, counted in blocks. Rejects positions inside of a block."""
    letter, places = d[attrs.axis], attrs.indices_or_sections
    block, count = prod(blocks_of(s, letter)), x.type.shape[_places(s, letter)[0]]
    if isinstance(places, int):
        if block > 1 and (type(count) is not int or count % places):
            raise Reject(f"{count!r} blocks are not divisible into {counted(places, 'part')}")
        return places
    if any(place % block for place in places):
        raise Reject(f"a split at {places} divides a block of {block}")
    return tuple(place // block for place in places)


part, blocks = cases("part", "first", "second", "third", "fourth"), cases("blocks", "kept", "lost")
_PART: Final = part(first=0, second=1, third=2, fourth=3)
_PARTS: Final = op.split(_CHANGED, attrs=a)


def _left(layout: str, gone: frozenset[str], keepdims: bool) -> str:
    """A layout without some axes, or with size 1 along them."""
    kept = [(name, 1 if size and name[0].upper() in gone else size) for name, size in parts_of(layout)]
    return written(kept if keepdims else [(name, size) for name, size in kept if name[0].upper() not in gone])


def _gone(attrs: Attrs, dst: str) -> frozenset[str]:
    return frozenset(dst[axis] for axis in reduced_axes(len(dst), attrs.axis, attrs.exclude))


@computed
def reduced_blocks(attrs: Attrs, s: str, d: str) -> tuple[int, ...]:
    """The axes of data in blocks that a reduction removes."""
    return tuple(sorted(place for letter in _gone(attrs, d) for place in _places(s, letter)))


@computed
def left_layout(layout: str, attrs: Attrs, d: str) -> str:
    """The layout of the result of a reduction."""
    return _left(layout, _gone(attrs, d), attrs.keepdims)


@guard
def keeps_blocks(attrs: Attrs, s: str, d: str) -> bool | str:
    """The result of the reduction has blocks."""
    left = _left(s, _gone(attrs, d), attrs.keepdims)
    return has_blocks(left) or f"the result has the layout {left}"


@guard
def loses_blocks(attrs: Attrs, s: str, d: str) -> bool | str:
    """The reduction removes all blocks, and the remaining axes have the same order in both layouts."""
    left, wanted = (_left(layout, _gone(attrs, d), attrs.keepdims) for layout in (s, d))
    return left == wanted or f"the result has the layout {left}, not {wanted}"


def _reduces(of: OperatorHole) -> Rule:
    """Sinks a change below a reduction; nothing is left to change if the result has no blocks."""
    right = of(x, attrs=a, axis=reduced_blocks(a, s, d), exclude=False)
    changed = op.layout_transform(right, src_layout=left_layout(s, a, d), dst_layout=left_layout(d, a, d))
    fits = (*blocks.only("kept", keeps_blocks(a, s, d)), *blocks.only("lost", loses_blocks(a, s, d)))
    return (of(_CHANGED, attrs=a) >> blocks(kept=changed, lost=right)).when(_LEAVES, *fits).lowering()


f = operator("f", arity=1, elementwise=True, but=("copy", "elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum"))
g = operator("g", arity=2, elementwise=True, but=("maximum", "minimum", "nn.prelu"))
extremum = operator("extremum", "maximum", "minimum")
ys = tensors_of("ys", least=1, most=7)


class SinkBlocks(RuleSet):
    """Merges adjacent changes of layouts with blocks, and transposes next to them. Sinks a change from blocks to whole axes below operators
    that can compute with blocks."""

    merge = (
        _TWICE
        >> result(
            same=x,
            blocks=op.layout_transform(x, src_layout=s, dst_layout=led_to(s, d, t, u)),
            whole_axes=op.transpose(x, axes=order_behind(s, d, t, u)),
        )
    ).when(
        *result.only("same", returns(s, d, t, u)),
        *result.only("blocks", leads_to_blocks(s, d, t, u)),
        *result.only("whole_axes", leads_to_whole_axes(s, d, t, u)),
    )
    before = (
        op.layout_transform(op.transpose(x, axes=p), src_layout=s, dst_layout=d)
        >> op.layout_transform(x, src_layout=order_before(s, p), dst_layout=d)
    ).when(has_whole_axes(s, p))
    after = (op.transpose(_CHANGED, axes=p) >> op.layout_transform(x, src_layout=s, dst_layout=order_after(d, p))).when(
        has_whole_axes(d, p)
    )
    unary = _sinks(f(_CHANGED, attrs=a), f(x, attrs=a))
    binary = _beside(g)
    extremum = _beside(extremum).inexact(TIES)
    concat = _sinks(
        op.concatenate((_CHANGED, *ys), axis=q),
        op.concatenate((x, *(op.layout_transform(each, src_layout=d, dst_layout=s) for each in ys)), axis=main_axis(q, s, d)),
    ).when(is_divisible(ys, q, s, d))
    max_pool = _pools("max")
    avg_pool = _pools("avg").inexact(_SUMS)
    repeat = _sinks(op.repeat(_CHANGED, attrs=a, axis=q), op.repeat(x, attrs=a, axis=main_axis(q, s, d))).when(has_no_blocks_along(q, s, d))
    pad = _sinks(op.nn.pad(_CHANGED, attrs=a, pad_width=q), op.nn.pad(x, attrs=a, pad_width=padded(q, s, d))).when(pads_whole_axes(q, s, d))
    slice = _sinks(op.strided_slice(_CHANGED, attrs=a), _SLICED)
    split = _sinks(
        op.split(_CHANGED, attrs=a, axis=q)[_PART],
        op.split(x, attrs=a, indices_or_sections=split_blocks(a, x, s, d), axis=main_axis(q, s, d))[_PART],
    ).when(has_part(_PARTS, a, _CHANGED, _PART))
    quantifier = _reduces(quantifier)
    total = _reduces(total).inexact(f"{_SUMS}, or {TIES}")
