"""Reductions that meet, and what they pass: views, concatenations, broadcasts, scales. Operators: sum mean max min prod all any logsumexp
reduce_l1 reduce_l2, transpose reshape broadcast_to concatenate add multiply negative maximum minimum, nn.softmax nn.log_softmax argmax
argmin.
"""

import math
from collections.abc import Sequence
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.ops.reduction import reduced_axes
from passat.rules.conditions import Refuse, Term, computed, condition, is_finite, is_float, is_positive, shape_of
from passat.rules.library.linear import is_scalar, no_axes
from passat.rules.library.normalisation_forms import are_same_axes
from passat.rules.pattern import AttrHole, Pattern, PCall, attributes, constants, number, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y = tensors("x y")
(c,) = constants("c")
a, b, p = attributes("a b p")
_ORDER: Final = "sums in another order"
_EXACT: Final = ("all", "any")
_FLOATS: Final = ("mean", "logsumexp", "reduce_l2")
REDUCTIONS: Final = (*_EXACT, "max", "min", "sum", "prod", "reduce_l1", *_FLOATS)


def _made(name: str, rule: Rule, floats: bool = False) -> Rule:
    """The rule as the reduction needs it: exact where elements are only compared."""
    rule = rule.when(is_float(x)) if floats else rule
    if name in _EXACT:
        return rule
    return rule.inexact("of 0.0 and -0.0 either is the larger one" if name in ("max", "min") else _ORDER)


@computed
def merged_axes(inner: Attrs, outer: Attrs, x: Term) -> tuple[int, ...]:
    """The axes that two reductions, one after the other, reduce together."""
    if inner.keepdims != outer.keepdims:
        raise Refuse(f"one of them keeps dimensions: {inner.keepdims}, {outer.keepdims}")
    rank = x.type.ndim
    first = reduced_axes(rank, inner.axis, inner.exclude)
    left = list(range(rank)) if inner.keepdims else [axis for axis in range(rank) if axis not in first]
    return tuple(sorted({*first, *(left[axis] for axis in reduced_axes(len(left), outer.axis, outer.exclude))}))


def _repeated() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name in REDUCTIONS:
        of = getattr(op, name)
        rule = of(of(x, attrs=a), attrs=b) >> of(x, axis=merged_axes(a, b, x), keepdims=kept(b))
        rules[name] = _made(name, rule, name in _FLOATS)
    return RuleSetMeta("RepeatedReductions", (RuleSet,), {"__doc__": "A reduction of a reduction is one reduction.", **rules})


@computed
def kept(attrs: Attrs) -> bool:
    """Whether a reduction keeps the dimensions that it reduces."""
    return bool(attrs.keepdims)


RepeatedReductions = _repeated()


def _permutation(axes: Sequence[int] | None, rank: int) -> tuple[int, ...]:
    return tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)


@computed
def axes_before(attrs: Attrs, axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The axes, before a transpose, that a reduction after it reduces; refuses where those that are left would change their order."""
    rank = x.type.ndim
    order = _permutation(axes, rank)
    gone = {order[axis] for axis in reduced_axes(rank, attrs.axis, attrs.exclude)}
    left = [axis for axis in order if axis not in gone]
    if left != sorted(left) or (attrs.keepdims and left):
        raise Refuse(f"the axes that are left change their order: {left}")
    return tuple(sorted(gone))


@computed
def axes_kept_before(attrs: Attrs, axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The axes, before a transpose, that a reduction after it reduces and keeps as dimensions of size 1."""
    rank = x.type.ndim
    if not attrs.keepdims:
        raise Refuse("it does not keep dimensions")
    order = _permutation(axes, rank)
    return tuple(sorted(order[axis] for axis in reduced_axes(rank, attrs.axis, attrs.exclude)))


@condition
def reduces_all(attrs: Attrs, x: Term) -> bool | str:
    """The reduction leaves one number, without dimensions."""
    rank = x.type.ndim
    everything = rank > 0 and not attrs.keepdims and len(reduced_axes(rank, attrs.axis, attrs.exclude)) == rank
    return everything or f"it does not reduce all of {x.type!r} to a scalar"


def _views() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name in REDUCTIONS:
        of = getattr(op, name)
        turned = op.transpose(x, axes=p)
        rule = of(turned, attrs=a) >> of(x, axis=axes_before(a, p, x), keepdims=kept(a))
        rules[f"{name}_of_transpose"] = _made(name, rule)
        rule = of(turned, attrs=a) >> op.transpose(of(x, axis=axes_kept_before(a, p, x), keepdims=True), axes=p)
        rules[f"{name}_before_transpose"] = _made(name, rule.exploring())
        viewed = op.reshape(x)
        rule = (of(viewed, attrs=a) >> of(x, axis=None)).when(reduces_all(a, viewed))
        rules[f"{name}_of_reshape"] = _made(name, rule)
    return RuleSetMeta("ReducedViews", (RuleSet,), {"__doc__": "A reduction does not need the view that it reduces.", **rules})


ReducedViews = _views()


@condition
def reduces_copies(attrs: Attrs, x: Term, wide: Term) -> bool | str:
    """The reduction is along axes that the broadcast made long, keeps them, and along each there is something to reduce."""
    rank = wide.type.ndim
    if x.type.ndim != rank or not attrs.keepdims:
        return "the broadcast adds axes, or the reduction drops them"
    for axis in reduced_axes(rank, attrs.axis, attrs.exclude):
        size = wide.type.shape[axis]
        if x.type.shape[axis] != 1 or not isinstance(size, int) or size < 1:
            return f"along axis {axis} there is more than copies"
    return True


@computed
def copies(attrs: Attrs, wide: Term) -> float:
    """How many copies a reduction reduces."""
    axes = reduced_axes(wide.type.ndim, attrs.axis, attrs.exclude)
    sizes = [int(wide.type.shape[axis]) for axis in axes]  # type: ignore[arg-type]  # `reduces_copies` has looked
    return float(math.prod(sizes))


def _broadcasts() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    wide = op.broadcast_to(x)
    for name in ("max", "min", "mean"):
        whole = getattr(op, name)(wide, attrs=a)
        rule = (whole >> op.broadcast_to(x, shape=shape_of(whole))).when(reduces_copies(a, x, wide))
        rules[name] = _made(name, rule, name == "mean")
    whole = op.sum(wide, attrs=a)
    rule = whole >> op.broadcast_to(x, shape=shape_of(whole)) * number(copies(a, wide))
    rules["sum"] = rule.when(reduces_copies(a, x, wide), is_float(x)).inexact(_ORDER)
    return RuleSetMeta("ReducedCopies", (RuleSet,), {"__doc__": "A reduction of copies looks at one of them.", **rules})


ReducedCopies = _broadcasts()


@condition
def reduces_axis(attrs: Attrs, axis: int, whole: Term) -> bool | str:
    """The reduction reduces that axis."""
    rank = whole.type.ndim
    return axis % rank in reduced_axes(rank, attrs.axis, attrs.exclude) or f"it does not reduce axis {axis}"


@computed
def axis_after(attrs: Attrs, axis: int, whole: Term) -> int:
    """Where an axis is that a reduction leaves, after it."""
    rank = whole.type.ndim
    gone = reduced_axes(rank, attrs.axis, attrs.exclude)
    if axis % rank in gone:
        raise Refuse(f"it reduces axis {axis}")
    return axis % rank - (0 if attrs.keepdims else sum(other < axis % rank for other in gone))


def _concats() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    both = op.concatenate((x, y), axis=p)
    for name, joined in (("sum", op.add), ("max", op.maximum), ("min", op.minimum)):
        of = getattr(op, name)
        apart = of(x, attrs=a), of(y, attrs=a)
        rule = (of(both, attrs=a) >> joined(*apart)).when(reduces_axis(a, p, both))
        rules[f"{name}_along"] = rule.exploring().inexact(_ORDER)
        rule = of(both, attrs=a) >> op.concatenate(apart, axis=axis_after(a, p, both))
        rules[f"{name}_across"] = _made(name, rule.exploring())
    return RuleSetMeta("ReducedConcats", (RuleSet,), {"__doc__": "A reduction of tensors side by side reduces each of them.", **rules})


ReducedConcats = _concats()


def _scaled(of: Pattern) -> PCall:
    return of * op.reshape(c, newshape=no_axes(c))


class ScaledReductions(RuleSet):
    """Scales, shifts and signs move behind a reduction, where there is less to compute."""

    sum = (
        (op.sum(x * c, attrs=a) >> _scaled(op.sum(x, attrs=a))).when(is_scalar(c, x), is_float(x), is_finite(c)).inexact(_ORDER).exploring()
    )
    mean = (
        (op.mean(x * c, attrs=a) >> _scaled(op.mean(x, attrs=a)))
        .when(is_scalar(c, x), is_float(x), is_finite(c))
        .inexact(_ORDER)
        .exploring()
    )
    max = (
        (op.max(x * c, attrs=a) >> _scaled(op.max(x, attrs=a)))
        .when(is_scalar(c, x), is_float(x), is_positive(c))
        .inexact("the sign of 0")
        .exploring()
    )
    min = (
        (op.min(x * c, attrs=a) >> _scaled(op.min(x, attrs=a)))
        .when(is_scalar(c, x), is_float(x), is_positive(c))
        .inexact("the sign of 0")
        .exploring()
    )
    shifted_mean = (
        (op.mean(x + c, attrs=a) >> op.mean(x, attrs=a) + op.reshape(c, newshape=no_axes(c)))
        .when(is_scalar(c, x), is_float(x), is_finite(c))
        .inexact(_ORDER)
        .exploring()
    )
    shifted_max = (
        (op.max(x + c, attrs=a) >> op.max(x, attrs=a) + op.reshape(c, newshape=no_axes(c)))
        .when(is_scalar(c, x), is_float(x), is_finite(c))
        .inexact("the sign of 0")
        .exploring()
    )
    negative_sum = (
        (op.sum(op.negative(x), attrs=a) >> op.negative(op.sum(x, attrs=a))).when(is_float(x)).inexact("the sign of 0").exploring()
    )
    negative_max = (
        (op.max(op.negative(x), attrs=a) >> op.negative(op.min(x, attrs=a))).when(is_float(x)).inexact("the sign of 0").exploring()
    )
    negative_min = (
        (op.min(op.negative(x), attrs=a) >> op.negative(op.max(x, attrs=a))).when(is_float(x)).inexact("the sign of 0").exploring()
    )


_LARGEST_SHIFT: Final = 1e3


@condition
def is_moderate(c: Term) -> bool | str:
    """No element of the constant is so large that what it is added to is lost."""
    found = c.value().numpy().astype("float64")
    return bool((abs(found) <= _LARGEST_SHIFT).all()) or f"an element of the constant is no number of at most {_LARGEST_SHIFT:g}"


@condition
def is_constant_along(y: Term, axis: int | None, whole: Term) -> bool | str:
    """The shift is one number for each row along the axis."""
    rank = whole.type.ndim
    if axis is None or y.type.ndim > rank:
        return f"{y.type!r} adds axes to {whole.type!r}"
    shape = (1,) * (rank - y.type.ndim) + y.type.shape
    return shape[axis % rank] == 1 or f"{y.type!r} varies along axis {axis} of {whole.type!r}"


def _shifts() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    axis: AttrHole = p
    most = op.max(x, axis=b, keepdims=True, exclude=False)
    for name in ("softmax", "log_softmax"):
        of = getattr(op.nn, name)
        rules[name] = (
            (of(x + c, axis=axis) >> of(x, axis=axis)).when(is_constant_along(c, axis, x), is_moderate(c)).inexact("one rounding less")
        )
        rules[f"{name}_less_most"] = (
            (of(x - most, axis=axis) >> of(x, axis=axis)).when(are_same_axes(b, axis, x)).inexact("as it does itself")
        )
        rules[f"{name}_less"] = (
            (of(x - y, axis=axis) >> of(x, axis=axis)).when(is_constant_along(y, axis, x)).finite("an infinity less itself is no number")
        )
    doc = "What is the same for all elements of a row has no influence on their softmax."
    return RuleSetMeta("SoftmaxShifts", (RuleSet,), {"__doc__": doc, **rules})


SoftmaxShifts = _shifts()
