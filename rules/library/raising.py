"""Raises normalizations, softmax and activations that exporters have decomposed, and simplifies powers and roots, which they contain.

Operators: power sqrt rsqrt reciprocal multiply add subtract divide mean exp sum max reshape nn.instance_norm nn.group_norm nn.layer_norm
nn.rms_norm nn.softmax erf tanh sigmoid clip log nn.gelu nn.swish nn.hard_swish nn.mish nn.softplus nn.hard_sigmoid
nn.prelu nn.leaky_relu maximum where greater greater_equal.

The rules match the shortest forms, with commuted operands. Separate rules rewrite longer forms (a product with a reciprocal, a root as a
power) to these (`Powers`). The writer emits operators that the target lacks in the node order that ONNX Runtime fuses.

Sources: Hendrycks and Gimpel 2016 (Gelu), Ramachandran et al. 2017 (Swish), Howard et al. 2019 (HardSwish), Misra 2019 (Mish). Factors may
be in any order: x * (0.5 * (1 + f)), (x * 0.5) * (1 + f), (x * (1 + f)) * 0.5, or divided by 2. `Powers` has SimplifyBinomial and
SimplifyRSqrt of Relay's SimplifyExpr (v0.18).
"""

import math
from typing import Any as AnyValue
from typing import Final

import ml_dtypes

from passat.ir.bounds import at_least
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.ops.emitting import shortest
from passat.rules.guards import Reject, Term, computed, guard, has_dtype, is_all, is_finite, is_float, is_not_empty, same_type
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import is_not_constant
from passat.rules.library.products import is_scalar
from passat.rules.pattern import Pattern, attributes, constants, op, tensors
from passat.rules.rule import MIXED, RESOLVED, Rule
from passat.rules.rule_set import RuleSet

x, y = tensors("x y")
b, c, d, g, s, t = constants("b c d g s t")
m, n, p, q, r = attributes("m n p q r")
_ROUNDS = "the fused operator rounds differently"


@guard
def is_trailing(axis: AnyValue, x: Term) -> bool | str:
    """The axes are the last ones, without gaps."""
    axes = (axis,) if isinstance(axis, int) else axis
    rank = x.type.ndim
    if not isinstance(axes, tuple) or not axes or rank == 0:
        return f"axis={axis} does not name the last axes of {x.type!r}"
    found = sorted({each % rank for each in axes})
    return found == list(range(rank - len(found), rank)) or f"axis={axis} does not name the last axes of {x.type!r}"


@guard
def are_same_axes(a: AnyValue, b: AnyValue, x: Term) -> bool | str:
    """Two reductions have the same axes."""
    rank = x.type.ndim
    first, second = ({each % rank for each in ((axis,) if isinstance(axis, int) else axis or ())} for axis in (a, b))
    return (bool(first) and first == second) or f"axis={a} and axis={b} differ"


@guard
def is_of_axes(g: Term, x: Term, axis: AnyValue) -> bool | str:
    """The tensor has the shape of the other from the first reduced axis on."""
    count = 1 if isinstance(axis, int) else len(axis)
    if not g.type.is_static or g.type.dtype != x.type.dtype:
        return f"{g.type!r} does not scale {x.type!r}"
    return (g.type.ndim == count and g.type.shape == x.type.shape[x.type.ndim - count :]) or f"{g.type!r} does not match axes {axis}"


@guard
def is_from(g: Term, x: Term, axis: int) -> bool | str:
    """The tensor has the shape of the other from the axis on."""
    tail = x.type.shape[axis % x.type.ndim :]
    return (g.type.dtype == x.type.dtype and g.type.is_static and g.type.shape == tail) or f"{g.type!r} does not have the shape {tail}"


@guard
def is_epsilon(c: Term) -> bool | str:
    """A nonnegative float32 scalar that does not increase the rank; for other types the operators round differently."""
    if c.type.dtype != "float32":
        return f"the elements are {c.type.dtype}, but the fused operators compute in float32"
    value = c.value().uniform()
    if value is None or c.type.size != 1:
        return "the constant is not a single number"
    return (0 <= float(value) < 1 and c.type.ndim <= 1) or f"{value} is not an epsilon in [0, 1)"


@computed
def first_axis(axis: AnyValue, x: Term) -> int:
    """The first of the trailing axes, counted from the end."""
    return -(1 if isinstance(axis, int) else len({each % x.type.ndim for each in axis}))


@computed
def attribute_of(c: Term) -> float:
    """A scalar constant as the shortest decimal that gives the same float32."""
    value = c.value().uniform()
    if value is None:
        raise Reject("the elements of the constant differ")
    return shortest(float(value))


ROUNDS: Final = "a power, a root and a quotient are rounded separately"
sign = cases("sign", "sum", "difference")
order = cases("order", "between", "last")
two = cases("two", "outside", "inside")
_MIXED = two(outside=(x * y) * 2, inside=(x * 2) * y)
_EXPANDED = order(
    between=sign(sum=x * x + _MIXED, difference=x * x - _MIXED) + y * y,
    last=sign(sum=(x * x + y * y) + _MIXED, difference=(x * x + y * y) - _MIXED),
)
_SUM_OR_DIFFERENCE = sign(sum=x + y, difference=x - y)


@guard
def is_squared_exactly(x: Term, c: Term) -> bool | str:
    """ONNX Runtime squares integers with a product if there are several of them and one exponent. Otherwise it computes in float64, which
    changes large squares. Floating-point squares only round differently."""
    if x.type.dtype in FLOATS:
        return True
    several = isinstance(x.type.size, int) and x.type.size > 1
    return (several and c.type.size == 1) or "ONNX Runtime computes this power of integers as floating-point numbers"


inverted = cases("inverse", "reciprocal", "quotient")
_MEAN_OF_SQUARES = op.mean(x * x, attrs=m) + d


class Powers(RuleSet):
    """Rewrites powers with constant exponents as products or roots, quotients by roots to the forms that other rules match, and expanded
    squares of sums and differences as squares."""

    square = (op.power(x, c) >> x * x).when(is_all(c, 2), is_squared_exactly(x, c)).inexact(ROUNDS)
    root = (
        (op.power(x, c) >> op.sqrt(x))
        .when(is_all(c, 0.5), is_float(x))
        .inexact("the power of -infinity is infinity, its root is NaN", nonfinite=MIXED)
    )
    inverse = (op.power(x, c) >> op.reciprocal(x)).when(is_all(c, -1), is_float(x)).inexact(ROUNDS)
    inverse_root = (
        (op.power(x, c) >> op.rsqrt(x))
        .when(is_all(c, -0.5), is_float(x))
        .finite("the power of -infinity is 0, the inverse of its root is NaN")
        .exploring()  # takes two ONNX operators
    )
    reciprocal_of_inverse_root = (op.reciprocal(op.rsqrt(x)) >> op.sqrt(x)).inexact(ROUNDS)
    divide_inverse_root = (x / op.rsqrt(y) >> x * op.sqrt(y)).inexact(ROUNDS)
    binomial = (
        (_EXPANDED >> _SUM_OR_DIFFERENCE * _SUM_OR_DIFFERENCE)
        .when(is_float(x), same_type(x, _EXPANDED), same_type(y, _EXPANDED))
        .inexact("sums before products", nonfinite=RESOLVED)
    )
    inverse_root_of_mean = (
        (op.power(_MEAN_OF_SQUARES, c) >> op.rsqrt(_MEAN_OF_SQUARES))
        .when(is_all(c, -0.5), is_epsilon(d), is_scalar(c, _MEAN_OF_SQUARES))
        .exploring()
        .inexact("a power may round differently")
    )
    inverse_of_root = (
        (inverted(reciprocal=op.reciprocal(op.sqrt(x)), quotient=op.divide(c, op.sqrt(x))) >> op.rsqrt(x))
        .when(*inverted.only("quotient", is_all(c, 1), is_scalar(c, x)))
        .exploring()
        .inexact("one rounding instead of two")
    )
    quotient_of_root = (x * op.rsqrt(y) >> x / op.sqrt(y)).exploring().inexact("one rounding instead of two")


@guard
def has_rows(x: Term, axis: AnyValue) -> bool | str:
    """The reduced axes are nonempty. (An empty batch has no rows in either form.)"""
    sizes = [x.type.shape[each] for each in ((axis,) if isinstance(axis, int) else axis)]
    return all(at_least(size, 1) for size in sizes) or f"the rows of {x.type!r} may be empty"


@computed
def trailing_shape(axis: AnyValue, x: Term) -> tuple[int, ...]:
    """The sizes of the trailing axes. Rejects unknown sizes."""
    count = 1 if isinstance(axis, int) else len({each % x.type.ndim for each in axis})
    tail = x.type.shape[x.type.ndim - count :]
    if not all(isinstance(size, int) for size in tail):
        raise Reject(f"the last sizes of {x.type!r} are unknown")
    return tuple(int(size) for size in tail)  # type: ignore[arg-type]  # all are integers


_MEAN = op.mean(x, axis=p, keepdims=True, exclude=False)
_CENTERED = x - _MEAN
_VARIANCE = op.mean(_CENTERED * _CENTERED, axis=q, keepdims=True, exclude=False)
_STANDARD = _CENTERED / op.sqrt(_VARIANCE + c)
_SQUARE = op.mean(x * x, axis=p, keepdims=True, exclude=False)
_BY_ROOT = x / op.sqrt(_SQUARE + c)
_ONES = op.broadcast_to(1.0, shape=trailing_shape(p, x))
"""The scale of an unscaled normalization, or of one whose scale was folded into later weights."""
_NORMED = op.nn.layer_norm(x, g, (), axis=p, epsilon=r)
_MOST = op.max(x, axis=p, keepdims=True, exclude=False)
_POWERS = op.exp(x - _MOST)
_SHARES = _POWERS / op.sum(_POWERS, axis=q, keepdims=True, exclude=False)
_PLAIN_POWERS = op.exp(x)
_PLAIN_SHARES = _PLAIN_POWERS / op.sum(_PLAIN_POWERS, axis=q, keepdims=True, exclude=False)


@guard
def is_one_axis(axis: AnyValue) -> bool | str:
    """The reduction is over one axis."""
    return isinstance(axis, int) or (isinstance(axis, tuple) and len(axis) == 1) or f"axis={axis} is not a single axis"


@computed
def only_axis(axis: AnyValue) -> int:
    """The axis of a reduction over one axis."""
    return axis if isinstance(axis, int) else int(axis[0])


_GROUPS = op.reshape(x, ..., newshape=m)
_IN_GROUPS = op.reshape(op.nn.instance_norm(_GROUPS, s, t, axis=1, epsilon=r), ..., newshape=n)


@guard
def are_groups(groups: Term, x: Term, whole: Term) -> bool | str:
    """Reshapes split channels into groups, one axis per sample and group, and restore them."""
    inner, outer = groups.type, x.type
    if not (inner.is_static and outer.is_static) or outer.ndim < 3 or inner.ndim != 3 or whole.type != outer:
        return f"{inner!r} does not split the channels of {outer!r}"
    count, channels = inner.shape[1], outer.shape[1]
    if not isinstance(count, int) or not isinstance(channels, int) or inner.shape[0] != outer.shape[0]:
        return f"{inner!r} does not split the channels of {outer!r}"
    return (count > 0 and channels % count == 0) or f"{counted(channels, 'channel')} cannot be divided into {counted(count, 'group')}"


@guard
def is_per_channel(c: Term, x: Term) -> bool | str:
    """The constant has one element per channel, and broadcasts along axis 1."""
    rank, shape = x.type.ndim, c.type.shape
    wanted = (x.type.shape[1], *(1,) * (rank - 2))
    return shape in (wanted, (1, *wanted)) or f"{c.type!r} does not have one element for each channel of {x.type!r}"


@computed
def group_count(groups: Term) -> int:
    """The number of groups."""
    count = groups.type.shape[1]
    if not isinstance(count, int):
        raise Reject("the number of groups is unknown")
    return count


@computed
def one_axis(c: Term) -> tuple[int, ...]:
    """The newshape of a vector."""
    size = c.type.size
    if not isinstance(size, int):
        raise Reject(f"{c.type!r} is not static")
    return (size,)


@guard
def is_about(c: Term, value: float, x: Term) -> bool | str:
    """The constant is a scalar, equal to the value up to the last bits, which exporters may round."""
    found = c.value().uniform()
    if found is None or c.type.size != 1 or c.type.ndim > x.type.ndim:
        return f"{c.type!r} is not a single number"
    step = float(ml_dtypes.finfo(to_numpy(c.type.dtype)).eps)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return abs(float(found) - value) <= max(2 * step, 1e-7) * abs(value) or f"{found} is not {value:.8g}"


half = cases("half", "outside", "inside")


def _gelu(inner: Pattern, approximate: str) -> Rule:
    whole = half(outside=(x * (inner + 1.0)) * 0.5, inside=x * (inner * 0.5 + 0.5))
    return (whole >> op.nn.gelu(x, approximate=approximate)).when(is_float(x)).inexact(_ROUNDS)


_ROOT, _SLOPE, _BEND = math.sqrt(2), math.sqrt(2 / math.pi), 0.044715
slope = cases("slope", "divided", "scaled")
cube = cases("cube", "power", "product", "factored", "factored_square")


@guard
def has_exact_bend(x: Term) -> bool | str:
    """The elements are no wider than float32, the precision of the constants in ONNX's approximate Gelu."""
    return x.type.dtype != "float64" or "the constants of ONNX's Gelu are float32, which is too coarse for float64"


steepness = cases("steepness", "one", "scaled")
_STEP = op.clip(x + 3.0, a_min=0.0, a_max=6.0)
_SIXTH = 0.16666667
"""1 / 6 as files store it, in float32."""
positive = operator("positive", "greater", "greater_equal")
leaky = cases("leaky", "prelu", "maximum", "selected")
_LEAKY = leaky(prelu=op.nn.prelu(x, c), maximum=op.maximum(x, x * c), selected=op.where(positive(x, 0.0), x, x * c))
sixth = cases("sixth", "first", "inside", "last", "scaled_first", "scaled", "scaled_inside", "within", "scaled_within", "sigmoid")
_HARD = sixth(
    first=(x / 6.0) * _STEP,
    inside=x * (_STEP / 6.0),
    last=(x * _STEP) / 6.0,
    scaled_first=(x * c) * _STEP,
    scaled=(x * _STEP) * c,
    scaled_inside=x * (_STEP * c),
    within=x * op.clip(x / 6.0 + 0.5, a_min=0.0, a_max=1.0),
    scaled_within=x * op.clip(x * c + 0.5, a_min=0.0, a_max=1.0),
    sigmoid=x * op.nn.hard_sigmoid(x, alpha=_SIXTH, beta=0.5),
)


class RaiseOps(RuleSet):
    """Raises layer normalization, RMS normalization, group normalization (instance normalization of reshaped groups, then scale and shift,
    as exporters write it), softmax with or without subtracted maximum, Gelu (by erf or tanh, with factors in any order), Swish, HardSwish
    and Mish."""

    layer_norm = (
        (_STANDARD * g >> op.nn.layer_norm(x, g, (), axis=first_axis(p, x), epsilon=attribute_of(c)))
        .when(is_trailing(p, x), are_same_axes(p, q, x), is_of_axes(g, x, p), is_epsilon(c), has_rows(x, p))
        .inexact(_ROUNDS)
    )
    layer_norm_without_scale = (
        (_STANDARD >> op.nn.layer_norm(x, _ONES, (), axis=first_axis(p, x), epsilon=attribute_of(c)))
        .when(is_trailing(p, x), are_same_axes(p, q, x), is_epsilon(c), has_rows(x, p))
        .exploring()
        .inexact(_ROUNDS)
    )
    layer_norm_shifted = (_NORMED + b >> op.nn.layer_norm(x, g, b, axis=p, epsilon=r)).when(is_from(b, x, p)).inexact(_ROUNDS)
    rms_norm = (
        (_BY_ROOT * g >> op.nn.rms_norm(x, g, axis=first_axis(p, x), epsilon=attribute_of(c)))
        .when(is_trailing(p, x), is_of_axes(g, x, p), is_epsilon(c), has_rows(x, p))
        .inexact(_ROUNDS)
    )
    rms_norm_without_scale = (
        (_BY_ROOT >> op.nn.rms_norm(x, _ONES, axis=first_axis(p, x), epsilon=attribute_of(c)))
        .when(is_trailing(p, x), is_epsilon(c), has_rows(x, p))
        .exploring()
        .inexact(_ROUNDS)
    )
    group_norm = (
        (
            _IN_GROUPS * g + b
            >> op.nn.group_norm(
                x,
                op.reshape(g, newshape=one_axis(g)),
                op.reshape(b, newshape=one_axis(b)),
                num_groups=group_count(_GROUPS),
                axis=1,
                epsilon=r,
            )
        )
        .when(is_all(s, 1), is_all(t, 0), are_groups(_GROUPS, x, _IN_GROUPS), is_per_channel(g, x), is_per_channel(b, x), is_not_empty(x))
        .inexact(_ROUNDS)
    )
    softmax = (_SHARES >> op.nn.softmax(x, axis=only_axis(p))).when(is_one_axis(p), are_same_axes(p, q, x)).inexact(_ROUNDS)
    softmax_unshifted = (
        (_PLAIN_SHARES >> op.nn.softmax(x, axis=only_axis(q)))
        .when(is_one_axis(q))
        .finite("exponentials that overflow or all underflow give probabilities instead of NaN")
    )
    halved = (x / 2.0 >> x * 0.5).when(is_float(x)).exploring()
    half_last = (
        ((x * 0.5) * y >> (x * y) * 0.5).when(is_float(x), is_not_constant(y)).exploring().inexact("halves the product instead of a factor")
    )
    gelu_erf = _gelu(op.erf(slope(divided=x / c, scaled=x * c)), "none").when(is_about(c, slope(divided=_ROOT, scaled=1 / _ROOT), x))
    gelu_tanh = _gelu(
        op.tanh(
            cube(
                power=(x + op.power(x, 3.0) * _BEND) * c,
                product=(x + ((x * x) * x) * _BEND) * c,
                factored=(x * c) * (((x * _BEND) * x) + 1.0),
                factored_square=(x * c) * ((x * x) * _BEND + 1.0),
            )
        ),
        "tanh",
    ).when(has_exact_bend(x), is_about(c, _SLOPE, x))
    silu = (
        (x * op.sigmoid(steepness(one=x, scaled=x * c)) >> op.nn.swish(x, alpha=steepness(one=1.0, scaled=attribute_of(c))))
        .when(is_float(x), *steepness.only("scaled", has_dtype(x, "float32"), is_scalar(c, x)))
        .inexact(_ROUNDS)
    )
    hard_swish = (
        (_HARD >> op.nn.hard_swish(x))
        .when(
            has_dtype(x, "float32"),
            *sixth.only("scaled_first scaled scaled_inside scaled_within", is_about(c, 1 / 6, x)),
        )
        .inexact(_ROUNDS)
    )
    leaky_relu = (
        (_LEAKY >> op.nn.leaky_relu(x, alpha=attribute_of(c)))
        .when(has_dtype(x, "float32"), is_finite(c), *leaky.only("maximum", attribute_of(c) > 0, attribute_of(c) <= 1))
        .inexact("the sign of 0")
    )
    softplus = (
        (op.log(op.exp(x) + 1.0) >> op.nn.softplus(x)).when(has_dtype(x, "float32")).inexact("an overflowing exponential is harmless")
    )
    mish = (x * op.tanh(op.nn.softplus(x)) >> op.nn.mish(x)).when(is_float(x)).inexact(_ROUNDS)
