"""Forms for the target: decomposed normalizations, polynomial approximations of exponentials, operators that inference does not need, the
faster of two equivalent forms on ONNX Runtime, and its com.microsoft operators.

Operators: nn.batch_norm nn.layer_norm nn.group_norm nn.instance_norm nn.l2_normalize nn.bias_add exp tanh erf nn.softmax fast_exp fast_tanh
fast_erf nn.fast_softmax nn.dropout mean nn.global_avg_pool2d reshape nn.gelu nn.swish nn.matmul multiply divide add transpose contrib.*.

From Relay's SimplifyInference, CanonicalizeOps and FastMath. Lowering rules replace matched nodes regardless of cost: the result may be
slower on ONNX Runtime, but the user requested it. Passes that choose target forms run last.
"""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import at_least
from passat.ir.dtypes import to_numpy
from passat.ir.shape import ANY
from passat.ir.tensor import Tensor
from passat.rules.guards import Reject, Term, computed, guard, has_dtype, is_float, is_not_empty, scalar_of, shape_of
from passat.rules.holes import cases
from passat.rules.library.batch_norm import epsilon
from passat.rules.library.matmul_algebra import other
from passat.rules.library.products import is_product_bias, is_scalar, is_stack, product
from passat.rules.library.windows import has_plane
from passat.rules.pattern import Pattern, PCall, attributes, constants, number, op, tensors, value
from passat.rules.rule import MIXED
from passat.rules.rule_set import RuleSet

x, y, gamma, beta, mean, var = tensors("x y gamma beta mean var")
b, c = constants("b c")
a, e, p, r = attributes("a e p r")


_ROUNDS = "each operator rounds separately"


@guard
def keeps_its_epsilon(x: Term, attrs: Attrs, name: str) -> bool | str:
    """The epsilon under the root does not round to 0 in the element type."""
    given = attrs[name]
    left = float(np.asarray(np.float32(given), to_numpy(x.type.dtype)))
    return left > 0 or not given > 0 or f"{name}={given} is 0 as {x.type.dtype}"


@guard
def has_axes(x: Term) -> bool | str:
    """The tensor has at least one axis to reduce."""
    return x.type.ndim > 0 or "a scalar has no axes"


@guard
def is_wide(x: Term) -> bool | str:
    """The elements have 32 bits or more. Narrower ones are computed in float32 by the whole operator, but not by its parts."""
    return x.type.dtype in ("float32", "float64") or f"{x.type.dtype} is computed in float32"


@computed
def behind(axis: int, x: Term) -> int:
    """The number of axes after the channel axis, which a per-channel vector needs for broadcasting."""
    return x.type.ndim - 1 - x.type.axis(axis)


@computed
def from_axis(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes from the attribute's axis to the last."""
    return tuple(range(x.type.axis(attrs.axis), x.type.ndim))


@computed
def but_batch_and_channels(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """All axes except the first and the channel axis."""
    return tuple(axis for axis in range(1, x.type.ndim) if axis != x.type.axis(attrs.axis))


@computed
def all_or(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes of the attribute, or all."""
    if attrs.axis is None:
        return tuple(range(x.type.ndim))
    if isinstance(attrs.axis, int):
        return (x.type.axis(attrs.axis),)
    return tuple(dict.fromkeys(x.type.axis(axis) for axis in attrs.axis))


def _grouped(attrs: Attrs, x: Term) -> list[AnyValue]:
    if not x.type.is_static:
        raise Reject(f"{x.type!r} is not static")
    axis = x.type.axis(attrs.axis)
    shape = list(x.type.shape)
    channels = shape[axis]
    assert isinstance(channels, int)
    return [*shape[:axis], attrs.num_groups, channels // attrs.num_groups, *shape[axis + 1 :]]


@computed
def in_groups(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The shape that splits channels into groups."""
    shape = tuple(_grouped(attrs, x))
    if 0 in shape:
        raise Reject(f"{x.type!r} is empty")
    return shape


@computed
def of_group(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes of one group in that shape."""
    axis = x.type.axis(attrs.axis)
    return tuple(place for place in range(1, x.type.ndim + 1) if place != axis)


def _standardized(data: Pattern, axes: AnyValue, under: Pattern) -> PCall:
    """Zero mean and unit variance: (data - mean) / sqrt(variance + epsilon)."""
    centered = data - op.mean(data, axis=axes, keepdims=True)
    return centered / op.sqrt(op.mean(centered * centered, axis=axes, keepdims=True) + under)


@guard
def channels_are_last(axis: int, x: Term, last: bool) -> bool | str:
    """The channels are the last axis if `last`, otherwise they are not."""
    return (x.type.axis(axis) == x.type.ndim - 1) is last or f"the channels are axis {axis} of {x.type!r}"


channels = cases("channels", "inner", "last")
has = cases("has", "both", "gamma", "beta", "neither")
shift = cases("shift", "beta", "none")
_LAST = channels_are_last(p, x, channels(inner=False, last=True))


def _along(vector: Pattern) -> Pattern:
    return channels(inner=op.expand_dims(vector, axis=1, num_newaxis=behind(p, x)), last=vector)


_EPSILON = number(epsilon(a, "epsilon"))
_INVERSE = 1.0 / op.sqrt(var + _EPSILON)
_FACTOR = has(both=_INVERSE * gamma, gamma=_INVERSE * gamma, beta=_INVERSE, neither=_INVERSE)
_SHIFT = op.negative(mean) * _FACTOR
_BATCH_NORM = op.nn.batch_norm(
    *(x, gamma, beta, mean, var),
    axis=p,
    scale=has(both=True, gamma=True, beta=False, neither=False),
    center=has(both=True, gamma=False, beta=True, neither=False),
    attrs=a,
)[0]
_GROUPED = _standardized(op.reshape(x, newshape=in_groups(a, x)), of_group(a, x), _EPSILON)
_LAYER = _standardized(x, from_axis(a, x), _EPSILON) * gamma
_SQUARE = op.sum(x * x, axis=all_or(a, x), keepdims=True)


class Decompositions(RuleSet):
    """Replaces dropout by its operand, normalizations by means, roots, products and sums, and biases by sums."""

    dropout = op.nn.dropout(x, ...)[0] >> x
    layer_norm = (
        (op.nn.layer_norm(x, gamma, shift(beta=beta, none=()), attrs=a) >> shift(beta=_LAYER + beta, none=_LAYER))
        .when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon"))
        .inexact(_ROUNDS)
        .lowering()
    )
    instance_norm = (
        (
            op.nn.instance_norm(x, gamma, beta, axis=p, attrs=a)
            >> _standardized(x, but_batch_and_channels(a, x), _EPSILON) * _along(gamma) + _along(beta)
        )
        .when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon"), _LAST)
        .inexact(_ROUNDS, nonfinite=MIXED)  # an infinite gamma multiplies data and mean separately
        .lowering()
    )
    group_norm = (
        (op.nn.group_norm(x, gamma, beta, axis=p, attrs=a) >> op.reshape(_GROUPED, newshape=shape_of(x)) * _along(gamma) + _along(beta))
        .when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon"), _LAST)
        .inexact(_ROUNDS)
        .lowering()
    )
    batch_norm = (
        (_BATCH_NORM >> x * _along(_FACTOR) + _along(has(both=_SHIFT + beta, gamma=_SHIFT, beta=_SHIFT + beta, neither=_SHIFT)))
        .when(keeps_its_epsilon(x, a, "epsilon"), _LAST)
        .inexact(_ROUNDS, nonfinite=MIXED)  # an infinite gamma or mean multiplies data and mean separately
        .lowering()
    )
    l2_normalize = (
        (op.nn.l2_normalize(x, attrs=a) >> x / op.sqrt(op.maximum(_SQUARE, number(epsilon(a, "eps")))))
        .when(has_axes(x), is_wide(x))
        .inexact(_ROUNDS)
        .lowering()
    )
    bias_add = (op.nn.bias_add(x, beta, axis=p) >> x + _along(beta)).when(_LAST).lowering()


@computed
def reciprocals_of(c: Term) -> Tensor:
    """One over each element of a constant. Rejects elements whose reciprocal is out of range."""
    elements = c.value().numpy()
    found = (1 / elements).astype(elements.dtype)
    if not np.isfinite(found).all() or not found.all():
        raise Reject("an element has no reciprocal in range")
    return Tensor.dense(found)


function = cases("function", "tanh", "erf", "softmax")


class FastMath(RuleSet):
    """Approximates exponential functions of float32 by polynomials, and quotients by products with reciprocals of constants."""

    reciprocal = (x / c >> x * value(reciprocals_of(c))).when(is_float(x)).inexact("rounds the reciprocal").lowering()
    exp = (
        (op.exp(x) >> op.fast_exp(x))
        .when(has_dtype(x, "float32"))
        .finite("an overflowing exponential saturates near the largest number")
        .lowering()
    )
    approximated = (
        (
            function(tanh=op.tanh(x), erf=op.erf(x), softmax=op.nn.softmax(x, axis=p))
            >> function(tanh=op.fast_tanh(x), erf=op.fast_erf(x), softmax=op.nn.fast_softmax(x, axis=p))
        )
        .when(has_dtype(x, "float32"))
        .inexact("a polynomial approximates the function")
        .lowering()
    )


@guard
def is_over_plane(axis: AnyValue, x: Term) -> bool | str:
    """The axes are the last two of four. (A mean over the last axis of three may as well be a mean of rows.)"""
    reason = f"axis={axis} of {x.type!r} is not every axis except the batch and channel axes"
    if x.type.ndim != 4 or not isinstance(axis, tuple):
        return reason
    return sorted(each % 4 for each in axis) == [2, 3] or reason


@guard
def is_pooled(x: Term) -> bool | str:
    """ONNX Runtime pools the element type: float32, and float16 through float32."""
    return x.type.dtype in ("float32", "float16") or f"ONNX Runtime has no global pooling of {x.type.dtype}"


@computed
def with_open_size(newshape: tuple[int, ...], x: Term) -> tuple[int, ...]:
    """The newshape that infers (-1) the named size that it copied. Rejects other unknown or zero sizes, which could not be inferred. ONNX
    Runtime may confuse an unnamed size with another and then fail to infer it."""
    if newshape.count(0) != 1 or any(entry < 0 for entry in newshape) or len(newshape) < 2:
        raise Reject(f"newshape={newshape} does not copy exactly one size, with all others known")
    size = x.type.shape[newshape.index(0)]
    if isinstance(size, int) or size is ANY:
        raise Reject(f"the size that newshape={newshape} copies from {x.type!r} is {'unknown' if size is ANY else 'known'}")
    return tuple(entry or -1 for entry in newshape)


class TargetForms(RuleSet):
    """Rewrites means over spatial axes as global pooling, whose kernel works on the blocked layout of convolutions. Infers the one copied
    size of a reshape (-1): ONNX Runtime loses track of named sizes after reshapes, and vision transformers with dynamic batch run 2 to 7 %
    faster this way."""

    global_pool = (
        (op.mean(x, axis=p, keepdims=True, exclude=False) >> op.nn.global_avg_pool2d(x))
        .when(is_over_plane(p, x), is_pooled(x), has_plane(x))
        .inexact("may sum in another order")
        .lowering()
    )
    open_size = (op.reshape(x, newshape=p, allowzero=False) >> op.reshape(x, newshape=with_open_size(p, x), allowzero=False)).lowering()


_FUSED = "the fused operator rounds differently"


@guard
def swaps_last_two(axes: Sequence[int] | None, x: Term) -> bool | str:
    """The permutation exchanges the last two of three or more dimensions; transpose flags of other products do that for matrices."""
    rank = x.type.ndim
    order = tuple(axis % rank for axis in axes) if axes is not None else tuple(reversed(range(rank)))
    return (rank > 2 and order == (*range(rank - 2), rank - 1, rank - 2)) or f"axes={axes} does not swap the last two dimensions"


@guard
def sums_something(x: Term, axis: int) -> bool | str:
    """The contracted axis is certainly nonempty: for an empty one, MatMul gives 0 but ONNX Runtime's FusedMatMul leaves the result
    undefined."""
    return (x.type.ndim >= 2 and at_least(x.type.shape[axis], 1)) or f"axis {axis} of {x.type!r}, the reduced axis, may be empty"


def _batches_agree(x: Term, y: Term) -> bool:
    return x.type.shape[:-2] == y.type.shape[:-2] and ANY not in x.type.shape[:-2]


@guard
def is_turned_left(x: Term, y: Term) -> bool | str:
    """The left operand has matrices, or both batch shapes agree: ONNX Runtime's FusedMatMul does not broadcast an empty transposed
    batch."""
    some = all(at_least(size, 1) for size in x.type.shape[:-2])
    return some or _batches_agree(x, y) or f"{x.type!r}, which is transposed, may contain no matrices, and the batch of {y.type!r} differs"


@guard
def is_turned_right(x: Term, y: Term) -> bool | str:
    """The right operand has columns, or both batch shapes agree: ONNX Runtime's FusedMatMul does not broadcast a transposed operand without
    columns."""
    some = at_least(y.type.shape[-2], 1)
    return some or _batches_agree(x, y) or f"{y.type!r}, which is transposed, may have no columns, and the batch of {x.type!r} differs"


@computed
def inverse_of(c: Term) -> float:
    """The reciprocal of a scalar constant. Rejects numbers whose reciprocal is out of range."""
    value = c.value().uniform()
    if value is None or not 1e-30 < abs(float(value)) < 1e30:
        raise Reject(f"{value} has no inverse in range")
    return 1.0 / float(value)


@computed
def scaled_by(alpha: float, c: Term) -> float:
    """The product of a factor and a scalar constant. Rejects results out of range."""
    value = c.value().uniform()
    if value is None or not abs(alpha * float(value)) < 1e30:
        raise Reject(f"{alpha} * {value} is out of range")
    return alpha * float(value)


kind = cases("kind", "bias_gelu", "fast_gelu")
factor = cases("factor", "product", "quotient", "left", "right")
further = cases("factor", "product", "left", "right")
side = cases("side", "left", "right")


def _fused(left: Pattern, right: Pattern) -> PCall:
    return op.contrib.fused_matmul(left, right, alpha=a, transpose_a=e, transpose_b=r)


_PLAIN = product(x, y)
_TURNS = (*side.only("left", is_turned_left(x, y)), *side.only("right", is_turned_right(x, y)))
_TURNED_X, _TURNED_Y = op.transpose(x, axes=p), op.transpose(y, axes=p)


class ContribForms(RuleSet):
    """Fuses Gelu with the preceding bias, Swish with a factor, and products with factors and transposed operands into com.microsoft
    operators."""

    bias_gelu = (
        (
            kind(bias_gelu=op.nn.gelu(x + b, approximate="none"), fast_gelu=op.nn.gelu(x + b, approximate="tanh"))
            >> kind(bias_gelu=op.contrib.bias_gelu(x, b), fast_gelu=op.contrib.fast_gelu(x, b))
        )
        .when(is_product_bias(b, x), has_dtype(x, "float32"))
        .inexact(_FUSED)
    )
    quick_gelu = (op.nn.swish(x, alpha=p) >> op.contrib.quick_gelu(x, alpha=p)).when(has_dtype(x, "float32")).inexact(_FUSED).lowering()
    scaled_product = (
        (
            factor(product=_PLAIN * c, quotient=_PLAIN / c, left=product(x * c, y), right=product(x, y * c))
            >> op.contrib.fused_matmul(
                *(x, y),
                alpha=factor(product=scalar_of(c), quotient=inverse_of(c), left=scalar_of(c), right=scalar_of(c)),
                transpose_a=False,
                transpose_b=False,
            )
        )
        .when(is_scalar(c, factor(product=_PLAIN, quotient=_PLAIN, left=x, right=y)), has_dtype(x, "float32"))
        .when(is_stack(x), is_stack(y), sums_something(x, -1))
        .inexact(_FUSED)
    )
    transposed_product = (
        (
            product(side(left=_TURNED_X, right=x), side(left=y, right=_TURNED_Y))
            >> op.contrib.fused_matmul(x, y, alpha=1.0, transpose_a=side(left=True, right=False), transpose_b=side(left=False, right=True))
        )
        .when(swaps_last_two(p, side(left=x, right=y)), is_stack(x), is_stack(y), sums_something(x, side(left=-2, right=-1)), *_TURNS)
        .when(has_dtype(x, "float32"))
        .inexact(_FUSED)
    )
    scaled_again = (
        (
            further(product=_fused(x, y) * c, left=_fused(x * c, y), right=_fused(x, y * c))
            >> op.contrib.fused_matmul(x, y, alpha=scaled_by(a, c), transpose_a=e, transpose_b=r)
        )
        .when(is_scalar(c, further(product=_PLAIN, left=x, right=y)), has_dtype(x, "float32"))
        .inexact(_FUSED)
    )
    transposed_again = (
        (
            _fused(side(left=_TURNED_X, right=x), side(left=y, right=_TURNED_Y))
            >> op.contrib.fused_matmul(x, y, alpha=a, transpose_a=side(left=other(e), right=e), transpose_b=side(left=r, right=other(r)))
        )
        .when(swaps_last_two(p, side(left=x, right=y)), has_dtype(x, "float32"), *_TURNS)
        .inexact(_FUSED)
    )
