"""Elementwise mathematical functions of one tensor, and `clip`."""

import math
from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes, transcendental
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.elementwise import (
    ARITHMETIC,
    FLOATING,
    INTEGRAL,
    SIGNED_NUMBERS,
    constant_like,
    finite_limits,
    in_float32,
    same_type,
)
from passat.ir.ops.erf import erf as error_function
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type


@define_op("abs", exact="always", kernel=np.abs, onnx="Abs", elementwise=True, idempotent=True, even=True, non_negative=True)
def abs_(x: TensorType) -> TensorType:
    """The absolute value; the lowest integer maps to itself. ONNX Abs-13."""
    return same_type(x, ARITHMETIC)


@define_op("negative", exact="always", kernel=np.negative, onnx="Neg", elementwise=True, involution=True, shape_arith=True)
def negative(x: TensorType) -> TensorType:
    """The negated element; the lowest integer maps to itself. ONNX Neg-13."""
    return same_type(x, SIGNED_NUMBERS)


@define_op("sign", kernel=np.sign, onnx="Sign@9", elementwise=True, idempotent=True, monotonic=True)
def sign(x: TensorType) -> TensorType:
    """-1, 0 or 1; NaN for NaN. ONNX Sign-13."""
    return same_type(x, ARITHMETIC)


@define_op("ceil", exact="always", kernel=np.ceil, onnx="Ceil", elementwise=True, idempotent=True, monotonic=True)
def ceil(x: TensorType) -> TensorType:
    """Rounds up to an integer. ONNX Ceil-13."""
    return same_type(x, FLOATING)


@define_op("floor", exact="always", kernel=np.floor, onnx="Floor", elementwise=True, idempotent=True, monotonic=True)
def floor(x: TensorType) -> TensorType:
    """Rounds down to an integer. ONNX Floor-13."""
    return same_type(x, FLOATING)


@define_op("round", exact="always", kernel=np.rint, onnx="Round@11", elementwise=True, idempotent=True, monotonic=True)
def round_(x: TensorType) -> TensorType:
    """Rounds to the nearest integer, ties to even. ONNX Round-22."""
    return same_type(x, FLOATING)


@define_op("sqrt", exact="always", kernel=in_float32(np.sqrt), onnx="Sqrt", elementwise=True)
def sqrt(x: TensorType) -> TensorType:
    """The square root; NaN for negative numbers. ONNX Sqrt-13."""
    return same_type(x, FLOATING)


def _two_passes(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Two operators in sequence, each of which reads and writes."""
    return Cost(20.0 * elements(result), 2.0 * (nbytes(args[0]) + nbytes(result)))


@define_op("rsqrt", kernel=in_float32(lambda x: np.reciprocal(np.sqrt(x))), cost=_two_passes, elementwise=True)
def rsqrt(x: TensorType) -> TensorType:
    """The reciprocal of the square root. Written as Sqrt and Reciprocal."""
    return same_type(x, FLOATING)


@to_onnx(rsqrt)
def _write_rsqrt(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Reciprocal", [emit.node("Sqrt", inputs)])


@define_op("trunc", kernel=np.trunc, cost=_two_passes, elementwise=True, idempotent=True, odd=True, monotonic=True)
def trunc(x: TensorType) -> TensorType:
    """Rounds toward zero to an integer. Relay trunc, written as Ceil where the element is negative, and Floor elsewhere."""
    return same_type(x, FLOATING)


@to_onnx(trunc)
def _write_trunc(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 9, trunc)  # Where
    negative = emit.node("Less", [*inputs, constant_like(call, 0, emit)])
    return emit.node("Where", [negative, emit.node("Ceil", inputs), emit.node("Floor", inputs)])


@define_op("reciprocal", exact="always", kernel=in_float32(np.reciprocal), onnx="Reciprocal", elementwise=True)
def reciprocal(x: TensorType) -> TensorType:
    """The reciprocal. ONNX Reciprocal-13."""
    return same_type(x, FLOATING)


@define_op("exp", kernel=in_float32(np.exp), cost=transcendental, onnx="Exp", elementwise=True, non_negative=True, monotonic=True)
def exp(x: TensorType) -> TensorType:
    """e to the power of the element. ONNX Exp-13."""
    return same_type(x, FLOATING)


@define_op("log", kernel=in_float32(np.log), cost=transcendental, onnx="Log", elementwise=True)
def log(x: TensorType) -> TensorType:
    """The natural logarithm. ONNX Log-13."""
    return same_type(x, FLOATING)


@define_op("log2", kernel=in_float32(np.log2), cost=transcendental, elementwise=True)
def log2(x: TensorType) -> TensorType:
    """The logarithm to base 2. Written as Log divided by the logarithm of 2."""
    return same_type(x, FLOATING)


@to_onnx(log2)
def _write_log2(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Div", [emit.node("Log", inputs), constant_like(call, math.log(2), emit)])


@define_op("sin", kernel=in_float32(np.sin), cost=transcendental, onnx="Sin", elementwise=True, odd=True)
def sin(x: TensorType) -> TensorType:
    """The sine. ONNX Sin-22."""
    return same_type(x, FLOATING)


@define_op("cos", kernel=in_float32(np.cos), cost=transcendental, onnx="Cos", elementwise=True, even=True)
def cos(x: TensorType) -> TensorType:
    """The cosine. ONNX Cos-22."""
    return same_type(x, FLOATING)


@define_op("tan", kernel=in_float32(np.tan), cost=transcendental, onnx="Tan", elementwise=True, odd=True)
def tan(x: TensorType) -> TensorType:
    """The tangent. ONNX Tan-22."""
    return same_type(x, FLOATING)


@define_op("sinh", kernel=in_float32(np.sinh), cost=transcendental, onnx="Sinh@9", elementwise=True, odd=True, monotonic=True)
def sinh(x: TensorType) -> TensorType:
    """The hyperbolic sine. ONNX Sinh-22."""
    return same_type(x, FLOATING)


@define_op("cosh", kernel=in_float32(np.cosh), cost=transcendental, onnx="Cosh@9", elementwise=True, even=True, non_negative=True)
def cosh(x: TensorType) -> TensorType:
    """The hyperbolic cosine. ONNX Cosh-22."""
    return same_type(x, FLOATING)


@define_op("tanh", kernel=in_float32(np.tanh), cost=transcendental, onnx="Tanh", elementwise=True, odd=True, monotonic=True)
def tanh(x: TensorType) -> TensorType:
    """The hyperbolic tangent. ONNX Tanh-13."""
    return same_type(x, FLOATING)


@define_op("asin", kernel=in_float32(np.arcsin), cost=transcendental, onnx="Asin", elementwise=True, odd=True)
def asin(x: TensorType) -> TensorType:
    """The inverse sine. ONNX Asin-22."""
    return same_type(x, FLOATING)


@define_op("acos", kernel=in_float32(np.arccos), cost=transcendental, onnx="Acos", elementwise=True)
def acos(x: TensorType) -> TensorType:
    """The inverse cosine. ONNX Acos-22."""
    return same_type(x, FLOATING)


@define_op("atan", kernel=in_float32(np.arctan), cost=transcendental, onnx="Atan", elementwise=True, odd=True, monotonic=True)
def atan(x: TensorType) -> TensorType:
    """The inverse tangent. ONNX Atan-22."""
    return same_type(x, FLOATING)


@define_op("asinh", kernel=in_float32(np.arcsinh), cost=transcendental, onnx="Asinh@9", elementwise=True, odd=True, monotonic=True)
def asinh(x: TensorType) -> TensorType:
    """The inverse hyperbolic sine. ONNX Asinh-22."""
    return same_type(x, FLOATING)


@define_op("acosh", kernel=in_float32(np.arccosh), cost=transcendental, onnx="Acosh@9", elementwise=True)
def acosh(x: TensorType) -> TensorType:
    """The inverse hyperbolic cosine. ONNX Acosh-22."""
    return same_type(x, FLOATING)


@define_op("atanh", kernel=in_float32(np.arctanh), cost=transcendental, onnx="Atanh@9", elementwise=True, odd=True)
def atanh(x: TensorType) -> TensorType:
    """The inverse hyperbolic tangent. ONNX Atanh-22."""
    return same_type(x, FLOATING)


@define_op("erf", kernel=in_float32(error_function), cost=transcendental, elementwise=True, odd=True, monotonic=True)
def erf(x: TensorType) -> TensorType:
    """The error function. ONNX Erf-13, floating-point only."""
    return same_type(x, FLOATING)


@from_onnx("Erf")
def _read_erf(node: OnnxNode) -> Expr | None:
    return erf(node.input(0), span=node.span) if node.type(0).dtype in FLOATING else None


@to_onnx(erf)
def _write_erf(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 9, erf)
    return emit.node("Erf", inputs)


def logistic(x: Array) -> Array:
    """1 / (1 + exp(-x)) of 32-bit or 64-bit floats, without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)))


@define_op("sigmoid", kernel=in_float32(logistic), cost=transcendental, onnx="Sigmoid", elementwise=True, non_negative=True, monotonic=True)
def sigmoid(x: TensorType) -> TensorType:
    """1 / (1 + exp(-x)). ONNX Sigmoid-13."""
    return same_type(x, FLOATING)


def _clip(x: Array, a_min: float | None, a_max: float | None) -> Array:
    low, high = _bounds(x.dtype, a_min, a_max)
    held = np.where(x < low, low, x)  # for signed zeros ONNX Runtime keeps the operand, while NumPy may return the bound
    return np.asarray(np.where(held > high, high, held))


def _bounds(dtype: np.dtype[AnyValue], a_min: float | None, a_max: float | None) -> tuple[Array, Array]:
    """The bounds as scalars of the element type. Integer bounds are clamped to the range of the type."""
    lowest, highest = finite_limits(dtype)
    if dtype.kind in "iu":
        a_min = None if a_min is None else min(max(int(a_min), lowest), highest)
        a_max = None if a_max is None else min(max(int(a_max), lowest), highest)
    return np.asarray(lowest if a_min is None else a_min, dtype), np.asarray(highest if a_max is None else a_max, dtype)


@define_op("clip", kernel=_clip, elementwise=True, idempotent=True)
def clip(x: TensorType, *, a_min: float | None = None, a_max: float | None = None) -> TensorType:
    """min(a_max, max(x, a_min)). Keeps NaN, and the sign of zero at a bound of 0. ONNX Clip-13 with constant bounds.

    A bound of None is the lowest or highest *finite* value of the element type, so infinities are clipped. Bounds of integers are integers.
    """
    same_type(x, ARITHMETIC)
    for bound in (a_min, a_max):
        if bound is not None and (math.isnan(bound) or (x.dtype in INTEGRAL and not float(bound).is_integer())):
            raise OpTypeError(f"a bound of {bound} is not a valid {x.dtype}")
    return x


def _rounded(value: float, dtype: np.dtype[AnyValue]) -> Array:
    with np.errstate(over="ignore"):  # values out of range become infinite
        return np.asarray(value, dtype)


def _shortest(value: AnyValue) -> float:
    """The shortest decimal that rounds to the bound in its own type: 0.1, not the value of the nearest float32."""
    exact = np.asarray(value)
    decimal = float(str(exact[()]))
    return decimal if np.asarray(decimal, exact.dtype) == exact else float(exact)


@from_onnx("Clip")
def _read_clip(node: OnnxNode) -> Expr | None:
    dtype = node.type(0).dtype
    if dtype not in (ARITHMETIC if node.version >= 11 else FLOATING):
        return None
    bounds: list[float | None] = [None, None]
    for i, name in enumerate(("min", "max")):
        if node.version < 11:
            # An absent attribute means the greatest float32, for any element type.
            value: AnyValue = _rounded(node.attrs.get(name, finite_limits(np.dtype(np.float32))[i]), to_numpy(dtype))
        elif node.has(i + 1):
            tensor = node.constant(i + 1)
            if tensor is None or tensor.size != 1 or tensor.ndim > 1 or tensor.dtype != dtype:
                return None
            value = tensor.uniform()
        elif node.version == 11 and dtype == "float16":
            value = _rounded(finite_limits(np.dtype(np.float32))[i], to_numpy(dtype))  # ONNX Runtime computes it as float32
        else:
            continue
        if np.isnan(value):
            return None
        if value != finite_limits(to_numpy(dtype))[i]:
            bounds[i] = int(value) if dtype in INTEGRAL else _shortest(value)
    return clip(node.input(0), a_min=bounds[0], a_max=bounds[1], span=node.span)


@to_onnx(clip)
def _write_clip(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    x = call.args[0].checked_type
    assert isinstance(x, TensorType)
    given = (call.attrs.a_min, call.attrs.a_max)
    bounds = _bounds(to_numpy(x.dtype), *given)
    if emit.opset >= 11:
        need_opset(emit, 11 if x.dtype in FLOATING else 12, clip)
        names = ["" if value is None else emit.constant(bound) for value, bound in zip(given, bounds, strict=True)]
        while names and not names[-1]:
            names.pop()
        return emit.node("Clip", [*inputs, *names])
    attrs: dict[str, float] = {}
    for name, value, bound in zip(("min", "max"), given, bounds, strict=True):
        if value is None and x.dtype == "float32":
            continue
        attrs[name] = float(bound)
        if x.dtype not in FLOATING or float(_rounded(attrs[name], np.dtype(np.float32))) != attrs[name]:
            need_opset(emit, 11, clip)
    return emit.node("Clip", inputs, attrs)
