"""Rescaling of integers, as in Relay's quantized operators: by a multiplier of 32 bits and a shift, or in floating point."""

from typing import Final

import numpy as np
import numpy.typing as npt

from passat.ir.dtypes import to_numpy
from passat.ir.ops.elementwise import finite_limits
from passat.ir.tensor import Array

ROUNDINGS: Final = ("None", "UPWARD", "TONEAREST")
"""Rounding of halves: UPWARD rounds toward positive infinity, TONEAREST away from zero. "None" is Relay's default, UPWARD."""
COMPUTE_DTYPES: Final = ("None", "int64", "float32", "float64")
"""The type in which rescaling is computed. "None" is Relay's default, int64, which uses the multiplier and shift."""


def multiplier_and_shift(factors: npt.ArrayLike) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Writes each factor as `multiplier * 2**(shift - 31)`, with a multiplier of 32 bits.

    >>> multiplier_and_shift(0.75)
    (array(1610612736), array(0))
    """
    significands, exponents = np.frexp(np.asarray(factors, np.float64))
    scaled = significands * 2.0**31
    multipliers = np.asarray(np.trunc(scaled + np.copysign(0.5, scaled)), np.int64)
    full = multipliers == 1 << 31
    return np.where(full, 1 << 30, multipliers), np.where(full, exponents + 1, exponents).astype(np.int64)


def fixed_point_multiply(values: Array, factors: npt.ArrayLike, rounding: str = "UPWARD") -> npt.NDArray[np.int32]:
    """Multiplies integers by factors in fixed point, in 64 bits, and rounds to 32 bits. Factors broadcast."""
    multipliers, shifts = multiplier_and_shift(factors)
    left, right = np.maximum(shifts, 0), np.maximum(-shifts, 0) + 31
    products = (values.astype(np.int64) << left) * multipliers
    half = np.int64(1) << np.minimum(right - 1, 62)
    if rounding == "TONEAREST":
        half = np.where(products >= 0, half, half - 1)
    return np.asarray((products + half) >> np.minimum(right, 63)).astype(np.int32)


def rescaled(values: Array, factors: npt.ArrayLike, offset: npt.ArrayLike, rounding: str, compute_dtype: str) -> Array:
    """Returns the integers `round(values * factors) + offset` in 32 bits or more."""
    if compute_dtype in ("None", "int64"):
        return np.asarray(fixed_point_multiply(values, factors, rounding) + np.asarray(offset, np.int32))
    kind = to_numpy(compute_dtype).type
    product = values.astype(kind) * np.asarray(factors, kind) + np.asarray(offset, kind)
    return np.asarray(away_from_zero(product) if rounding == "TONEAREST" else np.floor(product + kind(0.5))).astype(np.int64)


def away_from_zero(x: Array) -> Array:
    """Rounds floats to integers, and halves away from zero, like C's `round`.

    >>> away_from_zero(np.array([-1.5, -0.4, 0.5, 2.5]))
    array([-2., -0.,  1.,  3.])
    """
    whole = np.trunc(x)
    return np.asarray(np.where(np.abs(x - whole) >= 0.5, whole + np.copysign(np.ones_like(x), x), whole))


def saturated(values: Array, dtype: str) -> Array:
    """The numbers as integers of an element type; those beyond its range become its limits. Raises ValueError for NaN."""
    lowest, highest = finite_limits(to_numpy(dtype))
    if values.dtype.kind == "f":
        if np.isnan(values).any():
            raise ValueError(f"NaN cannot be converted to {dtype}")
        values = values.astype(np.float64)
    return np.asarray(np.clip(values, lowest, highest)).astype(to_numpy(dtype))
