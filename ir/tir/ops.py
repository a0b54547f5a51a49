"""Functions of expressions, with TVM's names: mathematical functions, choices, conditions and limits.

Types are matched and constants folded as Python's operators do.
"""

import math
import sys
from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.tir.arithmetic import EQ, Add, And, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Not, Or, Sub
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import Call, FloatImm, IntImm, PrimExpr, cast, const, convert, match_types
from passat.ir.tir.types import DataType, TirError, canonical
from passat.ir.tir.values import Select

__all__ = [
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "call_extern",
    "call_intrin",
    "call_packed",
    "call_pure_extern",
    "ceil",
    "clz",
    "copysign",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "exp2",
    "exp10",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "hypot",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "infinity",
    "isfinite",
    "isinf",
    "isnan",
    "ldexp",
    "likely",
    "log",
    "log1p",
    "log2",
    "log10",
    "max_value",
    "min_value",
    "multiply",
    "nearbyint",
    "nextafter",
    "popcount",
    "power",
    "q_multiply_shift",
    "ret",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "truncdiv",
    "truncmod",
]


def call_intrin(dtype: str, func_name: str, *args: AnyValue) -> Call:
    """A call of a function of `passat.ir.tir.intrinsics`."""
    return Call(dtype, func_name, args)


def call_extern(dtype: str, func_name: str, *args: AnyValue) -> Call:
    """A call of a C function that may change memory."""
    return Call(dtype, "tir.call_extern", [func_name, *args])


def call_pure_extern(dtype: str, func_name: str, *args: AnyValue) -> Call:
    """A call of a C function whose result depends on its arguments only."""
    return Call(dtype, "tir.call_pure_extern", [func_name, *args])


def call_packed(*args: AnyValue) -> Call:
    """A call of a registered function (`passat.register_func`) by name. Buffers are passed as arrays."""
    return Call("int32", "tir.tvm_call_packed", [_as_array(arg) if isinstance(arg, Buffer) else arg for arg in args])


def _as_array(buffer: Buffer) -> Call:
    """A buffer as an argument of a registered function: its pointer, sizes, strides, rank, a zero of its type, and its offset."""
    shape = Call("handle", "tir.tvm_stack_make_shape", buffer.shape)
    strides = Call("handle", "tir.tvm_stack_make_shape", buffer.strides) if buffer.strides else const(0)
    parts = [buffer.data, shape, strides, len(buffer.shape), const(0, buffer.dtype), buffer.elem_offset]
    return Call("handle", "tir.tvm_stack_make_array", parts)


def ret(value: AnyValue) -> Call:
    """Returns a value from the function."""
    given = convert(value)
    return Call(given.dtype, "tir.ret", [given])


def _unary(name: str) -> Callable[[AnyValue], PrimExpr]:
    def function(x: AnyValue) -> PrimExpr:
        value = convert(x)
        return Call(value.dtype, f"tir.{name}", [value])

    function.__doc__ = f"The function `{name}` of a value."
    function.__name__ = function.__qualname__ = name
    return function


def _binary(name: str) -> Callable[[AnyValue, AnyValue], PrimExpr]:
    def function(x1: AnyValue, x2: AnyValue) -> PrimExpr:
        left = convert(x1)
        return Call(left.dtype, f"tir.{name}", [left, x2])

    function.__doc__ = f"The function `{name}` of two values."
    function.__name__ = function.__qualname__ = name
    return function


def _of_floats(name: str) -> Callable[[AnyValue, AnyValue], PrimExpr]:
    def function(x: AnyValue, y: AnyValue) -> PrimExpr:
        left, right = match_types(convert(x), convert(y))
        if not left.type.is_float:
            raise TirError(f"{function.__name__} applies to floating-point numbers, not to {left.dtype}")
        return Call(left.dtype, f"tir.{name}", [left, right])

    function.__doc__ = f"The function `{name}` of two floating-point numbers."
    function.__name__ = function.__qualname__ = "power" if name == "pow" else name
    return function


def _rounding(name: str, compute: Callable[[float], float]) -> Callable[[AnyValue], PrimExpr]:
    def function(x: AnyValue) -> PrimExpr:
        value = convert(x)
        if value.type.is_integer:
            return value
        if isinstance(value, FloatImm):
            return FloatImm(value.dtype, compute(value.value) if math.isfinite(value.value) else value.value)
        return Call(value.dtype, f"tir.{name}", [value])

    function.__doc__ = f"The function `{name}` of a value; integers are unchanged."
    function.__name__ = function.__qualname__ = name
    return function


exp, exp2, exp10, erf, tanh, sigmoid = map(_unary, ("exp", "exp2", "exp10", "erf", "tanh", "sigmoid"))
log, log2, log10, log1p, sqrt, rsqrt = map(_unary, ("log", "log2", "log10", "log1p", "sqrt", "rsqrt"))
sin, sinh, asin, asinh, cos, cosh, acos, acosh = map(_unary, ("sin", "sinh", "asin", "asinh", "cos", "cosh", "acos", "acosh"))
tan, atan, atanh, popcount = map(_unary, ("tan", "atan", "atanh", "popcount"))
atan2, nextafter, hypot, copysign, ldexp = map(_binary, ("atan2", "nextafter", "hypot", "copysign", "ldexp"))
power, fmod = map(_of_floats, ("pow", "fmod"))
floor, ceil, trunc = _rounding("floor", math.floor), _rounding("ceil", math.ceil), _rounding("trunc", math.trunc)
round, nearbyint = _rounding("round", round), _rounding("nearbyint", round)  # TVM's name


def clz(x: AnyValue) -> PrimExpr:
    """The number of leading zero bits, as int32."""
    return Call("int32", "tir.clz", [x])


def q_multiply_shift(x: AnyValue, y: AnyValue, q: AnyValue, s: AnyValue) -> PrimExpr:
    """The product of fixed-point numbers of `q` fractional bits, shifted by `s` and rounded."""
    value = convert(x)
    return Call(str(DataType("int", 32, value.lanes)), "tir.q_multiply_shift", [value, y, q, s])


def abs(x: AnyValue) -> PrimExpr:  # TVM's name
    """The absolute value."""
    value = convert(x)
    if value.type.kind == "int":
        if isinstance(value, IntImm):
            return IntImm(value.dtype, value.type.wrapped(value.value if value.value >= 0 else -value.value))
        return Select(value >= const(0, value.dtype), value, -value)
    if value.type.is_float:
        if isinstance(value, FloatImm):
            return FloatImm(value.dtype, math.fabs(value.value))
        return Call(value.dtype, "tir.fabs", [value])
    if value.type.is_integer:
        return value
    raise TirError(f"abs applies to numbers, not to {value.dtype}")


def isnan(x: AnyValue) -> PrimExpr:
    """Whether a value is NaN; no integer is."""
    value = convert(x)
    boolean = str(DataType("uint", 1, value.lanes))
    if value.type.is_integer:
        return const(False, boolean)
    if not value.type.is_float:
        raise TirError(f"isnan applies to numbers, not to {value.dtype}")
    if isinstance(value, FloatImm):
        return const(math.isnan(value.value), boolean)
    if value.type.bits == 16:
        value = cast(str(DataType("float", 32, value.lanes)), value)
    return Call(boolean, "tir.isnan", [value])


def isinf(x: AnyValue) -> PrimExpr:
    """Whether a value is infinite; no integer is."""
    value = convert(x)
    if value.type.is_integer:
        return const(False, str(DataType("uint", 1, value.lanes)))
    return And.of(EQ.of(abs(value), FloatImm(str(value.type.with_lanes(1)), math.inf)), Not.of(isnan(value)))


def isfinite(x: AnyValue) -> PrimExpr:
    """Whether a value is neither infinite nor NaN."""
    return And.of(Not.of(isinf(x)), Not.of(isnan(x)))


def if_then_else(cond: AnyValue, t: AnyValue, f: AnyValue) -> PrimExpr:
    """The first value if the condition holds, else the second; only that one is evaluated."""
    condition = convert(cond)
    if condition.dtype != "bool":
        raise TirError(f"if_then_else has a condition of type bool, not {condition.dtype}")
    left, right = match_types(convert(t), convert(f))
    if isinstance(condition, IntImm):
        return left if condition.value else right
    return Call(left.dtype, "tir.if_then_else", [condition, left, right])


def likely(cond: AnyValue) -> PrimExpr:
    """A condition that usually holds; it is a hint to passes that split loops."""
    condition = convert(cond)
    return condition if isinstance(condition, IntImm) else Call(condition.dtype, "tir.likely", [condition])


def all(*args: AnyValue) -> PrimExpr:  # TVM's name
    """Whether all conditions hold. Raises ValueError without conditions."""
    return _conditions("all", And.of, args)


def any(*args: AnyValue) -> PrimExpr:  # TVM's name
    """Whether one of the conditions holds. Raises ValueError without conditions."""
    return _conditions("any", Or.of, args)


def _conditions(name: str, function: Callable[[AnyValue, AnyValue], PrimExpr], args: tuple[AnyValue, ...]) -> PrimExpr:
    if not args:
        raise ValueError(f"{name} has at least one condition")
    result = convert(args[0])
    for arg in args[1:]:
        result = function(result, arg)
    return result


def _on_integers(function: Callable[[AnyValue, AnyValue], PrimExpr], name: str) -> Callable[[AnyValue, AnyValue], PrimExpr]:
    def checked(a: AnyValue, b: AnyValue) -> PrimExpr:
        left, right = convert(a), convert(b)
        for value in (left, right):
            if not value.type.is_integer:
                raise TirError(f"{name} applies to integers, not to {value.dtype}")
        return function(left, right)

    checked.__doc__ = f"The function `{name}` of integers."
    checked.__name__ = checked.__qualname__ = name
    return checked


add, subtract, multiply, div, truncmod = Add.of, Sub.of, Mul.of, Div.of, Mod.of
truncdiv = _on_integers(Div.of, "truncdiv")
floordiv, floormod = _on_integers(FloorDiv.of, "floordiv"), _on_integers(FloorMod.of, "floormod")
indexdiv, indexmod = floordiv, floormod
_FINITE: Final = {16: 65504.0, 32: float(np.finfo(np.float32).max), 64: sys.float_info.max}


def max_value(dtype: str) -> PrimExpr:
    """The largest finite value of a type.

    >>> max_value("int8").value
    127
    """
    type_ = DataType.of(canonical(dtype))
    if type_.is_integer:
        return const((1 << (type_.bits - (type_.kind == "int"))) - 1, dtype)
    return FloatImm(dtype, _finite(type_))


def min_value(dtype: str) -> PrimExpr:
    """The least finite value of a type.

    >>> min_value("int8").value
    -128
    """
    type_ = DataType.of(canonical(dtype))
    if type_.is_integer:
        return const(-(1 << (type_.bits - 1)) if type_.kind == "int" else 0, dtype)
    return FloatImm(dtype, -_finite(type_))


def _finite(type_: DataType) -> float:
    if not type_.is_float:
        raise TirError(f"there is no largest value of the type {type_}")
    return _FINITE[type_.bits]


def infinity(dtype: str) -> PrimExpr:
    """Positive infinity of a floating-point type."""
    return FloatImm(dtype, math.inf)


minimum, maximum = Min.of, Max.of
"""The smaller and the larger of two values. `tir.min` and `tir.max` also reduce."""
