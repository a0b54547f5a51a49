"""Convolutions that follow each other or are summed become one. Operators: nn.conv1d nn.conv2d nn.conv3d nn.bias_add nn.batch_norm add
subtract.

A convolution with a kernel of one element mixes channels, which is a product with a matrix, so that it composes with the convolution before
it. Convolutions of one tensor with weights of one shape add up to the convolution with the summed weights; a smaller kernel is
padded with zeros for that (RepVGG, Ding et al. 2021).
"""

import math
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Refuse, Term, computed, condition, is_finite, is_unpadded, same_shape
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.batch_norm import convolution, epsilon, has_regular_scale, products_stay_finite, scales_axis
from passat.rules.pattern import Pattern, PCall, attributes, constants, number, op, tensors
from passat.rules.rule import RESOLVED, RuleSet

(x,) = tensors("x")
w, v, b, d, gamma, beta, mean, var = constants("w v b d gamma beta mean var")
a, e, p = attributes("a e p")
_GROUPED: Final = "sums and products in other groups"
_MOST: Final = 4e9
"""Multiplications that the product of two weights may take: it is computed when the program is optimized."""


@condition
def is_plain(attrs: Attrs) -> bool | str:
    """The convolution has one group, data is laid out as N, channels, space, and its weight as outputs, inputs, space."""
    plain = attrs.groups == 1 and attrs.data_layout.startswith("NC") and attrs.kernel_layout.startswith("OI")
    return plain or f"it has {attrs.groups} groups and the layouts {attrs.data_layout} and {attrs.kernel_layout}"


@condition
def mixes_channels(attrs: Attrs, v: Term) -> bool | str:
    """The kernel has one element, and the convolution neither pads nor leaves out."""
    once = all(dim == 1 for dim in v.type.shape[2:])
    plain = not np.any(np.asarray(attrs.padding)) and bool(np.all(np.asarray(attrs.strides) == 1))
    return (once and plain) or f"the weight is {v.type!r}, the padding {attrs.padding}, the strides {attrs.strides}"


@condition
def is_modest_mix(w: Term, v: Term) -> bool | str:
    """The product of the weights does not take long to compute."""
    size = float(w.value().size * (v.value().shape[0] if v.type.ndim else 0))
    return size <= _MOST or f"it takes {size:.2g} multiplications"


@computed
def kernel_after(attrs: Attrs, v: Term) -> AnyValue:
    """The `channels` of the one convolution: those of the second one, where the first one states its own."""
    return None if attrs.channels is None else v.type.shape[0]


@computed
def weight_rows(w: Term, count: int) -> tuple[int, ...]:
    """The newshape of a weight as a matrix, its outputs (and where `count` is 2 its inputs) apart."""
    shape = [int(dim) for dim in w.type.shape]  # type: ignore[arg-type]  # constants are static
    if 0 in shape:
        raise Refuse("the weight is empty")
    return (shape[0], shape[1]) if count == 2 else (shape[0], math.prod(shape[1:]))


@computed
def mixed_shape(w: Term, v: Term) -> tuple[int, ...]:
    """The shape of the weight of both convolutions."""
    return (int(v.type.shape[0]), *(int(dim) for dim in w.type.shape[1:]))  # type: ignore[arg-type]  # constants are static


def _mixed() -> PCall:
    """The weight of a convolution and then one that mixes channels."""
    matrix = op.nn.matmul(op.reshape(v, newshape=weight_rows(v, 2)), op.reshape(w, newshape=weight_rows(w, 1)))
    return op.reshape(matrix, newshape=mixed_shape(w, v))


bias = cases("bias", "none", "biased")
biases = cases("biases", "none", "left", "both")
padded_biases = cases("biases", "none", "left", "both", "small")
_INNER = convolution(x, w, attrs=a)
_BOTH = convolution(x, _mixed(), attrs=a, channels=kernel_after(a, v))
_MIXED_BIAS = op.nn.matmul(op.reshape(v, newshape=weight_rows(v, 2)), b)


def _one_in_the_middle(dice: Dice, small: Draft, large: Draft, v: Draft, w: Draft) -> Drafts:
    said = {"strides": dice.integer(1, 2), "dilation": 1, "groups": 1, "channels": None, "kernel_size": None}
    layouts = {"data_layout": "NCHW", "kernel_layout": "OIHW"}
    outputs, inputs, margin = dice.full(), dice.full(), dice.integer(0, 1)
    attrs = [Draft(value={**said, **layouts, "padding": (padding,) * 4}) for padding in (margin, margin + 1)]
    return [*attrs, Draft((outputs, inputs, 1, 1)), Draft((outputs, inputs, 3, 3))]


@condition(draw=_one_in_the_middle)
def fits_inside(small: Attrs, large: Attrs, v: Term, w: Term) -> bool | str:
    """The smaller kernel looks at a part of what the larger one looks at: both are of odd size, centered alike, and otherwise equal."""
    names = ("strides", "dilation", "groups", "channels", "data_layout", "kernel_layout")
    if any(small[name] != large[name] for name in names) or small.kernel_size is not None or large.kernel_size is not None:
        return f"the attributes differ: {small} and {large}"
    if v.type.shape[:2] != w.type.shape[:2]:
        return f"the weights are {v.type!r} and {w.type!r}"
    dims = v.type.ndim - 2
    spread = _each(small.dilation, dims)
    for i, (less, more, step) in enumerate(zip(v.type.shape[2:], w.type.shape[2:], spread, strict=True)):
        if not (isinstance(less, int) and isinstance(more, int) and less <= more and (more - less) % 2 == 0):
            return f"the kernels are {v.type!r} and {w.type!r}"
        margin = (more - less) // 2 * step
        if any(big - little != margin for little, big in zip(_sides(small.padding, dims, i), _sides(large.padding, dims, i), strict=True)):
            return f"they pad by {small.padding} and {large.padding}"
    return v.type.shape != w.type.shape or "the kernels have one size"


def _each(value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else tuple(value)
    return found if len(found) == dims else found * dims


def _sides(padding: int | Sequence[int], dims: int, axis: int) -> tuple[int, int]:
    """The padding before and after along one spatial axis."""
    found = (padding,) if isinstance(padding, int) else tuple(padding)
    found = found * (2 * dims) if len(found) == 1 else found * 2 if len(found) == dims else found
    return found[axis], found[axis + dims]


@computed
def margins(v: Term, w: Term) -> tuple[tuple[int, int], ...]:
    """The padding with zeros that makes the one kernel as large as the other."""
    sizes = zip(v.type.shape, w.type.shape, strict=True)
    found = [(int(more) - int(less)) // 2 for less, more in sizes]  # type: ignore[arg-type]  # `fits_inside` has looked
    return tuple((margin, margin) for margin in found)


def _biased(convolution: Pattern, bias: Pattern) -> PCall:
    return op.nn.bias_add(convolution, bias, axis=p)


_RIGHT, _SUMMED = convolution(x, v, attrs=a), convolution(x, w + v, attrs=a)
_LARGE, _SMALL = op.nn.conv2d(x, w, attrs=a), op.nn.conv2d(x, v, attrs=e)
_PADDED = op.nn.conv2d(x, w + op.nn.pad(v, pad_width=margins(v, w), pad_mode="constant", pad_value=0.0), attrs=a)
dims = cases("dims", "one", "two")
_NORMAL = op.nn.batch_norm(x, gamma, beta, mean, var, attrs=e)[0]
_SCALE = gamma / op.sqrt(var + number(epsilon(e)))
_ROW = dims(one=(1, -1, 1), two=(1, -1, 1, 1))
_SHIFT = op.sum(w * op.reshape(beta - mean * _SCALE, newshape=_ROW), axis=dims(one=(1, 2), two=(1, 2, 3)))
_WEIGHT = w * op.reshape(_SCALE, newshape=_ROW)


class ConvolutionChains(RuleSet):
    """A convolution and then one that only mixes channels, convolutions of one tensor that are summed, and a batch normalization before a
    convolution without padding are one convolution."""

    meet = (
        (
            convolution(bias(none=_INNER, biased=op.nn.bias_add(_INNER, b, axis=1)), v, attrs=e)
            >> bias(none=_BOTH, biased=op.nn.bias_add(_BOTH, _MIXED_BIAS, axis=1))
        )
        .when(is_plain(a), is_plain(e), mixes_channels(e, v), is_modest_mix(w, v), products_stay_finite(w, v, v, 1))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    difference = (
        (_INNER - _RIGHT >> convolution(x, w - v, attrs=a)).when(same_shape(w, v)).inexact(_GROUPED, nonfinite=RESOLVED).exploring()
    )
    sum = (
        (
            biases(none=_INNER + _RIGHT, left=_biased(_INNER, b) + _RIGHT, both=_biased(_INNER, b) + _biased(_RIGHT, d))
            >> biases(none=_SUMMED, left=_biased(_SUMMED, b), both=_biased(_SUMMED, b + d))
        )
        .when(same_shape(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    sum_of_kernels = (
        (
            padded_biases(
                none=_LARGE + _SMALL,
                left=_biased(_LARGE, b) + _SMALL,
                both=_biased(_LARGE, b) + _biased(_SMALL, d),
                small=_LARGE + _biased(_SMALL, b),
            )
            >> padded_biases(none=_PADDED, left=_biased(_PADDED, b), both=_biased(_PADDED, b + d), small=_biased(_PADDED, b))
        )
        .when(is_plain(a), fits_inside(e, a, v, w))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    batch_norm = (
        (
            dims(one=op.nn.conv1d(_NORMAL, w, attrs=a), two=op.nn.conv2d(_NORMAL, w, attrs=a))
            >> op.nn.bias_add(dims(one=op.nn.conv1d(x, _WEIGHT, attrs=a), two=op.nn.conv2d(x, _WEIGHT, attrs=a)), _SHIFT, axis=1)
        )
        .when(
            *(is_plain(a), is_unpadded(a), scales_axis(e, _NORMAL, 1), has_regular_scale(e, gamma, var)),
            *map(is_finite, (beta, mean, w)),
        )
        .inexact(_GROUPED)
        .exploring()
    )
