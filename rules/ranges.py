"""Ranges of numbers: bounds on the elements of a tensor, including the sign of zero, and whether an element may be NaN.

A bound of 0.0 differs from -0.0: a range that starts at 0.0 excludes -0.0, so that it shows that no sign bit is set.
"""

import functools
import math
from collections.abc import Iterable
from typing import Final, NamedTuple

import ml_dtypes

from passat.ir.dtypes import INTEGERS, to_numpy

FLOATS: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
"""The floating-point types with ranges: those of more than 8 bits."""


class Range(NamedTuple):
    """All elements lie between two bounds, or, if `nan`, may be NaN."""

    low: float
    high: float
    nan: bool = False

    def __str__(self) -> str:
        return f"[{self.low:g}, {self.high:g}]" + (" or NaN" if self.nan else "")

    @property
    def signed(self) -> bool:
        """True if an element may have a minus sign, including -0.0."""
        return math.copysign(1.0, self.low) < 0

    @property
    def has_zero(self) -> bool:
        """True if an element may be 0."""
        return self.low <= 0 <= self.high

    @property
    def has_infinity(self) -> bool:
        """True if an element may be infinite."""
        return math.isinf(self.low) or math.isinf(self.high)


@functools.cache
def limits_of(dtype: str) -> Range | None:
    """The range of an element type; None for types without an order, and for floating-point types of 8 bits or fewer."""
    if dtype in FLOATS:
        return Range(-math.inf, math.inf, True)
    if dtype == "bool":
        return Range(0, 1)
    if dtype not in INTEGERS:
        return None
    found = ml_dtypes.iinfo(to_numpy(dtype))  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return Range(int(found.min), int(found.max))


def order(value: float) -> tuple[float, float]:
    """A sort key that orders -0.0 before 0.0."""
    return value, math.copysign(1.0, value)


def hull_of(values: Iterable[float], *, nan: bool = False) -> Range | None:
    """The range of some numbers; None if all are NaN."""
    found = list(values)
    numbers = [value for value in found if not math.isnan(value)]
    if not numbers:
        return None
    low, high = min(numbers), max(numbers)
    # Zeros of both signs are equal.
    return Range(low or min(numbers, key=order), high or max(numbers, key=order), nan or len(numbers) < len(found))


def union(ranges: Iterable[Range]) -> Range | None:
    """The smallest range that contains all given ranges."""
    found = list(ranges)
    return hull_of([bound for each in found for bound in (each.low, each.high)], nan=any(each.nan for each in found)) if found else None


def either_zero(range_: Range) -> Range:
    """The range with zeros of either sign."""
    return Range(range_.low or (-0.0 if isinstance(range_.low, float) else 0), range_.high or abs(range_.high), range_.nan)
