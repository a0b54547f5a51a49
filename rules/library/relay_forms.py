"""Forms of programs that Relay's SimplifyExpr and qnn.CanonicalizeOps write.

Operators: add subtract multiply divide sqrt argmax argmin topk, qnn.quantize qnn.dequantize qnn.requantize qnn.add qnn.subtract qnn.dense
qnn.batch_matmul and functions such as qnn.tanh.

`RelayForms` has SimplifyAdd, SimplifyRSqrt, SimplifyBinomial, FullElementwise, SimplifyDQArgMax, SimplifyDQArgMin and SimplifyDQArgSort of
v0.18. `CanonicalQuantized` expresses quantized operators by operators on real numbers and integers, which can be written to ONNX.
"""

import math
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.dtypes import INTEGERS, to_numpy
from passat.ir.ops.elementwise import finite_limits
from passat.ir.ops.fixed_point import multiplier_and_shift
from passat.ir.ops.quantization import along
from passat.ir.tensor import Array, Tensor
from passat.rules.guards import Reject, Term, computed, dtype_of, guard, is_float, same_type, scalar_of
from passat.rules.holes import cases, operator
from passat.rules.library.raising import ROUNDS
from passat.rules.pattern import Pattern, PCall, attributes, constants, number, op, tensors, value
from passat.rules.rule import RESOLVED
from passat.rules.rule_set import RuleSet

x, y, s, z, t, u, v, w = tensors("x y s z t u v w")
c, d, e = constants("c d e")
a, p, q, r, k, o = attributes("a p q r k o")


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
    if dtype in INTEGERS and max(abs(b), abs(c)) >= 2**53:
        raise Reject(f"the coefficients {b:g} and {c:g} are too large for exact roots")
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


extremum, place = operator("extremum", "argmax", "argmin"), cases("place", "of_one", "of_several")


def _places(data: Pattern) -> Pattern:
    """The positions of the extreme elements."""
    return place(of_one=extremum(data, attrs=a), of_several=op.topk(data, attrs=a)[1])


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
    quantized_order = (_places(op.qnn.dequantize(x, c, d, ...)) >> _places(x)).when(keeps_order(x, c, d))


@computed
def lowest(dtype: str) -> float:
    """The lowest value of an integer type."""
    return float(finite_limits(to_numpy(dtype))[0])


@computed
def highest(dtype: str) -> float:
    """The highest value of an integer type."""
    return float(finite_limits(to_numpy(dtype))[1])


@computed
def channel_shape(s: Term, axis: int, x: Term) -> tuple[int, ...]:
    """The shape in which a scale broadcasts along an axis of the data; () for a scalar."""
    size = s.type.size
    if not isinstance(size, int) or not s.type.is_static:
        raise Reject(f"the size of {s.type!r} is unknown")
    return () if size == 1 else (size, *(1,) * (x.type.ndim - 1 - x.type.axis(axis)))


@guard
def rounds(mode: str, wanted: str) -> bool | str:
    """The rounding mode is the wanted one; "None" is UPWARD."""
    return (mode == "TONEAREST") == (wanted == "TONEAREST") or f"the rounding is {mode}"


@guard
def is_fixed_point(compute_dtype: str) -> bool | str:
    """The scales are multiplied as integers."""
    return compute_dtype in ("None", "int64") or f"computed in {compute_dtype}"


@guard
def is_floating(compute_dtype: str) -> bool | str:
    """The scales are multiplied as floats."""
    return compute_dtype in ("float32", "float64") or "computed in fixed point"


def _factors(c: Term, e: Term, axis: int, x: Term) -> Array:
    scales = along(c.value().numpy(), axis, x.type.ndim).astype(np.float64)
    return np.asarray(scales / e.value().numpy().reshape(()).astype(np.float64))


def _shifts(c: Term, e: Term, axis: int, x: Term) -> tuple[Array, Array, Array]:
    """64-bit multipliers, their left shifts, and the right shifts of the products."""
    multipliers, shifts = multiplier_and_shift(_factors(c, e, axis, x))
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0) + 31
    if (left > 31).any() or (right > 62).any():
        raise Reject("the scales are too far apart")
    return multipliers, left, right


@computed
def multipliers_of(c: Term, e: Term, axis: int, x: Term) -> Tensor:
    """Integers by which to multiply before the division."""
    multipliers, left, _ = _shifts(c, e, axis, x)
    return Tensor.dense(np.asarray(multipliers << left))


@computed
def divisors_of(c: Term, e: Term, axis: int, x: Term) -> Tensor:
    """Powers of two by which to divide."""
    return Tensor.dense(np.asarray(np.int64(1) << _shifts(c, e, axis, x)[2]))


@computed
def halves_of(c: Term, e: Term, axis: int, x: Term, less: int) -> Tensor:
    """Halves of the divisors, minus a number."""
    return Tensor.dense(np.asarray((np.int64(1) << (_shifts(c, e, axis, x)[2] - 1)) - less))


@computed
def factors_of(c: Term, e: Term, axis: int, x: Term, dtype: str) -> Tensor:
    """Quotients of scales in an element type."""
    return Tensor.dense(np.asarray(_factors(c, e, axis, x).astype(to_numpy(dtype))))


def _along(vector: Pattern, axis: AnyValue, data: Pattern) -> PCall:
    return op.reshape(vector, newshape=channel_shape(vector, axis, data))


@computed
def number_of(number: float, dtype: str) -> Tensor:
    """A scalar of an element type."""
    return Tensor.dense(np.asarray(number, to_numpy(dtype)))


def _away_from_zero(real: Pattern, dtype: AnyValue = "float32") -> PCall:
    """Rounds halves away from zero. Compares the fraction, which is exact; adding a half would round."""
    size = op.abs(real)
    whole = op.floor(size)
    half, one = value(number_of(0.5, dtype)), value(number_of(1, dtype))
    return op.sign(real) * op.where(op.greater_equal(size - whole, half), whole + one, whole)


def _saturated(real: Pattern, dtype: AnyValue) -> PCall:
    """Rounded reals as integers, clipped in float64, which represents the limits of all integer types."""
    return op.cast(op.clip(op.cast(real, dtype="float64"), a_min=lowest(dtype), a_max=highest(dtype)), dtype=dtype)


_SHIFTED: Final = op.cast(x, dtype="int32") - _along(z, p, x)
_REQUANTIZE: Final = op.qnn.requantize(x, c, z, e, u, axis=p, rounding=r, compute_dtype=k, out_dtype=o)
_PRODUCT: Final = op.cast(_SHIFTED, dtype="int64") * value(multipliers_of(c, e, p, x))
_DIVISOR: Final = value(divisors_of(c, e, p, x))


def _divided(numerator: Pattern) -> PCall:
    """The floor of the quotient by the divisor, plus the zero point, clipped to the limits of the result."""
    quotient = (numerator - op.floor_mod(numerator, _DIVISOR)) / _DIVISOR
    return op.cast(op.clip(op.cast(quotient, dtype="int32") + op.reshape(u, newshape=()), a_min=lowest(o), a_max=highest(o)), dtype=o)


_HALF: Final = value(halves_of(c, e, p, x, 0))
_HALF_AWAY: Final = op.where(op.greater_equal(_PRODUCT, value(number_of(0, "int64"))), _HALF, value(halves_of(c, e, p, x, 1)))
_FLOAT_HALF: Final = value(number_of(0.5, k))
_REAL_PRODUCT: Final = op.cast(_SHIFTED, dtype=k) * value(factors_of(c, e, p, x, k)) + op.cast(op.reshape(u, newshape=()), dtype=k)


def _scaled(of: Pattern, scale: Pattern, zero_point: Pattern, axis: AnyValue) -> PCall:
    """An operand of a sum, converted to the scale of the sum."""
    return op.qnn.requantize(of, scale, zero_point, v, w, axis=axis, rounding="None", compute_dtype="None", out_dtype="int32")


def _centered(of: Pattern, zero_point: Pattern, axis: int) -> PCall:
    """An operand of a product in the element type of the sums, minus its zero point."""
    return op.cast(of, dtype=o) - op.cast(_along(zero_point, axis, of), dtype=o)


_LIMITS: Final = {"a_min": lowest(dtype_of(x)), "a_max": highest(dtype_of(x))}
_REAL: Final = op.qnn.dequantize(x, s, z, out_dtype="float32", axis=-1)
_NAMES: Final = ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh")
function, rounding = cases("function", *_NAMES), cases("rounding", "upward", "nearest")
_MODE: Final = rounding(upward="UPWARD", nearest="TONEAREST")
sign, kind = cases("sign", "add", "subtract"), cases("kind", "dense", "batch_matmul")
_SUMMANDS, _FACTORS = (x, y, s, z, t, u, v, w), (x, y, z, u, s, t)
_LEFT, _RIGHT, _ZERO = _scaled(x, s, z, p), _scaled(y, t, u, q), op.reshape(w, newshape=())


class CanonicalQuantized(RuleSet):
    """Replaces quantized operators by equivalent ones on real numbers and integers: Relay's qnn.CanonicalizeOps."""

    quantize = (
        op.qnn.quantize(x, s, z, out_dtype=o, axis=p)
        >> _saturated(_away_from_zero(x / _along(s, p, x)) + op.cast(_along(z, p, x), dtype="float32"), o)
    ).lowering()
    dequantize = (
        (op.qnn.dequantize(x, s, z, out_dtype=o, axis=p) >> op.cast(_SHIFTED, dtype="float32") * _along(s, p, x))
        .when(o == "float32")
        .lowering()
    )
    requantize = (
        (_REQUANTIZE >> _divided(_PRODUCT + rounding(upward=_HALF, nearest=_HALF_AWAY)))
        .when(rounds(r, _MODE), is_fixed_point(k))
        .lowering()
    )
    requantize_in_floats = (
        (_REQUANTIZE >> _saturated(rounding(upward=op.floor(_REAL_PRODUCT + _FLOAT_HALF), nearest=_away_from_zero(_REAL_PRODUCT, k)), o))
        .when(rounds(r, _MODE), is_floating(k))
        .lowering()
    )
    sums = (
        sign(add=op.qnn.add(*_SUMMANDS, lhs_axis=p, rhs_axis=q), subtract=op.qnn.subtract(*_SUMMANDS, lhs_axis=p, rhs_axis=q))
        >> op.cast(op.clip(sign(add=_LEFT + _RIGHT - _ZERO, subtract=_LEFT - _RIGHT + _ZERO), **_LIMITS), dtype=dtype_of(x))
    ).lowering()
    products = (
        kind(dense=op.qnn.dense(*_FACTORS, out_dtype=o), batch_matmul=op.qnn.batch_matmul(*_FACTORS, out_dtype=o))
        >> kind(
            dense=op.nn.dense(_centered(x, z, -1), _centered(y, u, 0)),
            batch_matmul=op.nn.batch_matmul(_centered(x, z, -1), _centered(y, u, -1)),
        )
    ).lowering()
    of_reals = (
        function(**{name: getattr(op.qnn, name)(x, s, z, t, u) for name in _NAMES})
        >> op.qnn.quantize(function(**{name: getattr(op, name)(_REAL) for name in _NAMES}), t, u, out_dtype=dtype_of(x), axis=-1)
    ).lowering()
