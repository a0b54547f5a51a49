"""Arithmetic on attributes, sizes and ranks in rules, and comparisons in guards, evaluated for each match: `a * b` is `product(a, b)`,
`x.shape[0] > 3` is `greater(item(sizes(x), 0), 3)`.

A comparison of named sizes holds only if it holds for all values of the names. Unknown sizes satisfy no comparison.
"""

import inspect
import math
import operator
from collections.abc import Callable
from numbers import Number
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.shape import Any, Shape, SymDim
from passat.rules.guards import Reject, Term, computed, guard
from passat.rules.pattern import Computed
from passat.rules.symbolic import COMPARISON, NEGATIVE, PART, POWER, PRODUCT, SUM, AttributeTerm, notation


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


_INT64: Final = range(-(1 << 63), 1 << 63)
_OF_SIZES: Final = (operator.add, operator.sub, operator.mul, operator.floordiv, operator.mod)
"""Arithmetic on sizes that are not known."""
_MOST_POWER: Final = 64
"""The largest exponent of an integer; larger results exceed 64 bits, the limit of attributes."""


@computed
@notation("{} + {}", SUM, SUM, PRODUCT)
def sum_of(a: AnyValue, b: AnyValue) -> AnyValue:
    """The sum of two numbers."""
    return _calculate(operator.add, a, b)


@computed
@notation("{} - {}", SUM, SUM, PRODUCT)
def difference(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number minus the second."""
    return _calculate(operator.sub, a, b)


@computed
@notation("{} * {}", PRODUCT, PRODUCT, NEGATIVE)
def product(a: AnyValue, b: AnyValue) -> AnyValue:
    """The product of two numbers."""
    return _calculate(operator.mul, a, b)


@computed
@notation("{} / {}", PRODUCT, PRODUCT, NEGATIVE)
def quotient(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number divided by the second, as a floating-point number."""
    return _calculate(operator.truediv, a, b)


@computed
@notation("{} // {}", PRODUCT, PRODUCT, NEGATIVE)
def floor_quotient(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number divided by the second, rounded down."""
    return _calculate(operator.floordiv, a, b)


@computed
@notation("{} % {}", PRODUCT, PRODUCT, NEGATIVE)
def remainder(a: AnyValue, b: AnyValue) -> AnyValue:
    """The remainder of the floor division of the first number by the second."""
    return _calculate(operator.mod, a, b)


@computed
@notation("{} ** {}", POWER, PART, NEGATIVE)
def power(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number to the power of the second."""
    if isinstance(a, int) and isinstance(b, int) and abs(b) > _MOST_POWER:
        raise Reject(f"the exponent {b} is too large")
    return _calculate(operator.pow, a, b)


@computed
@notation("abs({})", PART, SUM)
def magnitude(a: AnyValue) -> AnyValue:
    """The absolute value of a number."""
    return _calculate(abs, a)


@computed
@notation("{}.shape", PART, PART)
def sizes(x: Term) -> Shape:
    """The sizes of a tensor, some of which may not be known."""
    return x.type.shape


@computed
@notation("{}.ndim", PART, PART)
def rank(x: Term) -> int:
    """The number of dimensions of a tensor."""
    return x.type.ndim


@computed
@notation("{}[{}]", PART, PART, SUM)
def item(value: AnyValue, key: int | str) -> AnyValue:
    """An element of a list by position, or an attribute of a call by name."""
    if isinstance(value, Attrs) and isinstance(key, str) and key in value:
        return value[key]
    if isinstance(value, (tuple, list)) and isinstance(key, int) and -len(value) <= key < len(value):
        return value[key]
    raise Reject(f"{value!r} has no element {key!r}")


_NUMBERS: Final = (sum_of, difference, product, quotient, floor_quotient, remainder, power, magnitude, rank)


def never_equals(term: AttributeTerm, value: object) -> str:
    """Why a rank, a size, a result of arithmetic or a shape equals no such value in any match; '' if it may."""
    if isinstance(value, AttributeTerm) or not isinstance(term, Computed):
        return ""
    if _is_call(term, sizes):
        fits = isinstance(value, (tuple, list)) and all(isinstance(entry, (AttributeTerm, SymDim, Number)) for entry in value)
        return "" if fits else f"{term!r} is a tuple of numbers"
    is_number = _is_call(term, *_NUMBERS) or (_is_call(term, item) and _is_call(term.args[0], sizes))
    return f"{term!r} is a number" if is_number and not isinstance(value, (int, float)) else ""


def _is_call(term: object, *makers: Callable[..., Computed]) -> bool:
    return isinstance(term, Computed) and any(term.function is inspect.unwrap(maker) for maker in makers)


def _calculate(function: Callable[..., AnyValue], *numbers: AnyValue) -> AnyValue:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, float, SymDim, Any)):
            raise Reject(f"{number!r} is not a number")
        if isinstance(number, (SymDim, Any)) and (function not in _OF_SIZES or any(isinstance(other, float) for other in numbers)):
            raise Reject(f"the size {number!r} is not known")
    try:
        found = function(*numbers)
    except ZeroDivisionError:
        raise Reject("division by zero") from None
    except OverflowError:
        raise Reject("the result is too large") from None
    if isinstance(found, complex) or (isinstance(found, int) and found not in _INT64):
        raise Reject(f"the result {found!r} is not an attribute value")
    return found
