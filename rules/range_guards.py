"""Guards on the ranges of elements (`passat.rules.ranges`), which hold for all inputs."""

from typing import TYPE_CHECKING, Final

import numpy as np

from passat.ir.tensor import Array
from passat.rules.guards import Reject, Term, guard
from passat.rules.ranges import RANGES, Range
from passat.rules.samples import Sample, Samples

if TYPE_CHECKING:
    from passat.rules.checking.sampler import Sampler

_NUMBERS: Final = (0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 100.0)


def range_of(x: Term) -> Range:
    """The range of the elements. Rejects types without an order."""
    found = x.fact(RANGES)
    if found is None:
        raise Reject(f"the range of {x.type.dtype} elements is unknown")
    return found


def _lie(x: Range) -> str:
    return f"their range is {x}"


def _drawn(low: float, high: float, *, zeros: tuple[float, ...] = ()) -> Samples:
    """A constant with elements in a range; sometimes with NaN and the bounds."""

    def elements(sampler: "Sampler", shape: tuple[int, ...]) -> Array:
        some = [number for number in (*_NUMBERS, low, high, *zeros) if low <= number <= high]
        if sampler.chance(0.2):
            some.append(np.nan)
        return sampler.generator.choice(some, size=shape)

    return [Sample(elements=elements)]


def _unsigned(sampler: "Sampler", x: Sample) -> Samples:
    return _drawn(0.0, np.inf)


@guard(strategy=_unsigned)
def never_signed(x: Term) -> bool | str:
    """No element has a minus sign; -0.0 counts as signed, NaN may occur."""
    found = range_of(x)
    return not found.signed or f"elements may have a minus sign: {_lie(found)}"


def _from_zero(sampler: "Sampler", x: Sample) -> Samples:
    return _drawn(0.0, np.inf, zeros=(-0.0,))


@guard(strategy=_from_zero)
def never_negative(x: Term) -> bool | str:
    """No element is negative; -0.0 and NaN may occur."""
    found = range_of(x)
    return found.low >= 0 or f"elements may be negative: {_lie(found)}"


def _above_zero(sampler: "Sampler", x: Sample) -> Samples:
    return _drawn(0.5, np.inf)


@guard(strategy=_above_zero)
def always_positive(x: Term) -> bool | str:
    """Every element is positive or NaN."""
    found = range_of(x)
    return found.low > 0 or f"elements may be 0 or less: {_lie(found)}"


def _between(sampler: "Sampler", x: Sample, low: float, high: float) -> Samples:
    return _drawn(low, high)


@guard(strategy=_between)
def lies_between(x: Term, low: float, high: float) -> bool | str:
    """Every element lies within the closed interval, or is NaN."""
    found = range_of(x)
    return low <= found.low <= found.high <= high or f"elements may leave [{low:g}, {high:g}]: {_lie(found)}"


def _numbers(sampler: "Sampler", x: Sample) -> Samples:
    return [Sample(elements=(0.0, -0.0, 1.0, -2.5, np.inf))]


@guard(strategy=_numbers)
def never_nan(x: Term) -> bool | str:
    """No element is NaN."""
    found = range_of(x)
    return not found.nan or f"elements may be NaN: {_lie(found)}"
