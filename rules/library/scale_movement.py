"""Scales on their way to a product: past rectifiers, poolings, paddings, transposes, flattenings, biases and sums. Operators: multiply
nn.relu nn.leaky_relu nn.prelu abs nn.max_pool*d nn.avg_pool*d nn.global_*_pool*d nn.pad transpose nn.batch_flatten nn.bias_add add
subtract.

The messages that Relay's FoldScaleAxis passes along, as equations: those that go up are `HoistScales` (BackwardFoldScaleAxis), those that
go down `SinkScales` (ForwardFoldScaleAxis). They explore: a scale that meets no product stays where it was.
"""

from typing import Any as AnyValue

import ml_dtypes
import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, condition, has_no_zero, is_finite, is_float, is_positive, keeps_type, same_type
from passat.rules.library.arithmetic import meet_in_range
from passat.rules.library.batch_norm import stays_finite
from passat.rules.library.scale_axis import lies_along
from passat.rules.operator_hole import operator
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y, bias = tensors("x y b")
b, c, d = constants("b c d")
a, p = attributes("a p")
max_pool = operator("max_pool", *(f"nn.{kind}max_pool{dims}d" for kind in ("", "global_") for dims in (1, 2, 3)))
avg_pool = operator("avg_pool", *(f"nn.{kind}avg_pool{dims}d" for kind in ("", "global_") for dims in (1, 2, 3)))
rectifier = operator("rectifier", "nn.relu", "nn.leaky_relu", "abs")
sum_or_difference = operator("sum_or_difference", "add", "subtract")
_NOTE = "scales earlier or later, and rounds there"


@condition
def varies_outside_windows(c: Term, whole: Term, attrs: Attrs) -> bool | str:
    """The constant is one number, or one for each channel: the same for all elements of a window."""
    return lies_along(c, whole.type, attrs.layout.index("C"))


@condition
def varies_outside_padding(c: Term, whole: Term, attrs: Attrs) -> bool | str:
    """What is padded with is 0 or taken from the tensor, and the constant does not vary along the axes that are padded."""
    if attrs.pad_mode == "constant" and attrs.pad_value != 0:
        return f"pads with {attrs.pad_value}"
    rank = whole.type.ndim
    if c.type.ndim > rank:
        return f"{c.type!r} has more axes than {whole.type!r}"
    shape = (1,) * (rank - c.type.ndim) + c.type.shape
    still = all(dim == 1 or not any(pair) for dim, pair in zip(shape, attrs.pad_width, strict=True))
    return still or f"{c.type!r} varies along an axis that is padded by {attrs.pad_width}"


@condition
def is_same_in_batch(c: Term, whole: Term) -> bool | str:
    """The constant is the same for each of the first axis, and the tensor behind that static."""
    if whole.type.ndim < 2 or not all(isinstance(dim, int) and dim > 0 for dim in whole.type.shape[1:]):
        return f"{whole.type!r} is not static behind its first axis"
    return c.type.ndim < whole.type.ndim or (c.type.ndim == whole.type.ndim and c.type.shape[0] == 1) or f"{c.type!r} varies along axis 0"


@condition
def is_along(c: Term, whole: Term, axis: int) -> bool | str:
    """The constant is one number, or one for each index of the axis."""
    return lies_along(c, whole.type, axis)


@condition
def is_spread(y: Term, x: Term) -> bool | str:
    """The tensor is copied along an axis of the other that is longer."""
    shape = (1,) * (x.type.ndim - y.type.ndim) + y.type.shape
    copied = any(ours == 1 and theirs != 1 for ours, theirs in zip(shape, x.type.shape, strict=False))
    return copied or f"{y.type!r} is not copied to meet {x.type!r}"


@condition
def divides_in_range(b: Term, c: Term) -> bool | str:
    """The quotients of a bias and a scale are finite, and 0 only where the bias is."""
    bias, scale = (term.value().numpy().astype(np.float64) for term in (b, c))
    with np.errstate(all="ignore"):
        quotient = (bias / scale.reshape(-1)).astype(to_numpy(b.type.dtype)).astype(np.float64)
    smallest = float(ml_dtypes.finfo(to_numpy(b.type.dtype)).smallest_normal)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    kept = np.isfinite(quotient) & ((np.abs(quotient) >= smallest) | (bias == 0))
    return bool(np.all(kept)) or f"the bias divided by the scale leaves the range of {b.type.dtype}"


@computed
def full_rank(c: Term, whole: Term) -> tuple[int, ...]:
    """The shape of the constant with as many axes as the tensor."""
    missing = whole.type.ndim - c.type.ndim
    if missing < 0 or not c.type.is_static or c.type.size == 0:
        raise Refuse(f"{c.type!r} does not broadcast to {whole.type!r}")
    return (*(1,) * missing, *(int(dim) for dim in c.type.shape))  # type: ignore[arg-type]  # static: all are integers


@computed
def one_sample(whole: Term) -> tuple[int, ...]:
    """The shape of one index of the first axis."""
    return (1, *(int(dim) for dim in whole.type.shape[1:]))  # type: ignore[arg-type]  # the condition has seen that they are integers


@computed
def inverse(axes: tuple[int, ...] | None, x: Term) -> tuple[int, ...]:
    """The permutation that undoes one."""
    rank = x.type.ndim
    found = tuple(axis % rank for axis in axes) if axes is not None else tuple(reversed(range(rank)))
    return tuple(found.index(axis) for axis in range(rank))


def _transposed(axes: AnyValue, whole: Pattern) -> PCall:
    return op.transpose(op.reshape(c, newshape=full_rank(c, whole)), axes=axes)


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
    *passing.only("max_pool avg_pool", varies_outside_windows(c, x, a)),
    *passing.only("pad", varies_outside_padding(c, x, a)),
)
_TURNED: PCall = op.transpose(x, axes=p)
_VECTOR = op.reshape(c, newshape=(-1,))
_DIFFERENCE, _BOTH = sum_or_difference(x * c, d), sum_or_difference(x, y) * c


class HoistScales(RuleSet):
    """Scales go up, towards the product before them."""

    passing = (_BELOW >> _ABOVE).when(*_PASSING).exploring().inexact(_NOTE)
    transpose = (
        (_TURNED * c >> op.transpose(x * _transposed(inverse(p, x), x), axes=p))
        .when(is_float(x), keeps_type(_TURNED, _TURNED * c))
        .exploring()
        .inexact(_NOTE)
    )
    bias_add = (
        (op.nn.bias_add(x, bias, axis=p) * c >> op.nn.bias_add(x * c, bias * _VECTOR, axis=p))
        .when(is_float(x), is_along(c, x, p), is_finite(c), stays_finite(bias, c))
        .exploring()
        .inexact(_NOTE)
    )
    sum = (
        (_BOTH >> sum_or_difference(x * c, y * c))
        .when(is_float(x), is_finite(c), same_type(x, y), same_type(x, _BOTH))
        .exploring()
        .inexact(_NOTE)
    )
    add_bias = (
        ((x + y) * c >> x * c + y * c)
        .when(is_float(x), is_finite(c), is_spread(y, x), keeps_type(x, (x + y) * c), keeps_type(y, y * c))
        .exploring()
        .inexact(_NOTE)
    )


class SinkScales(RuleSet):
    """Scales go down, towards the product behind them."""

    passing = (_ABOVE >> _BELOW).when(*_PASSING).exploring().inexact(_NOTE)
    transpose = (
        (op.transpose(x * c, axes=p) >> _TURNED * _transposed(p, x)).when(is_float(x), keeps_type(x, x * c)).exploring().inexact(_NOTE)
    )
    flatten = (
        (
            op.nn.batch_flatten(x * c, attrs=a)
            >> op.nn.batch_flatten(x, attrs=a) * op.nn.batch_flatten(op.broadcast_to(c, shape=one_sample(x)), attrs=a)
        )
        .when(is_float(x), is_same_in_batch(c, x), keeps_type(x, x * c))
        .exploring()
        .inexact(_NOTE)
    )
    bias_add = (
        (op.nn.bias_add(x * c, b, axis=p) >> op.nn.bias_add(x, b / _VECTOR, axis=p) * c)
        .when(is_float(x), is_along(c, x, p), has_no_zero(c), is_finite(c), divides_in_range(b, c))
        .exploring()
        .inexact(_NOTE)
    )
    sum = (
        (_DIFFERENCE >> sum_or_difference(x, d / c) * c)
        .when(is_float(x), keeps_type(x, _DIFFERENCE), has_no_zero(c), is_finite(c), meet_in_range("divide", d, c))
        .exploring()
        .inexact(_NOTE)
    )
