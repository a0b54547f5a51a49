"""Guards on the ranges of elements (`passat.rules.ranges`), which hold for all inputs."""

from passat.ir.types import TupleType
from passat.rules.guards import Reject, Term, guard
from passat.rules.range_analysis import RANGES
from passat.rules.ranges import Range


def range_of(x: Term) -> Range:
    """The range of the elements. Rejects types without an order, and tuples."""
    found = None if isinstance(x.type_, TupleType) else x.fact(RANGES)
    if found is None:
        raise Reject(f"the range of {x.type.dtype} elements is unknown")
    return found


def _lie(x: Range) -> str:
    return f"their range is {x}"


@guard
def never_signed(x: Term) -> bool | str:
    """No element has a minus sign; -0.0 counts as signed, NaN may occur."""
    found = range_of(x)
    return not found.signed or f"elements may have a minus sign: {_lie(found)}"


@guard
def never_negative(x: Term) -> bool | str:
    """No element is negative; -0.0 and NaN may occur."""
    found = range_of(x)
    return found.low >= 0 or f"elements may be negative: {_lie(found)}"


@guard
def always_positive(x: Term) -> bool | str:
    """Every element is positive or NaN."""
    found = range_of(x)
    return found.low > 0 or f"elements may be 0 or less: {_lie(found)}"


@guard
def lies_between(x: Term, low: float, high: float) -> bool | str:
    """Every element lies within the closed interval, or is NaN."""
    found = range_of(x)
    return low <= found.low <= found.high <= high or f"elements may leave [{low:g}, {high:g}]: {_lie(found)}"


@guard
def never_nan(x: Term) -> bool | str:
    """No element is NaN."""
    found = range_of(x)
    return not found.nan or f"elements may be NaN: {_lie(found)}"
