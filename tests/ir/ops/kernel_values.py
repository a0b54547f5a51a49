"""Values on which kernels are compared with ONNX Runtime, and the definition of equality."""

import math
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.dtypes import FLOATS, from_numpy, to_numpy
from passat.ir.ops.elementwise import finite_limits
from passat.ir.tensor import Array

DTYPES: Final = (
    *("float32", "float64", "float16", "bfloat16", "bool", "string"),
    *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)),
)
EXTREME, ORDINARY, NONFINITE = "extreme", "ordinary", "nonfinite"
FILLS: Final = (EXTREME, ORDINARY, NONFINITE)
"""The kinds of values: all special values; small numbers; small numbers mixed with NaN, infinities and zeros of both signs."""
_TOLERANCES: Final = {"float16": 4e-3, "bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-10}

_FLOATS: Final = (
    *(0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 0.5, -0.5, 1.5, -1.5, 2.5, 2.0, 3.0, -3.0, 0.1, -0.7, 1e4, -300.25, 20.0, -88.5),
    # at the limits of the integers and of narrower floating-point numbers: halfway between two of them, and slightly above
    *(
        127.5,
        128.0,
        -128.9,
        255.5,
        256.0,
        32768.0,
        65519.0,
        65520.0,
        2.0**31 - 1,
        2.0**31,
        -(2.0**31),
        2.0**32,
        2.0**63,
        -(2.0**63),
        2.0**64,
    ),
    *(
        1 + 2.0**-11,
        1 + 2.0**-11 + 2.0**-30,
        1 + 2.0**-24,
        1 + 2.0**-24 + 2.0**-50,
        1 + 2.0**-8 + 2.0**-20,
        3.4028235677973366e38,
        2.0**-25,
    ),
)
_INTEGERS: Final = (
    *(0, 1, 2, 3, 5, 7, 31, 32, 63, 64, -1, -2, -3, -7, 127, 128, 255, 256, 2049, 65519, 65520),
    *(2**24 + 1, 2**31 - 1, 2**31, 2**53 + 1, 2**62 + 2**38 + 1, 2**62 + 2**9 + 1),
)


def extremes(dtype: str) -> Array:
    """The special values of an element type: limits, infinities, NaN, zeros, subnormals, halves."""
    if dtype == "bool":
        return np.array([True, False])
    if dtype == "string":
        return np.array(["", "a", "b", "é"], np.object_)
    numpy = to_numpy(dtype)
    low, high = finite_limits(numpy)
    if dtype not in FLOATS:
        integers = {*_INTEGERS, low, low + 1, high, high - 1, high // 2, high // 2 + 1}
        return np.array(sorted(value for value in integers if low <= value <= high), numpy)
    limits = ml_dtypes.finfo(numpy)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    small = [float(limits.tiny), float(limits.smallest_subnormal), float(limits.tiny) / 4, float(limits.eps)]
    with np.errstate(all="ignore"):
        return np.array([*_FLOATS, float(low), float(high), *small, *(-value for value in small)], np.float64).astype(numpy)


def ordinary(dtype: str, count: int, random: np.random.Generator) -> Array:
    """Small numbers."""
    if dtype in ("bool", "string"):
        return random.choice(extremes(dtype), count)
    numpy = to_numpy(dtype)
    if dtype in FLOATS:
        return (random.normal(size=count) * 2).astype(numpy)
    return random.integers(0 if dtype.startswith("u") else -9, 9, count).astype(numpy)


def filled(dtype: str, shape: tuple[int, ...], fill: str, random: np.random.Generator) -> Array:
    """An operand of a shape."""
    count = math.prod(shape)
    array = ordinary(dtype, count, random)
    special = (
        extremes(dtype)
        if fill == EXTREME
        else np.array([0.0, -0.0, math.inf, -math.inf, math.nan]).astype(to_numpy(dtype))
        if dtype in FLOATS
        else array
    )
    if fill != ORDINARY and len(special):
        chosen = random.random(count) < (0.4 if fill == EXTREME else 0.1)
        array[chosen] = random.choice(special, int(chosen.sum()))
    return array.reshape(shape)


def spread(dtype: str, place: int, count: int, random: np.random.Generator) -> Array:
    """Special values and small numbers along axis `place` of `count`, so that several operands meet in all combinations."""
    more = ordinary(dtype, 500 if count == 1 else 5, random)
    if dtype in FLOATS:
        more = (more * np.exp2(random.integers(-9, 9, more.size))).astype(more.dtype)
    return np.concatenate([extremes(dtype), more]).reshape([-1 if axis == place else 1 for axis in range(count)])


def same_bits(one: Array, other: Array) -> Array:
    """True where two arrays of one type have the same bits. All NaN are equal."""
    if one.dtype.name not in FLOATS:
        return np.asarray(one == other)
    bits = f"u{one.dtype.itemsize}"
    same = np.ascontiguousarray(one).view(bits) == np.ascontiguousarray(other).view(bits)
    return np.asarray(same.reshape(one.shape) | (np.isnan(one) & np.isnan(other)))


def up_to_rounding(one: Array, other: Array) -> Array:
    """True where two arrays of one type differ at most by rounding, with the same NaN and infinities."""
    if one.dtype.name not in FLOATS:
        return same_bits(one, other)
    a, b = one.astype(np.float64), other.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= _TOLERANCES[from_numpy(one.dtype)] * np.maximum(1, np.maximum(np.abs(a), np.abs(b)))
    return np.asarray((a == b) | (np.isnan(a) & np.isnan(b)) | (np.isfinite(a) & np.isfinite(b) & near))
