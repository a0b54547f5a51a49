"""The ranges of elements (`passat.rules.ranges`) of all e-classes, and guards that ask them, which hold for all inputs."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType
from passat.rules.analysis import Analysis, Made
from passat.rules.guards import Reject, Term, guard
from passat.rules.range_functions import has_function, range_of_call
from passat.rules.ranges import FLOATS, Range, limits_of

_MOST: Final = 1 << 16
"""Maximum number of elements of a constant that is scanned."""


class Ranges(Analysis[Range]):
    """The ranges of elements.

    Rewritten floating-point expressions round differently: E(x^2) - E(x)^2 may be negative, although the mathematically equal
    E((x - E(x))^2) never is. The range of a floating-point e-class is therefore that of its oldest node, which comes from the program. The
    range of an integer e-class is the intersection of the ranges of its nodes.
    """

    def known(self, type_: TensorType, constant: Tensor | None) -> Range | None:
        """The range of a constant, otherwise that of the element type."""
        limits = limits_of(type_.dtype)
        if limits is None or constant is None or not constant.size:
            return limits
        if constant.size > _MOST and not constant.is_splat:
            return limits
        element = constant.uniform()
        found = constant.numpy().reshape(-1) if element is None else np.asarray([element], to_numpy(type_.dtype))
        if type_.dtype not in FLOATS:
            found = found if type_.dtype == "uint64" else found.astype(np.int64)
            return Range(int(found.min()), int(found.max()))
        with np.errstate(all="ignore"):
            found = found.astype(np.float64)
        some = found[~np.isnan(found)]
        if not some.size:
            return limits
        low, high, signs = float(some.min()), float(some.max()), np.signbit(some[some == 0])
        low = low or (-0.0 if signs.any() else 0.0)
        return Range(low, high or (-0.0 if signs.all() else 0.0), some.size < found.size)

    def reads(self, op: Op) -> bool:
        """True if the analysis handles the operator."""
        return has_function(op)

    def make(self, call: Made, facts: Sequence[AnyValue]) -> Range | tuple[Range | None, ...] | None:
        """The range of a call, from those of its operands."""
        return range_of_call(call, facts)

    def merge(self, one: Range, other: Range) -> Range:
        """The intersection for integers; the older node's range for floating-point numbers."""
        exact = isinstance(one.low, int) and isinstance(other.low, int)
        low, high = max(one.low, other.low), min(one.high, other.high)
        return Range(low, high) if exact and low <= high else one

    def keeps_oldest(self, type_: TensorType) -> bool:
        """True for floating-point numbers."""
        return type_.dtype in FLOATS


RANGES: Final = Ranges()
"""The analysis; in a guard, `x.fact(RANGES)` is the range of a term."""


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
