"""Relay's functions of means and variances, composed of reductions and arithmetic."""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Call, Expr, Tuple, const
from passat.ir.op import call_op
from passat.ir.ops.reduction import reduced_axes
from passat.ir.types import TensorType
from passat.relay.building import call, known_type, numbers, operand
from passat.relay.names import explain_arguments

__all__ = ["mean_std", "mean_variance", "std", "variance"]

Axis = int | Sequence[int] | None


def variance(
    data: Expr,
    axis: Axis = None,
    keepdims: bool = False,
    exclude: bool = False,
    unbiased: bool = False,
    with_mean: Expr | None = None,
) -> Call:
    """The mean square of the differences from the mean. With `unbiased`, their sum of squares divided by one less than their number.

    `with_mean` is the mean, if it is known, with the reduced axes kept. An unbiased variance raises ValueError for data of an unknown type,
    and for axes with fewer than two elements if their sizes are known; otherwise it is NaN for one element.
    """
    given = operand("variance", "data", data)
    axes = None if axis is None else numbers("variance", "axis", axis)
    mean = with_mean if with_mean is not None else call("mean", given, axis=axes, keepdims=True, exclude=exclude)
    difference = call_op("subtract", given, mean)
    found = call("mean", call_op("multiply", difference, difference), axis=axes, keepdims=keepdims, exclude=exclude)
    if not unbiased:
        return found
    return call_op("multiply", found, _correction(given, axes, exclude))


def _correction(data: Expr, axes: tuple[int, ...] | None, exclude: bool) -> Expr:
    """The number of elements that a reduction takes together, divided by one less."""
    type_ = known_type(data)
    if not isinstance(type_, TensorType):
        raise ValueError("relay.variance: unbiased=True needs data of a known shape; give its variables types")
    reduced = reduced_axes(type_.ndim, axes, exclude)
    known = [size for size in (type_.shape[place] for place in reduced) if isinstance(size, int)]
    if len(known) == len(reduced):
        count = math.prod(known)
        if count < 2:
            raise ValueError(f"relay.variance: unbiased=True needs two elements or more, but the axes have {count}")
        return const(count / (count - 1), type_.dtype)
    shape = call("shape_of", data, dtype="int64")
    taken = call("prod", call("take", shape, const(np.array(reduced, np.int64)), axis=0), axis=None)
    number = call("cast", taken, dtype="float64")  # the largest finite float16 is 65504
    return call("cast", call_op("divide", number, call_op("subtract", number, const(1.0, "float64"))), dtype=type_.dtype)


def std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Call:
    """The square root of the variance."""
    return call_op("sqrt", variance(data, axis, keepdims, exclude, unbiased))


def mean_variance(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False, unbiased: bool = False) -> Tuple:
    """The mean and the variance."""
    given = operand("mean_variance", "data", data)
    axes = None if axis is None else numbers("mean_variance", "axis", axis)
    kept = call("mean", given, axis=axes, keepdims=True, exclude=exclude)
    mean = kept if keepdims else call("mean", given, axis=axes, exclude=exclude)
    return Tuple([mean, variance(given, axes, keepdims, exclude, unbiased, kept)])


def mean_std(data: Expr, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> Tuple:
    """The mean and the square root of the variance."""
    mean, spread = mean_variance(data, axis, keepdims, exclude).fields
    return Tuple([mean, call_op("sqrt", spread)])


explain_arguments(globals(), __all__)
