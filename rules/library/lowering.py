"""What takes the place of an operator whatever that costs: normalizations as what they are made of, exponential functions approximated by
polynomials, and what training needs and inference does not. Operators: nn.batch_norm nn.layer_norm nn.group_norm nn.instance_norm
nn.l2_normalize nn.bias_add exp tanh erf nn.softmax fast_exp fast_tanh fast_erf nn.fast_softmax nn.dropout.

Relay's SimplifyInference, CanonicalizeOps and FastMath. Rules that lower take away what they match, although the five or more operators
that take its place may be slower on ONNX Runtime than the one: whoever asks for them wants these.
"""

from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, condition, has_dtype, is_not_empty, shape_of
from passat.rules.pattern import Pattern, PCall, attributes, number, op, tensors
from passat.rules.rule import MIXED, RuleSet

x, gamma, beta, mean, var = tensors("x gamma beta mean var")
a, p = attributes("a p")


class Inference(RuleSet):
    """Operators that do nothing in inference."""

    dropout = op.nn.dropout(x, ...)[0] >> x


_ROUNDS = "each operator rounds by itself"


@condition
def keeps_its_epsilon(x: Term, attrs: Attrs, name: str) -> bool | str:
    """The number that keeps a root from being 0 does not vanish in the element type."""
    given = attrs[name]
    with np.errstate(under="ignore"):
        left = float(np.asarray(np.float32(given), to_numpy(x.type.dtype)))
    return left > 0 or not given > 0 or f"{name}={given} is 0 as {x.type.dtype}"


@condition
def has_axes(x: Term) -> bool | str:
    """The tensor is no scalar, which has no axis to sum over."""
    return x.type.ndim > 0 or "a scalar has no axes"


@condition
def is_wide(x: Term) -> bool | str:
    """The elements have 32 bits or more: of narrower ones, the whole is computed in float32, and its parts would not be."""
    return x.type.dtype in ("float32", "float64") or f"{x.type.dtype} is computed in float32"


@computed
def added(attrs: Attrs, name: str) -> float:
    """The number under the root: a 32-bit float, as in ONNX."""
    return float(np.float32(attrs[name]))


@computed
def behind(axis: int, x: Term) -> int:
    """How many axes come after the one of the channels: a vector gets so many new ones, to lie along that."""
    return x.type.ndim - 1 - x.type.axis(axis)


@computed
def from_axis(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes from the one of the attribute on."""
    return tuple(range(x.type.axis(attrs.axis), x.type.ndim))


@computed
def but_batch_and_channels(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """All axes but the first, and the one of the channels."""
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
        raise Refuse(f"{x.type!r} is not static")
    axis = x.type.axis(attrs.axis)
    shape = list(x.type.shape)
    channels = shape[axis]
    assert isinstance(channels, int)
    return [*shape[:axis], attrs.num_groups, channels // attrs.num_groups, *shape[axis + 1 :]]


@computed
def in_groups(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The shape in which each group of channels has an axis of its own."""
    shape = tuple(_grouped(attrs, x))
    if 0 in shape:
        raise Refuse(f"{x.type!r} is empty")
    return shape


@computed
def of_group(attrs: Attrs, x: Term) -> tuple[int, ...]:
    """The axes, in that shape, that one group has."""
    axis = x.type.axis(attrs.axis)
    return tuple(place for place in range(1, x.type.ndim + 1) if place != axis)


def _standardised(data: Pattern, axes: AnyValue, under: Pattern) -> PCall:
    """Zero mean and unit variance: (data - mean) / sqrt(variance + epsilon)."""
    centered = data - op.mean(data, axis=axes, keepdims=True)
    return centered / op.sqrt(op.mean(centered * centered, axis=axes, keepdims=True) + under)


@condition
def channels_are_last(axis: int, x: Term, last: bool) -> bool | str:
    """The channels are the last axis, or not."""
    return (x.type.axis(axis) == x.type.ndim - 1) is last or f"the channels are axis {axis} of {x.type!r}"


channels = cases("channels", "inner", "last")
has = cases("has", "both", "gamma", "beta", "neither")
shift = cases("shift", "beta", "none")
_LAST = channels_are_last(p, x, channels(inner=False, last=True))


def _along(vector: Pattern) -> Pattern:
    return channels(inner=op.expand_dims(vector, axis=1, num_newaxis=behind(p, x)), last=vector)


_EPSILON = number(added(a, "epsilon"))
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
_GROUPED = _standardised(op.reshape(x, newshape=in_groups(a, x)), of_group(a, x), _EPSILON)
_LAYER = _standardised(x, from_axis(a, x), _EPSILON) * gamma
_SQUARE = op.sum(x * x, axis=all_or(a, x), keepdims=True)


class Unpacking(RuleSet):
    """Normalisations fall into means, roots, products and sums."""

    layer_norm = (
        (op.nn.layer_norm(x, gamma, shift(beta=beta, none=()), attrs=a) >> shift(beta=_LAYER + beta, none=_LAYER))
        .when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon"))
        .inexact(_ROUNDS)
        .lowering()
    )
    instance_norm = (
        (
            op.nn.instance_norm(x, gamma, beta, axis=p, attrs=a)
            >> _standardised(x, but_batch_and_channels(a, x), _EPSILON) * _along(gamma) + _along(beta)
        )
        .when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon"), _LAST)
        .inexact(_ROUNDS, nonfinite=MIXED)  # an infinite gamma multiplies the data and the mean apart
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
        .inexact(_ROUNDS, nonfinite=MIXED)  # an infinite gamma or mean multiplies the data and the mean apart
        .lowering()
    )
    l2_normalize = (
        (op.nn.l2_normalize(x, attrs=a) >> x / op.sqrt(op.maximum(_SQUARE, number(added(a, "eps")))))
        .when(has_axes(x), is_wide(x))
        .inexact(_ROUNDS)
        .lowering()
    )


class CanonicalOps(RuleSet):
    """Operators that are spelled as others, which more passes know: Relay's CanonicalizeOps."""

    bias_add = (op.nn.bias_add(x, beta, axis=p) >> x + _along(beta)).when(_LAST).lowering()


_APPROXIMATE = "a polynomial is near the function"


class FastMath(RuleSet):
    """Approximations of exponential functions of 32-bit floats, for which they are made."""

    exp = (
        (op.exp(x) >> op.fast_exp(x)).when(has_dtype(x, "float32")).finite("a power that overflows ends near the largest number").lowering()
    )
    tanh = (op.tanh(x) >> op.fast_tanh(x)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
    erf = (op.erf(x) >> op.fast_erf(x)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
    softmax = (op.nn.softmax(x, axis=p) >> op.nn.fast_softmax(x, axis=p)).when(has_dtype(x, "float32")).inexact(_APPROXIMATE).lowering()
