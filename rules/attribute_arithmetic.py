"""Arithmetic on attributes in rules, evaluated for each match: `a * b` is `product(a, b)`, `axes[0]` is `item(axes, 0)`."""

import operator
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.rules.guards import Reject, computed

_INT64: Final = range(-(1 << 63), 1 << 63)
_MOST_POWER: Final = 64
"""The largest exponent of an integer; larger results exceed 64 bits, the limit of attributes."""


@computed
def sum_of(a: AnyValue, b: AnyValue) -> AnyValue:
    """The sum of two numbers."""
    return _calculate(operator.add, a, b)


@computed
def difference(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number minus the second."""
    return _calculate(operator.sub, a, b)


@computed
def product(a: AnyValue, b: AnyValue) -> AnyValue:
    """The product of two numbers."""
    return _calculate(operator.mul, a, b)


@computed
def quotient(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number divided by the second, as a floating-point number."""
    return _calculate(operator.truediv, a, b)


@computed
def floor_quotient(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number divided by the second, rounded down."""
    return _calculate(operator.floordiv, a, b)


@computed
def remainder(a: AnyValue, b: AnyValue) -> AnyValue:
    """The remainder of the floor division of the first number by the second."""
    return _calculate(operator.mod, a, b)


@computed
def power(a: AnyValue, b: AnyValue) -> AnyValue:
    """The first number to the power of the second."""
    if isinstance(a, int) and isinstance(b, int) and abs(b) > _MOST_POWER:
        raise Reject(f"the exponent {b} is too large")
    return _calculate(operator.pow, a, b)


@computed
def magnitude(a: AnyValue) -> AnyValue:
    """The absolute value of a number."""
    return _calculate(abs, a)


@computed
def item(value: AnyValue, key: int | str) -> AnyValue:
    """An element of a list by position, or an attribute of a call by name."""
    if isinstance(value, Attrs) and isinstance(key, str) and key in value:
        return value[key]
    if isinstance(value, (tuple, list)) and isinstance(key, int) and -len(value) <= key < len(value):
        return value[key]
    raise Reject(f"{value!r} has no element {key!r}")


def _calculate(function: Callable[..., AnyValue], *numbers: AnyValue) -> AnyValue:
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, (int, float)):
            raise Reject(f"{number!r} is not a number")
    try:
        found = function(*numbers)
    except ZeroDivisionError:
        raise Reject("division by zero") from None
    except OverflowError:
        raise Reject("the result is too large") from None
    if isinstance(found, complex) or (isinstance(found, int) and found not in _INT64):
        raise Reject(f"the result {found!r} is not an attribute value")
    return found
