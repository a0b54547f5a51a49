"""Factors sums and products, also out of reductions. Operators: add subtract multiply divide negative exp log sqrt abs maximum minimum
nn.softmax nn.log_softmax, every commutative operator; sum mean max min, concatenate.

Factoring may resolve infinities: inf * 2 - inf * 1 is NaN, but inf * (2 - 1) is infinite.
"""

from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.op import Op
from passat.ir.ops.reduction import reduced_axes
from passat.rules.guards import (
    Reject,
    Term,
    calls_with_constants,
    computed,
    guard,
    is_all,
    is_finite,
    is_float,
    is_positive,
    keeps_type,
    same_type,
    shape_of,
)
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import TIES, constants_in_range, is_no_shifted_quotient, is_no_zero, is_not_constant, meet_in_range
from passat.rules.library.products import is_scalar, no_axes
from passat.rules.pattern import Pattern, attributes, constants, op, tensors
from passat.rules.rule import RESOLVED
from passat.rules.rule_set import RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
a, b, p = attributes("a b p")
g = operator("g", "add", "multiply")
h = operator("h", "multiply", "divide")
combined = operator("combined", "add", "subtract")
_ONCE: Final = "one product instead of several"
_ORDER: Final = "rounds in another order"
_SUMS: Final = "sums in another order"


@guard
def are_alike(c: Term, d: Term) -> bool | str:
    """The constants have the same shape or one is a scalar, so that combining them enlarges neither."""
    sizes = (c.type.size, d.type.size)
    return c.type.shape == d.type.shape or 1 in sizes or f"{c.type!r} and {d.type!r} have different shapes"


@guard
def reduces_axis(attrs: Attrs, axis: int, whole: Term) -> bool | str:
    """The reduction includes the axis."""
    rank = whole.type.ndim
    return axis % rank in reduced_axes(rank, attrs.axis, attrs.exclude) or f"the reduction is not over axis {axis}"


@computed
def axis_after(attrs: Attrs, axis: int, whole: Term) -> int:
    """The position of an axis after the reduction. Rejects reduced axes."""
    rank = whole.type.ndim
    gone = reduced_axes(rank, attrs.axis, attrs.exclude)
    if axis % rank in gone:
        raise Reject(f"the reduction is over axis {axis}")
    return axis % rank - (0 if attrs.keepdims else sum(other < axis % rank for other in gone))


_BOTH: Final = op.concatenate((x, y), axis=p)
along = cases("along", "sum", "max", "min")


def _each(of: Pattern) -> Pattern:
    return along(sum=op.sum(of, attrs=a), max=op.max(of, attrs=a), min=op.min(of, attrs=a))


@guard
def is_scale(c: Term) -> bool | str:
    """The constant is finite, and not zero: a sum of zeros and infinities divided by zero is not that of the quotients."""
    found = c.value().numpy()
    return bool(np.all(np.isfinite(found) & (found != 0))) or "an element of the constant is zero, infinite or NaN"


@guard
def reduces_elements(attrs: Attrs, x: Term) -> bool | str:
    """The reduced axes are certainly nonempty. (ONNX does not define the mean of no elements, and ONNX Runtime computes 0.)"""
    sizes = [x.type.shape[axis] for axis in reduced_axes(x.type.ndim, attrs.axis, attrs.exclude)]
    return all(at_least(size, 1) for size in sizes) or f"the reduced axes of {x.type!r} may be empty"


@guard
def are_different(x: Term, y: Term) -> bool | str:
    """The operands are not equal, or are a constant. Of a sum of a product with itself, each factor could be factored out, in any order,
    which saves nothing."""
    return x.constant is not None or x.cls != y.cls or "is the same operand"


@guard
def are_no_multiples(factor: Term, x: Term, y: Term) -> bool | str:
    """The factor is not a constant, or the operands are not multiples of one tensor by constants. Their sum is a multiple, too, which
    factoring that tensor out finds. If x is the sum of two halves, scaling these would halve them without end."""
    return factor.constant is None or _origins(x).isdisjoint(_origins(y)) or "both are multiples of one tensor"


def _origins(x: Term) -> set[int]:
    """The e-classes of a tensor, and of those that it is a multiple of."""
    scaled = calls_with_constants(x, "multiply")
    return {x.cls, *(operand.cls for operands in scaled for operand in operands if operand.constant is None)}


@guard
def has_no_constants(z: Term, x: Term, y: Term) -> bool | str:
    """The dividend, or both operands of the divisor, are not constants; other rules combine two constants."""
    return z.constant is None or (x.constant is None and y.constant is None) or "two of the operands are constants"


_WITH_BIAS: Final = ("nn.dense", "nn.matmul", *(f"nn.conv{rank}d{kind}" for rank in (1, 2, 3) for kind in ("", "_transpose")))


@guard
def is_no_biased_map(given: Op, x: Term, y: Term | None = None) -> bool | str:
    """The operator is not an addition, or the tensor or the other one is not the result of a convolution or of a product of matrices,
    scaled or transposed. These take a constant as their bias, where it costs nothing."""
    return given.name != "add" or not (_is_linear_map(x) and (y is None or _is_linear_map(y))) or "the constant becomes part of the bias"


def _is_linear_map(x: Term) -> bool:
    scaled = calls_with_constants(x, "multiply")
    bases = [x, *(operand for operands in scaled for operand in operands)]
    bases += [operands[0] for base in bases for operands in base.calls("transpose")]
    maps = ((name, operands) for base in bases for name in _WITH_BIAS for operands in base.calls(name))
    return any(name.startswith("nn.conv") or all(operand.type.ndim == 2 for operand in operands) for name, operands in maps)


reduced = operator("reduced", "sum", "max", "min")
linear, extremum = operator("linear", "sum", "mean"), operator("extremum", "max", "min")
_MOVED: Final = op.reshape(c, newshape=no_axes(c))
scaling, shifted = cases("of", "linear", "extremum"), cases("of", "mean", "max")
negated = cases("of", "sum", "max", "min")
inverse = cases("inverse", "scaled", "divided", "of_quotient", "of_product", "of_divided")
itself, depth, minus = (
    cases("itself", "added", "subtracted", "first"),
    cases("depth", "nested", "beside"),
    cases("minus", "inside", "outside"),
)
_OR_SIGN: Final = "sums in another order, or changes the sign of 0"
_OR_TIES: Final = f"{_SUMS}, or {TIES}"


@guard
def is_log_of_softmax(x: Term) -> bool | str:
    """ONNX Runtime's LogSoftmax is the logarithm of its Softmax, also for infinities."""
    return x.type.dtype != "float64" or "ONNX Runtime's float64 LogSoftmax returns finite values for infinities, but its Softmax does not"


class Factoring(RuleSet):
    """Factors common operands out of sums and reductions, moves constants in sums and products together past non-constants, reduces each
    part of a concatenation instead of the whole, cancels inverse functions, and fuses compositions that have an operator of their own.
    Where all values are finite, cancels an operand against itself."""

    products = (
        (combined(x * y, x * z) >> x * combined(y, z))
        .when(is_no_zero(x), is_no_zero(y), is_no_zero(z), are_different(y, z), are_no_multiples(x, y, z))
        .when(constants_in_range(combined, y, z))
        .inexact(_ONCE, nonfinite=RESOLVED)
        .exploring()
    )
    product_and_self = (
        (itself(added=x * y + x, subtracted=x * y - x, first=x - x * y) >> x * itself(added=y + 1.0, subtracted=y - 1.0, first=1.0 - y))
        .when(same_type(x, x * y), is_float(x), is_no_zero(y))
        .inexact(_ONCE, nonfinite=RESOLVED)
        .exploring()
    )
    quotients = (
        (combined(x / z, y / z) >> combined(x, y) / z)
        .when(is_float(x), same_type(x, y), constants_in_range(combined, x, y))
        .inexact(_ONCE, nonfinite=RESOLVED)
        .exploring()
    )
    nested_quotients = (
        ((x / y) / z >> x / (y * z))
        .when(is_float(x), same_type(x, y), same_type(x, z), constants_in_range("multiply", y, z))
        .inexact("one quotient instead of two")
        .exploring()
    )
    divided_shift = (
        ((x + c) / d >> x / d + c / d)
        .when(is_float(x), is_finite(c), is_finite(d), is_no_shifted_quotient(x), meet_in_range("divide", c, d), keeps_type(x, x + c))
        .inexact("distributes")
        .exploring()
        .budget(200)
    )
    constants_apart = (
        (depth(nested=g(g(g(x, c), y), d), beside=g(g(x, c), g(y, d))) >> g(g(x, y), g(c, d)))
        .when(is_float(x), is_not_constant(x), is_not_constant(y), are_alike(c, d), meet_in_range(g, c, d))
        .when(*depth.only("nested", is_no_biased_map(g, x)), *depth.only("beside", is_no_biased_map(g, x, y)))
        .inexact(_ORDER)
        .exploring()
        .budget(16)
    )
    constant_less_shifted = (
        (c - (x + d) >> (c - d) - x).when(is_float(x), keeps_type(x, x + d), meet_in_range("subtract", c, d)).inexact(_ORDER)
    )
    constant_less_difference = (
        (c - (d - x) >> x + (c - d)).when(is_float(x), keeps_type(x, d - x), meet_in_range("subtract", c, d)).inexact(_ORDER)
    )
    shifted_difference = ((c - x) + d >> (c + d) - x).when(is_float(x), keeps_type(x, c - x), meet_in_range("add", c, d)).inexact(_ORDER)
    scaled_quotient = (
        (
            inverse(scaled=(c / x) * d, divided=(c / x) / d, of_quotient=d / (c / x), of_product=d / (x * c), of_divided=d / (x / c))
            >> inverse(scaled=(c * d) / x, divided=(c / d) / x, of_quotient=x * (d / c), of_product=(d / c) / x, of_divided=(c * d) / x)
        )
        .when(is_float(x), keeps_type(x, x * c))
        .when(*inverse.only("scaled of_divided", meet_in_range("multiply", c, d)), *inverse.only("divided", meet_in_range("divide", c, d)))
        .when(*inverse.only("of_quotient of_product", meet_in_range("divide", d, c)))
        .inexact(_ORDER)
    )
    scaled_negative = (minus(inside=op.negative(x) * c, outside=op.negative(x * c)) >> x * op.negative(c)).when(is_float(x))
    of_scaled = (
        (
            scaling(linear=linear(h(x, c), attrs=a), extremum=extremum(h(x, c), attrs=a))
            >> h(scaling(linear=linear(x, attrs=a), extremum=extremum(x, attrs=a)), _MOVED)
        )
        .when(is_scalar(c, x), is_float(x), *scaling.only("linear", is_scale(c)), *scaling.only("extremum", is_positive(c)))
        .inexact(_OR_SIGN)
        .exploring()
    )
    of_shifted = (
        (
            shifted(mean=op.mean(x + c, attrs=a), max=op.max(x + c, attrs=a))
            >> shifted(mean=op.mean(x, attrs=a), max=op.max(x, attrs=a)) + _MOVED
        )
        .when(is_scalar(c, x), is_float(x), is_finite(c), *shifted.only("mean", reduces_elements(a, x)))
        .inexact(_OR_SIGN)
        .exploring()
    )
    of_negative = (
        (
            negated(sum=op.sum(op.negative(x), attrs=a), max=op.max(op.negative(x), attrs=a), min=op.min(op.negative(x), attrs=a))
            >> op.negative(negated(sum=op.sum(x, attrs=a), max=op.min(x, attrs=a), min=op.max(x, attrs=a)))
        )
        .when(is_float(x))
        .inexact("the sign of 0")
        .exploring()
    )
    along_concat = (
        (
            _each(_BOTH)
            >> along(
                sum=op.sum(x, attrs=a) + op.sum(y, attrs=a),
                max=op.maximum(op.max(x, attrs=a), op.max(y, attrs=a)),
                min=op.minimum(op.min(x, attrs=a), op.min(y, attrs=a)),
            )
        )
        .when(reduces_axis(a, p, _BOTH))
        .exploring()
        .inexact(_SUMS)
    )
    across_concat = (
        (reduced(_BOTH, attrs=a) >> op.concatenate((reduced(x, attrs=a), reduced(y, attrs=a)), axis=axis_after(a, p, _BOTH)))
        .exploring()
        .inexact(_OR_TIES)
    )
    difference_of_same = (x - x >> x * 0.0).when(is_float(x)).finite("inf - inf is NaN").exploring()
    times_zero = (x * c >> op.broadcast_to(c, shape=shape_of(x * c))).when(is_float(x), is_all(c, 0)).finite("inf * 0 is NaN")
    sum_less_part = ((x + y) - x >> y).when(is_float(x), same_type(y, x + y)).finite("x may be infinite, or y may be lost to rounding")
    difference_and_part = ((x - y) + y >> x).when(is_float(x), same_type(x, x - y)).finite("y may be infinite")
    negative_of_sum = (op.negative(x + c) >> op.negative(c) - x).when(is_float(x)).inexact("the sign of 0")
    log_of_exp = (op.log(op.exp(x)) >> x).inexact("two fewer roundings")
    log_of_softmax = (op.log(op.nn.softmax(x, axis=a)) >> op.nn.log_softmax(x, axis=a)).inexact(
        "the logarithm of a small number is kept",
        nonfinite=RESOLVED,  # ONNX Runtime's LogSoftmax of float64 turns infinity into infinities
    )
    exp_of_log_softmax = (op.exp(op.nn.log_softmax(x, axis=a)) >> op.nn.softmax(x, axis=a)).when(is_log_of_softmax(x)).inexact(_ORDER)
    product_of_exps = (op.exp(x) * op.exp(y) >> op.exp(x + y)).inexact("one rounding instead of two", nonfinite=RESOLVED).exploring()
    root_of_square = (op.sqrt(x * x) >> op.abs(x)).inexact("two fewer roundings")
    square_of_abs = op.abs(x) * op.abs(x) >> x * x
    reciprocal_of_quotient = (op.reciprocal(x / y) >> y / x).inexact("one rounding instead of two")
    divided_by_quotient = (z / (x / y) >> (z * y) / x).when(is_float(x), has_no_constants(z, x, y)).inexact(_ORDER).exploring()


f = operator("f", commutative=True, arity=2, but=("maximum", "minimum"))
larger = operator("extremum", "maximum", "minimum")
IN_GROUPS: Final = (is_float(x), same_type(x, g(x, y)), same_type(y, g(y, z)), same_type(x, g(x, z)))


class Reassociate(RuleSet):
    """Commutes and reassociates operands, so that common subexpressions are found however they are written. Budgets bound the exponential
    number of forms."""

    commuted = (f(x, y) >> f(y, x)).when(is_not_constant(x), is_not_constant(y)).exploring().budget(200)
    commuted_extrema = (larger(x, y) >> larger(y, x)).when(is_not_constant(x), is_not_constant(y)).inexact(TIES).exploring().budget(200)
    grouped = (g(g(x, y), z) >> g(x, g(y, z))).when(*IN_GROUPS, constants_in_range(g, y, z)).inexact(_ORDER).exploring().budget(200)
