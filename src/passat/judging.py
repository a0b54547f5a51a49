"""Compares values element by element, up to rounding.

A difference of a few units in the last place passes. A larger one passes only if rounding noise moves the same element as far in the
original (`passat.ir.onnx.noise`). An element that noise moves by much of its size, or between integers, is inconclusive, unless noise
cannot produce the value. Results computed without rounding must be equal.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import from_numpy
from passat.ir.tensor import Array


@dataclass(frozen=True)
class Tolerance:
    """The tolerance for rounding: relative to each element, plus relative to the largest element of the tensor."""

    element: float
    tensor: float


NOISE_FACTOR: Final = 6
"""Allowed difference as a multiple of the noise."""
UNSTABLE: Final = 0.1
"""Relative noise beyond which an element is inconclusive, unless the difference is within the tolerance for numbers around one."""
ENOUGH: Final = 0.5
"""Minimum share of conclusive elements for an output to count as compared."""
_FAR: Final = 0.1
"""Mean difference, relative to the mean size, above which a value is far from another one."""
_SMALLEST: Final = 1e-4
_LARGE: Final = 1e4
"""If the usual size is above this, elements smaller than `_SMALLEST` times it are compared by their own size: next to a mask's -3e38, any
other number is negligible."""
_QUICK: Final[Mapping[str, Tolerance]] = {
    "float64": Tolerance(1e-13, 2e-14),
    "float32": Tolerance(1e-5, 2e-6),
    "float16": Tolerance(2e-3, 1e-3),
    "bfloat16": Tolerance(1.6e-2, 8e-3),
    "complex64": Tolerance(1e-5, 2e-6),
    "complex128": Tolerance(1e-13, 2e-14),
}
"""Rounding tolerances by element type. Other types must be equal."""
_UNKNOWN: Final = 100
"""Factor on these tolerances, relative to the usual size, if the noise is unknown."""
_LOOKED_AT: Final = 100_000
"""Maximum number of elements that are sampled for the usual size."""


class Closeness(NamedTuple):
    """The user's tolerance for floating-point values: `atol + rtol * |expected|`, as in numpy.allclose."""

    rtol: float = 0.0
    atol: float = 0.0


Samples: TypeAlias = Callable[[], Sequence[AnyValue] | None]
"""Returns several noisy versions of the value; None if unavailable."""


@dataclass(frozen=True)
class Judgment:
    """The result of comparing a value with the expected one.

    `absolute` and `relative` are the largest differences of conclusive elements, the latter relative to the largest element; `reason` says
    what is wrong, `share` the share of wrong floating-point elements. `compared` is True if enough elements are conclusive; `moved` if some
    pass only because of noise.
    """

    absolute: float = 0.0
    relative: float = 0.0
    reason: str = ""
    compared: bool = True
    moved: bool = False
    share: float = 0.0

    def with_(self, other: "Judgment") -> "Judgment":
        """The combination of two parts: the first reason, the larger numbers."""
        return Judgment(
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
            self.reason or other.reason,
            self.compared and other.compared,
            self.moved or other.moved,
            max(self.share, other.share),
        )


@np.errstate(all="ignore")  # for infinities and signaling NaN
def judge(expected: AnyValue, actual: AnyValue, samples: Samples, closeness: Closeness | None = None) -> Judgment:
    """Compares a value of any kind with the expected one. A given `closeness` alone decides."""
    left, right = list(flatten(expected)), list(flatten(actual))
    if [path for path, _ in left] != [path for path, _ in right]:
        varies = any([path for path, _ in flatten(sample)] != [path for path, _ in left] for sample in samples() or ())
        said = f"has {counted(len(right), 'part')} where {len(left)} are expected"
        return Judgment(compared=False) if varies else Judgment(reason=said)
    found = Judgment()
    for place, ((path, a), (_, b)) in enumerate(zip(left, right, strict=True)):
        one = _part(a, b, partial(_drawn, samples, place, len(left)), closeness)
        found = found.with_(replace(one, reason=f"at {path}: {one.reason}") if one.reason and path else one)
    return found


def _drawn(samples: Samples, place: int, count: int) -> Sequence[AnyValue] | None:
    """The noisy versions of one part of a value; None for samples with another number of parts."""
    drawn = samples()
    if drawn is None:
        return None
    parts = [list(flatten(sample)) for sample in drawn]
    return [each[place][1] if len(each) == count else None for each in parts]


def _part(expected: AnyValue, actual: AnyValue, samples: Samples, closeness: Closeness | None) -> Judgment:
    if expected is None or actual is None:
        return Judgment() if expected is actual else Judgment(reason="is absent in one of the two")
    a, b = np.asarray(expected), np.asarray(actual)
    if a.dtype != b.dtype:
        return Judgment(reason=f"has element type {b.dtype} where {a.dtype} is expected")
    if a.shape != b.shape:
        if any(np.shape(sample) != a.shape for sample in samples() or ()):
            return Judgment(compared=False)
        return Judgment(reason=f"has shape {list(b.shape)} where {list(a.shape)} is expected")
    if not a.size:
        return Judgment()
    quick = _QUICK.get(from_numpy(a.dtype))
    return _discrete(a, b, samples, closeness) if quick is None else _floats(a, b, quick, samples, closeness)


def _discrete(a: Array, b: Array, samples: Samples, closeness: Closeness | None) -> Judgment:
    """Compares integers, booleans, strings, and floating-point numbers of eight bits or fewer."""
    differ = _differ(a, b)
    count = int(np.count_nonzero(differ))
    if not count:
        return Judgment()
    drawn = samples() if closeness is None else None
    if drawn and any(np.shape(sample) != a.shape for sample in drawn):
        return Judgment(compared=False)
    unsteady = seen = np.zeros(a.shape, bool)
    low = high = a
    for sample in map(np.asarray, drawn or ()):
        unsteady, seen = unsteady | _differ(a, sample), seen | ~_differ(b, sample)
        if a.dtype.kind in "iu":
            low, high = np.minimum(low, sample), np.maximum(high, sample)
    if a.dtype.kind in "iu":  # a count near a threshold may take any value in between
        seen |= (low <= b) & (b <= high) & (high - low <= len(drawn or ()))
    bad = differ & ~(unsteady & seen)
    numbers = a.dtype.kind in "iu"
    known = ~unsteady & differ
    absolute = float(np.max(np.abs(a[known].astype(np.float64) - b[known].astype(np.float64)))) if numbers and known.any() else 0.0
    scale = float(np.max(np.abs(a.astype(np.float64)))) if numbers else 1.0
    reason = ""
    if bad.any():
        place = tuple(int(i) for i in np.argwhere(bad)[0])
        reason = f"differs in {int(np.count_nonzero(bad))} of {a.size} elements: {show(a[place])} became {show(b[place])} at {list(place)}"
    return Judgment(absolute, absolute / (scale or 1.0), reason, float(unsteady.mean()) <= 1 - ENOUGH, moved=not reason)


def _differ(a: Array, b: Array) -> Array:
    if a.dtype.kind == "V":  # the narrow types of ml_dtypes
        a, b = a.astype(np.float64), b.astype(np.float64)
    differ = np.asarray(a != b)
    return differ & ~(np.isnan(a) & np.isnan(b)) if a.dtype.kind == "f" else differ


def _floats(a: Array, b: Array, quick: Tolerance, samples: Samples, closeness: Closeness | None) -> Judgment:
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    x, y = a.astype(wide).reshape(-1), b.astype(wide).reshape(-1)
    finite = np.isfinite(x) & np.isfinite(y)
    other = ~(finite | (x == y) | (np.isnan(x) & np.isnan(y)))
    size = np.where(np.isfinite(x), np.abs(x), 0.0)
    gap = np.zeros(len(x))
    gap[finite] = np.abs(x[finite] - y[finite])
    if not (gap.any() or other.any()):
        return Judgment()
    silent = moved = np.zeros(len(x), bool)
    if closeness is not None:
        bad = other | (gap > closeness.atol + closeness.rtol * size)
    else:
        usual = _usual(size)
        allowed = quick.element * size + quick.tensor * np.minimum(usual, np.maximum(size / _SMALLEST, _LARGE))
        bad = other | (gap > allowed)
        drawn = samples() if bad.any() else ()
        if drawn is None:
            bad = other | (gap > _UNKNOWN * (quick.element * size + quick.tensor * usual))
        elif bad.any():
            if any(np.shape(sample) != a.shape for sample in drawn):
                return Judgment(compared=False)
            noise = np.zeros(len(x))
            for sample in drawn:
                z = np.asarray(sample).astype(wide).reshape(-1)
                both = np.isfinite(x) & np.isfinite(z)
                silent = silent | ~(both | (x == z) | (np.isnan(x) & np.isnan(z)))
                noise[both] = np.maximum(noise[both], np.abs(x[both] - z[both]))
            silent = silent | (NOISE_FACTOR * noise > np.maximum(UNSTABLE * np.maximum(size, usual), quick.element))
            moved = bad
            bad = (other | (gap > allowed + NOISE_FACTOR * noise)) & ~silent
            moved = moved & ~bad & ~silent
    speaking = finite & ~silent
    absolute = float(gap[speaking].max()) if speaking.any() else 0.0
    largest = float(size.max())
    reason = _said(x, y, bad, other, a.shape) if bad.any() else ""
    compared = float(silent.mean()) <= 1 - ENOUGH
    return Judgment(absolute, absolute / (largest or 1.0), reason, compared, bool(moved.any()), float(bad.mean()))


def _said(x: Array, y: Array, bad: Array, other: Array, shape: tuple[int, ...]) -> str:
    """Describes mismatched floating-point elements."""
    worst = int(np.argmax(bad & other)) if (bad & other).any() else int(np.argmax(np.where(bad, np.abs(x - y), -1.0)))
    place = [int(i) for i in np.unravel_index(worst, shape)]
    count = int(np.count_nonzero(bad))
    how = ", in being finite" if (bad & other).any() else " by more than rounding"
    return f"differs in {count} of {len(x)} elements{how}: {show(x[worst])} became {show(y[worst])} at {place}"


def _usual(size: Array) -> float:
    """The usual size of elements: the largest one, unless most are far smaller, as beside a mask's -3e38. Sizes up to one are all usual:
    operators with results around one, such as Sigmoid and Softmax, round small and large results alike."""
    some = size[:: max(1, len(size) // _LOOKED_AT)]
    some = some[some > 0]
    return min(float(size.max()), max(30 * float(np.quantile(some, 0.1)), 1.0)) if some.size else 0.0


@np.errstate(all="ignore")  # as in `judge`
def is_far(expected: AnyValue, other: AnyValue, actual: AnyValue) -> bool:
    """True if a value is far from the expected one, and another value of the same computation is not: by the mean difference of its
    floating-point elements, so that it does not matter how single elements are rounded to quantized ones.

    >>> one, other = np.array([1.0, 2.0, 3.0]), np.array([1.0, 2.01, 3.0])
    >>> is_far(one, one, other), is_far(one, other, 2 * one), is_far(one, 2 * one, 2 * one)
    (False, True, False)
    """

    def distance(value: AnyValue) -> float:
        gap = size = 0.0
        for (_, a), (_, b) in zip(flatten(expected), flatten(value), strict=False):
            if np.asarray(a).dtype.name in _QUICK and np.shape(a) == np.shape(b):
                both, wide = np.isfinite(a) & np.isfinite(b), np.complex128 if np.iscomplexobj(a) else np.float64
                x, y = (np.asarray(part)[both].astype(wide) for part in (a, b))
                gap, size = gap + float(np.abs(x - y).sum()), size + float(np.abs(x).sum())
        return gap / (size or 1.0)

    return distance(actual) > max(_FAR, NOISE_FACTOR * distance(other))


def flatten(value: AnyValue, path: str = "") -> Iterator[tuple[str, AnyValue]]:
    """The tensors within an output value, with their paths: `[2]` of a sequence, `['key']` of a map; None for an absent optional.

    >>> [path for path, _ in flatten([1.0, {"a": 2.0}])]
    ['', '[0]', "[1]['a']"]
    """
    stack = [(path, value)]
    while stack:
        where, item = stack.pop()
        if isinstance(item, list):
            yield where, f"sequence of {len(item)}"  # distinguishes an empty sequence from an empty map
            stack.extend((f"{where}[{i}]", part) for i, part in reversed(list(enumerate(item))))
        elif isinstance(item, dict):
            stack.extend((f"{where}[{key!r}]", item[key]) for key in sorted(item, reverse=True))
        else:
            yield where, item


def finite_share(values: Iterable[AnyValue]) -> float:
    """The share of finite floating-point elements of some values; 1 if there are no elements.

    >>> finite_share([np.array([1.0, np.inf]), np.array([1, 2])])
    0.5
    """
    finite = total = 0
    for value in values:
        for _, part in flatten(value):
            if np.asarray(part).dtype.name in _QUICK:
                finite += int(np.count_nonzero(np.isfinite(part)))
                total += np.size(part)
    return finite / total if total else 1.0


def without_elements(value: AnyValue) -> bool:
    """True of a tensor without elements, and of a sequence or a map of such.

    >>> without_elements(np.zeros((0, 3))), without_elements([np.zeros(0), np.ones(1)])
    (True, False)
    """
    return not any(np.size(part) for _, part in flatten(value) if not isinstance(part, str) and part is not None)


def is_unscanned(expected: AnyValue, actual: AnyValue) -> bool:
    """True of tensors that may both be what a Loop without iterations returns for the values of its iterations: ONNX Runtime takes the
    size 0 where it infers none, and rank 1 where it infers no rank.

    >>> is_unscanned(np.zeros((0, 0, 3)), np.zeros((0, 2, 3))), is_unscanned(np.zeros((0, 4, 3)), np.zeros((0, 2, 3)))
    (True, False)
    """
    if not isinstance(expected, np.ndarray) or not isinstance(actual, np.ndarray) or expected.dtype != actual.dtype:
        return False
    left, right = expected.shape, actual.shape
    if left[:1] != (0,) or right[:1] != (0,):
        return False
    return left == (0,) or (len(left) == len(right) and all(size in (0, other) for size, other in zip(left, right, strict=True)))


def show(value: AnyValue) -> str:
    """An element as short text."""
    number = value.item() if isinstance(value, np.generic) else value
    return f"{number:.6g}" if isinstance(number, float) else repr(number)
