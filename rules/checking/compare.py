"""Comparison of results: bit for bit, or up to a bound."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.dtypes import from_numpy
from passat.ir.tensor import Array
from passat.rules.checking.evaluation import is_float
from passat.rules.rule import KEPT, RESOLVED, NonFinite

_ROUNDINGS: Final = 128.0
_NARROW_ROUNDINGS: Final = 16.0
"""So many units of rounding, relative to the size of what comes up on the way, two sides may differ by that do the same in another order;
fewer in types of 16 bits and less, whose kernels compute in float32."""


def difference(
    found: Sequence[Array],
    expected: Sequence[Array],
    bounds: Sequence[float] | None = None,
    *,
    finite: bool = False,
    nonfinite: NonFinite = KEPT,
) -> str | None:
    """What is different between two lists of results, those of the right side and those of the left side, or None.

    Without bounds, bit for bit: one nan is as good as another, -0.0 is not 0.0. With a bound for each result, floats may differ by that
    much, infinite ones and nan only as far as `nonfinite` says; integers and bools must be equal always. `finite`: only where the expected
    result is finite.
    """
    if len(found) != len(expected):
        return f"there are {len(found)} results, not {len(expected)}"
    for i, (a, b) in enumerate(zip(found, expected, strict=True)):
        which = f" of result {i}" if len(found) > 1 else ""
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"the type{which} is {a.dtype}{list(a.shape)} on the right, {b.dtype}{list(b.shape)} on the left"
        differs = _differs(a, b, None if bounds is None else bounds[i], finite, nonfinite)
        if np.any(differs):
            place = tuple(int(index) for index in np.argwhere(differs)[0])
            where = f" at {place}" if place else ""
            off = "" if bounds is None else _near(a[place], b[place], bounds[i])
            return f"the element{which}{where} is {a[place]!s} on the right, {b[place]!s} on the left{off}"
    return None


def _near(a: AnyValue, b: AnyValue, bound: float) -> str:
    """What to add where the difference is small."""
    apart = abs(complex(a) - complex(b))
    return f"; up to {bound:.2g} apart would be rounding" if bound > 0 and apart < 1000 * bound else ""


def _differs(a: Array, b: Array, bound: float | None, finite: bool, nonfinite: NonFinite) -> Array:
    if not is_float(b):
        return np.asarray(a != b, np.bool_)
    if b.dtype.kind == "c":
        parts = [_differs(x, y, bound, finite, nonfinite) for x, y in ((a.real, b.real), (a.imag, b.imag))]
        return np.asarray(parts[0] | parts[1])
    with np.errstate(all="ignore"):  # signalling nans
        x, y = a.astype(np.float64), b.astype(np.float64)
        same = (np.isnan(x) & np.isnan(y)) | ((x == y) & ((np.signbit(x) == np.signbit(y)) if bound is None else True))
        if bound is not None:
            same |= np.isfinite(x) & np.isfinite(y) & (np.abs(x - y) <= bound)
            if nonfinite != KEPT:
                same |= ~np.isfinite(x) & (np.isnan(y) if nonfinite == RESOLVED else ~np.isfinite(y))
    return np.asarray(~same & np.isfinite(y) if finite else ~same)


def rounding(array: Array, magnitude: float) -> float:
    """By how much two sides may differ that round the same number of times, numbers up to that size."""
    if not is_float(array):
        return 0.0
    info = ml_dtypes.finfo(array.dtype)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    narrow = from_numpy(array.dtype) not in ("float32", "float64", "complex64", "complex128")
    return (_NARROW_ROUNDINGS if narrow else _ROUNDINGS) * float(info.eps) * max(magnitude, float(info.smallest_normal))
