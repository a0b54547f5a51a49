"""Arithmetic on attributes, sizes and ranks in rules, evaluated for each match: `a * b` is `product(a, b)`, `x.shape[0]` is
`item(sizes(x), 0)`."""

import operator
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.shape import Any, Shape, SymDim
from passat.rules.guards import Reject, Term, computed
from passat.rules.notation import NEGATIVE, PART, POWER, PRODUCT, SUM, notation

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
