"""Guards about the ranges of elements (`passat.rules.ranges`): what no element of a tensor ever is, whatever the inputs are."""

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
    """The range of the elements. Refuses for tensors whose elements have no order."""
    found = x.fact(RANGES)
    if found is None:
        raise Reject(f"nothing is known of the range of {x.type.dtype} elements")
    return found


def _lie(x: Range) -> str:
    return f"they lie in {x}"


def _drawn(low: float, high: float, *, zeros: tuple[float, ...] = ()) -> Samples:
    """A constant of numbers between two, with NaN and bounds now and then."""

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
    """No element has a minus sign: none is below 0, nor is one -0.0. NaN may be among them."""
    found = range_of(x)
    return not found.signed or f"elements may have a minus sign: {_lie(found)}"


def _from_zero(sampler: "Sampler", x: Sample) -> Samples:
    return _drawn(0.0, np.inf, zeros=(-0.0,))


@guard(strategy=_from_zero)
def never_negative(x: Term) -> bool | str:
    """No element is below 0; -0.0 and NaN may be among them."""
    found = range_of(x)
    return found.low >= 0 or f"elements may be negative: {_lie(found)}"


def _above_zero(sampler: "Sampler", x: Sample) -> Samples:
    return _drawn(0.5, np.inf)


@guard(strategy=_above_zero)
def always_positive(x: Term) -> bool | str:
    """Every element is above 0, or NaN."""
    found = range_of(x)
    return found.low > 0 or f"elements may be 0 or less: {_lie(found)}"


def _between(sampler: "Sampler", x: Sample, low: float, high: float) -> Samples:
    return _drawn(low, high)


@guard(strategy=_between)
def lies_between(x: Term, low: float, high: float) -> bool | str:
    """Every element lies between two numbers, or is one of them, or is NaN."""
    found = range_of(x)
    return low <= found.low <= found.high <= high or f"elements may leave [{low:g}, {high:g}]: {_lie(found)}"


def _numbers(sampler: "Sampler", x: Sample) -> Samples:
    return [Sample(elements=(0.0, -0.0, 1.0, -2.5, np.inf))]


@guard(strategy=_numbers)
def never_nan(x: Term) -> bool | str:
    """No element is NaN."""
    found = range_of(x)
    return not found.nan or f"elements may be NaN: {_lie(found)}"
