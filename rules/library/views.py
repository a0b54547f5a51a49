"""Views and transposes: chains of them, views of computed shapes, and transposes within batches. Operators: reshape expand_dims squeeze
nn.batch_flatten transpose dyn.reshape dyn.broadcast_to shape_of.
"""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.ops.movement import is_reshaping_permutation, permutation
from passat.ir.ops.newshape import is_identity_reshape, static_newshape
from passat.ir.ops.reshaping import new_axes as inserted
from passat.ir.shape import Dim, divide, same_dim
from passat.rules.guards import (
    Reject,
    Term,
    compose,
    computed,
    guard,
    is_identity,
)
from passat.rules.holes import CaseHole, cases
from passat.rules.pattern import AttrHole, Pattern, attributes, op, tensors
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
a, b, p, q = attributes("a b p q")


@guard
def keeps_shape(x: Term, whole: Term) -> bool | str:
    """The view certainly keeps the shape."""
    return is_identity_reshape(x.type, whole.type) or f"{whole.type!r} may differ from {x.type!r}"


@computed
def new_shape(x: Term, whole: Term, *given: tuple[int, ...]) -> tuple[int, ...]:
    """The `newshape` of the reshape from one type to another. Rejects more than one unknown size, and -1 where there may be no elements,
    unless a `given` newshape already has -1."""
    attrs = static_newshape(x.type.shape, whole.type.shape)
    if attrs is None or attrs["allowzero"]:
        raise Reject(f"no reshape of {x.type!r} certainly gives {whole.type!r}")
    newshape: tuple[int, ...] = tuple(attrs["newshape"])
    if -1 in newshape:
        others = [dim for dim, entry in zip(whole.type.shape, newshape, strict=True) if entry != -1]
        certain = all(at_least(dim, 1) for dim in others) or any(-1 in entries for entries in given)
        if not certain or 0 in x.type.shape:
            raise Reject(f"{x.type!r} may be empty")
    return newshape


VIEWS: Final = ("reshape", "expand_dims", "squeeze", "flatten")
outer, inner = cases("outer", *VIEWS), cases("inner", *VIEWS)


def _view(kind: CaseHole, of: Pattern, newshape: AttrHole | None = None) -> Pattern:
    reshape = op.reshape(of, ...) if newshape is None else op.reshape(of, ..., newshape=newshape)
    return kind(reshape=reshape, expand_dims=op.expand_dims(of, ...), squeeze=op.squeeze(of, ...), flatten=op.nn.batch_flatten(of, ...))


_ONE, _PAIR = _view(outer, x), _view(outer, _view(inner, x, newshape=q), newshape=p)
_GIVEN = [kind(reshape=hole, expand_dims=(), squeeze=(), flatten=()) for kind, hole in ((outer, p), (inner, q))]


@computed
def composed_axes(inner: Attrs, outer: Attrs, x: Term) -> tuple[int, ...]:
    """The positions in the result of all axes that two expand_dims insert."""
    rank = x.type.ndim
    first = inserted(rank, inner.axis, inner.num_newaxis)
    then = inserted(rank + len(first), outer.axis, outer.num_newaxis)
    source = iter(range(rank + len(first)))
    return tuple(place for place in range(rank + len(first) + len(then)) if place in then or next(source) in first)


class Views(RuleSet):
    """Merges chained views (reshape, expand_dims, squeeze, flatten) into one reshape, expand_dims or none."""

    to_same = (_ONE >> x).when(keeps_shape(x, _ONE))
    fuse = _PAIR >> op.reshape(x, newshape=new_shape(x, _PAIR, *_GIVEN))
    new_axes = op.expand_dims(op.expand_dims(x, attrs=a), attrs=b) >> op.expand_dims(x, axis=composed_axes(a, b, x))


@guard
def is_view(axes: AnyValue, x: Term) -> bool | str:
    """The transpose moves no axis of size greater than 1 past another."""
    return (
        is_reshaping_permutation(x.type.shape, axes or tuple(reversed(range(x.type.ndim)))) or f"axes={axes} moves elements of {x.type!r}"
    )


def _factors(sizes: Sequence[Dim], viewed: Sequence[Dim]) -> list[tuple[int, int]] | None:
    """The factors of sizes on both sides of a reshape, in order, without 1: for each, the axis that it is part of on either side. None
    if an axis ends within a factor of the other side.

    >>> _factors((2, 6, 5), (4, 3, 5)), _factors((4, 9), (6, 6))
    ([(0, 0), (1, 0), (1, 1), (2, 2)], None)
    """
    found: list[tuple[int, int]] = []
    left, right = ([(axis, size) for axis, size in enumerate(shape) if size != 1][::-1] for shape in (sizes, viewed))
    while left and right:
        (source, size), (target, other) = left.pop(), right.pop()
        found.append((source, target))
        if same_dim(size, other):
            continue
        rest, more = divide(size, other), divide(other, size)
        if same_dim(rest * other, size):
            left.append((source, rest))
        elif same_dim(more * size, other):
            right.append((target, more))
        else:
            return None
    return None if left or right else found


@guard
def restores_order(first: AnyValue, x: Term, viewed: Term, then: AnyValue) -> bool | str:
    """Two transposes with a reshape between them leave all elements in order."""
    before, behind = permutation(x.type.ndim, first), permutation(viewed.type.ndim, then)
    factors = _factors([x.type.shape[axis] for axis in before], viewed.type.shape)
    if factors is None:
        return f"an axis of {viewed.type!r} has a part of an axis of {x.type!r}"
    own = sorted(range(len(factors)), key=lambda place: (before[factors[place][0]], place))
    moved = sorted(range(len(factors)), key=lambda place: (behind.index(factors[place][1]), place))
    return own == moved or f"axes={first} and {then} move elements of {x.type!r}"


turned = cases("turned", "once", "twice")
_ONCE: Final = op.transpose(x, axes=p)
_BETWEEN: Final = op.reshape(_ONCE, ..., newshape=a)
_TURNED_VIEW: Final = turned(once=_ONCE, twice=op.transpose(_BETWEEN, axes=q))


class Transposes(RuleSet):
    """Merges and cancels transposes, also with a reshape between them. Rewrites transposes that move no elements as reshapes."""

    to_reshape = (
        (_TURNED_VIEW >> op.reshape(x, newshape=new_shape(x, _TURNED_VIEW, turned(once=(), twice=a))))
        .when(*turned.only("once", is_view(p, x)), *turned.only("twice", restores_order(p, x, _BETWEEN, q)))
        .exploring()
    )
    merge = op.transpose(op.transpose(x, axes=p), axes=q) >> op.transpose(x, axes=compose(p, q, x))
    drop = (op.transpose(x, axes=p) >> x).when(is_identity(p, x))


@computed
def new_axes(x: Term, whole: Term) -> tuple[int, ...]:
    """The positions of the axes of size 1 that an expand_dims inserts, possibly none. Rejects shapes that differ otherwise."""
    places: list[int] = []
    left = list(x.type.shape)
    for place, dim in enumerate(whole.type.shape):
        if left and same_dim(left[0], dim):
            left.pop(0)
        elif dim == 1:
            places.append(place)
        else:
            break
    if left or len(places) + x.type.ndim != whole.type.ndim:
        raise Reject(f"{whole.type!r} is not {x.type!r} with new axes")
    return tuple(places)


inner = cases("inner", "plain", "reshape", "expand_dims", "squeeze", "flatten", "dynamic")


@guard
def is_dynamic(x: Term) -> bool | str:
    """Not all sizes are known. (For static sizes, `Views` merges the two views.)"""
    return not x.type.is_static or f"the sizes of {x.type!r} are known"


@guard
def has_all_sizes(shape: Term, x: Term) -> bool | str:
    """A vector of sizes of a tensor has all of them."""
    return shape.type.shape == (x.type.ndim,) or f"{shape.type!r} does not have all sizes of {x.type!r}"


@guard
def keeps_batches(axes: AnyValue, x: Term, batches: Term, whole: Term) -> bool | str:
    """Reshapes merge leading axes into one, which the transpose keeps first, and restore them, so that the last axes stay whole."""
    inner, outer = batches.type, whole.type
    if axes is None or inner.ndim < 2 or axes[0] % inner.ndim:
        return f"axes={axes} move the first axis"
    tail = inner.shape[1:]
    turned = [inner.shape[axis] for axis in axes[1:]]
    if x.type.ndim < inner.ndim or outer.ndim < inner.ndim:
        return f"{x.type!r} has no batch dimensions that {inner!r} merges"
    fits = all(map(same_dim, x.type.shape[-len(tail) :], tail)) and all(map(same_dim, outer.shape[-len(tail) :], turned))
    return fits or f"the reshapes of {x.type!r} and to {outer!r} do not only split and merge batch dimensions"


@computed
def in_batches(x: Term, batches: Term, whole: Term) -> tuple[int, ...]:
    """The newshape that gives a tensor the leading axes of the result and keeps its last ones. Rejects ambiguous sizes."""
    tail = batches.type.shape[1:]
    wanted = (*whole.type.shape[: whole.type.ndim - len(tail)], *tail)
    found = static_newshape(x.type.shape, wanted)
    if found is None or found["allowzero"] or (-1 in found["newshape"] and not all(at_least(size, 1) for size in wanted)):
        raise Reject(f"no reshape of {x.type!r} certainly gives it the batch dimensions of {whole.type!r}")
    newshape: tuple[int, ...] = tuple(found["newshape"])
    return newshape


@computed
def batch_axes(axes: tuple[int, ...], whole: Term) -> tuple[int, ...]:
    """The permutation of the last axes alone."""
    first = whole.type.ndim - len(axes) + 1
    return (*range(first), *(first + axis % len(axes) - 1 for axis in axes[1:]))


_BATCHES = op.reshape(x, ..., newshape=q)
_TURNED_BATCHES = op.transpose(_BATCHES, axes=p)
_KEYS = op.reshape(_TURNED_BATCHES, ...)
_VIEWED: Final = op.dyn.reshape(
    inner(
        plain=x,
        reshape=op.reshape(x, ...),
        expand_dims=op.expand_dims(x, ...),
        squeeze=op.squeeze(x, ...),
        flatten=op.nn.batch_flatten(x, ...),
        dynamic=op.dyn.reshape(x, z, ...),
    ),
    y,
    ...,
)
_AGAIN: Final = op.reshape(op.expand_dims(x, ...), ...)


@guard
def keeps_leading(axes: tuple[int, ...], x: Term, whole: Term) -> bool | str:
    """The result keeps the leading axes of the tensor, which the intermediate tensor merges."""
    count = x.type.ndim - len(axes) + 1
    same = x.type.ndim == whole.type.ndim and all(map(same_dim, x.type.shape[:count], whole.type.shape[:count]))
    return same or f"{whole.type!r} does not have the leading axes of {x.type!r}"


_SHAPE: Final = op.shape_of(x, ...)
own = cases("own", "reshape", "broadcast")
computed_shape = cases("computed", "both", "last", "first")
_MERGED: Final = computed_shape(both=op.dyn.reshape(x, y, ...), last=op.reshape(x, ...), first=op.dyn.reshape(x, y, ...))
_TURNED: Final = op.transpose(_MERGED, axes=p)
_APART: Final = computed_shape(both=op.dyn.reshape(_TURNED, z, ...), last=op.dyn.reshape(_TURNED, z, ...), first=op.reshape(_TURNED, ...))


class DynamicViews(RuleSet):
    """Drops reshapes and broadcasts of a tensor to its own shape, and rewrites reshapes to a computed shape that only insert axes, and
    transposes between reshapes that merge and restore the batch as transposes of the last axes."""

    own_shape = (own(reshape=op.dyn.reshape(x, _SHAPE, ...), broadcast=op.dyn.broadcast_to(x, _SHAPE)) >> x).when(has_all_sizes(_SHAPE, x))
    reshape = _VIEWED >> op.expand_dims(x, axis=new_axes(x, _VIEWED))
    spread = (_AGAIN >> op.expand_dims(x, axis=new_axes(x, _AGAIN))).when(is_dynamic(x))
    transpose = (_APART >> op.transpose(x, axes=batch_axes(p, _APART))).when(
        keeps_batches(p, x, _MERGED, _APART), keeps_leading(p, x, _APART)
    )
    batch_transpose = (_KEYS >> op.transpose(op.reshape(x, newshape=in_batches(x, _BATCHES, _KEYS)), axes=batch_axes(p, _KEYS))).when(
        keeps_batches(p, x, _BATCHES, _KEYS)
    )
