"""Simplifies reductions: nested ones, of views and copies, sums divided by their number of elements, and softmax of shifted tensors.

Operators: sum mean max min prod all any logsumexp reduce_l1 reduce_l2 nn.softmax nn.log_softmax transpose reshape broadcast_to squeeze add
subtract multiply divide.
"""

from collections.abc import Sequence
from typing import Final

import ml_dtypes

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.ir.ops.movement import permutation
from passat.ir.ops.reduction import reduced_axes
from passat.ir.tensor import Tensor
from passat.rules.guards import Reject, Term, computed, guard, is_float, same_type, shape_of
from passat.rules.holes import OperatorHole, cases, operator
from passat.rules.library.arithmetic import TIES
from passat.rules.library.products import is_scalar
from passat.rules.library.raising import are_same_axes
from passat.rules.pattern import PCall, attributes, constants, number, op, tensors, value
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y = tensors("x y")
(c,) = constants("c")
a, b, p = attributes("a b p")
_SUMS: Final = "sums in another order"
_OR_TIES: Final = f"{_SUMS}, or {TIES}"
quantifier = operator("quantifier", "all", "any")
extremum = operator("extremum", "max", "min")
total = operator("total", "max", "min", "sum", "prod")
floating = operator("floating", "mean", "logsumexp", "reduce_l1", "reduce_l2")
"""Reductions by kind: quantifiers, extrema and sums of any element type, and reductions to floating-point values. A sum of absolute values
may overflow to a negative integer, of which a second one takes the absolute value."""


def _merged(inner: Attrs, outer: Attrs, x: Term) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The axes that two nested reductions reduce together, and those of them that the result keeps with size 1."""
    rank = x.type.ndim
    first = reduced_axes(rank, inner.axis, inner.exclude)
    left = list(range(rank)) if inner.keepdims else [axis for axis in range(rank) if axis not in first]
    then = [left[axis] for axis in reduced_axes(len(left), outer.axis, outer.exclude)]
    every = tuple(sorted({*first, *then}))
    return every, tuple([axis for axis in every if (outer.keepdims if axis in then else inner.keepdims)])


@computed
def merged_axes(inner: Attrs, outer: Attrs, x: Term) -> tuple[int, ...]:
    """The axes that two nested reductions reduce together."""
    return _merged(inner, outer, x)[0]


@computed
def kept_by_both(inner: Attrs, outer: Attrs, x: Term) -> bool:
    """True if two nested reductions keep the reduced dimensions. Rejects reductions that keep some of them."""
    every, kept = _merged(inner, outer, x)
    if kept and kept != every:
        raise Reject(f"keepdims is {inner.keepdims} inside and {outer.keepdims} outside")
    return bool(kept)


@computed
def kept(attrs: Attrs) -> bool:
    """True if a reduction keeps the reduced dimensions."""
    return bool(attrs.keepdims)


@computed
def dropped_axes(inner: Attrs, outer: Attrs, x: Term) -> tuple[int, ...]:
    """The reduced axes that one of two nested reductions drops. Rejects reductions that keep all of them, or none."""
    every, kept = _merged(inner, outer, x)
    if not kept or kept == every:
        raise Reject(f"keepdims is {inner.keepdims} inside and {outer.keepdims} outside")
    return tuple([axis for axis in every if axis not in kept])


def _repeated(of: OperatorHole) -> Rule:
    return of(of(x, attrs=a), attrs=b) >> of(x, axis=merged_axes(a, b, x), keepdims=kept_by_both(a, b, x))


def _count(attrs: Attrs, x: Term) -> int:
    """The number of elements that a reduction combines. Rejects unknown ones."""
    found = 1
    for axis in reduced_axes(x.type.ndim, attrs.axis, attrs.exclude):
        size = x.type.shape[axis]
        if not isinstance(size, int):
            raise Reject(f"the size of axis {axis} of {x.type!r} is unknown")
        found *= size
    return found


@computed
def count(attrs: Attrs, x: Term) -> float:
    """The number of elements that a reduction combines; at least one."""
    found = _count(attrs, x)
    if not found:
        raise Reject(f"the reduced axes of {x.type!r} are empty")
    return float(found)


@guard
def is_count(c: Term, attrs: Attrs, x: Term, inverted: bool) -> bool | str:
    """The constant is the number of elements that a reduction combines, or its reciprocal up to rounding."""
    count, found = _count(attrs, x), c.value().uniform()
    if found is None or count < 1:
        return "the elements of the constant differ" if found is None else f"the reduced axes of {x.type!r} are empty"
    step = float(ml_dtypes.finfo(to_numpy(c.type.dtype)).eps) if inverted else 0.0  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    fits = abs(float(found) * count - 1) <= step if inverted else float(found) == count
    return fits or f"{found} is not {'the reciprocal of ' if inverted else ''}the number of elements, {count}"


nested = cases("nested", "sum_of_mean", "mean_of_sum")
counted = cases("counted", "quotient", "product", "mean")
_TOTAL: Final = op.sum(x, attrs=a)
_MEAN: Final = op.mean(x, attrs=a)
_COUNTED: Final = counted(quotient=_TOTAL / c, product=_TOTAL * c, mean=_MEAN * c)


@computed
def axes_before(attrs: Attrs, axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The axes of the tensor that a reduction of its transpose reduces. Rejects transposes that reorder the remaining axes."""
    rank = x.type.ndim
    order = permutation(rank, axes)
    gone = {order[axis] for axis in reduced_axes(rank, attrs.axis, attrs.exclude)}
    left = [axis for axis in order if axis not in gone]
    if left != sorted(left) or (attrs.keepdims and left):
        raise Reject(f"the remaining axes are reordered: {left}")
    return tuple(sorted(gone))


@computed
def axes_kept_before(attrs: Attrs, axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The axes of the tensor that a reduction of its transpose reduces and keeps with size 1."""
    rank = x.type.ndim
    if not attrs.keepdims:
        raise Reject("keepdims is False")
    order = permutation(rank, axes)
    return tuple(sorted(order[axis] for axis in reduced_axes(rank, attrs.axis, attrs.exclude)))


@guard
def reduces_all(attrs: Attrs, x: Term) -> bool | str:
    """The reduction gives a scalar."""
    rank = x.type.ndim
    everything = rank > 0 and not attrs.keepdims and len(reduced_axes(rank, attrs.axis, attrs.exclude)) == rank
    return everything or f"the reduction of {x.type!r} does not give a scalar"


_TURNED: Final = op.transpose(x, axes=p)
_VIEWED: Final = op.reshape(x, ...)


def _of_transpose(of: OperatorHole) -> Rule:
    return of(_TURNED, attrs=a) >> of(x, axis=axes_before(a, p, x), keepdims=kept(a))


def _before_transpose(of: OperatorHole) -> Rule:
    return (of(_TURNED, attrs=a) >> op.transpose(of(x, axis=axes_kept_before(a, p, x), keepdims=True), axes=p)).exploring()


def _of_reshape(of: OperatorHole) -> Rule:
    return (of(_VIEWED, attrs=a) >> of(x, axis=None)).when(reduces_all(a, _VIEWED))


sums = operator("sums", *total.choices, *floating.choices)


@guard
def reduces_copies(attrs: Attrs, x: Term, wide: Term) -> bool | str:
    """The reduction is over axes that the broadcast created, keeps them, and none of them is empty."""
    rank = wide.type.ndim
    if x.type.ndim != rank or not attrs.keepdims:
        return "the broadcast adds axes, or the reduction drops them"
    for axis in reduced_axes(rank, attrs.axis, attrs.exclude):
        size = wide.type.shape[axis]
        if x.type.shape[axis] != 1 or not isinstance(size, int) or size < 1:
            return f"axis {axis} does not consist of copies"
    return True


_WIDE: Final = op.broadcast_to(x, ...)


def _of_copies(whole: PCall) -> Rule:
    return (whole >> op.broadcast_to(x, shape=shape_of(whole))).when(reduces_copies(a, x, _WIDE))


@guard
def reduces_single(attrs: Attrs, x: Term) -> bool | str:
    """Each reduced axis has size 1."""
    several = [axis for axis in reduced_axes(x.type.ndim, attrs.axis, attrs.exclude) if x.type.shape[axis] != 1]
    return not several or f"axis {several[0]} of {x.type!r} is not known to have size 1"


@computed
def reduced(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes that a reduction reduces."""
    return reduced_axes(x.type.ndim, attrs.axis, attrs.exclude)


axes = cases("axes", "kept", "dropped")


def _of_single(of: OperatorHole) -> Rule:
    whole = of(x, attrs=a)
    guards = (*axes.only("kept", whole.ndim == x.ndim), *axes.only("dropped", whole.ndim < x.ndim), reduces_single(a, x))
    return (whole >> axes(kept=x, dropped=op.squeeze(x, axis=reduced(a, x)))).when(*guards)


_LARGEST_SHIFT: Final = 1e3


@guard
def is_moderate(c: Term) -> bool | str:
    """No element of the constant is large enough to absorb the number that it is added to."""
    found = c.value().numpy().astype("float64")
    return bool((abs(found) <= _LARGEST_SHIFT).all()) or f"the magnitude of an element of the constant is NaN or above {_LARGEST_SHIFT:g}"


@guard
def is_constant_along(y: Term, axis: int | None, whole: Term) -> bool | str:
    """The shift is constant along the axis."""
    rank = whole.type.ndim
    if axis is None or y.type.ndim > rank:
        return f"{y.type!r} adds axes to {whole.type!r}"
    shape = (1,) * (rank - y.type.ndim) + y.type.shape
    return shape[axis % rank] == 1 or f"{y.type!r} varies along axis {axis} of {whole.type!r}"


@guard
def is_single_along(axis: int, x: Term) -> bool | str:
    """The tensor has one element along the axis."""
    return x.type.shape[axis] == 1 or f"{x.type!r} has more than one element along axis {axis}"


@computed
def filled(x: Term, element: int) -> Tensor:
    """A constant like a tensor. Rejects tensors of unknown sizes."""
    if not x.type.is_static:
        raise Reject(f"{x.type!r} is not static")
    return Tensor.splat(element, x.type.concrete_shape, x.type.dtype)


kind = cases("kind", "softmax", "log_softmax")
partly = operator("partly", "sum", "mean", "max", "min")
selected = operator("selected", "max", "min", "prod", "all", "any")
summed = operator("summed", "sum", "mean", "logsumexp")
softmax = operator("softmax", "nn.softmax", "nn.log_softmax")
_MOST: Final = op.max(x, axis=b, keepdims=True, exclude=False)


class Reductions(RuleSet):
    """Merges nested reductions, drops reductions of single elements, views and broadcasts that a reduction does not need, and shifts that
    do not affect a softmax. Where all values are finite, the softmax of one element is 1."""

    softmax_of_sum = (
        (softmax(x + c, axis=p) >> softmax(x, axis=p)).when(is_constant_along(c, p, x), is_moderate(c)).inexact("one fewer rounding")
    )
    softmax_less_max = (
        (softmax(x - _MOST, axis=p) >> softmax(x, axis=p)).when(are_same_axes(b, p, x)).inexact("softmax subtracts the maximum itself")
    )
    softmax_of_difference = (
        (softmax(x - y, axis=p) >> softmax(x, axis=p)).when(is_constant_along(y, p, x), same_type(x, x - y)).finite("inf - inf is NaN")
    )
    softmax_of_single = (
        (
            kind(softmax=op.nn.softmax(x, axis=p), log_softmax=op.nn.log_softmax(x, axis=p))
            >> kind(softmax=value(filled(x, 1)), log_softmax=value(filled(x, 0)))
        )
        .when(is_single_along(p, x))
        .finite("it is NaN for an infinity")
    )
    repeated_quantifiers = _repeated(quantifier)
    repeated_totals = _repeated(total).inexact(_OR_TIES)
    repeated_floats = _repeated(floating).when(is_float(x)).inexact(_SUMS)
    repeated_partly_kept = (
        (partly(partly(x, attrs=a), attrs=b) >> op.squeeze(partly(x, axis=merged_axes(a, b, x), keepdims=True), axis=dropped_axes(a, b, x)))
        .when(is_float(x))
        .inexact(_OR_TIES)
        .exploring()
    )
    sum_and_mean = (
        (
            nested(sum_of_mean=op.sum(_MEAN, attrs=b), mean_of_sum=op.mean(_TOTAL, attrs=b))
            >> op.mean(x, axis=merged_axes(a, b, x), keepdims=kept_by_both(a, b, x))
            * number(nested(sum_of_mean=count(b, _MEAN), mean_of_sum=count(a, x)))
        )
        .when(is_float(x))
        .inexact(_SUMS)
        .exploring()
    )
    counted = (
        (_COUNTED >> counted(quotient=_MEAN, product=_MEAN, mean=_TOTAL))
        .when(is_float(x), is_scalar(c, _TOTAL), is_count(c, a, x, counted(quotient=False, product=True, mean=False)))
        .inexact("one rounding fewer, or one more")
    )
    quantifier_of_transpose = _of_transpose(quantifier)
    quantifier_before_transpose = _before_transpose(quantifier)
    quantifier_of_reshape = _of_reshape(quantifier)
    total_of_transpose = _of_transpose(sums).inexact(_OR_TIES)
    total_before_transpose = _before_transpose(sums).inexact(_OR_TIES)
    total_of_reshape = _of_reshape(sums).inexact(_OR_TIES)
    selected_of_single = _of_single(selected)
    sum_of_single = _of_single(summed).inexact("the sign of 0")
    extremum_of_copies = _of_copies(extremum(_WIDE, attrs=a)).inexact(TIES)
    mean_of_copies = _of_copies(op.mean(_WIDE, attrs=a)).when(is_float(x)).inexact(_SUMS)
    sum_of_copies = (
        (op.sum(_WIDE, attrs=a) >> op.broadcast_to(x, shape=shape_of(op.sum(_WIDE, attrs=a))) * number(count(a, _WIDE)))
        .when(reduces_copies(a, x, _WIDE), is_float(x))
        .inexact(_SUMS)
    )
