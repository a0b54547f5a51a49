"""Clips that meet each other, casts and rectifiers. Operators: clip cast nn.relu.

Relay's SimplifyExpr (v0.18): SimplifyClip, SimplifyClipAndConsecutiveCast; chains of clips besides.
"""

from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import INTEGERS, to_numpy
from passat.ir.ops.elementwise import finite_limits
from passat.rules.conditions import Refuse, Term, computed, condition, is_float, is_integer
from passat.rules.pattern import attributes, op, tensors
from passat.rules.rule import RuleSet

(x,) = tensors("x")
a, b, t, u = attributes("a b t u")
_WHOLE_UP_TO = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
"""Integers up to this, and down to its negative, are numbers of the floating-point type."""


def limits_of_clip(attrs: Attrs, dtype: str) -> tuple[float, float]:
    """The bounds of a clip as numbers of the element type. Refuses where the lower one is above the upper one."""
    kind = to_numpy(dtype)
    lowest, highest = (np.asarray(limit, kind).item() for limit in finite_limits(kind))
    low, high = attrs.a_min, attrs.a_max
    if dtype in INTEGERS:
        given = (lowest if low is None else int(low), highest if high is None else int(high))
        bounds = [min(max(each, lowest), highest) for each in given]
    else:
        with np.errstate(over="ignore"):
            bounds = [float(np.asarray(each, kind)) for each in (lowest if low is None else low, highest if high is None else high)]
    if bounds[0] > bounds[1]:
        raise Refuse(f"the bounds {low} and {high} of a clip of {dtype} hold nothing")
    return bounds[0], bounds[1]


@condition
def binds_nothing(attrs: Attrs, x: Term) -> bool | str:
    """Every finite value of the element type lies within the bounds."""
    kind = to_numpy(x.type.dtype)
    lowest, highest = finite_limits(kind)
    low, high = limits_of_clip(attrs, x.type.dtype)
    return bool(low <= lowest and high >= highest) or f"clips {x.type.dtype} to {low} ... {high}"


@computed
def bound_of_both(inner: Attrs, outer: Attrs, x: Term, name: str) -> float | None:
    """A bound of the one clip that does what two do: each bound of the first, clipped by the second."""
    dtype = x.type.dtype
    first, then = limits_of_clip(inner, dtype), limits_of_clip(outer, dtype)
    bound = first[0 if name == "a_min" else 1]
    clipped = min(max(bound, then[0]), then[1])
    if inner[name] is None and outer[name] is None:
        return None
    # As it was written, where it is one of those that were: 0.1, and not the float32 nearest to it.
    kind = to_numpy(dtype)
    for value in (inner.a_min, inner.a_max, outer.a_min, outer.a_max):
        if value is not None and float(np.asarray(value, kind) if dtype not in INTEGERS else value) == clipped:
            return float(value)
    return float(clipped)


@computed
def lower_bound(attrs: Attrs, x: Term) -> float:
    """The lower bound of a clip that also drops what is below 0."""
    low, high = limits_of_clip(attrs, x.type.dtype)
    if high < 0:
        raise Refuse(f"the upper bound {high} is below 0")
    return 0.0 if low < 0 or attrs.a_min is None else float(attrs.a_min)


@computed
def upper_bound(attrs: Attrs) -> float | None:
    """The upper bound of a clip."""
    bound: float | None = attrs.a_max
    return bound


@condition
def range_fits(attrs: Attrs, x: Term, through: str) -> bool | str:
    """Every integer within the bounds is a number of the type that it is cast through."""
    if x.type.dtype not in INTEGERS:
        return f"the elements are {x.type.dtype}, not integers"
    low, high = limits_of_clip(attrs, x.type.dtype)
    if through in INTEGERS:
        lowest, highest = finite_limits(to_numpy(through))
    else:
        highest = _WHOLE_UP_TO.get(through, -1)
        lowest = -highest
    return bool(lowest <= low and high <= highest) or f"{through} does not hold {low:g} ... {high:g}"


def _both() -> dict[str, AnyValue]:
    return {name: bound_of_both(a, b, x, name) for name in ("a_min", "a_max")}


_CLIPPED = op.clip(x, attrs=a)


class Clips(RuleSet):
    """Clips that do nothing, clips of clips, and casts that lose nothing of what a clip leaves."""

    nothing = (_CLIPPED >> x).when(is_integer(x), binds_nothing(a, x))
    nothing_finite = (_CLIPPED >> x).when(is_float(x), binds_nothing(a, x)).finite("a clip without bounds makes infinities finite")
    chain = (op.clip(_CLIPPED, attrs=b) >> op.clip(x, **_both())).inexact("which of the two zeros comes out of a bound of 0 may differ")
    of_relu = op.clip(op.nn.relu(x), attrs=a) >> op.clip(x, a_min=lower_bound(a, x), a_max=upper_bound(a))
    cast = (op.cast(op.cast(_CLIPPED, dtype=t), dtype=u) >> op.cast(_CLIPPED, dtype=u)).when(range_fits(a, x, t))
