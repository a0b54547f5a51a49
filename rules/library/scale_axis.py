"""Moves scales and shifts past rectifiers, poolings, paddings, transposes, flattenings, biases and sums, and folds them into the weights of
the following product, or into those of the preceding one in layouts and groups that `batch_norm` does not handle.

Operators: nn.conv*d nn.conv*d_transpose nn.dense nn.matmul nn.bias_add multiply nn.relu nn.leaky_relu nn.prelu abs nn.max_pool*d
nn.avg_pool*d nn.global_*_pool*d nn.pad transpose nn.batch_flatten add subtract.

Weights of convolutions and nn.dense may be parameters; these are scaled at run time if they are smaller than the data. Shifts fold into
constant weights only, since they would have to be summed at run time.

From Relay's ForwardFoldScaleAxis and BackwardFoldScaleAxis, with equations instead of messages. The rules explore: a scale that reaches no
product stays in place.
"""

from typing import Any as AnyValue

import ml_dtypes
import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.ops.windows import SPATIAL
from passat.rules.guards import (
    Term,
    calls_with_constants,
    computed,
    guard,
    has_no_zero,
    has_rank,
    is_axis,
    is_finite,
    is_float,
    is_positive,
    keeps_type,
    same_type,
)
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import constants_in_range, meet_in_range
from passat.rules.library.batch_norm import (
    axis_of,
    bias,
    convolution,
    group_blocks,
    group_rows,
    group_weight,
    has_groups,
    is_not,
    is_not_normalized,
    is_scaled_for_less,
    laid_on,
    lies_along,
    one_group_or_number,
    per_channel,
    stays_finite,
    stays_in_range,
    transposed,
    vector,
)
from passat.rules.library.commuting import padded_shape, transposed_back
from passat.rules.library.factoring import are_no_multiples
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule_set import RuleSet

x, weight, y, added = tensors("x w y b")
w, b, c, d = constants("v b c d")
a, p, q = attributes("a p q")
_NOTE = "scales the weights instead of the data"


@guard
def per_channel_of(c: Term, whole: Term, attrs: Attrs) -> bool | str:
    """The constant is a scalar, or has one element per channel in the given layout."""
    return lies_along(c, whole.type, attrs["layout" if "layout" in attrs else "data_layout"].index("C"))


@guard
def is_unpadded_group(attrs: Attrs) -> bool | str:
    """The convolution has one group and no zero padding, which a shift would not affect."""
    padding = attrs.padding if isinstance(attrs.padding, tuple) else (attrs.padding,)
    return (attrs.groups == 1 and not any(padding)) or f"the convolution has {counted(attrs.groups, 'group')}, and pads by {attrs.padding}"


@guard
def is_row_stack(x: Term, most: int) -> bool | str:
    """The rank of the data is at least 2 and at most `most`."""
    return 2 <= x.type.ndim <= most or f"{x.type!r} does not have 2 to {counted(most, 'axis')}"


@guard
def has_channels_last(attrs: Attrs) -> bool | str:
    """The channels of the data are the last axis."""
    layout = attrs.data_layout
    return layout == f"N{SPATIAL[len(layout) - 2]}C" or f"the data is laid out as {layout}"


@guard
def has_channels_first(attrs: Attrs) -> bool | str:
    """The channels of the data are axis 1."""
    layout = attrs.data_layout
    return layout == f"NC{SPATIAL[len(layout) - 2]}" or f"the data is laid out as {layout}"


@guard
def are_short_sums(x: Term, y: Term) -> bool | str:
    """Neither term is a sum of sums. Each block adds to the residual stream, which its normalization and the next blocks read unscaled. A
    scale of the stream would pass all blocks before it, once for each product of scales that it meets on the way."""
    return not (_is_nested_sum(x, 2) or _is_nested_sum(y, 2)) or "an operand is a sum of sums"


@guard
def is_first_divided(x: Term) -> bool | str:
    """The tensor is not a quotient by a constant of several elements, to which another constant is added. In a chain of quotients and sums,
    each of them would otherwise be combined with each before it."""
    shifted = calls_with_constants(x, "add", "subtract")
    quotients = [parts for term in (x, *(part for parts in shifted for part in parts)) for parts in term.calls("divide")]
    divided = any(divisor.constant is not None and divisor.type.size != 1 for _, divisor in quotients)
    return not divided or "is a shifted quotient by a constant"


def _is_nested_sum(x: Term, levels: int) -> bool:
    """True if a term is a sum or difference, up to a constant factor, and one of its operands is, too, to the given depth."""
    if levels == 0:
        return True
    scaled = calls_with_constants(x, "multiply")
    bases = [x, *(operand for operands in scaled for operand in operands if operand.constant is None)]
    summed = [operands for base in bases for name in ("add", "subtract") for operands in base.calls(name)]
    return any(_is_nested_sum(operand, levels - 1) for operands in summed for operand in operands if operand.constant is None)


def _grouped(constant: Pattern, lead: str) -> PCall:
    """A per-channel constant for a weight that has only the channels of one group: one block per `lead`."""
    rows = op.reshape(constant, newshape=group_rows(a, weight, lead))
    return op.reshape(op.broadcast_to(rows, shape=group_blocks(a, weight, lead)), newshape=group_weight(a, weight, lead))


product = cases("product", "convolution", "grouped", "transposed", "dense", "matmul", "matmul_transposed")
shifting = cases("product", "convolution", "dense", "matmul", "matmul_transposed")


def _plain(left: Pattern) -> Pattern:
    return op.nn.matmul(left, w, transpose_a=False, transpose_b=False)


def _turned(left: Pattern, right: Pattern = w) -> Pattern:
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=True)


_SCALED, _SHIFTED = x * c, x + d
_ALONG_INPUTS = weight * op.reshape(vector(c), newshape=laid_on(a, "I"))
_ROWS, _COLUMNS = op.reshape(c, newshape=(-1, 1)), op.reshape(c, newshape=(1, -1))
_SHIFT_ROWS, _SHIFT_COLUMNS = op.reshape(d, newshape=(-1, 1)), op.reshape(d, newshape=(1, -1))
_SHIFT_INPUTS = op.reshape(vector(d), newshape=laid_on(a, "I"))
behind = cases("product", "convolution", "transposed", "grouped", "matmul_transposed")
_ALONG_OUTPUTS = weight * op.reshape(vector(c), newshape=laid_on(a, "O"))
_PRODUCT = behind(
    convolution=convolution(x, weight, attrs=a),
    transposed=transposed(x, weight, attrs=a),
    grouped=transposed(x, weight, attrs=a),
    matmul_transposed=_turned(x),
)
_NOW = behind(
    convolution=convolution(x, _ALONG_OUTPUTS, attrs=a),
    transposed=transposed(x, _ALONG_OUTPUTS, attrs=a),
    grouped=transposed(x, weight * _grouped(c, "I"), attrs=a),
    matmul_transposed=_turned(x, w * _ROWS),
)
_CHANNELS = behind(convolution=p, transposed=p, grouped=1, matmul_transposed=p)


max_pool = operator("max_pool", *(f"nn.{kind}max_pool{dims}d" for kind in ("", "global_") for dims in (1, 2, 3)))
avg_pool = operator("avg_pool", *(f"nn.{kind}avg_pool{dims}d" for kind in ("", "global_") for dims in (1, 2, 3)))
rectifier = operator("rectifier", "nn.relu", "nn.leaky_relu", "abs")
sum_or_difference = operator("sum_or_difference", "add", "subtract")
_MOVED = "scales and rounds earlier or later"


@guard
def varies_outside_padding(c: Term, whole: Term, attrs: Attrs) -> bool | str:
    """The padding consists of zeros or of elements of the tensor, and the constant does not vary along padded axes."""
    if attrs.pad_mode == "constant" and attrs.pad_value != 0:
        return f"pads with {attrs.pad_value}"
    rank = whole.type.ndim
    if c.type.ndim > rank:
        return f"{c.type!r} has more axes than {whole.type!r}"
    shape = (1,) * (rank - c.type.ndim) + c.type.shape
    still = all(dim == 1 or not any(pair) for dim, pair in zip(shape, attrs.pad_width, strict=True))
    return still or f"{c.type!r} varies along an axis that is padded by {attrs.pad_width}"


@guard
def is_same_in_batch(c: Term, whole: Term) -> bool | str:
    """The constant is the same for all samples, and the tensor is static except for its first axis."""
    if whole.type.ndim < 2 or not all(isinstance(dim, int) and dim > 0 for dim in whole.type.shape[1:]):
        return f"{whole.type!r} is not static after its first axis"
    return c.type.ndim < whole.type.ndim or (c.type.ndim == whole.type.ndim and c.type.shape[0] == 1) or f"{c.type!r} varies along axis 0"


@guard
def is_spread(y: Term, x: Term) -> bool | str:
    """The tensor is broadcast along an axis of the other."""
    shape = (1,) * (x.type.ndim - y.type.ndim) + y.type.shape
    copied = any(ours == 1 and theirs != 1 for ours, theirs in zip(shape, x.type.shape, strict=False))
    return copied or f"{y.type!r} is not broadcast to {x.type!r}"


@guard
def divides_in_range(b: Term, c: Term) -> bool | str:
    """The quotients of a bias and a scale are finite, and 0 only where the bias is 0."""
    bias, scale = (term.value().numpy().astype(np.float64) for term in (b, c))
    quotient = (bias / scale.reshape(-1)).astype(to_numpy(b.type.dtype)).astype(np.float64)
    smallest = float(ml_dtypes.finfo(to_numpy(b.type.dtype)).smallest_normal)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    kept = np.isfinite(quotient) & ((np.abs(quotient) >= smallest) | (bias == 0))
    return bool(np.all(kept)) or f"the bias divided by the scale leaves the range of {b.type.dtype}"


@computed
def one_sample(whole: Term) -> tuple[int, ...]:
    """The shape of one sample."""
    return (1, *(int(dim) for dim in whole.type.shape[1:]))  # type: ignore[arg-type]  # the guard has seen that they are integers


def _transposed(axes: AnyValue, whole: Pattern) -> PCall:
    return op.transpose(op.reshape(c, newshape=padded_shape(c, whole)), axes=axes)


passing = cases("passing", "rectifier", "prelu", "max_pool", "avg_pool", "pad")
_BELOW = passing(
    rectifier=rectifier(x, attrs=a) * c,
    prelu=op.nn.prelu(x, y) * c,
    max_pool=max_pool(x, attrs=a) * c,
    avg_pool=avg_pool(x, attrs=a) * c,
    pad=op.nn.pad(x, attrs=a) * c,
)
_ABOVE = passing(
    rectifier=rectifier(x * c, attrs=a),
    prelu=op.nn.prelu(x * c, y),
    max_pool=max_pool(x * c, attrs=a),
    avg_pool=avg_pool(x * c, attrs=a),
    pad=op.nn.pad(x * c, attrs=a),
)
_PASSING = (
    *(is_float(x), is_finite(c)),
    *passing.only("rectifier prelu max_pool", is_positive(c)),
    *passing.only("rectifier prelu", keeps_type(x, x * c)),
    *passing.only("max_pool avg_pool", per_channel_of(c, x, a)),
    *passing.only("pad", varies_outside_padding(c, x, a)),
)
_TURNED: PCall = op.transpose(x, axes=p)
_VECTOR = op.reshape(c, newshape=(-1,))
_DIFFERENCE, _BOTH = sum_or_difference(x * c, d), sum_or_difference(x, y) * c


class BackwardScaleAxis(RuleSet):
    """Hoists scales toward the preceding product, and folds them into its weights if its channels are last or it is a grouped transposed
    convolution."""

    hoist_past_windows = (_BELOW >> _ABOVE).when(*_PASSING).exploring().inexact(_MOVED)
    hoist_past_transpose = (
        (_TURNED * c >> op.transpose(x * _transposed(transposed_back(p, x), x), axes=p))
        .when(is_float(x), keeps_type(_TURNED, _TURNED * c))
        .exploring()
        .inexact(_MOVED)
    )
    hoist_past_bias = (
        (op.nn.bias_add(x, added, axis=p) * c >> op.nn.bias_add(x * c, added * _VECTOR, axis=p))
        .when(is_float(x), per_channel(c, x, p), is_finite(c), stays_finite(added, c))
        .exploring()
        .inexact(_MOVED)
    )
    hoist_past_sum = (
        (_BOTH >> sum_or_difference(x * c, y * c))
        .when(is_float(x), is_finite(c), same_type(x, y), same_type(x, _BOTH), are_no_multiples(c, x, y), are_short_sums(x, y))
        .when(constants_in_range("multiply", x, c), constants_in_range("multiply", y, c))
        .exploring()
        .inexact(_MOVED)
    )
    hoist_past_broadcast = (
        ((x + y) * c >> x * c + y * c)
        .when(is_float(x), is_finite(c), is_spread(y, x), keeps_type(x, (x + y) * c), keeps_type(y, y * c))
        .when(constants_in_range("multiply", x, c), constants_in_range("multiply", y, c))
        .exploring()
        .inexact(_MOVED)
    )
    scaled = (
        (
            bias(none=_PRODUCT, biased=op.nn.bias_add(_PRODUCT, b, axis=_CHANNELS)) * c
            >> bias(none=_NOW, biased=op.nn.bias_add(_NOW, b * vector(c), axis=_CHANNELS))
        )
        .when(is_float(x), is_not(c, 1))
        .when(*behind.only("convolution transposed", has_channels_last(a)), *behind.only("grouped", has_channels_first(a)))
        .when(*behind.only("convolution transposed grouped", per_channel_of(c, _PRODUCT, a), is_scaled_for_less(weight, _PRODUCT)))
        .when(*behind.only("convolution transposed grouped", stays_in_range(weight, c)))
        .when(*behind.only("transposed", one_group_or_number(a, c)), *behind.only("grouped", has_groups(a, weight, c, "I")))
        .when(*behind.only("matmul_transposed", per_channel(c, _PRODUCT, -1), has_rank(w, 2), is_row_stack(x, 64), stays_in_range(w, c)))
        .when(*bias.only("biased", stays_finite(b, c), *behind.only("convolution transposed matmul_transposed", is_axis(p, -1, _PRODUCT))))
        .inexact(_NOTE)
    )


class ForwardScaleAxis(RuleSet):
    """Sinks scales toward the following product, and folds scales and shifts of its data into its weights and bias."""

    sink_past_windows = (_ABOVE >> _BELOW).when(*_PASSING, is_not_normalized(x, c)).exploring().inexact(_MOVED)
    sink_past_transpose = (
        (op.transpose(x * c, axes=p) >> _TURNED * _transposed(p, x))
        .when(is_float(x), keeps_type(x, x * c), is_not_normalized(x, c))
        .exploring()
        .inexact(_MOVED)
    )
    sink_past_flatten = (
        (
            op.nn.batch_flatten(x * c)  # behind the batch: rows of more axes, or of none, have scales of their own
            >> op.nn.batch_flatten(x) * op.nn.batch_flatten(op.broadcast_to(c, shape=one_sample(x)))
        )
        .when(is_float(x), is_same_in_batch(c, x), keeps_type(x, x * c), is_not_normalized(x, c))
        .exploring()
        .inexact(_MOVED)
    )
    sink_past_bias = (
        (op.nn.bias_add(x * c, b, axis=p) >> op.nn.bias_add(x, b / _VECTOR, axis=p) * c)
        .when(is_float(x), per_channel(c, x, p), has_no_zero(c), is_finite(c), divides_in_range(b, c), is_not_normalized(x, c))
        .exploring()
        .inexact(_MOVED)
    )
    sink_past_sum = (
        (_DIFFERENCE >> sum_or_difference(x, d / c) * c)
        .when(is_float(x), keeps_type(x, _DIFFERENCE), has_no_zero(c), is_finite(c), meet_in_range("divide", d, c), is_not_normalized(x, c))
        .exploring()
        .inexact(_MOVED)
    )
    scaled = (
        (
            product(
                convolution=convolution(_SCALED, weight, attrs=a),
                grouped=convolution(_SCALED, weight, attrs=a),
                transposed=transposed(_SCALED, weight, attrs=a),
                dense=op.nn.dense(_SCALED, weight),
                matmul=_plain(_SCALED),
                matmul_transposed=_turned(_SCALED),
            )
            >> product(
                convolution=convolution(x, _ALONG_INPUTS, attrs=a),
                grouped=convolution(x, weight * _grouped(c, "O"), attrs=a),
                transposed=transposed(x, _ALONG_INPUTS, attrs=a),
                dense=op.nn.dense(x, weight * vector(c)),
                matmul=op.nn.matmul(x, w * _ROWS, transpose_a=False, transpose_b=False),
                matmul_transposed=_turned(x, w * _COLUMNS),
            )
        )
        .when(is_float(x), is_not(c, 1), is_not_normalized(x, c))
        .when(*product.only("convolution grouped transposed", per_channel_of(c, x, a)))
        .when(*product.only("dense matmul matmul_transposed", per_channel(c, x, -1)))
        .when(*product.only("convolution grouped transposed dense", is_scaled_for_less(weight, x), stays_in_range(weight, c)))
        .when(*product.only("matmul matmul_transposed", stays_in_range(w, c), has_rank(w, 2), is_row_stack(x, 64)))
        .when(*product.only("convolution", one_group_or_number(a, c)), *product.only("grouped", has_groups(a, weight, c, "O")))
        .inexact(_NOTE)
    )
    shifted = (
        (
            shifting(
                convolution=convolution(_SHIFTED, w, attrs=a),
                dense=op.nn.dense(_SHIFTED, w),
                matmul=_plain(_SHIFTED),
                matmul_transposed=_turned(_SHIFTED),
            )
            >> op.nn.bias_add(
                shifting(convolution=convolution(x, w, attrs=a), dense=op.nn.dense(x, w), matmul=_plain(x), matmul_transposed=_turned(x)),
                shifting(
                    convolution=op.sum(w * _SHIFT_INPUTS, axis=axis_of(a, "O"), exclude=True),
                    dense=op.sum(w * vector(d), axis=1),
                    matmul=op.sum(w * _SHIFT_ROWS, axis=0),
                    matmul_transposed=op.sum(w * _SHIFT_COLUMNS, axis=1),
                ),
                axis=shifting(convolution=axis_of(a, "C"), dense=-1, matmul=-1, matmul_transposed=-1),
            )
        )
        .when(is_float(x), is_not(d, 0))
        .when(*shifting.only("convolution", per_channel_of(d, x, a), is_unpadded_group(a)))
        .when(*shifting.only("dense matmul matmul_transposed", per_channel(d, x, -1), is_row_stack(x, 2)))
        .when(*shifting.only("matmul matmul_transposed", has_rank(w, 2)))
        .when(stays_finite(w, d))
        .inexact(_NOTE)
    )
