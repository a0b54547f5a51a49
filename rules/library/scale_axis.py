"""Scales and shifts folded into the weights of the product behind them, and into those before them in layouts and groups that
`batch_norm` does not take. Operators: nn.conv*d nn.conv*d_transpose nn.dense nn.matmul nn.bias_add multiply add.

Weights of convolutions and of nn.dense may be parameters, which are scaled in each run, where they are smaller than what is scaled now.
Shifts, which would have them summed in each run too, fold into constant ones.

Relay's ForwardFoldScaleAxis and BackwardFoldScaleAxis; the way of a scale to a product is `scale_movement`.
"""

from passat.ir.attrs import Attrs
from passat.ir.ops.windows import SPATIAL
from passat.ir.types import TensorType
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, condition, is_axis, is_float
from passat.rules.library.batch_norm import bias, convolution, is_not, is_scaled_for_less, stays_finite, sum_stays_finite, transposed
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, weight = tensors("x w")
w, b, c, d = constants("v b c d")
a, p, q = attributes("a p q")
_NOTE = "scales the weights instead of the data"


def lies_along(c: Term, whole: TensorType, axis: int) -> bool | str:
    """Whether a constant is one number, or one for each index of an axis, and does not enlarge what it meets."""
    if c.type.ndim > whole.ndim:
        return f"{c.type!r} has more axes than {whole!r}"
    shape = (1,) * (whole.ndim - c.type.ndim) + c.type.shape
    alone = all(dim == 1 or (i == axis % whole.ndim and dim == whole.shape[i]) for i, dim in enumerate(shape))
    return alone or f"{c.type!r} does not vary along axis {axis} of {whole!r} alone"


@condition
def per_channel_of(c: Term, whole: Term, attrs: Attrs) -> bool | str:
    """The constant is one number, or one for each channel, wherever the layout has these."""
    return lies_along(c, whole.type, attrs.data_layout.index("C"))


@condition
def per_column(c: Term, whole: Term) -> bool | str:
    """The constant is one number, or one for each index of the last axis."""
    return lies_along(c, whole.type, -1) if whole.type.ndim else f"{whole.type!r} has no axes"


@condition
def one_group_or_number(attrs: Attrs, c: Term) -> bool | str:
    """The convolution has one group, or the constant is one number."""
    return attrs.groups == 1 or c.type.size == 1 or f"it has {attrs.groups} groups"


@condition
def has_groups(attrs: Attrs, w: Term, c: Term, lead: str) -> bool | str:
    """The convolution has several groups and a number for each channel; its weight has all channels of one side before those of a group
    of the other side."""
    if attrs.groups == 1 or c.type.size == 1:
        return "one group, or one number"
    first, then = _places(attrs, lead)
    return first < then or f"the layout of the weight is {attrs.kernel_layout}"


@condition
def is_unpadded_group(attrs: Attrs) -> bool | str:
    """The convolution has one group and pads with no zeros, to which a shift would not be added."""
    padding = attrs.padding if isinstance(attrs.padding, tuple) else (attrs.padding,)
    return (attrs.groups == 1 and not any(padding)) or f"it has {attrs.groups} groups, and pads by {attrs.padding}"


@condition
def are_one_axis(axis: int, other: int, x: Term) -> bool | str:
    """Two numbers, from the front or from the end, mean the same axis."""
    return x.type.axis(axis) == x.type.axis(other) or f"axes {axis} and {other} of {x.type!r} differ"


@condition
def is_matrix_of_floats(w: Term) -> bool | str:
    """The weight is a matrix of floating-point numbers."""
    return (w.type.ndim == 2 and w.type.dtype in ("float16", "bfloat16", "float32", "float64")) or f"{w.type!r} is no matrix of floats"


@condition
def is_row_stack(x: Term, most: int) -> bool | str:
    """The data has so many axes at most, and rows."""
    return 2 <= x.type.ndim <= most or f"{x.type!r} does not have 2 to {most} axes"


@condition
def has_channels_last(attrs: Attrs) -> bool | str:
    """The channels of the data are its last axis."""
    layout = attrs.data_layout
    return layout == f"N{SPATIAL[len(layout) - 2]}C" or f"the data is laid out as {layout}"


@condition
def has_channels_first(attrs: Attrs) -> bool | str:
    """The channels of the data are axis 1."""
    layout = attrs.data_layout
    return layout == f"NC{SPATIAL[len(layout) - 2]}" or f"the data is laid out as {layout}"


def _places(attrs: Attrs, lead: str) -> tuple[int, int]:
    other = "I" if lead == "O" else "O"
    return attrs.kernel_layout.index(lead), attrs.kernel_layout.index(other)


@computed
def laid_on(attrs: Attrs, letter: str) -> tuple[int, ...]:
    """The newshape that lays a vector along the axis of the weight that the letter names in its layout."""
    return tuple(-1 if other == letter else 1 for other in attrs.kernel_layout)


@computed
def axis_of(attrs: Attrs, letter: str) -> int:
    """The axis of the weight that a letter names, or for C that of the channels of the data."""
    return int(attrs.data_layout.index("C") if letter == "C" else attrs.kernel_layout.index(letter))


def _group_sizes(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    first, then = (w.type.shape[place] for place in _places(attrs, lead))
    if not isinstance(first, int) or not isinstance(then, int):
        raise Refuse(f"{w.type!r} is not static")
    return attrs.groups, first // attrs.groups, then


@computed
def group_rows(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    """The shape (groups, 1, channels of a group) of the numbers of all channels."""
    groups, _, inner = _group_sizes(attrs, w, lead)
    return groups, 1, inner


@computed
def group_blocks(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    """That shape, with as many rows as the weight has for each group."""
    return _group_sizes(attrs, w, lead)


@computed
def group_weight(attrs: Attrs, w: Term, lead: str) -> tuple[int, ...]:
    """The newshape that lays those blocks on the weight."""
    places = _places(attrs, lead)
    shape = tuple(dim if i in places else 1 for i, dim in enumerate(w.type.shape))
    if 0 in shape or not all(isinstance(dim, int) for dim in shape):
        raise Refuse(f"{w.type!r} is empty, or not static")
    return shape  # type: ignore[return-value]  # all are integers


def _vector(constant: Pattern) -> PCall:
    return op.reshape(constant, newshape=(-1,))


def _grouped(constant: Pattern, lead: str) -> PCall:
    """One number for each channel, where the weight has those of one group only: other ones for each block of `lead`."""
    rows = op.reshape(constant, newshape=group_rows(a, weight, lead))
    return op.reshape(op.broadcast_to(rows, shape=group_blocks(a, weight, lead)), newshape=group_weight(a, weight, lead))


product = cases("product", "convolution", "grouped", "transposed", "dense", "matmul", "matmul_transposed")
shifting = cases("product", "convolution", "dense", "matmul", "matmul_transposed")


def _plain(left: Pattern) -> Pattern:
    return op.nn.matmul(left, w, transpose_a=False, transpose_b=False)


def _turned(left: Pattern, right: Pattern = w) -> Pattern:
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=True)


_SCALED, _SHIFTED = x * c, x + d
_ALONG_INPUTS = weight * op.reshape(_vector(c), newshape=laid_on(a, "I"))
_ROWS, _COLUMNS = op.reshape(c, newshape=(-1, 1)), op.reshape(c, newshape=(1, -1))
_SHIFT_ROWS, _SHIFT_COLUMNS = op.reshape(d, newshape=(-1, 1)), op.reshape(d, newshape=(1, -1))
_SHIFT_INPUTS = op.reshape(_vector(d), newshape=laid_on(a, "I"))


class ForwardScaleAxis(RuleSet):
    """Scales and shifts of the data of a product become part of its weights and bias."""

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
                dense=op.nn.dense(x, weight * _vector(c)),
                matmul=op.nn.matmul(x, w * _ROWS, transpose_a=False, transpose_b=False),
                matmul_transposed=_turned(x, w * _COLUMNS),
            )
        )
        .when(is_float(x), is_not(c, 1))
        .when(*product.only("convolution grouped transposed", per_channel_of(c, x, a)))
        .when(*product.only("dense matmul matmul_transposed", per_column(c, x)))
        .when(*product.only("convolution grouped transposed dense", is_scaled_for_less(weight, x), stays_finite(weight, c)))
        .when(*product.only("matmul matmul_transposed", stays_finite(w, c), is_matrix_of_floats(w), is_row_stack(x, 64)))
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
                    dense=op.sum(w * _vector(d), axis=1),
                    matmul=op.sum(w * _SHIFT_ROWS, axis=0),
                    matmul_transposed=op.sum(w * _SHIFT_COLUMNS, axis=1),
                ),
                axis=shifting(convolution=axis_of(a, "C"), dense=-1, matmul=-1, matmul_transposed=-1),
            )
        )
        .when(is_float(x), is_not(d, 0))
        .when(*shifting.only("convolution", per_channel_of(d, x, a), is_unpadded_group(a)))
        .when(*shifting.only("dense matmul matmul_transposed", per_column(d, x), is_row_stack(x, 2)))
        .when(*shifting.only("matmul matmul_transposed", is_matrix_of_floats(w)))
        .when(stays_finite(w, d))
        .inexact(_NOTE)
    )


behind = cases("product", "convolution", "transposed", "grouped", "matmul_transposed")
_ALONG_OUTPUTS = weight * op.reshape(_vector(c), newshape=laid_on(a, "O"))
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


class BackwardScaleAxis(RuleSet):
    """Scales behind a product fold into its weights where its channels are last, and into those of transposed convolutions in groups."""

    scaled = (
        (
            bias(none=_PRODUCT, biased=op.nn.bias_add(_PRODUCT, b, axis=_CHANNELS)) * c
            >> bias(none=_NOW, biased=op.nn.bias_add(_NOW, b * _vector(c), axis=_CHANNELS))
        )
        .when(is_float(x), is_not(c, 1))
        .when(*behind.only("convolution transposed", has_channels_last(a)), *behind.only("grouped", has_channels_first(a)))
        .when(*behind.only("convolution transposed grouped", per_channel_of(c, _PRODUCT, a), is_scaled_for_less(weight, _PRODUCT)))
        .when(*behind.only("convolution transposed grouped", stays_finite(weight, c)))
        .when(*behind.only("transposed", one_group_or_number(a, c)), *behind.only("grouped", has_groups(a, weight, c, "I")))
        .when(*behind.only("matmul_transposed", per_column(c, _PRODUCT), is_matrix_of_floats(w), is_row_stack(x, 64), stays_finite(w, c)))
        .when(*bias.only("biased", stays_finite(b, c), *behind.only("convolution transposed matmul_transposed", is_axis(p, -1, _PRODUCT))))
        .inexact(_NOTE)
    )


class BiasSums(RuleSet):
    """Two biases are one."""

    merge = (
        (op.nn.bias_add(op.nn.bias_add(x, b, axis=p), d, axis=q) >> op.nn.bias_add(x, b + d, axis=p))
        .when(are_one_axis(p, q, x), is_float(x), sum_stays_finite(b, d))
        .inexact("reassociates a sum")
    )
