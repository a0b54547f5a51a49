"""Normalisations as what they are made of. Operators: nn.batch_norm nn.layer_norm nn.group_norm nn.instance_norm nn.l2_normalize.

Relay's SimplifyInference. The rules lower: what they match goes, although the five or more operators that take its place are slower
on ONNX Runtime than the one.
"""

from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.rules.conditions import Refuse, Term, computed, condition, is_not_empty, shape_of
from passat.rules.pattern import Pattern, PCall, attributes, number, op, tensors
from passat.rules.rule import MIXED, Rule, RuleSet, RuleSetMeta

x, gamma, beta, mean, var = tensors("x gamma beta mean var")
a, p = attributes("a p")
_ROUNDS = "each operator rounds by itself"
_APART = "an infinite gamma or mean multiplies the data and the mean apart"


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
    centred = data - op.mean(data, axis=axes, keepdims=True)
    return centred / op.sqrt(op.mean(centred * centred, axis=axes, keepdims=True) + under)


@condition
def channels_are_last(axis: int, x: Term, last: bool) -> bool | str:
    """The channels are the last axis, or not."""
    return (x.type.axis(axis) == x.type.ndim - 1) is last or f"the channels are axis {axis} of {x.type!r}"


def _along(vector: Pattern, last: bool) -> Pattern:
    return vector if last else op.expand_dims(vector, axis=1, num_newaxis=behind(p, x))


_EPSILON = number(added(a, "epsilon"))


def _batch_norms(last: bool) -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    inverse = 1.0 / op.sqrt(var + _EPSILON)
    for name, scale, center in (
        ("", True, True),
        ("_without_gamma", False, True),
        ("_without_beta", True, False),
        ("_alone", False, False),
    ):
        whole = op.nn.batch_norm(x, gamma, beta, mean, var, axis=p, scale=scale, center=center, attrs=a)[0]
        factor: Pattern = inverse * gamma if scale else inverse
        shift: Pattern = op.negative(mean) * factor
        made = x * _along(factor, last) + _along(shift + beta if center else shift, last)
        rules[f"batch_norm{name}"] = (whole >> made).when(keeps_its_epsilon(x, a, "epsilon")).inexact(_APART, nonfinite=MIXED)
    return rules


def _per_channel(last: bool) -> dict[str, Rule]:
    """The rules on normalisations that have channels, for those that are the last axis or for others."""
    instance = _standardised(x, but_batch_and_channels(a, x), _EPSILON)
    grouped = op.reshape(_standardised(op.reshape(x, newshape=in_groups(a, x)), of_group(a, x), _EPSILON), newshape=shape_of(x))
    found = {
        "instance_norm": op.nn.instance_norm(x, gamma, beta, axis=p, attrs=a) >> instance * _along(gamma, last) + _along(beta, last),
        "group_norm": op.nn.group_norm(x, gamma, beta, axis=p, attrs=a) >> grouped * _along(gamma, last) + _along(beta, last),
    }
    rules = {name: rule.when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon")) for name, rule in found.items()}
    rules["instance_norm"] = rules["instance_norm"].inexact(_APART, nonfinite=MIXED)
    rules |= _batch_norms(last)
    return {f"{name}{'_last' if last else ''}": rule.when(channels_are_last(p, x, last)) for name, rule in rules.items()}


def _rules() -> RuleSetMeta:
    layer = _standardised(x, from_axis(a, x), _EPSILON) * gamma
    rules = {
        "layer_norm": op.nn.layer_norm(x, gamma, beta, attrs=a) >> layer + beta,
        "layer_norm_without_beta": op.nn.layer_norm(x, gamma, (), attrs=a) >> layer,
    }
    rules = {name: rule.when(is_not_empty(x), is_wide(x), keeps_its_epsilon(x, a, "epsilon")) for name, rule in rules.items()}
    rules |= _per_channel(False) | _per_channel(True)
    square = op.sum(x * x, axis=all_or(a, x), keepdims=True)
    rules["l2_normalize"] = (op.nn.l2_normalize(x, attrs=a) >> x / op.sqrt(op.maximum(square, number(added(a, "eps"))))).when(
        has_axes(x), is_wide(x)
    )
    doc = "Normalisations fall into means, roots, products and sums."
    return RuleSetMeta(
        "Unpacking", (RuleSet,), {"__doc__": doc, **{name: rule.inexact(_ROUNDS).lowering() for name, rule in rules.items()}}
    )


Unpacking = _rules()


class CanonicalOps(RuleSet):
    """Operators that are spelled as others, which more passes know: Relay's CanonicalizeOps."""

    bias_add = (
        (op.nn.bias_add(x, beta, axis=p) >> x + op.expand_dims(beta, axis=1, num_newaxis=behind(p, x)))
        .when(channels_are_last(p, x, False))
        .lowering()
    )
    bias_add_last = (op.nn.bias_add(x, beta, axis=p) >> x + beta).when(channels_are_last(p, x, True)).lowering()
