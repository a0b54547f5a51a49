"""Identities of elementwise arithmetic: units, idempotence, constants, clips, and simplifications that value ranges prove
(`passat.rules.ranges`).

Operators: every elementwise operator that declares a unit, an involution or idempotence, or that is even, odd or monotonic
(`passat.ir.op.Op`); add subtract multiply divide negative reciprocal power logical_* where elemwise_* clip cast nn.relu abs
maximum minimum max min where isnan copy nn.leaky_relu nn.prelu nn.thresholded_relu, comparisons.

From Relay's SimplifyExpr (v0.18): SimplifyAdd, SwitchAddMultiply, SimplifyClip, SimplifyClipAndConsecutiveCast.
(SimplifyAdjacentMultiplyOrAdd is `Constants`; forms that only Relay has are in `relay_forms`.)
"""

import math
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import EMPTY_ATTRS, Attrs
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.evaluate import evaluate_call
from passat.ir.op import Op, get_op, list_ops
from passat.ir.ops.elementwise import finite_limits
from passat.ir.ops.emitting import shortest
from passat.ir.tensor import Tensor
from passat.rules.guards import (
    Reject,
    Term,
    calls_with_constants,
    computed,
    elements_are,
    guard,
    has_dtype,
    is_all,
    is_finite,
    is_float,
    is_integer,
    is_not_empty,
    same_type,
    shape_of,
)
from passat.rules.holes import cases, operator
from passat.rules.pattern import Pattern, attributes, constants, op, tensors, value
from passat.rules.range_guards import never_negative, never_signed, range_of
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
c, d, e = constants("c d e")
a, b, t, u = attributes("a b t u")
TIES: Final = "either of 0.0 and -0.0 may count as the larger"
CHOSEN_ZERO: Final = "ONNX Runtime may turn a -0.0 that `where` selects into 0.0, depending on shapes"


@guard
def is_not_constant(y: Term) -> bool | str:
    """The term is not a constant; constant folding handles expressions of constants."""
    return y.constant is None or "is a constant"


@guard
def is_no_zero(x: Term) -> bool | str:
    """The term is not a constant of zeros. Products with 0 can be factored without end: x * 0 - x * 0 is (x - x) * 0, which is factored
    with x * 0 in turn."""
    value = x.constant
    return not isinstance(value, Tensor) or value.uniform() != 0 or "is 0"


@guard
def is_no_negative_zero(c: Term) -> bool | str:
    """The constant is not -0.0: for x = -0.0, x - (-0.0) is 0.0."""
    element = c.value().uniform()
    return element is None or math.copysign(1.0, float(element)) > 0 or "the elements of the constant are -0.0"


@guard
def is_unit(c: Term, of: Op) -> bool | str:
    """Every element of the constant is the unit of the operator."""
    return elements_are(c, of.unit)


@guard
def is_zero_of(c: Term, of: Op) -> bool | str:
    """Every element of the constant is the zero of the operator, f(x, c) = c. Floating-point numbers have none: inf * 0 is NaN."""
    if c.type.dtype in FLOATS:
        return f"the elements are {c.type.dtype}: inf * 0 is NaN"
    return elements_are(c, of.zero)


absorbing = operator("absorbing", *(of.name for of in list_ops() if of.zero is not None))
_NOTHING: Final = cases("nothing", "difference", "bits", "truth")
_APART: Final = ("add", "subtract", "power")
unital = operator("unital", *(of.name for of in list_ops() if of.unit is not None and of.arity == 2 and of.name not in _APART))


@guard
def meet_in_range(given: Op | str, c: Term, d: Term) -> bool | str:
    """The operator applied to the two constants gives finite values, and neither 0 nor a subnormal where both are nonzero. `given` may be a
    name.

    Reassociation changes rounding. If the combined constant overflowed where the two originals do not, the result would change.
    """
    return _meet_in_range(given, c, d)


def _meet_in_range(given: Op | str, c: Term, d: Term) -> bool | str:
    if c.type.dtype not in FLOATS:
        return f"the elements are {c.type.dtype}, not floating-point numbers"
    of = get_op(given) if isinstance(given, str) else given
    name, operands = of.name, (c.value(), d.value())
    value = evaluate_call(of, operands, EMPTY_ATTRS, of.infer((c.type, d.type), EMPTY_ATTRS))
    assert isinstance(value, Tensor)
    found = np.abs(np.asarray([value.uniform()]) if value.is_splat and value.size else value.numpy())
    reason = f"{name} of the constants leaves the range of {c.type.dtype}"
    if not np.all(np.isfinite(found)):
        return reason
    if name in ("add", "subtract"):
        return True
    zero = (operands[0].numpy() == 0) | (name == "multiply" and operands[1].numpy() == 0)
    smallest = ml_dtypes.finfo(to_numpy(c.type.dtype)).smallest_normal  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return bool(np.all((found >= smallest) | zero)) or reason


@guard
def may_regroup(given: Op | str, c: Term, d: Term) -> bool | str:
    """`meet_in_range`, or integers: these wrap around, so that every grouping of a sum or product gives the same value."""
    return c.type.dtype in INTEGERS or _meet_in_range(given, c, d)


@guard
def constants_in_range(given: Op | str, x: Term, y: Term) -> bool | str:
    """The operands are not both floating-point constants, or `meet_in_range`."""
    if x.constant is None or y.constant is None or x.type.dtype not in FLOATS:
        return True
    return _meet_in_range(given, x, y)


sums = cases("terms", "add_add", "add_subtract", "subtract_add", "subtract_subtract")
scaled = cases("scaled", "multiply", "divide")
products = cases("factors", "multiply_multiply", "multiply_divide", "divide_multiply", "divide_divide")


@guard
def is_not_affine(x: Term) -> bool | str:
    """The tensor is neither a product nor a sum with a constant, which other rules combine with the constants that follow. In a chain of
    both, each of them would otherwise be combined with each before it."""
    return _has_no_constant_in(x, "multiply", "add")


@guard
def is_no_shifted_quotient(x: Term) -> bool | str:
    """The tensor is neither a quotient by a constant nor a sum with one, which other rules combine with the constants that follow. In a
    chain of both, each of them would otherwise be combined with each before it. A quotient by a power of two that has become a product
    is permitted, since `Constants.affine` does not match it any more."""
    is_product = _has_no_constant_in(x, "multiply") is not True
    return _has_no_constant_in(x, "add") if is_product else _has_no_constant_in(x, "divide", "add")


@guard
def is_no_sum(x: Term) -> bool | str:
    """The tensor is neither a sum nor a difference with a constant, which `Constants.sum` combines with the constant that follows. In a
    chain of them, each would otherwise be combined with each before it."""
    return _has_no_constant_in(x, "add", "subtract")


def _has_no_constant_in(x: Term, *names: str) -> bool | str:
    found = [name for name in names if calls_with_constants(x, name)]
    return not found or f"is also a call of {found[0]} with a constant"


class Constants(RuleSet):
    """Reassociates sums and products so that two constants fold together, and distributes a factor over a sum with a constant. Adds the
    negative of a constant that is subtracted, as rules for sums expect."""

    negated = (x - c >> x + op.negative(c)).when(is_float(x), is_no_sum(x)).exploring()
    sum = (
        (
            sums(add_add=(x + c) + d, add_subtract=(x + c) - d, subtract_add=(x - c) + d, subtract_subtract=(x - c) - d)
            >> sums(add_add=x + (c + d), add_subtract=x + (c - d), subtract_add=x + (d - c), subtract_subtract=x - (c + d))
        )
        .when(
            *sums.only("add_add subtract_subtract", may_regroup("add", c, d)),
            *sums.only("add_subtract", may_regroup("subtract", c, d)),
            *sums.only("subtract_add", may_regroup("subtract", d, c)),
        )
        .inexact("reassociates a sum")
    )
    product = (
        (
            products(multiply_multiply=(x * c) * d, multiply_divide=(x * c) / d, divide_multiply=(x / c) * d, divide_divide=(x / c) / d)
            >> products(multiply_multiply=x * (c * d), multiply_divide=x * (c / d), divide_multiply=x * (d / c), divide_divide=x / (c * d))
        )
        .when(
            *products.only("multiply_multiply", may_regroup("multiply", c, d)),
            *products.only("divide_divide", meet_in_range("multiply", c, d)),
            *products.only("multiply_divide", meet_in_range("divide", c, d)),
            *products.only("divide_multiply", meet_in_range("divide", d, c)),
        )
        .inexact("reassociates a product")
    )
    affine = (
        (scaled(multiply=(x * e + c) * d, divide=(x / e + c) / d) >> scaled(multiply=x * (e * d) + c * d, divide=x / (e * d) + c / d))
        .when(is_float(x), is_finite(d), meet_in_range("multiply", e, d))
        .when(*scaled.only("multiply", meet_in_range("multiply", c, d)), *scaled.only("divide", meet_in_range("divide", c, d)))
        .inexact("distributes")
    )
    switch_add_multiply = (
        ((x + c) * d >> x * d + c * d)
        .when(is_float(x), is_finite(d), is_not_affine(x), meet_in_range("multiply", c, d))
        .inexact("distributes")
        .exploring()
        .budget(200)
    )


_WHOLE_UP_TO = {"float16": 1 << 11, "bfloat16": 1 << 8, "float32": 1 << 24, "float64": 1 << 53}
"""Every integer up to this magnitude is exactly representable in the floating-point type."""


def limits_of_clip(attrs: Attrs, dtype: str) -> tuple[float, float]:
    """The bounds of a clip as values of the element type. Rejects a lower bound above the upper one."""
    kind = to_numpy(dtype)
    lowest, highest = (np.asarray(limit, kind).item() for limit in finite_limits(kind))
    low, high = attrs.a_min, attrs.a_max
    if dtype in INTEGERS:
        given = (lowest if low is None else int(low), highest if high is None else int(high))
        bounds = [min(max(each, lowest), highest) for each in given]
    else:
        bounds = [float(np.asarray(each, kind)) for each in (lowest if low is None else low, highest if high is None else high)]
    if bounds[0] > bounds[1]:
        raise Reject(f"the bounds {low} and {high} of a clip of {dtype} contain no value")
    return bounds[0], bounds[1]


@guard
def binds_nothing(attrs: Attrs, x: Term) -> bool | str:
    """Every finite value of the element type lies within the bounds."""
    kind = to_numpy(x.type.dtype)
    lowest, highest = finite_limits(kind)
    low, high = limits_of_clip(attrs, x.type.dtype)
    return bool(low <= lowest and high >= highest) or f"clips {x.type.dtype} to {low} ... {high}"


@computed
def bound_of_both(inner: Attrs, outer: Attrs, x: Term, name: str) -> float | None:
    """One bound of the clip equivalent to two nested clips: the inner bound, clipped by the outer clip."""
    dtype = x.type.dtype
    first, then = limits_of_clip(inner, dtype), limits_of_clip(outer, dtype)
    bound = first[0 if name == "a_min" else 1]
    clipped = min(max(bound, then[0]), then[1])
    if inner[name] is None and outer[name] is None:
        return None
    # Keeps the bound as it was written where possible: 0.1, not the nearest float32.
    kind = to_numpy(dtype)
    for written in (inner.a_min, inner.a_max, outer.a_min, outer.a_max):
        if written is not None and float(np.asarray(written, kind) if dtype not in INTEGERS else written) == clipped:
            return float(written)
    return float(clipped)


@computed
def lower_bound(attrs: Attrs, x: Term) -> float:
    """The lower bound of a clip that is also a ReLU."""
    low, high = limits_of_clip(attrs, x.type.dtype)
    if high < 0:
        raise Reject(f"the upper bound {high} is below 0")
    return 0.0 if low <= 0 or attrs.a_min is None else float(attrs.a_min)  # also for -0.0: smaller values become 0.0 here


@computed
def upper_bound(attrs: Attrs) -> float | None:
    """The upper bound of a clip."""
    bound: float | None = attrs.a_max
    return bound


@guard
def range_fits(attrs: Attrs, x: Term, through: str) -> bool | str:
    """Every integer within the bounds is representable in the intermediate type of the cast."""
    if x.type.dtype not in INTEGERS:
        return f"the elements are {x.type.dtype}, not integers"
    low, high = limits_of_clip(attrs, x.type.dtype)
    if through in INTEGERS:
        lowest, highest = finite_limits(to_numpy(through))
    else:
        highest = _WHOLE_UP_TO.get(through, -1)
        lowest = -highest
    return bool(lowest <= low and high <= highest) or f"{through} cannot represent {low:g} ... {high:g}"


def _both() -> dict[str, AnyValue]:
    return {name: bound_of_both(a, b, x, name) for name in ("a_min", "a_max")}


_CLIPPED = op.clip(x, attrs=a)
limits = cases("limits", "relu", "low_first", "high_first")
_LIMITED: Final = limits(
    relu=op.minimum(op.nn.relu(x), d), low_first=op.minimum(op.maximum(x, c), d), high_first=op.maximum(op.minimum(x, d), c)
)


@guard
def are_limits(c: Term | float, d: Term) -> bool | str:
    """Two finite numbers, of which the first is not above the second."""
    low, high = (each.value().uniform() if isinstance(each, Term) else each for each in (c, d))
    return bool(None not in (low, high) and -math.inf < low <= high < math.inf) or f"{low} and {high} are not the limits of a clip"


@computed
def limit_of(c: Term) -> float | None:
    """The number that all elements of a float32 constant are, as Clip nodes are read; None for the largest finite numbers of both signs."""
    limit = c.value().uniform()
    return None if limit in finite_limits(to_numpy(c.type.dtype)) else shortest(limit)


@guard
def clips_nothing(attrs: Attrs, x: Term) -> bool | str:
    """Every element lies within the bounds of the clip."""
    found, (low, high) = range_of(x), limits_of_clip(attrs, x.type.dtype)
    return low <= found.low <= found.high <= high or f"the elements have the range {found}, the clip [{low:g}, {high:g}]"


@guard
def always_wins(of: Op, x: Term, y: Term) -> bool | str:
    """Every element of the first operand is at least (or at most) every element of the second."""
    one, other = range_of(x), range_of(y)
    if other.nan:
        return f"elements of the second operand may be NaN: their range is {other}"
    wins = one.low >= other.high if of.name == "maximum" else one.high <= other.low
    return wins or f"the ranges do not decide which operand wins: {one} and {other}"


def _truth(name: str, x: Term, y: Term) -> bool | None:
    """The result of the comparison according to value ranges; None if it depends on the elements."""
    one, other = range_of(x), range_of(y)
    nan = one.nan or other.nan
    if name in ("greater", "greater_equal"):
        return _truth("less" if name == "greater" else "less_equal", y, x)
    if name == "not_equal":
        equal = _truth("equal", x, y)
        return None if equal is None else not equal
    if name == "equal":
        same = one.low == one.high == other.low == other.high
        return True if same and not nan else False if one.high < other.low or other.high < one.low else None
    never, always = (one.low >= other.high, one.high < other.low) if name == "less" else (one.low > other.high, one.high <= other.low)
    return True if always and not nan else False if never else None


@computed
def outcome(of: Op, x: Term, y: Term, whole: Term) -> Tensor:
    """The constant result of a comparison, as a tensor. Rejects comparisons that depend on the elements."""
    found = _truth(of.name, x, y)
    if found is None:
        raise Reject(f"the ranges do not decide the comparison: {range_of(x)} and {range_of(y)}")
    if not whole.type.is_static:
        raise Reject(f"{whole.type!r} is not static")
    return Tensor.splat(found, whole.type.concrete_shape, "bool")


involution = operator("involution", involution=True, arity=1)
idempotent = operator("idempotent", idempotent=True, arity=1, but=("cast", "copy", "abs"))  # abs is even, which is stronger
clipping = operator("clipping", "clip", "nn.thresholded_relu")  # idempotent only for equal attributes
twofold = operator("twofold", idempotent=True, arity=2)
even, odd = operator("even", even=True, arity=1), operator("odd", odd=True, arity=1)
sign_change = operator("sign_change", "negative", "abs")
copied = cases("copied", "copy", "leaky_relu")
of_one = operator("of_one", *(f"elemwise_{kind}" for kind in ("sum", "mean", "max", "min")))
rectifier = operator("rectifier", "abs", "nn.relu")
extremum = operator("extremum", "maximum", "minimum")
comparison = operator("comparison", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
monotonic = operator("monotonic", monotonic=True, arity=1, but=("sign",))  # ONNX Runtime's Sign of a float16 NaN is 0
greatest = operator("greatest", "max", "min")
_COMPARED = comparison(x, y)


def without_nan(x: Pattern) -> dict[str, Pattern]:
    """The two forms of a tensor without minus signs that has 0 in place of NaN: as exporters write it, and in one operator."""
    return {"nan": op.where(op.isnan(x), 0.0, x), "threshold": op.nn.thresholded_relu(x, alpha=0.0)}


_GUARDED: Final = without_nan(x)


class Arithmetic(RuleSet):
    """Simplifies elementwise operators: operators applied to their unit (x + 0, x * 1, x and true) or their zero (x * 0), repeated
    application (f(f(x)) is x or f(x); f(x, x) is x), combinations of different operators, clips, and operators that value ranges make
    redundant. Moves monotonic operators past max and min, which leave fewer elements. Replaces NaN by 0 in one operator where no
    element has a minus sign, such as behind the softmax of attention: with this guard, a softmax of 197 tokens takes half the time.
    E-matching tries both operand orders of commutative operators."""

    # IEEE 754: -0.0 + 0.0 is 0.0; pow(x, 1) is x in every libm, but kernels may round on the way.
    add_zero = (x + c >> x).when(is_all(c, 0)).inexact("-0.0 + 0.0 is 0.0")
    power_one = (op.power(x, c) >> x).when(is_all(c, 1), is_float(x)).inexact("kernels may round on the way")
    subtract_zero = (x - c >> x).when(is_all(c, 0), is_no_negative_zero(c))
    unit = (unital(x, c) >> x).when(is_unit(c, unital))
    zero = (absorbing(x, c) >> op.broadcast_to(c, shape=shape_of(absorbing(x, c)))).when(is_zero_of(c, absorbing))
    against_itself = (
        _NOTHING(difference=x - x, bits=op.bitwise_xor(x, x), truth=op.logical_xor(x, x))
        >> _NOTHING(difference=x * 0, bits=op.bitwise_and(x, 0), truth=op.logical_and(x, 0))
    ).when(*_NOTHING.only("difference", is_integer(x)))
    same_operands = twofold(x, x) >> x
    absorbed_operand = (twofold(x, twofold(x, y)) >> twofold(x, y)).inexact(TIES)
    involution_twice = involution(involution(x)) >> x
    idempotent_twice = idempotent(idempotent(x)) >> idempotent(x)
    clip_twice = (clipping(clipping(x, attrs=a), attrs=b) >> clipping(x, attrs=a)).when(a == b)
    copy = copied(copy=op.copy(x), leaky_relu=op.nn.leaky_relu(x, alpha=1.0)) >> x
    add_negative = x + op.negative(y) >> x - y
    subtract_negative = x - op.negative(y) >> x + y
    negative_of_difference = (op.negative(x - y) >> y - x).inexact("-(x - x) is -0.0, x - x is 0.0")
    product_of_negatives = op.negative(x) * op.negative(y) >> x * y
    # The negative of the lowest integer is itself, so this is not an identity for integers.
    quotient_of_negatives = (op.negative(x) / op.negative(y) >> x / y).when(is_float(x))
    divide_one = (op.divide(c, x) >> op.reciprocal(x)).when(is_all(c, 1), is_float(x))
    multiply_reciprocal = (x * op.reciprocal(y) >> x / y).inexact("one rounding instead of two")
    where_true = (op.where(c, x, y) >> x).when(is_all(c, 1), same_type(x, op.where(c, x, y))).inexact(CHOSEN_ZERO)
    where_false = (op.where(c, x, y) >> y).when(is_all(c, 0), same_type(y, op.where(c, x, y)))
    where_same = (op.where(x, y, y) >> y).when(same_type(y, op.where(x, y, y))).inexact(CHOSEN_ZERO)
    one_of_one = of_one((x,)) >> x
    even = even(sign_change(x)) >> even(x)
    odd = odd(op.negative(x)) >> op.negative(odd(x))
    # Decided by value ranges.
    rectified = (rectifier(x) >> x).when(never_signed(x))
    rectified_zeros = (rectifier(x) >> x).when(never_negative(x)).inexact(TIES)
    nan_guard = (_GUARDED["nan"] >> _GUARDED["threshold"]).when(never_signed(x), has_dtype(x, "float32"))
    clipped = (op.clip(x, attrs=a) >> x).when(clips_nothing(a, x)).inexact(TIES)
    won = (extremum(x, y) >> x).when(same_type(x, extremum(x, y)), always_wins(extremum, x, y)).inexact(TIES)
    compared = _COMPARED >> value(outcome(comparison, x, y, _COMPARED))
    extremum_of_both = (extremum(monotonic(x), monotonic(y)) >> monotonic(extremum(x, y))).inexact("approximations are not quite monotonic")
    extremum_of_all = (
        (greatest(monotonic(x), attrs=a) >> monotonic(greatest(x, attrs=a)))
        .when(is_not_empty(x))
        .inexact("approximations are not quite monotonic")
    )
    clip_nothing = (_CLIPPED >> x).when(is_integer(x), binds_nothing(a, x))
    clip_nothing_finite = (_CLIPPED >> x).when(is_float(x), binds_nothing(a, x)).finite("a clip without bounds makes infinities finite")
    clip_chain = (op.clip(_CLIPPED, attrs=b) >> op.clip(x, **_both())).inexact("a bound of 0 may give 0.0 or -0.0")
    clip_of_relu = op.clip(op.nn.relu(x), attrs=a) >> op.clip(x, a_min=lower_bound(a, x), a_max=upper_bound(a))
    # ONNX Runtime's Clip takes float64 from opset 12 on.
    clip_of_extrema = (
        (_LIMITED >> op.clip(x, a_min=limits(relu=0.0, low_first=limit_of(c), high_first=limit_of(c)), a_max=limit_of(d)))
        .when(has_dtype(x, "float32"))
        .when(*limits.only("relu", are_limits(0.0, d)), *limits.only("low_first high_first", are_limits(c, d)))
        .inexact(TIES)
    )
    clip_cast = (op.cast(op.cast(_CLIPPED, dtype=t), dtype=u) >> op.cast(_CLIPPED, dtype=u)).when(range_fits(a, x, t))
