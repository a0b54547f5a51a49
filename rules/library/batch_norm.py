"""Folds scales and shifts into the weights and biases that precede them. Operators: nn.batch_norm nn.conv*d nn.conv*d_transpose nn.dense
nn.matmul nn.bias_add multiply add.

With k = gamma / sqrt(var + epsilon), batch normalization at inference is x * k + (beta - mean * k) along an axis. A preceding convolution
or product absorbs k into its weights and the rest into its bias. Later products and sums with per-channel constants fold the same way.
Weights of convolutions and nn.dense may be parameters of the program; these are scaled at run time if they are smaller than the data.
"""

import itertools
import math
from collections.abc import Sequence
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.counting import counted
from passat.ir.dtypes import COMPLEX, FLOATS, to_numpy
from passat.ir.types import TensorType
from passat.rules.guards import Reject, Term, computed, guard, is_float
from passat.rules.holes import cases, operator
from passat.rules.pattern import Pattern, PCall, attributes, constants, number, op, tensors
from passat.rules.rule_set import RuleSet

x, weight = tensors("x w")
matrix, b, c, d, gamma, beta, mean, var = constants("v b c d gamma beta mean var")
a, e, p, q = attributes("a e p q")
_NOTE = "scales the weights instead of the result"


@guard
def usual_layout(attrs: Attrs, weight_axis: int) -> bool | str:
    """Channels are axis 1 of the data, output channels are the given axis of the weight, and the weight is not shared between groups."""
    if not attrs.data_layout.startswith("NC") or attrs.kernel_layout[weight_axis] != "O":
        return f"the layouts are {attrs.data_layout} and {attrs.kernel_layout}"
    return weight_axis == 0 or attrs.groups == 1 or f"the convolution has {counted(attrs.groups, 'group')}"


@guard
def is_scaled_for_less(w: Term, data: Term) -> bool | str:
    """The weight is a constant, or has fewer elements than the data."""
    if w.constant is not None:
        return True
    size = w.type.size
    if not isinstance(size, int):
        return f"{w.type!r} is not static"
    known = math.prod(dim for dim in data.type.shape if isinstance(dim, int))
    return size < known or f"{w.type!r} is not a constant, nor smaller than {data.type!r}"


@guard
def scales_axis(attrs: Attrs, whole: Term, axis: int) -> bool | str:
    """The normalization is along the given axis, with scale and shift."""
    if not (attrs.center and attrs.scale):
        return "the batch norm has center=False or scale=False"
    if whole.type.ndim <= axis:
        return f"{whole.type!r} has no axis {axis}"
    return attrs.axis % whole.type.ndim == axis % whole.type.ndim or f"the batch norm normalizes axis {attrs.axis}"


def lies_along(c: Term, whole: TensorType, axis: int) -> bool | str:
    """A constant is a scalar, or has one element per index of an axis, and does not enlarge the other operand by broadcasting."""
    if c.type.ndim > whole.ndim:
        return f"{c.type!r} has more axes than {whole!r}"
    shape = (1,) * (whole.ndim - c.type.ndim) + c.type.shape
    alone = all(dim == 1 or (i == axis % whole.ndim and dim == whole.shape[i]) for i, dim in enumerate(shape))
    return alone or f"{c.type!r} varies along an axis other than {axis} of {whole!r}"


@guard
def per_channel(c: Term, whole: Term, axis: int) -> bool | str:
    """The constant is a scalar, or has one element per index of the axis, and does not enlarge the other operand by broadcasting."""
    return lies_along(c, whole.type, whole.type.axis(axis))


def _operands(terms: Sequence[Term], *names: str) -> list[Term]:
    """The operands of the calls of some operators in the e-classes of some terms."""
    return [operand for term in terms for name in names for operands in term.calls(name) for operand in operands]


@guard
def is_not_normalized(x: Term, c: Term) -> bool | str:
    """The data is not the quotient of a layer or RMS normalization along the last axes, those of the constant. ONNX Runtime fuses such a
    normalization with its scale, but not without one, and `RaiseOps` raises only those of float32."""
    axes = tuple(itertools.dropwhile(lambda dim: dim == 1, c.type.shape))
    rank = len(axes)
    if not rank or axes != x.type.shape[x.type.ndim - rank :]:
        return True
    factors = _operands([x], "divide", "multiply")
    roots = [*factors, *_operands(factors, "divide", "reciprocal")]
    means = [mean for mean in _operands(_operands(roots, "sqrt", "rsqrt", "power"), "add") if mean.calls("mean")]
    alone = not any(mean.type.shape[mean.type.ndim - rank :] == (1,) * rank for mean in means)
    return alone or "ONNX Runtime fuses the normalization with this scale"


@guard
def are_matrices(x: Term, w: Term) -> bool | str:
    """Both factors are floating-point matrices; only their product takes a bias in ONNX and its runtimes."""
    return (x.type.ndim == 2 and w.type.ndim == 2 and x.type.dtype in FLOATS) or f"multiplies {x.type!r} by {w.type!r}"


@guard
def has_regular_scale(attrs: Attrs, gamma: Term, var: Term) -> bool | str:
    """gamma / sqrt(var + epsilon) is finite in the element type of the tensors, and the root is not 0."""
    kind = to_numpy(var.type.dtype)
    total = (var.value().numpy() + np.asarray(np.float32(attrs.epsilon), kind)).astype(kind).astype(np.float64)
    scale = (gamma.value().numpy().astype(np.float64) / np.sqrt(total)).astype(kind).astype(np.float64)
    return bool(np.all(total > 0) and np.all(np.isfinite(scale))) or f"gamma / sqrt(var + {attrs.epsilon}) is not finite"


_MARGIN: Final = 16
"""How far above the smallest normal number of its type the largest weight must be: most weights are a tenth of the largest, or more."""
_UNKNOWN: Final = 2.0**14
"""The largest element of a weight that is unknown until run time lies between this and its reciprocal, as far as rules assume."""


@guard
def stays_finite(w: Term, c: Term) -> bool | str:
    """The product of weight and constant stays finite. The elements of a weight unknown until run time count as 16,384."""
    return w.type.dtype not in FLOATS or _is_finite(w, _reached(w, c))


@guard
def stays_in_range(w: Term, c: Term) -> bool | str:
    """The product of weight and constant stays finite, and its largest elements well above the subnormal numbers, unless all are 0. Weights
    that lose digits as subnormal numbers may add up to a normal one. The largest element of a weight unknown until run time counts as
    anything from 1 / 16,384 to 16,384."""
    if w.type.dtype not in FLOATS:
        return True
    finite = _is_finite(w, reached := _reached(w, c))
    return finite if finite is not True else _is_normal(w, reached)


def _reached(w: Term, c: Term) -> float:
    return c.value().largest() * _largest(w)


def _largest(w: Term) -> float:
    """The largest element of a weight, or what it may be if unknown until run time, except for float16, whose range is short: rejects
    those."""
    return w.value().largest() if w.constant is not None or w.type.dtype == "float16" else _UNKNOWN


def _is_finite(w: Term, largest: float) -> bool | str:
    return largest < _end(w) or f"the weight times the constant may reach {largest:g}"


def _is_normal(w: Term, largest: float) -> bool | str:
    """Whether the largest element is well above the subnormal numbers, or 0."""
    if w.constant is None:
        largest /= _UNKNOWN**2
    least = _MARGIN * float(ml_dtypes.finfo(to_numpy(w.type.dtype)).smallest_normal)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    return not 0 < largest < least or f"the weight times the constant reaches only {largest:g}, where numbers lose digits"


@guard
def products_stay_finite(w: Term, v: Term, matrix: Term, axis: int) -> bool | str:
    """Sums of products of the two weights over the axis stay finite. Nothing is known of a weight unknown until run time, nor of complex
    ones, whose products with infinities are NaN."""
    if w.type.dtype in COMPLEX:
        return "the weights are complex"
    if w.type.dtype not in FLOATS or w.constant is None or v.constant is None:
        return True
    terms = matrix.type.shape[axis]
    assert isinstance(terms, int)  # constants are static
    largest = w.value().largest() * v.value().largest() * terms
    return largest < _end(w) or f"sums of products of the weights may reach {largest:g}"


@guard
def sum_stays_finite(b: Term, d: Term) -> bool | str:
    """The sum of two constants is finite."""
    if b.type.dtype not in FLOATS:
        return True
    total = b.value().largest() + d.value().largest()
    return total < _end(b) or f"the sum of the constants may reach {total:g}"


@guard
def normalized_stays_in_range(attrs: Attrs, w: Term, gamma: Term, beta: Term, var: Term, *shifts: Term) -> bool | str:
    """Weight and bias of the folded product stay finite, and the weight well above the subnormal numbers. `shifts` are the mean and the
    previous bias. A weight unknown until run time counts as in `stays_in_range`."""
    scale, weight = _largest_scale(attrs, gamma, var), _largest(w)
    reached = (weight * scale, sum(shift.value().largest() for shift in shifts) * scale + beta.value().largest())
    if not all(size < _end(w) for size in reached):
        return f"the weight or the bias may reach {max(reached):g}"
    return _is_normal(w, weight * scale)


@guard
def normalized_sum_stays_finite(attrs: Attrs, w: Term, b: Term, gamma: Term, beta: Term, mean: Term, var: Term) -> bool | str:
    """Weight and bias of a convolution stay finite if scale and shift of a normalization are added to them."""
    scale = _largest_scale(attrs, gamma, var)
    reached = (w.value().largest() + scale, b.value().largest() + beta.value().largest() + mean.value().largest() * scale)
    return all(size < _end(w) for size in reached) or f"the weight or the bias may reach {max(reached):g}"


def _largest_scale(attrs: Attrs, gamma: Term, var: Term) -> float:
    """A bound of gamma / sqrt(var + epsilon)."""
    return float(gamma.value().largest() / np.sqrt(np.min(var.value().numpy().astype(np.float64), initial=np.inf) + attrs.epsilon))


def _end(term: Term) -> float:
    """The maximum of the element type."""
    return float(ml_dtypes.finfo(to_numpy(term.type.dtype)).max)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it


@guard
def are_one_axis(axis: int, other: int, x: Term) -> bool | str:
    """Two axis numbers, possibly negative, denote the same axis."""
    return x.type.axis(axis) == x.type.axis(other) or f"axes {axis} and {other} of {x.type!r} differ"


@guard
def is_not(c: Term, unit: float) -> bool | str:
    """The constant is not uniformly the given value; folding a no-op would rewrite the weights for nothing."""
    return c.value().uniform() != unit or f"the constant is {unit}"


@computed
def along(w: Term, axis: int) -> tuple[int, ...]:
    """The newshape that aligns a vector with one axis of a tensor."""
    axis = w.type.axis(axis)
    return tuple(-1 if i == axis else 1 for i in range(w.type.ndim))


@computed
def channels(w: Term, axis: int) -> tuple[int, ...]:
    """The shape of a bias for the weight."""
    size = w.type.shape[w.type.axis(axis)]
    if not isinstance(size, int):
        raise Reject(f"{w.type!r} is not static")
    return (size,)


@guard
def one_group_or_number(attrs: Attrs, c: Term) -> bool | str:
    """The convolution has one group, or the constant is a scalar."""
    return attrs.groups == 1 or c.type.size == 1 or f"the convolution has {counted(attrs.groups, 'group')}"


@guard
def has_groups(attrs: Attrs, w: Term, c: Term, lead: str) -> bool | str:
    """The convolution has several groups and a per-channel constant; its weight has all channels of one side before those of a group of the
    other side."""
    if attrs.groups == 1 or c.type.size == 1:
        return "the convolution has one group, or the constant has one element"
    first, then = _places(attrs, lead)
    return first < then or f"the layout of the weight is {attrs.kernel_layout}"


def _places(attrs: Attrs, lead: str) -> tuple[int, int]:
    other = "I" if lead == "O" else "O"
    return attrs.kernel_layout.index(lead), attrs.kernel_layout.index(other)


@computed
def laid_on(attrs: Attrs, letter: str) -> tuple[int, ...]:
    """The newshape that aligns a vector with the weight axis that the layout letter names."""
    return tuple(-1 if other == letter else 1 for other in attrs.kernel_layout)


@computed
def axis_of(attrs: Attrs, letter: str) -> int:
    """The weight axis that the letter names, or for C the channel axis of the data."""
    return int(attrs.data_layout.index("C") if letter == "C" else attrs.kernel_layout.index(letter))


def _group_sizes(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    first, then = (w.type.shape[place] for place in _places(attrs, lead))
    if not isinstance(first, int) or not isinstance(then, int):
        raise Reject(f"{w.type!r} is not static")
    return attrs.groups, first // attrs.groups, then


@computed
def group_rows(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    """The shape (groups, 1, channels per group) of a per-channel constant."""
    groups, _, inner = _group_sizes(attrs, w, lead)
    return groups, 1, inner


@computed
def group_blocks(attrs: Attrs, w: Term, lead: str) -> tuple[int, int, int]:
    """The shape (groups, rows per group, channels per group)."""
    return _group_sizes(attrs, w, lead)


@computed
def group_weight(attrs: Attrs, w: Term, lead: str) -> tuple[int, ...]:
    """The newshape that aligns these blocks with the weight."""
    places = _places(attrs, lead)
    shape = tuple(dim if i in places else 1 for i, dim in enumerate(w.type.shape))
    if 0 in shape or not all(isinstance(dim, int) for dim in shape):
        raise Reject(f"{w.type!r} is empty, or not static")
    return shape  # type: ignore[return-value]  # all are integers


@computed
def epsilon(attrs: Attrs, name: str) -> float:
    """The epsilon of a normalization, rounded to float32 as in ONNX."""
    return float(np.float32(attrs[name]))


def vector(per_channel_constant: Pattern) -> PCall:
    """A per-channel constant as a vector."""
    return op.reshape(per_channel_constant, newshape=(-1,))


_K = gamma / op.sqrt(var + number(epsilon(e, "epsilon")))
convolution = operator("convolution", *(f"nn.conv{dims}d" for dims in (1, 2, 3)))
transposed = operator("transposed", *(f"nn.conv{dims}d_transpose" for dims in (1, 2, 3)))
kind, bias = cases("kind", "convolution", "transposed", "dense", "matmul"), cases("bias", "none", "biased")


def _scaled(k: Pattern) -> Pattern:
    """The product with its weight scaled along the output channels."""
    along_rows, along_columns = (weight * op.reshape(k, newshape=along(weight, axis)) for axis in (0, 1))
    return kind(
        convolution=convolution(x, along_rows, attrs=a),
        transposed=transposed(x, along_columns, attrs=a),
        dense=op.nn.dense(x, weight * op.reshape(k, newshape=(-1, 1))),
        matmul=op.nn.matmul(x, matrix * k),
    )


_PRODUCT = kind(
    convolution=convolution(x, weight, attrs=a),
    transposed=transposed(x, weight, attrs=a),
    dense=op.nn.dense(x, weight),
    matmul=op.nn.matmul(x, matrix, transpose_a=False, transpose_b=False),
)
_CHANNEL = kind(convolution=1, transposed=1, dense=-1, matmul=-1)
_WEIGHT = kind(convolution=weight, transposed=weight, dense=weight, matmul=matrix)
_SIZES = kind(convolution=channels(weight, 0), transposed=channels(weight, 1), dense=channels(weight, 0), matmul=channels(matrix, -1))
_BEFORE = bias(none=_PRODUCT, biased=op.nn.bias_add(_PRODUCT, b, axis=_CHANNEL))
_NORMAL = op.nn.batch_norm(_BEFORE, gamma, beta, mean, var, attrs=e)[0]
_GUARDS = (
    *kind.only("convolution", usual_layout(a, 0)),
    *kind.only("transposed", usual_layout(a, 1)),
    *kind.only("matmul", are_matrices(x, matrix)),
)


class ScaleAxis(RuleSet):
    """Folds scales and shifts into the preceding weights and biases, or into a batch normalization that follows no product."""

    normalized = (
        (_NORMAL >> op.nn.bias_add(_scaled(_K), bias(none=beta - mean * _K, biased=(b - mean) * _K + beta), axis=_CHANNEL))
        .when(*_GUARDS, scales_axis(e, _NORMAL, _CHANNEL), has_regular_scale(e, gamma, var), is_scaled_for_less(_WEIGHT, _PRODUCT))
        .when(*bias.only("none", normalized_stays_in_range(e, _WEIGHT, gamma, beta, var, mean)))
        .when(*bias.only("biased", normalized_stays_in_range(e, _WEIGHT, gamma, beta, var, mean, b)))
        .inexact(_NOTE)
    )
    scaled = (
        (_BEFORE * c >> bias(none=_scaled(vector(c)), biased=op.nn.bias_add(_scaled(vector(c)), b * vector(c), axis=_CHANNEL)))
        .when(*_GUARDS, is_not(c, 1), per_channel(c, _PRODUCT, _CHANNEL), is_scaled_for_less(_WEIGHT, _PRODUCT), stays_in_range(_WEIGHT, c))
        .when(*bias.only("biased", stays_finite(b, c)))
        .inexact(_NOTE)
    )
    shifted = (
        (_BEFORE + d >> op.nn.bias_add(_PRODUCT, bias(none=op.broadcast_to(vector(d), shape=_SIZES), biased=b + vector(d)), axis=_CHANNEL))
        .when(*_GUARDS, is_not(d, 0), per_channel(d, _PRODUCT, _CHANNEL), *bias.only("biased", sum_stays_finite(b, d)))
        .inexact(_NOTE)
    )
    biases = (
        (op.nn.bias_add(op.nn.bias_add(x, b, axis=p), d, axis=q) >> op.nn.bias_add(x, b + d, axis=p))
        .when(are_one_axis(p, q, x), is_float(x), sum_stays_finite(b, d))
        .inexact("reassociates a sum")
    )
    batch_norm_scaled = (
        (
            op.nn.batch_norm(x, gamma, beta, mean, var, attrs=a)[0] * c
            >> op.nn.batch_norm(x, gamma * vector(c), beta * vector(c), mean, var, attrs=a)[0]
        )
        .when(scales_axis(a, x, 1), is_not(c, 1), per_channel(c, x, 1), stays_finite(gamma, c), stays_finite(beta, c))
        .inexact(_NOTE)
    )
    batch_norm_shifted = (
        (op.nn.batch_norm(x, gamma, beta, mean, var, attrs=a)[0] + d >> op.nn.batch_norm(x, gamma, beta + vector(d), mean, var, attrs=a)[0])
        .when(scales_axis(a, x, 1), is_not(d, 0), per_channel(d, x, 1), sum_stays_finite(beta, d))
        .inexact(_NOTE)
    )
