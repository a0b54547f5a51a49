"""Merges convolutions that are chained or summed, floats constants, and defines the exchange rules of the TASO family as guarded axioms.
Operators: nn.conv1d nn.conv2d nn.conv3d nn.bias_add nn.batch_norm add subtract multiply transpose concatenate split nn.relu nn.matmul
nn.max_pool2d nn.avg_pool2d nn.pad.

A 1x1 convolution is a matrix product over channels, so it composes with the preceding convolution. A sum of convolutions of one tensor with
weights of the same shape is one convolution with the summed weights; a smaller kernel is zero-padded first (RepVGG, Ding et al. 2021). The
tensor itself, or its batch normalization, is a convolution whose kernel is 1 or the scale in the middle, for one input channel each.

TASO (Jia et al. 2019) enumerates substitutions for fixed attributes and verifies them with axioms. Here the axioms are the rules, for all
strides, padding, groups and axes, with guards on shapes, ranks and signs. They explore: none is better by itself.
"""

import math
from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.shape import same_dims
from passat.ir.tensor import Tensor
from passat.rules.guards import (
    Reject,
    Term,
    computed,
    guard,
    has_rank,
    is_channels_first,
    is_finite,
    is_float,
    is_unpadded,
    is_usual_convolution,
    keeps_type,
    same_shape,
    same_size,
    same_type,
)
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import constants_in_range, is_not_constant
from passat.rules.library.batch_norm import (
    along,
    convolution,
    epsilon,
    has_regular_scale,
    normalized_sum_stays_finite,
    products_stay_finite,
    scales_axis,
    sum_stays_finite,
)
from passat.rules.library.matmul_algebra import has_entries, is_modest
from passat.rules.library.products import product
from passat.rules.pattern import Pattern, PCall, attributes, constants, number, op, tensors, value
from passat.rules.rule import MIXED, RESOLVED
from passat.rules.rule_set import RuleSet

x, y, z, u = tensors("x y z w")
w, v, b, c, d, gamma, beta, mean, var = constants("w v b c d gamma beta mean var")
a, e, p = attributes("a e p")
_GROUPED: Final = "reassociates sums and products"


@guard
def is_plain(attrs: Attrs) -> bool | str:
    """The convolution has one group, data layout NC..., and kernel layout OI...."""
    plain = attrs.groups == 1 and attrs.data_layout.startswith("NC") and attrs.kernel_layout.startswith("OI")
    return plain or f"the convolution has {counted(attrs.groups, 'group')} and the layouts {attrs.data_layout} and {attrs.kernel_layout}"


@guard
def mixes_channels(attrs: Attrs, v: Term) -> bool | str:
    """The kernel has one element, and the convolution neither pads nor skips elements."""
    once = all(dim == 1 for dim in v.type.shape[2:])
    plain = not np.any(np.asarray(attrs.padding)) and bool(np.all(np.asarray(attrs.strides) == 1))
    return (once and plain) or f"the weight is {v.type!r}, the padding {attrs.padding}, the strides {attrs.strides}"


@guard
def keeps_channels(w: Term) -> bool | str:
    """The kernel has one element, and at least as many output as input channels. The product with the next weight then replaces both at no
    extra cost, even if the first convolution has other users."""
    outputs, inputs, *kernel = w.type.concrete_shape
    return (outputs >= inputs and set(kernel) == {1}) or f"the weight is {w.type!r}"


@guard
def may_grow(w: Term) -> bool | str:
    """The kernel has several elements, or fewer output than input channels. The product with the next weight may then be larger than
    both."""
    outputs, inputs, *kernel = w.type.concrete_shape
    return outputs < inputs or set(kernel) != {1} or f"the weight is {w.type!r}"


@computed
def kernel_after(attrs: Attrs, v: Term) -> AnyValue:
    """The `channels` attribute of the merged convolution: that of the second one, if the first states its own."""
    return None if attrs.channels is None else v.type.shape[0]


@computed
def weight_rows(w: Term, count: int) -> tuple[int, ...]:
    """The newshape of a weight as a matrix; if `count` is 2, outputs by inputs."""
    shape = w.type.concrete_shape
    if 0 in shape:
        raise Reject("the weight is empty")
    return (shape[0], shape[1]) if count == 2 else (shape[0], math.prod(shape[1:]))


@computed
def mixed_shape(w: Term, v: Term) -> tuple[int, ...]:
    """The shape of the weight of the merged convolution."""
    return (v.type.concrete_shape[0], *w.type.concrete_shape[1:])


_MIXING, _ROWS = op.reshape(v, newshape=weight_rows(v, 2)), op.reshape(w, newshape=weight_rows(w, 1))
bias = cases("bias", "none", "biased")
biases = cases("biases", "none", "left", "both")
padded_biases = cases("biases", "none", "left", "both", "small")
_INNER = convolution(x, w, attrs=a)
_BOTH = convolution(x, op.reshape(op.nn.matmul(_MIXING, _ROWS), newshape=mixed_shape(w, v)), attrs=a, channels=kernel_after(a, v))
_MIXED_BIAS = op.nn.matmul(_MIXING, b)
_MET = (
    (
        convolution(bias(none=_INNER, biased=op.nn.bias_add(_INNER, b, axis=1)), v, attrs=e)
        >> bias(none=_BOTH, biased=op.nn.bias_add(_BOTH, _MIXED_BIAS, axis=1))
    )
    .when(is_plain(a), is_plain(e), mixes_channels(e, v), is_modest(_MIXING, _ROWS), products_stay_finite(w, v, v, 1))
    .inexact(_GROUPED, nonfinite=RESOLVED)
)


@guard
def fits_inside(small: Attrs, large: Attrs, v: Term, w: Term) -> bool | str:
    """The smaller kernel covers a centered part of the larger one: both have odd sizes, and the convolutions are otherwise equal."""
    names = ("strides", "dilation", "groups", "channels", "data_layout", "kernel_layout")
    if any(small[name] != large[name] for name in names) or small.kernel_size is not None or large.kernel_size is not None:
        return f"the attributes differ: {small} and {large}"
    if not same_dims(v.type.shape[:2], w.type.shape[:2]):
        return f"the weights are {v.type!r} and {w.type!r}"
    dims = v.type.ndim - 2
    spread = _each(small.dilation, dims)
    for i, (less, more, step) in enumerate(zip(v.type.shape[2:], w.type.shape[2:], spread, strict=True)):
        if not (isinstance(less, int) and isinstance(more, int) and less <= more and (more - less) % 2 == 0):
            return f"the kernels are {v.type!r} and {w.type!r}"
        margin = (more - less) // 2 * step
        if any(big - little != margin for little, big in zip(_sides(small.padding, dims, i), _sides(large.padding, dims, i), strict=True)):
            return f"the paddings are {small.padding} and {large.padding}"
    return v.type.shape != w.type.shape or "the kernels have the same size"


def _each(value: int | Sequence[int], dims: int) -> tuple[int, ...]:
    found = (value,) if isinstance(value, int) else tuple(value)
    return found if len(found) == dims else found * dims


def _sides(padding: int | Sequence[int], dims: int, axis: int) -> tuple[int, int]:
    """The padding before and after one spatial axis."""
    found = (padding,) if isinstance(padding, int) else tuple(padding)
    found = found * (2 * dims) if len(found) == 1 else found * 2 if len(found) == dims else found
    return found[axis], found[axis + dims]


@computed
def margins(v: Term, w: Term) -> tuple[tuple[int, int], ...]:
    """The zero padding that enlarges one kernel to the size of the other."""
    found = [(more - less) // 2 for less, more in zip(v.type.concrete_shape, w.type.concrete_shape, strict=True)]
    return tuple((margin, margin) for margin in found)


@computed
def sum_inside(w: Term, v: Term) -> Tensor:
    """The larger weight plus the smaller one in its middle. As a call of `nn.pad`, the smaller one may be too large to be folded."""
    total = w.value().numpy().copy()
    middle = [
        slice((more - less) // 2, (more + less) // 2) for less, more in zip(v.type.concrete_shape, w.type.concrete_shape, strict=True)
    ]
    total[tuple(middle)] += v.value().numpy()
    return Tensor.dense(total, w.type.dtype)


@guard
def keeps_places(attrs: Attrs, w: Term) -> bool | str:
    """Output and input of the convolution have equal shapes, and the middle of the kernel is at the same place in both: it has as many
    output as input channels, odd kernel sizes, no strides, and centered padding."""
    if not (attrs.data_layout.startswith("NC") and attrs.kernel_layout.startswith("OI")):
        return f"the layouts are {attrs.data_layout} and {attrs.kernel_layout}"
    outputs, inputs, *kernel = w.type.concrete_shape
    if outputs != inputs * attrs.groups or any(size % 2 == 0 for size in kernel):
        return f"the weight is {w.type!r}, of {counted(attrs.groups, 'group')}"
    if any(step != 1 for step in _each(attrs.strides, len(kernel))):
        return f"the strides are {attrs.strides}"
    margins = [size // 2 * step for size, step in zip(kernel, _each(attrs.dilation, len(kernel)), strict=True)]
    centered = all(_sides(attrs.padding, len(kernel), i) == (margin, margin) for i, margin in enumerate(margins))
    return centered or f"the padding is {attrs.padding}"


@computed
def identity_kernel(attrs: Attrs, w: Term) -> Tensor:
    """A weight of the same shape whose convolution returns its data."""
    outputs, inputs, *kernel = w.type.concrete_shape
    elements = np.zeros((outputs, inputs, *kernel), to_numpy(w.type.dtype))
    channels = np.arange(outputs)
    places: tuple[AnyValue, ...] = (channels, channels % inputs, *(size // 2 for size in kernel))
    elements[places] = 1
    return Tensor.dense(elements, w.type.dtype)


@computed
def one_per_output(w: Term) -> tuple[int, ...]:
    """The newshape of a vector that has an element for each output channel of a weight."""
    return (-1, *(1 for _ in w.type.shape[1:]))


def _biased(convolution: Pattern, bias: Pattern) -> PCall:
    return op.nn.bias_add(convolution, bias, axis=p)


_RIGHT, _SUMMED = convolution(x, v, attrs=a), convolution(x, w + v, attrs=a)
_LARGE, _SMALL = op.nn.conv2d(x, w, attrs=a), op.nn.conv2d(x, v, attrs=e)
_PADDED = op.nn.conv2d(x, value(sum_inside(w, v)), attrs=a)
dims = cases("dims", "one", "two")
_NORMAL = op.nn.batch_norm(x, gamma, beta, mean, var, attrs=e)[0]
_SCALE = gamma / op.sqrt(var + number(epsilon(e, "epsilon")))
_ROW = dims(one=(1, -1, 1), two=(1, -1, 1, 1))
_SHIFT = op.sum(w * op.reshape(beta - mean * _SCALE, newshape=_ROW), axis=dims(one=(1, 2), two=(1, 2, 3)))
_WEIGHT = w * op.reshape(_SCALE, newshape=_ROW)
sign = operator("sign", "add", "subtract")
beside = cases("beside", "itself", "biased", "normalized")
_IDENTITY = value(identity_kernel(a, w))
_JOINED = convolution(x, sign(w, _IDENTITY), attrs=a)
_JOINED_NORMAL = convolution(x, sign(w, _IDENTITY * op.reshape(_SCALE, newshape=one_per_output(w))), attrs=a)
_INNER_BIASED = op.nn.bias_add(_INNER, b, axis=1)


class ConvolutionChains(RuleSet):
    """Merges a convolution with a following 1x1 convolution, with another convolution of the same tensor that is added, with the tensor
    itself or its batch normalization, and with a preceding batch normalization (unpadded convolutions only)."""

    meet = _MET.when(keeps_channels(w))
    meet_larger = _MET.when(may_grow(w)).exploring()
    difference = (
        (_INNER - _RIGHT >> convolution(x, w - v, attrs=a))
        .when(same_shape(w, v), sum_stays_finite(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    sum = (
        (
            biases(none=_INNER + _RIGHT, left=_biased(_INNER, b) + _RIGHT, both=_biased(_INNER, b) + _biased(_RIGHT, d))
            >> biases(none=_SUMMED, left=_biased(_SUMMED, b), both=_biased(_SUMMED, b + d))
        )
        .when(same_shape(w, v), sum_stays_finite(w, v), *biases.only("both", sum_stays_finite(b, d)))
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
        .when(is_channels_first(a), fits_inside(e, a, v, w), sum_stays_finite(w, v), *padded_biases.only("both", sum_stays_finite(b, d)))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    identity = (
        (
            beside(itself=sign(_INNER, x), biased=sign(_INNER_BIASED, x), normalized=sign(_INNER_BIASED, _NORMAL))
            >> beside(
                itself=_JOINED,
                biased=op.nn.bias_add(_JOINED, b, axis=1),
                normalized=op.nn.bias_add(_JOINED_NORMAL, sign(b, beta - mean * _SCALE), axis=1),
            )
        )
        .when(
            *(is_float(x), keeps_places(a, w)),
            *beside.only("normalized", scales_axis(e, _NORMAL, 1), has_regular_scale(e, gamma, var)),
            *beside.only("normalized", normalized_sum_stays_finite(e, w, b, gamma, beta, mean, var)),
        )
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


g = operator("g", "add", "multiply")
ROUNDS = "rounds in another order"


def conv(data: Pattern, weight: Pattern) -> PCall:
    """A convolution; all convolutions of one rule share their attributes."""
    return op.nn.conv2d(data, weight, attrs=a)


def concat(axis: object, *parts: Pattern) -> PCall:
    """A concatenation."""
    return op.concatenate(parts, axis=axis)


def matrix_transpose(of: Pattern) -> PCall:
    """A matrix transpose."""
    return op.transpose(of, axes=(1, 0))


part, summed = cases("part", "first", "second"), cases("summed", "weights", "data")
MATRICES = (has_rank(x, 2), has_rank(y, 2), has_rank(z, 2))


class Exchanges(RuleSet):
    """Exchanges sums, products, convolutions and pooling with each other and with concatenation and split, as TASO does, and floats
    constants in sums and products outwards, one step per iteration, so that they fold together."""

    constant_operand = (
        (g(g(x, c), y) >> g(g(x, y), c))
        .when(is_float(x), is_not_constant(y), is_finite(c), keeps_type(x, g(x, c)), same_type(x, g(x, y)))
        .inexact(ROUNDS)
        .exploring()
        .budget(128)
    )
    constant_bias = (
        (op.nn.bias_add(x, c, axis=a) + y >> (x + y) + op.reshape(c, newshape=along(x, a)))
        .when(is_float(x), is_finite(c), is_not_constant(y), same_type(x, x + y))
        .inexact(ROUNDS)
        .exploring()
        .budget(128)
    )
    associates = (g(x, g(y, z)) >> g(g(x, y), z)).when(constants_in_range(g, x, y)).inexact(ROUNDS).exploring()
    multiply_distributes = (
        ((x + y) * z >> x * z + y * z)
        .when(constants_in_range("multiply", x, z), constants_in_range("multiply", y, z))
        .inexact(ROUNDS, nonfinite=MIXED)
        .exploring()
    )
    transpose_of_sum = (op.transpose(x + y, axes=p) >> op.transpose(x, axes=p) + op.transpose(y, axes=p)).when(same_shape(x, y)).exploring()
    concat_of_pairs = (
        (concat(p, g(x, y), g(z, u)) >> g(concat(p, x, z), concat(p, y, u))).when(same_shape(x, y), same_shape(z, u)).exploring()
    )
    concat_of_relus = (concat(p, op.nn.relu(x), op.nn.relu(y)) >> op.nn.relu(concat(p, x, y))).exploring()
    concat_of_scaled = (concat(p, x * c, y * c) >> concat(p, x, y) * c).when(c.ndim == 0).exploring()
    concat_of_transposed = (concat(1, matrix_transpose(x), matrix_transpose(y)) >> matrix_transpose(concat(0, x, y))).exploring()
    concat_of_concats = (
        (concat(0, concat(1, x, y), concat(1, z, u)) >> concat(1, concat(0, x, z), concat(0, y, u)))
        .when(same_size(x, z, 1), same_size(y, u, 1))
        .exploring()
    )
    split_of_concat = (op.split(concat(p, x, y), indices_or_sections=2, axis=p)[part(first=0, second=1)] >> part(first=x, second=y)).when(
        same_shape(x, y)
    )
    matmul_associates = (
        (product(x, product(y, z)) >> product(product(x, y), z))
        .when(*MATRICES, has_entries(y), products_stay_finite(x, y, y, 0))
        .inexact(ROUNDS, nonfinite=MIXED)
        .exploring()
    )
    matmul_distributes = (
        (product(x, y + z) >> product(x, y) + product(x, z))
        .when(same_shape(y, z), products_stay_finite(x, y, x, -1), products_stay_finite(x, z, x, -1))
        .inexact(ROUNDS, nonfinite=MIXED)
        .exploring()
    )
    matmul_moves_scale = (
        (product(x, y) * c >> product(x, y * c))
        .when(c.ndim == 0, is_finite(c), constants_in_range("multiply", y, c))
        .inexact(ROUNDS)
        .exploring()
    )
    matmul_transposes = (
        (matrix_transpose(product(x, y)) >> product(matrix_transpose(y), matrix_transpose(x)))
        .when(has_rank(x, 2), has_rank(y, 2))
        .inexact(ROUNDS)
        .exploring()
    )
    matmuls_side_by_side = (
        (concat(1, product(x, y), product(x, z)) >> product(x, concat(1, y, z))).when(*MATRICES).inexact(ROUNDS).exploring()
    )
    matmuls_summed = (
        (product(x, y) + product(z, u) >> product(concat(1, x, z), concat(0, y, u)))
        .when(*MATRICES, has_rank(u, 2), same_size(x, z, 0), same_size(y, u, 1))
        .inexact(ROUNDS)
        .exploring()
    )
    conv_moves_scale = (
        (conv(x, y) * c >> conv(x, y * c)).when(c.ndim == 0, is_finite(c), constants_in_range("multiply", y, c)).inexact(ROUNDS).exploring()
    )
    conv_of_sum = (
        (summed(weights=conv(x, y + z), data=conv(x + y, z)) >> summed(weights=conv(x, y) + conv(x, z), data=conv(x, z) + conv(y, z)))
        .when(*summed.only("weights", same_shape(y, z)), *summed.only("data", same_shape(x, y)))
        .inexact(ROUNDS, nonfinite=MIXED)
        .exploring()
    )
    conv_weights_side_by_side = (
        (concat(1, conv(x, y), conv(x, z)) >> conv(x, concat(0, y, z)))
        .when(is_usual_convolution(a), same_shape(y, z))
        .inexact(ROUNDS)
        .exploring()
    )
    conv_data_side_by_side = (
        (concat(0, conv(x, z), conv(y, z)) >> conv(concat(0, x, y), z)).when(same_shape(x, y)).inexact(ROUNDS).exploring()
    )
    convs_summed = (
        (conv(x, y) + conv(z, u) >> conv(concat(1, x, z), concat(1, y, u)))
        .when(is_usual_convolution(a), same_shape(x, z), same_shape(y, u))
        .inexact(ROUNDS)
        .exploring()
    )
    max_pools = (
        (concat(1, op.nn.max_pool2d(x, attrs=a), op.nn.max_pool2d(y, attrs=a)) >> op.nn.max_pool2d(concat(1, x, y), attrs=a))
        .when(is_channels_first(a), same_shape(x, y))
        .exploring()
    )
    avg_pools = (
        (concat(p, op.nn.avg_pool2d(x, attrs=a), op.nn.avg_pool2d(y, attrs=a)) >> op.nn.avg_pool2d(concat(p, x, y), attrs=a))
        .when(p == 1, is_channels_first(a), same_shape(x, y))
        .exploring()
    )
    conv_enlarged = (
        (concat(1, conv(x, y), op.nn.conv2d(x, z, attrs=e)) >> conv(x, concat(0, y, op.nn.pad(z, pad_width=margins(z, y)))))
        .when(is_usual_convolution(a), is_plain(a), fits_inside(e, a, z, y))
        .finite("0 times infinity is NaN")
        .exploring()
    )
