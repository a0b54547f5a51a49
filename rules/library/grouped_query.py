"""Grouped-query attention without copies of keys and values. Operators: nn.matmul broadcast_to reshape transpose.

Exporters repeat each head of keys and values for all queries of its group: they insert an axis, broadcast it, and merge it with the heads
(Ainslie et al. 2023 have the method, `repeat_kv` is the usual code). The product broadcasts by itself where the queries are grouped
instead.
"""

from passat.ir.bounds import at_least
from passat.ir.ops.newshape import static_newshape
from passat.ir.shape import Shape, same_dim
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.matmul_chains import product
from passat.rules.pattern import Pattern, op, tensors
from passat.rules.rule import RuleSet

x, y = tensors("x y")
_WIDE = op.broadcast_to(y)
_HEADS = op.reshape(_WIDE)
_TURNED = op.transpose(_HEADS, axes=(0, 1, 3, 2))
_NOTE = "a product of another shape may sum in another order"


def _repeated_heads(dice: Dice, x: Draft, y: Draft, wide: Draft, heads: Draft) -> Drafts:
    batch, count, times, length, size = (dice.full() for _ in range(5))
    other = x.shape if x.shape is not None else (batch, count * times, dice.full(), dice.pick([length, size]))
    return [
        Draft(other),
        Draft((batch, count, 1, length, size)),
        Draft((batch, count, times, length, size)),
        Draft((batch, count * times, length, size)),
    ]


@condition(draw=_repeated_heads)
def repeats_heads(x: Term, y: Term, wide: Term, heads: Term) -> bool | str:
    """Heads (batch, heads, 1, length, size) are repeated within each group and merged: (batch, all heads, length, size); the other factor
    has as many heads."""
    narrow, broad, merged = y.type.shape, wide.type.shape, heads.type.shape
    if (len(narrow), len(broad), len(merged), x.type.ndim) != (5, 5, 4, 4):
        return f"these are no repeated heads: {y.type!r}, {heads.type!r}"
    kept = all(same_dim(narrow[i], broad[i]) for i in (0, 1, 3, 4)) and narrow[2] == 1
    sizes = broad[1], broad[2], merged[1]
    counted = isinstance(sizes[0], int) and isinstance(sizes[1], int) and sizes[0] * sizes[1] == merged[1]
    others = all(same_dim(broad[i], merged[j]) for i, j in ((0, 0), (3, 2), (4, 3)))
    if not (kept and counted and others):
        return f"{heads.type!r} is not {y.type!r} with repeated heads"
    same = all(same_dim(m, n) for m, n in zip(x.type.shape[:2], merged[:2], strict=True))
    return same or f"{x.type!r} does not have the heads of {heads.type!r}"


def _newshape(source: Shape, target: Shape) -> tuple[int, ...]:
    attrs = static_newshape(source, target)
    if attrs is None or attrs["allowzero"]:
        raise Refuse(f"no reshape of {source} is certain to give {target}")
    newshape: tuple[int, ...] = tuple(attrs["newshape"])
    if -1 in newshape and not all(at_least(dim, 1) for dim, entry in zip(target, newshape, strict=True) if entry != -1):
        raise Refuse(f"{target} may be empty")
    return newshape


@computed
def grouped(x: Term, wide: Term) -> tuple[int, ...]:
    """The newshape of the queries in groups: (batch, heads, group, length, size)."""
    shape = x.type.shape
    return _newshape(shape, (shape[0], *wide.type.shape[1:3], *shape[2:]))


@computed
def merged(x: Term, wide: Term, whole: Term) -> tuple[int, ...]:
    """The newshape that merges groups and heads of a product again."""
    shape = whole.type.shape
    return _newshape((shape[0], *wide.type.shape[1:3], *shape[2:]), shape)


def _in_groups(right: Pattern, whole: Pattern) -> Pattern:
    return op.reshape(product(op.reshape(x, newshape=grouped(x, _WIDE)), right), newshape=merged(x, _WIDE, whole))


class GroupedQueries(RuleSet):
    """Products with repeated heads: queries are grouped, heads are not repeated."""

    values = (product(x, _HEADS) >> _in_groups(y, product(x, _HEADS))).when(repeats_heads(x, y, _WIDE, _HEADS)).inexact(_NOTE).exploring()
    keys = (
        (product(x, _TURNED) >> _in_groups(op.transpose(y, axes=(0, 1, 2, 4, 3)), product(x, _TURNED)))
        .when(repeats_heads(x, y, _WIDE, _HEADS))
        .inexact(_NOTE)
        .exploring()
    )
