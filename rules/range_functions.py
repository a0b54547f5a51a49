"""The ranges of calls, from those of their operands.

Bounds hold for the bits that kernels compute: arithmetic rounds bounds as it rounds elements, and approximated functions get slack, since
ONNX Runtime's tanh(9) is 1.0000002. Integers that may wrap around have no bounds.
"""

import functools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from ctypes import c_float
from struct import pack
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.bounds import at_least
from passat.ir.dtypes import to_numpy
from passat.ir.op import Op
from passat.ir.ops.elementwise import finite_limits
from passat.ir.shape import Dim
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type
from passat.rules.analysis import Made
from passat.rules.ranges import FLOATS, Range, either_zero, hull_of, limits_of, order, union

_SLACK: Final = 2.0**-6
"""Maximum error of an approximated function, relative or absolute, in any element type."""


_Function = Callable[[Made, Sequence[AnyValue]], Range | None]
_OF: Final[dict[str, _Function]] = {}


def _of(*names: str) -> Callable[[_Function], _Function]:
    """Registers a transfer function for operators. (Data movement and the traits monotonic and non_negative need none.)"""

    def declare(function: _Function) -> _Function:
        _OF.update(dict.fromkeys(names, function))
        return function

    return declare


def has_function(op: Op) -> bool:
    """True if the range of a call of an operator follows from its operands."""
    return op.name in _OF or op.movement or op.non_negative or (op.arity == 1 and op.monotonic and op.kernel is not None)


def range_of_call(call: Made, facts: Sequence[AnyValue]) -> Range | tuple[Range | None, ...] | None:
    """The range of a call, from those of its operands."""
    function = _OF.get(call.op.name) or (_moved if call.op.movement else _monotonic if call.op.monotonic else _not_negative)
    if isinstance(call.type, TupleType):
        return (function(call, facts),) * len(call.type.fields) if call.op.movement else None
    limits = limits_of(call.type.dtype) if isinstance(call.type, TensorType) else None
    if limits is None or _is_unknown(facts):
        return limits
    found = function(call, facts)
    return found if found is not None and limits.low <= found.low and found.high <= limits.high else limits


def _flat(facts: Iterable[AnyValue]) -> list[AnyValue]:
    return [each for fact in facts for each in (_flat(fact) if isinstance(fact, tuple) and not isinstance(fact, Range) else (fact,))]


def _is_unknown(facts: Iterable[AnyValue]) -> bool:
    """True if a range is unknown."""
    return any(fact is None or (type(fact) is not Range and _is_unknown(fact)) for fact in facts)


def _is_float(type_: Type) -> bool:
    return isinstance(type_, TensorType) and type_.dtype in FLOATS


def _array(call: Made, values: Sequence[float]) -> Array:
    """Numbers in the element type of the first operand."""
    assert isinstance(call.types[0], TensorType)
    return np.asarray(values, to_numpy(call.types[0].dtype))


# Arrays of two or four numbers take most of the time of an analysis. A float64 that is rounded to float32 is the rounded sum, difference,
# product or quotient: 53 bits are more than twice 24 bits and two (Figueroa, "When is double rounding innocuous?", 1995).
_ARITHMETIC: Final[Mapping[str, Callable[[float, float], float]]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "divide": operator.truediv,
}
_ROUNDED: Final[Mapping[str, Callable[[float], float]]] = {"float64": float, "float32": lambda number: c_float(number).value}


def _computed(call: Made, *operands: Sequence[float]) -> Sequence[float]:
    """The kernel's results on some numbers."""
    assert isinstance(call.types[0], TensorType)
    exact, rounded = _ARITHMETIC.get(call.op.name), _ROUNDED.get(call.types[0].dtype)
    if exact is not None and rounded is not None:
        return [rounded(exact(*numbers)) for numbers in zip(*operands, strict=True)]
    assert call.op.kernel is not None
    dtype = call.types[0].dtype
    if dtype in FLOATS:
        return _of_floats(call.op.kernel, call.attrs, dtype, *[pack(f"{len(values)}d", *values) for values in operands])
    with np.errstate(all="ignore"):
        found: list[float] = np.asarray(call.op.kernel(*[_array(call, values) for values in operands], **call.attrs)).tolist()
    return found


@functools.lru_cache(maxsize=1 << 12)
def _of_floats(kernel: Callable[..., AnyValue], attrs: Attrs, dtype: str, *operands: bytes) -> tuple[float, ...]:
    """A kernel's results on floating-point numbers, given as bytes, since 0.0 equals -0.0."""
    with np.errstate(all="ignore"):  # bounds may exceed the element type
        found = np.asarray(kernel(*[np.frombuffer(values).astype(to_numpy(dtype)) for values in operands], **attrs))
    return tuple(found.astype(np.float64).tolist() if found.dtype.kind not in "iub" else found.tolist())


# ---- by traits


def _moved(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    """Data movement; the element type may change."""
    types = [field for type_ in call.types for field in (type_.fields if isinstance(type_, TupleType) else (type_,))]
    fields = call.type.fields if isinstance(call.type, TupleType) else (call.type,)
    dtypes = {type_.dtype if isinstance(type_, TensorType) else "" for type_ in (*types, *fields)}
    flat = _flat(facts)
    if len(dtypes) != 1 or not flat or None in flat:
        return None
    return union(flat)


def _monotonic(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,) = facts
    assert isinstance(call.type, TensorType)
    if call.type.dtype not in FLOATS:
        low, high = _computed(call, [x.low, x.high])
        return Range(low, high)
    low, high = _monotonic_bounds(call.op, call.op.kernel, call.type.dtype, pack("2d", x.low, x.high))
    return Range(low, high, x.nan)


@functools.lru_cache(maxsize=1 << 12)
def _monotonic_bounds(op: Op, kernel: Callable[..., AnyValue], dtype: str, bounds: bytes) -> tuple[float, float]:
    """The bounds of a monotonic operator on floating-point numbers, whose bounds are given like those of `_of_floats`."""
    low, high = _of_floats(kernel, EMPTY_ATTRS, "float64", bounds)
    if op.exact == "never" and op.name != "sign":
        greatest = float(finite_limits(to_numpy(dtype))[1])
        low, high = (bound if math.isinf(bound) else bound + side * _SLACK * (1 + abs(bound)) for bound, side in ((low, -1), (high, 1)))
        low, high = -math.inf if low < -greatest else low, math.inf if high > greatest else high
    if op.non_negative:
        low = max(low, 0.0, key=order)
    return low, high


def _not_negative(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    return Range(0.0, math.inf, True) if _is_float(call.type) else None


# ---- one operand


@_of("abs")
def _abs(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,) = facts
    if not x.has_zero:
        return hull_of([abs(x.low), abs(x.high)], nan=x.nan)
    return Range(0.0 if isinstance(x.low, float) else 0, max(abs(x.low), abs(x.high)), x.nan)


@_of("negative")
def _negative(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    return Range(-facts[0].high, -facts[0].low, facts[0].nan)


@_of("nn.relu", "clip")
def _clipped(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,) = facts
    if call.op.name == "clip" and None not in call.attrs.values() and call.attrs.a_min > call.attrs.a_max:
        return None
    low, high = _computed(call, [x.low, x.high])
    if low == 0 and call.op.name == "nn.relu" and not x.signed:
        return Range(low, high, x.nan)  # both zeros are 0.0, so the sign of the result is certain
    return either_zero(Range(low, high, x.nan))


_BOUNDED: Final = {
    "cos": (-1 - _SLACK, 1 + _SLACK),
    "nn.hard_sigmoid": (-0.0, 1.0),
    "nn.softmax": (0.0, 1 + _SLACK),
    "sin": (-1 - _SLACK, 1 + _SLACK),
}
"""Bounds of functions whose results are NaN for some infinite operands only."""


@_of(*_BOUNDED)
def _bounded(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    low, high = _BOUNDED[call.op.name]
    return Range(low, high, facts[0].nan or facts[0].has_infinity)


@_of("sqrt")
def _sqrt(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,) = facts
    if x.high < 0:
        return None
    low, high = _computed(call, [max(x.low, -0.0, key=order), x.high])
    return Range(low, high, x.nan or x.low < 0)


@_of("reciprocal", "rsqrt")
def _inverse(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    return None if facts[0].signed else Range(0.0, math.inf, facts[0].nan)


@_of("cast")
def _cast(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,), made = facts, call.type
    assert isinstance(made, TensorType)
    if made.dtype == "bool":
        return None
    if made.dtype in FLOATS:
        with np.errstate(over="ignore"):
            low, high = _array(call, [x.low, x.high]).astype(to_numpy(made.dtype)).astype(np.float64).tolist()
        return Range(low, high, x.nan)
    return None if x.nan or x.has_infinity else Range(math.trunc(x.low), math.trunc(x.high))


# ---- two operands, which broadcast


def _corners(call: Made, x: Range, y: Range) -> Sequence[float]:
    """The results for all combinations of bounds."""
    return _computed(call, [x.low, x.low, x.high, x.high], [y.low, y.high, y.low, y.high])


def _whole(function: Callable[[int, int], int], x: Range, y: Range) -> Range | None:
    return hull_of([function(int(a), int(b)) for a in (x.low, x.high) for b in (y.low, y.high)])


@_of("add")
def _add(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if not _is_float(call.type):
        return _whole(int.__add__, x, y)
    nan = (x.high == math.inf and y.low == -math.inf) or (x.low == -math.inf and y.high == math.inf)
    return hull_of(_corners(call, x, y), nan=nan or x.nan or y.nan)


@_of("subtract")
def _subtract(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if call.operands[0] == call.operands[1]:
        return Range(0.0, 0.0, x.nan or x.has_infinity) if _is_float(call.type) else Range(0, 0)
    if not _is_float(call.type):
        return _whole(int.__sub__, x, y)
    nan = (x.high == y.high == math.inf) or (x.low == y.low == -math.inf)
    return hull_of(_corners(call, x, y), nan=nan or x.nan or y.nan)


@_of("multiply")
def _multiply(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if call.operands[0] == call.operands[1]:
        size = _abs(call, [x])
        assert size is not None
        if not _is_float(call.type):
            return Range(int(size.low) ** 2, int(size.high) ** 2)
        return hull_of(_computed(call, [size.low, size.high], [size.low, size.high]), nan=x.nan)
    if not _is_float(call.type):
        return _whole(int.__mul__, x, y)
    nan = (x.has_zero and y.has_infinity) or (x.has_infinity and y.has_zero)
    # Corners that are 0 times infinity are NaN, but 0 times a finite element of the same range is a signed 0.
    zeros = [math.copysign(0.0, a) * math.copysign(1.0, b) for a in (x.low, x.high) for b in (y.low, y.high)] if nan else []
    return hull_of([*_corners(call, x, y), *zeros], nan=nan or x.nan or y.nan)


@_of("divide")
def _divide(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if not _is_float(call.type):
        return _quotients(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), x, y)
    nan = x.nan or y.nan or (x.has_zero and y.has_zero) or (x.has_infinity and y.has_infinity)
    if y.has_zero:
        return None if x.signed or y.signed else Range(0.0, math.inf, nan)
    return hull_of(_corners(call, x, y), nan=nan)


def _quotients(function: Callable[[int, int], int], x: Range, y: Range) -> Range | None:
    """The range of integer quotients, which are undefined for the divisor 0: the extremes are those of the least divisors."""
    divisors = [y_ for y_ in (y.low, y.high, -1, 1) if y_ and y.low <= y_ <= y.high]
    return hull_of([function(int(a), int(b)) for a in (x.low, x.high) for b in divisors]) if divisors else None


@_of("floor_divide")
def _floor_divide(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    return _quotients(int.__floordiv__, x, y)


@_of("floor_mod")
def _floor_mod(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if _is_float(call.type) or y.low == y.high == 0:
        return None
    low, high = min(y.low + 1, 0), max(y.high - 1, 0)
    return Range(low, min(high, x.high)) if x.low >= 0 else Range(low, high)


@_of("fmod")
def _fmod(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    if _is_float(call.type) or y.low == y.high == 0:
        return None
    most = max(abs(y.low), abs(y.high)) - 1
    return Range(max(min(x.low, 0), -most), min(max(x.high, 0), most))


@_of("right_shift")
def _right_shift(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    return _whole(int.__rshift__, x, y) if 0 <= y.low <= y.high < 64 else None


@_of("bitwise_and")
def _bitwise_and(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    highs = [fact.high for fact in facts if fact.low >= 0]
    return Range(0, min(highs)) if highs else None


@_of("power")
def _power(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    x, y = facts
    even = y.low == y.high and not y.nan and y.low >= 0 and y.low % 2 == 0
    return Range(0.0, math.inf, x.nan or y.nan) if _is_float(call.type) and (even or not x.signed) else None


@_of("maximum", "minimum", "elemwise_max", "elemwise_min")
def _extremum(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    flat = _flat(facts)
    choose = max if call.op.name.endswith(("maximum", "max")) else min
    low, high = choose([each.low for each in flat], key=order), choose([each.high for each in flat], key=order)
    found = Range(low, high, any(each.nan for each in flat))
    return either_zero(found) if any(each.signed and each.has_zero for each in flat) else found


@_of("where")
def _where(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    found = union(facts[1:])
    return found if found is None else either_zero(found)  # ONNX Runtime turns some -0.0 into 0.0


# ---- selected, padded and filled elements


@_of(
    *("take", "gather", "gather_nd", "broadcast_to_like", "reshape_like", "dyn.reshape", "dyn.broadcast_to", "dyn.tile"),
    "dyn.strided_slice",
)
def _first(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    found: Range = facts[0]
    return found


@_of("full", "dyn.full", "full_like")
def _filled(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    place = int(call.op.name == "full_like")
    found: Range = facts[place]
    type_ = call.types[place]
    return found if isinstance(type_, TensorType) and isinstance(call.type, TensorType) and type_.dtype == call.type.dtype else None


@_of("trilu", "nn.pad", "nn.space_to_batch_nd")
def _beside(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    if call.op.name == "nn.pad" and call.attrs.pad_mode != "constant":
        return union(facts)
    value: float = 0 if call.op.name == "trilu" else call.attrs.pad_value
    if _is_float(call.type):
        with np.errstate(over="ignore"):
            (value,) = _array(call, [value]).astype(np.float64).tolist()
        return hull_of([facts[0].low, facts[0].high, value], nan=facts[0].nan)
    return union([facts[0], Range(int(value), int(value))]) if math.isfinite(value) else None


@_of("zeros", "zeros_like", "ones", "ones_like")
def _all_alike(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    one = float(call.op.name.startswith("ones"))
    return Range(one, one) if _is_float(call.type) else Range(int(one), int(one))


# ---- sizes and indices


@_of("shape_of", "ndarray_size")
def _size(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    limits = limits_of(call.type.dtype) if isinstance(call.type, TensorType) else None
    return None if limits is None or _is_float(call.type) or limits.high < 2**31 - 1 else Range(0, limits.high)


@_of("argmax", "argmin")
def _place(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    data, axis = call.types[0], call.attrs.axis
    assert isinstance(data, TensorType)
    sizes: Sequence[Dim] = [data.shape[axis]] if isinstance(axis, int) else data.shape
    known = [dim for dim in sizes if isinstance(dim, int)]
    return Range(0, max(math.prod(known) - 1, 0) if len(known) == len(sizes) else 2**31)


# ---- reductions


def _is_filled(type_: Type) -> bool:
    return isinstance(type_, TensorType) and all(at_least(dim, 1) for dim in type_.shape)


@_of("max", "min", "nn.global_max_pool1d", "nn.global_max_pool2d", "nn.global_max_pool3d")
def _greatest(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    found: Range = facts[0]
    return found if _is_filled(call.types[0]) else None


@_of("nn.max_pool1d", "nn.max_pool2d", "nn.max_pool3d")
def _pooled(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    # A window that consists of padding yields the lowest number of the type.
    return _greatest(call, facts) if not call.attrs.ceil_mode and not np.any(np.asarray(call.attrs.padding)) else None


@_of("sum", "mean", "elemwise_sum", "elemwise_mean", "nn.global_avg_pool1d", "nn.global_avg_pool2d", "nn.global_avg_pool3d")
def _summed(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    """A sum of nonnegative terms is nonnegative."""
    terms = _flat(facts)
    if not _is_float(call.type) or any(each.low < 0 for each in terms):
        return None
    filled = all(map(_is_filled, call.types)) or call.op.name in ("sum", "elemwise_sum", "elemwise_mean")
    return Range(-0.0 if any(each.signed for each in terms) else 0.0, math.inf, any(each.nan for each in terms) or not filled)


@_of("reduce_l1", "reduce_l2", "reduce_sum_square")
def _length(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    return Range(0.0, math.inf, facts[0].nan) if _is_float(call.type) else None


@_of("prod")
def _product(call: Made, facts: Sequence[AnyValue]) -> Range | None:
    (x,) = facts
    return None if x.signed or not _is_float(call.type) else Range(0.0, math.inf, True)
