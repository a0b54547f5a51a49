"""The difference of two values, and its tolerance, determined independently of `passat.optimize`, for tests and benchmarks.

Integers, booleans and strings must be equal; floating-point numbers must be equal up to rounding, relative to the size of the whole tensor,
with infinities and NaN in the same places. Sequences, maps and absent optionals are compared part by part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from passat.ir.dtypes import from_numpy
from passat.ir.tensor import Array
from passat.judging import Tolerance, flatten, show

EXACT: Final = Tolerance(0.0, 0.0)
TOLERANCES: Final[Mapping[str, Tolerance]] = {
    "float64": Tolerance(1e-7, 1e-9),
    "float32": Tolerance(1e-3, 1e-4),
    "float16": Tolerance(1e-2, 5e-3),
    "bfloat16": Tolerance(5e-2, 2e-2),
    "complex64": Tolerance(1e-3, 1e-4),
    "complex128": Tolerance(1e-7, 1e-9),
}
"""By element type. Other types must be equal bit for bit."""
EPSILON: Final[Mapping[str, float]] = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "complex64": 2.0**-23,
    "complex128": 2.0**-52,
}
"""The distance from 1 to the next number, by element type."""


@dataclass(frozen=True)
class Difference:
    """How two values differ: the largest absolute difference, and the same relative to the largest element of the tensor.

    `share` is the fraction of differing elements. `reason` states the difference; it is empty if the values pass as equal.
    """

    absolute: float = 0.0
    relative: float = 0.0
    share: float = 0.0
    reason: str = ""

    def widest(self, other: "Difference") -> "Difference":
        """The larger of each number, and the first reason."""
        return Difference(
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
            max(self.share, other.share),
            self.reason or other.reason,
        )


def difference(expected: Any, actual: Any, tolerance: Tolerance | None = None) -> Difference:
    """How a value of any kind differs from the expected one.

    `tolerance` overrides that of the floating-point element types.
    """
    left, right = list(flatten(expected)), list(flatten(actual))
    if [path for path, _ in left] != [path for path, _ in right]:
        return Difference(reason=f"has {len(right)} parts where {len(left)} are expected")
    total = Difference()
    for (path, a), (_, b) in zip(left, right, strict=True):
        found = _tensors(a, b, tolerance)
        if found.reason and path:
            found = Difference(found.absolute, found.relative, found.share, f"at {path}: {found.reason}")
        total = total.widest(found)
    return total


def _tensors(expected: Any, actual: Any, tolerance: Tolerance | None) -> Difference:
    if expected is None or actual is None:
        return Difference() if expected is actual else Difference(reason="is absent in one of the two")
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype:
        return Difference(reason=f"has element type {b.dtype} where {a.dtype} is expected")
    if a.shape != b.shape:
        return Difference(reason=f"has shape {list(b.shape)} where {list(a.shape)} is expected")
    if not a.size:
        return Difference()
    allowed = TOLERANCES.get(from_numpy(a.dtype), EXACT)
    if allowed == EXACT:
        return _exact(a, b)
    return _floats(a, b, tolerance or allowed)


def _exact(a: Array, b: Array) -> Difference:
    if a.dtype.kind == "V":  # the narrow types of ml_dtypes
        a, b = a.astype(np.float64), b.astype(np.float64)
    differ = np.asarray(a != b)
    if a.dtype.kind == "f":
        differ &= ~(np.isnan(a) & np.isnan(b))
    count = int(np.count_nonzero(differ))
    if not count:
        return Difference()
    place = [int(i) for i in np.argwhere(differ)[0]]
    absolute = 0.0
    if a.dtype.kind in "iuf":
        absolute = float(np.max(np.abs(a[differ].astype(np.float64) - b[differ].astype(np.float64))))
    scale = float(np.max(np.abs(a.astype(np.float64)))) if a.dtype.kind in "iuf" else 1.0
    shown = f"{show(a[tuple(place)])} became {show(b[tuple(place)])} at {place}"
    return Difference(absolute, absolute / scale if scale else absolute, count / a.size, f"{count} of {a.size} elements differ: {shown}")


def _floats(a: Array, b: Array, allowed: Tolerance) -> Difference:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide), b.astype(wide)
    finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        same = finite | (x == y) | (np.isnan(x) & np.isnan(y))
    if not same.all():
        place = [int(i) for i in np.argwhere(~same)[0]]
        count = int(np.count_nonzero(~same))
        shown = f"{show(x[tuple(place)])} became {show(y[tuple(place)])} at {place}"
        return Difference(float("inf"), float("inf"), count / a.size, f"{count} of {a.size} elements differ in being finite: {shown}")
    if not finite.any():
        return Difference()
    x, y = x[finite], y[finite]
    size = np.abs(x)
    scale = float(size.max())
    gap = np.abs(x - y)
    absolute = float(gap.max())
    found = Difference(absolute, absolute / scale if scale else absolute, float(np.count_nonzero(gap)) / a.size)
    beyond = gap > allowed.element * size + allowed.tensor * scale
    if not beyond.any():
        return found
    worst = int(np.argmax(gap - allowed.element * size))
    place = [int(i) for i in np.argwhere(finite)[worst]]
    count = int(np.count_nonzero(beyond))
    shown = f"{show(x[worst])} became {show(y[worst])} at {place}"
    return Difference(found.absolute, found.relative, found.share, f"{count} of {a.size} elements differ by more than rounding: {shown}")
