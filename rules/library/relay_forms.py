"""Rewrites programs to the forms of Relay's SimplifyExpr, for the pass of that name.

Operators: add subtract multiply divide sqrt argmax argmin topk qnn.dequantize.

From Relay's SimplifyExpr (v0.18): SimplifyAdd, SimplifyRSqrt, SimplifyBinomial, FullElementwise, SimplifyDQArgMax, SimplifyDQArgMin,
SimplifyDQArgSort.
"""

import math

import ml_dtypes

from passat.ir.dtypes import INTEGERS, to_numpy
from passat.rules.guards import Reject, Term, computed, guard, is_float, same_type, scalar_of
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import ROUNDS
from passat.rules.pattern import attributes, constants, number, op, tensors
from passat.rules.rule import RESOLVED, RuleSet

x, y = tensors("x y")
c, d = constants("c d")
(a,) = attributes("a")


@guard
def keeps_order(q: Term, c: Term, zero: Term) -> bool | str:
    """The scale is one positive number for all elements, and multiplication by it keeps the order of 8-bit integers, without making
    different ones equal."""
    if q.type.dtype not in ("int8", "uint8"):
        return f"the elements are {q.type.dtype}, not int8 or uint8"
    if c.type.size != 1 or zero.type.size != 1:
        return "the scale or the zero point differs between channels"
    limits, scale = ml_dtypes.finfo(to_numpy(c.type.dtype)), float(c.value().uniform())  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    fits = float(limits.smallest_normal) <= scale <= float(limits.max) / 512
    return fits or f"a scale of {scale:g} makes elements equal, or reverses their order"


def roots_of(b: float, c: float, dtype: str) -> tuple[float, float]:
    """The numbers p >= q with p + q = b and p * q = c, in an element type. Rejects complex numbers, and fractions of integers."""
    squared = b * b - 4 * c
    if not 0 <= squared < math.inf:
        raise Reject(f"the quadratic form 1, {b:g}, {c:g} is not a product of two sums")
    p, q = (b + math.sqrt(squared)) / 2, (b - math.sqrt(squared)) / 2
    if dtype in INTEGERS and (int(p) + int(q), int(p) * int(q)) != (b, c):
        raise Reject(f"the coefficients {p:g} and {q:g} are not {dtype}")
    return p, q


@guard
def is_product(b: float, c: float, x: Term) -> bool | str:
    """`x*x + b*x*y + c*y*y` is a product of two sums."""
    roots_of(b, c, x.type.dtype)
    return True


@computed
def root_of(b: float, c: float, x: Term, which: int) -> float:
    """The coefficient of `y` in one of the two sums."""
    return roots_of(b, c, x.type.dtype)[which]


extremum = operator("extremum", "argmax", "argmin")

# The positions of the constant factors of the product and the square: at the first operand, the second, or the whole. Without a factor, a
# form is not a product of sums.
_PLACES = {
    "plain": (x * y, y * y),
    "whole": ((x * y) * c, (y * y) * d),
    "first": ((x * c) * y, (y * d) * y),
    "second": ((y * c) * x, y * y),
}
_PAIRS = [(one, two) for one in _PLACES for two in ("plain", "whole", "first") if (one, two) != ("plain", "plain")]
pair = cases("pair", *(f"{one}_{two}" for one, two in _PAIRS))
order = cases("order", "first", "between", "last")
_CROSS = pair(**{f"{one}_{two}": _PLACES[one][0] for one, two in _PAIRS})
_SQUARE = pair(**{f"{one}_{two}": _PLACES[two][1] for one, two in _PAIRS})
_QUADRATIC = order(first=(_CROSS + _SQUARE) + x * x, between=(x * x + _CROSS) + _SQUARE, last=(x * x + _SQUARE) + _CROSS)
_B = pair(**{f"{one}_{two}": 1 if one == "plain" else scalar_of(c) for one, two in _PAIRS})
_C = pair(**{f"{one}_{two}": 1 if two == "plain" else scalar_of(d) for one, two in _PAIRS})
_P, _Q = (number(root_of(_B, _C, x, which)) for which in (0, 1))


class RelayForms(RuleSet):
    """Rewrites to the forms of Relay's SimplifyExpr: `x + x` to a multiple, quotients by roots to products, quadratic forms to products of
    sums, and sorting of dequantized numbers to sorting of the integers."""

    twice = x + x >> x * 2
    root_quotient = (c / op.sqrt(x) >> c * op.rsqrt(x)).when(is_float(x)).inexact(ROUNDS).lowering()
    quadratic = (
        (_QUADRATIC >> (x + _P * y) * (x + _Q * y))
        .when(same_type(x, _QUADRATIC), same_type(y, _QUADRATIC), is_product(_B, _C, x))
        .inexact("sums before products", nonfinite=RESOLVED)
    )
    quantized_extremum = (extremum(op.qnn.dequantize(x, c, d, ...), attrs=a) >> extremum(x, attrs=a)).when(keeps_order(x, c, d))
    quantized_order = (op.topk(op.qnn.dequantize(x, c, d, ...), attrs=a)[1] >> op.topk(x, attrs=a)[1]).when(keeps_order(x, c, d))
