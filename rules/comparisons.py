"""Comparisons in guards: `a < b`, `x.shape[0] > 3`, `x.ndim == 4`, `layout != "NCHW"`.

A comparison of named sizes holds only if it holds for all values of the names. Unknown sizes satisfy no comparison.
"""

import math
from typing import Any as AnyValue

from passat.ir.bounds import at_least
from passat.ir.shape import Any, SymDim
from passat.rules.guards import Reject, guard
from passat.rules.notation import COMPARISON, SUM, notation


@guard
@notation("{} < {}", COMPARISON, SUM, SUM)
def less(a: AnyValue, b: AnyValue) -> bool | str:
    """The first number is less than the second."""
    return _answer(_exceeds(b, a, by=1), a, "<", b)


@guard
@notation("{} <= {}", COMPARISON, SUM, SUM)
def less_equal(a: AnyValue, b: AnyValue) -> bool | str:
    """The first number is at most the second."""
    return _answer(_exceeds(b, a, by=0), a, "<=", b)


@guard
@notation("{} > {}", COMPARISON, SUM, SUM)
def greater(a: AnyValue, b: AnyValue) -> bool | str:
    """The first number is greater than the second."""
    return _answer(_exceeds(a, b, by=1), a, ">", b)


@guard
@notation("{} >= {}", COMPARISON, SUM, SUM)
def greater_equal(a: AnyValue, b: AnyValue) -> bool | str:
    """The first number is at least the second."""
    return _answer(_exceeds(a, b, by=0), a, ">=", b)


@guard
@notation("{} == {}", COMPARISON, SUM, SUM)
def equals(a: AnyValue, b: AnyValue) -> bool | str:
    """Two attributes are equal."""
    return _answer(_equal(a, b), a, "==", b)


@guard
@notation("{} != {}", COMPARISON, SUM, SUM)
def differs(a: AnyValue, b: AnyValue) -> bool | str:
    """Two attributes differ."""
    same = _equal(a, b)
    return _answer(None if same is None else not same, a, "!=", b)


def _answer(holds: bool | None, a: AnyValue, symbol: str, b: AnyValue) -> bool | str:
    return holds or f"{a!r} {symbol} {b!r} {'is not known' if holds is None else 'does not hold'}"


def _exceeds(a: AnyValue, b: AnyValue, *, by: int) -> bool | None:
    """Whether `a > b` (`by=1`) or `a >= b` (`by=0`); None if it depends on sizes. Rejects anything but numbers."""
    for value in (a, b):
        if isinstance(value, bool) or not isinstance(value, (int, float, SymDim, Any)):
            raise Reject(f"{value!r} is not a number")
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a > b if by else a >= b
    if isinstance(a, float) or isinstance(b, float):
        if not all(math.isfinite(value) for value in (a, b) if isinstance(value, float)):
            return None
        round_a, round_b = (math.ceil, math.floor) if by else (math.floor, math.ceil)
        a = round_a(a) if isinstance(a, float) else a  # sizes are integers
        b = round_b(b) if isinstance(b, float) else b
    return True if at_least(a, b + by) else False if at_least(b, a + 1 - by) else None


def _equal(a: AnyValue, b: AnyValue) -> bool | None:
    """Whether two values are equal; None if it depends on sizes."""
    if isinstance(a, (tuple, list)) and isinstance(b, (tuple, list)):
        if len(a) != len(b):
            return False
        found = list(map(_equal, a, b))
        return False if False in found else None if None in found else True
    if isinstance(a, Any) or isinstance(b, Any):
        return None
    if not (isinstance(a, SymDim) or isinstance(b, SymDim)):
        return bool(a == b)
    if not all(isinstance(value, (int, SymDim)) or (isinstance(value, float) and value.is_integer()) for value in (a, b)):
        return False
    if _exceeds(a, b, by=1) or _exceeds(b, a, by=1):
        return False
    return True if a == b else None
