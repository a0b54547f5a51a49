"""Quantized operators in terms of operators on real numbers and integers, so that they can be written to ONNX. Operators: qnn.quantize
qnn.dequantize qnn.requantize qnn.add qnn.subtract qnn.dense qnn.batch_matmul and functions such as qnn.tanh.

From Relay's qnn.CanonicalizeOps.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.ops.elementwise import finite_limits
from passat.ir.ops.fixed_point import multiplier_and_shift
from passat.ir.ops.movement import permutation
from passat.ir.ops.quantization import along
from passat.ir.tensor import Array, Tensor
from passat.rules.guards import Reject, Term, computed, dtype_of, equals, guard, same_rank
from passat.rules.holes import cases, operator
from passat.rules.library.commuting import axis_before
from passat.rules.library.layouts import permuted_back
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors, value
from passat.rules.rule import RuleSet
from passat.rules.samples import Sample, Samples

if TYPE_CHECKING:
    from passat.rules.checking.sampler import Sampler

x, y, s, z, t, u, v, w = tensors("x y s z t u v w")
c, e = constants("c e")
a, d, p, q, r, k = attributes("a d p q r k")


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
_REQUANTIZE: Final = op.qnn.requantize(x, c, z, e, u, axis=p, rounding=r, compute_dtype=k, out_dtype=d)
_PRODUCT: Final = op.cast(_SHIFTED, dtype="int64") * value(multipliers_of(c, e, p, x))
_DIVISOR: Final = value(divisors_of(c, e, p, x))


def _divided(numerator: Pattern) -> PCall:
    """The floor of the quotient by the divisor, plus the zero point, clipped to the limits of the result."""
    quotient = (numerator - op.floor_mod(numerator, _DIVISOR)) / _DIVISOR
    return op.cast(op.clip(op.cast(quotient, dtype="int32") + op.reshape(u, newshape=()), a_min=lowest(d), a_max=highest(d)), dtype=d)


def _real_product(kind: AnyValue) -> PCall:
    return op.cast(_SHIFTED, dtype=kind) * value(factors_of(c, e, p, x, kind)) + op.cast(op.reshape(u, newshape=()), dtype=kind)


def _scaled(of: Pattern, scale: Pattern, zero_point: Pattern, axis: AnyValue) -> PCall:
    """An operand of a sum, converted to the scale of the sum."""
    return op.qnn.requantize(of, scale, zero_point, v, w, axis=axis, rounding="None", compute_dtype="None", out_dtype="int32")


def _centered(of: Pattern, zero_point: Pattern, axis: int) -> PCall:
    """An operand of a product in the element type of the sums, minus its zero point."""
    return op.cast(of, dtype=d) - op.cast(_along(zero_point, axis, of), dtype=d)


_LIMITS: Final = {"a_min": lowest(dtype_of(x)), "a_max": highest(dtype_of(x))}
_REAL: Final = op.qnn.dequantize(x, s, z, out_dtype="float32", axis=-1)
_NAMES: Final = ("abs", "erf", "exp", "log", "rsqrt", "sigmoid", "sqrt", "tanh")
function = cases("function", *_NAMES)


class CanonicalQuantized(RuleSet):
    """Replaces quantized operators by equivalent ones on real numbers and integers: Relay's qnn.CanonicalizeOps."""

    quantize = (
        op.qnn.quantize(x, s, z, out_dtype=d, axis=p)
        >> _saturated(_away_from_zero(x / _along(s, p, x)) + op.cast(_along(z, p, x), dtype="float32"), d)
    ).lowering()
    dequantize = (
        (op.qnn.dequantize(x, s, z, out_dtype=d, axis=p) >> op.cast(_SHIFTED, dtype="float32") * _along(s, p, x))
        .when(equals(d, "float32"))
        .lowering()
    )
    upward = (_REQUANTIZE >> _divided(_PRODUCT + value(halves_of(c, e, p, x, 0)))).when(rounds(r, "UPWARD"), is_fixed_point(k)).lowering()
    nearest = (
        (
            _REQUANTIZE
            >> _divided(
                _PRODUCT
                + op.where(
                    op.greater_equal(_PRODUCT, value(number_of(0, "int64"))),
                    value(halves_of(c, e, p, x, 0)),
                    value(halves_of(c, e, p, x, 1)),
                )
            )
        )
        .when(rounds(r, "TONEAREST"), is_fixed_point(k))
        .lowering()
    )
    upward_in_floats = (
        (_REQUANTIZE >> _saturated(op.floor(_real_product(k) + value(number_of(0.5, k))), d))
        .when(rounds(r, "UPWARD"), is_floating(k))
        .lowering()
    )
    nearest_in_floats = (
        (_REQUANTIZE >> _saturated(_away_from_zero(_real_product(k), k), d)).when(rounds(r, "TONEAREST"), is_floating(k)).lowering()
    )
    add = (
        op.qnn.add(x, y, s, z, t, u, v, w, lhs_axis=p, rhs_axis=q)
        >> op.cast(op.clip(_scaled(x, s, z, p) + _scaled(y, t, u, q) - op.reshape(w, newshape=()), **_LIMITS), dtype=dtype_of(x))
    ).lowering()
    subtract = (
        op.qnn.subtract(x, y, s, z, t, u, v, w, lhs_axis=p, rhs_axis=q)
        >> op.cast(op.clip(_scaled(x, s, z, p) - _scaled(y, t, u, q) + op.reshape(w, newshape=()), **_LIMITS), dtype=dtype_of(x))
    ).lowering()
    dense = (op.qnn.dense(x, y, z, u, s, t, out_dtype=d) >> op.nn.dense(_centered(x, z, -1), _centered(y, u, 0))).lowering()
    batch_matmul = (
        op.qnn.batch_matmul(x, y, z, u, s, t, out_dtype=d) >> op.nn.batch_matmul(_centered(x, z, -1), _centered(y, u, -1))
    ).lowering()
    of_reals = (
        function(**{name: getattr(op.qnn, name)(x, s, z, t, u) for name in _NAMES})
        >> op.qnn.quantize(function(**{name: getattr(op, name)(_REAL) for name in _NAMES}), t, u, out_dtype=dtype_of(x), axis=-1)
    ).lowering()


def _integers(sampler: "Sampler", x: Sample) -> Samples:
    return [Sample(dtype="int8", shape=x.shape or tuple(sampler.pick((1, 2, 3)) for _ in range(sampler.pick((2, 3, 4)))))]


@guard(strategy=_integers)
def is_no_scalar(x: Term) -> bool | str:
    """The tensor has at least one axis."""
    return x.type.ndim > 0 or "a scalar has no axes"


@computed
def channel_before(axis: int, axes: Sequence[int] | None, x: Term, scale: Term) -> int:
    """The axis of the tensor that corresponds to the axis of scales of its transpose; unchanged for a single scale."""
    return axis if scale.type.size == 1 else permutation(x.type.ndim, axes)[x.type.axis(axis)]


total = operator("total", "qnn.add", "qnn.subtract", "qnn.mul")
_TURNED_X, _TURNED_Y = op.transpose(x, axes=p), op.transpose(y, axes=p)


class QuantizedTransposes(RuleSet):
    """Sinks transposes below quantized operators, and moves the axis of per-channel scales accordingly."""

    requantize = (
        (
            op.qnn.requantize(_TURNED_X, s, z, t, u, attrs=a, axis=q)
            >> op.transpose(op.qnn.requantize(x, s, z, t, u, attrs=a, axis=axis_before(q, p, x)), axes=p)
        )
        .when(is_no_scalar(x))
        .exploring()
    )
    sums = (
        (
            total(_TURNED_X, _TURNED_Y, s, z, t, u, v, w, lhs_axis=q, rhs_axis=r)
            >> op.transpose(total(x, y, s, z, t, u, v, w, lhs_axis=channel_before(q, p, x, s), rhs_axis=channel_before(r, p, y, t)), axes=p)
        )
        .when(is_no_scalar(x), same_rank(x, y))
        .exploring()
    )
    pool = (
        (
            op.qnn.avg_pool2d(_TURNED_X, s, z, t, u, attrs=a, layout=q)
            >> op.transpose(op.qnn.avg_pool2d(x, s, z, t, u, attrs=a, layout=permuted_back(q, p, x)), axes=p)
        )
        .when(is_no_scalar(x))
        .exploring()
    )
    concatenate = (
        (
            op.qnn.concatenate((_TURNED_X, _TURNED_Y), (s, z), (t, u), v, w, axis=q)
            >> op.transpose(op.qnn.concatenate((x, y), (s, z), (t, u), v, w, axis=axis_before(q, p, x)), axes=p)
        )
        .when(is_no_scalar(x))
        .exploring()
    )
