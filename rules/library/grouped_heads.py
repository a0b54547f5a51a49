"""Products of grouped-query attention (Ainslie et al. 2023), whose queries share heads of keys and values, without copies of the heads.
Operators: nn.matmul nn.softmax add broadcast_to expand_dims reshape dyn.reshape squeeze transpose.

Exporters repeat each head of keys and values for all queries of its group: they insert an axis, broadcast it, and merge it with the heads
(usually `repeat_kv`). Instead, the queries of a group are rows of one matrix, of the shape (batch, heads, group * length, size). Where the
length is unknown, this shape would have to be computed. There, the queries of a group are a stack of matrices, of the shape (batch, heads,
group, length, size), and the product broadcasts the heads. With one query, as in most steps of a decoder, this is as fast. One head that
all queries share (Shazeer 2019) is broadcast without a stack.
"""

from typing import Final

from passat.ir.shape import same_dim
from passat.rules.guards import Term, computed, guard, is_axis
from passat.rules.holes import cases
from passat.rules.library.matmul_algebra import certain_newshape
from passat.rules.library.products import product
from passat.rules.pattern import Pattern, attributes, op, tensors
from passat.rules.rule_set import RuleSet

x, y, m, sizes = tensors("x y m sizes")
a, q = attributes("a q")
_RESHAPED: Final = "a product of another shape may accumulate in another order"


@guard
def repeats_heads_in_groups(x: Term, y: Term, wide: Term, heads: Term) -> bool | str:
    """Heads (batch, heads, 1, length, size) are repeated within each group and merged to (batch, all heads, length, size); the other factor
    has the same number of heads."""
    narrow, broad, merged = y.type.shape, wide.type.shape, heads.type.shape
    if (len(narrow), len(broad), len(merged), x.type.ndim) != (5, 5, 4, 4):
        return f"these are not repeated heads: {y.type!r}, {heads.type!r}"
    kept = all(same_dim(narrow[i], broad[i]) for i in (0, 1, 3, 4)) and narrow[2] == 1
    sizes = broad[1], broad[2], merged[1]
    counted = isinstance(sizes[0], int) and isinstance(sizes[1], int) and sizes[0] * sizes[1] == merged[1]
    others = all(same_dim(broad[i], merged[j]) for i, j in ((0, 0), (3, 2), (4, 3)))
    if not (kept and counted and others):
        return f"{heads.type!r} is not {y.type!r} with repeated heads"
    same = all(same_dim(m, n) for m, n in zip(x.type.shape[:2], merged[:2], strict=True))
    return same or f"{x.type!r} does not have the heads of {heads.type!r}"


@guard
def has_new_rows(x: Term, y: Term) -> bool | str:
    """There is one row, or their number is unknown and not the length of the heads: tokens that follow those of a cache."""
    rows, length = x.type.shape[2], y.type.shape[3]
    if isinstance(rows, int):
        return rows == 1 or f"{x.type!r} has {rows} rows, which can be joined"
    return not same_dim(rows, length) or f"{x.type!r} has a row for each one of {y.type!r}, whose copies cost little beside such a product"


@guard
def has_several_heads(y: Term) -> bool | str:
    """There are several heads, each for one group."""
    return y.type.shape[1] != 1 or f"{y.type!r} has one head, which needs no stack"


@guard
def has_one_head(y: Term) -> bool | str:
    """All queries share one head, as in multi-query attention. A product broadcasts it as it is."""
    return y.type.shape[1] == 1 or f"{y.type!r} has several heads"


@computed
def grouped_shape(x: Term, wide: Term) -> tuple[int, ...]:
    """The newshape that joins the rows of all queries of a group: (batch, heads, group * length, size)."""
    batch, _, length, size = x.type.shape
    heads, group = wide.type.shape[1:3]
    return certain_newshape(x.type.shape, (batch, heads, group * length, size))


@computed
def apart(wide: Term, whole: Term) -> tuple[int, ...]:
    """The newshape that splits the joined rows of a product into all heads."""
    batch, _, length, size = whole.type.shape
    heads, group = wide.type.shape[1:3]
    return certain_newshape((batch, heads, group * length, size), whole.type.shape)


@computed
def stacked_shape(x: Term, wide: Term) -> tuple[int, ...]:
    """The newshape that splits the heads of (batch, all heads, 1, length, size) into groups. The other axes keep their places, so it copies
    their sizes and needs no -1, which ONNX cannot infer in an empty tensor."""
    batch, count, length, size = x.type.shape
    return certain_newshape((batch, count, 1, length, size), (batch, *wide.type.shape[1:3], length, size))


@computed
def merged_shape(wide: Term, whole: Term) -> tuple[int, ...]:
    """The newshape that merges the groups again, to (batch, all heads, 1, length, size)."""
    batch, count, length, size = whole.type.shape
    return certain_newshape((batch, *wide.type.shape[1:3], length, size), (batch, count, 1, length, size))


shape, heads, group = cases("shape", "static", "computed"), cases("heads", "values", "keys"), cases("group", "joined", "stacked", "single")
_WIDE = op.broadcast_to(y, ...)
_HEADS = shape(static=op.reshape(_WIDE, ...), computed=op.dyn.reshape(_WIDE, sizes, ...))
_WHOLE = product(x, heads(values=_HEADS, keys=op.transpose(_HEADS, axes=(0, 1, 3, 2))))
_ONCE = op.squeeze(y, axis=(2,))
_NARROW = heads(values=_ONCE, keys=op.transpose(_ONCE, axes=(0, 1, 3, 2)))
_ROWS = op.reshape(x, newshape=grouped_shape(x, _WIDE))
_JOINED = op.reshape(product(_ROWS, _NARROW), newshape=apart(_WIDE, _WHOLE))
_STACK = op.reshape(op.expand_dims(x, axis=2), newshape=stacked_shape(x, _WIDE))
_OF_STACK = product(_STACK, heads(values=y, keys=op.transpose(y, axes=(0, 1, 2, 4, 3))))
_STACKED = op.squeeze(op.reshape(_OF_STACK, newshape=merged_shape(_WIDE, _WHOLE)), axis=(2,))
behind = cases("behind", "softmax", "masked", "transpose")


def _merged(of: Pattern) -> Pattern:
    """The tensor with the axes of heads and groups merged."""
    return op.squeeze(op.reshape(of, attrs=a), axis=(2,))


_MERGED: Final = _merged(x)


@guard
def merges_groups(x: Term, merged: Term) -> bool | str:
    """The view merges (batch, heads, group, length, size) to (batch, all heads, length, size)."""
    apart, whole = x.type.shape, merged.type.shape
    if (len(apart), len(whole)) != (5, 4) or not isinstance(apart[1], int) or not isinstance(apart[2], int):
        return f"{x.type!r} is not a stack of grouped heads"
    same = apart[1] * apart[2] == whole[1] and all(same_dim(apart[i], whole[j]) for i, j in ((0, 0), (3, 2), (4, 3)))
    return same or f"{merged.type!r} is not {x.type!r} with merged heads"


@guard
def is_shared_by_heads(m: Term) -> bool | str:
    """The mask is (batch, 1, length, size): all heads have the same one."""
    return (m.type.ndim == 4 and m.type.shape[1] == 1) or f"{m.type!r} is not one mask for all heads"


@computed
def ungrouped_shape(x: Term, merged: Term) -> tuple[int, ...]:
    """The newshape that merges (batch, length, heads, group, size) to (batch, length, all heads, size)."""
    (batch, *groups, length, size), count = x.type.shape, merged.type.shape[1]
    return certain_newshape((batch, length, *groups, size), (batch, length, count, size))


class GroupedHeads(RuleSet):
    """Groups queries instead of repeating the heads of keys and values that they share, and moves the view that merges the groups behind
    masks, softmax and the transpose that follows."""

    repeated = (
        (_WHOLE >> group(joined=_JOINED, stacked=_STACKED, single=product(x, _NARROW)))
        .when(repeats_heads_in_groups(x, y, _WIDE, _HEADS), *group.only("stacked single", has_new_rows(x, y)))
        .when(*group.only("stacked", has_several_heads(y)), *group.only("single", has_one_head(y)))
        .inexact(_RESHAPED)
        .exploring()
    )
    merged = (
        (
            behind(
                softmax=op.nn.softmax(_MERGED, axis=q),
                masked=op.nn.softmax(_MERGED + m, axis=q),
                transpose=op.transpose(_MERGED, axes=(0, 2, 1, 3)),
            )
            >> behind(
                softmax=_merged(op.nn.softmax(x, axis=-1)),
                masked=_merged(op.nn.softmax(x + op.expand_dims(m, axis=2), axis=-1)),
                transpose=op.reshape(op.transpose(x, axes=(0, 3, 1, 2, 4)), newshape=ungrouped_shape(x, _MERGED)),
            )
        )
        .when(merges_groups(x, _MERGED), *behind.only("softmax masked", is_axis(q, -1, _MERGED)))
        .when(*behind.only("masked", is_shared_by_heads(m)))
        .inexact("sums in another order")
        .exploring()
    )
