"""Random choices: shapes, element types and elements, including arithmetic corner cases."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final, Literal

import ml_dtypes
import numpy as np

from passat.ir.dtypes import COMPLEX, FLOATS, NAMES, to_numpy
from passat.ir.tensor import Array, Tensor

ALL_TYPES: Final = ("float32", "float16", "float64", "bfloat16", "int64", "int32", "int8", "uint8", "int16", "uint32", "bool")
FLOAT_TYPES: Final = ("float32", "float16", "float64", "bfloat16")
RARE_TYPES: Final = tuple(sorted(NAMES - {*ALL_TYPES, "string"}))
"""Element types that few operators accept: narrow ones and complex numbers."""


class Sampler:
    """Random choices from a generator. `most` bounds ranks, `largest` sizes."""

    def __init__(self, generator: "np.random.Generator", *, most: int = 4, largest: int = 4) -> None:
        self.generator = generator
        self.most = most
        self.largest = largest
        self._sizes = tuple(size for size in (0, 1, 1, 2, 2, 2, 3, 3, 3, 4) if size <= largest)

    def pick(self, choices: Sequence[AnyValue]) -> AnyValue:
        """A random element of a sequence."""
        return choices[int(self.generator.random() * len(choices))]

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return bool(self.generator.random() < share)

    def integer(self, low: int, high: int) -> int:
        """A random integer within the closed interval."""
        return low + int(self.generator.random() * (high - low + 1))

    def dim(self) -> int:
        """A size, occasionally 0."""
        return int(self.pick(self._sizes))

    def full(self) -> int:
        """A nonzero size."""
        return max(self.dim(), 1)

    def shape(self, low: int = 0, high: int | None = None) -> tuple[int, ...]:
        """A shape with a rank in the interval; half of the shapes have no 0, and some have equal sizes."""
        rank = self.integer(low, max(low, self.most if high is None else high))
        if rank > 1 and self.chance(0.25):
            return (self.full(),) * rank
        size = self.full if self.chance(0.5) else self.dim
        return tuple(size() for _ in range(rank))

    def weaker(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to the given one; occasionally with an additional axis."""
        kept = tuple(1 if self.chance(0.3) else dim for dim in shape[self.integer(0, len(shape)) if self.chance(0.6) else 0 :])
        return (1, *kept) if self.chance(0.08) else kept

    def along(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape with one element, or one that varies along a single axis of the given shape: often the channels, axis 1 or the last."""
        axis = self.pick((1, len(shape) - 1)) if shape and self.chance(0.5) else self.integer(0, len(shape))
        kept = tuple(dim if i == axis else 1 for i, dim in enumerate(shape))
        return kept[min(axis, self.integer(0, len(shape))) :]

    def stronger(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that the given one broadcasts to; occasionally incompatible in some axes."""
        grown = tuple(self.dim() if dim == 1 and self.chance(0.5) else dim for dim in shape)
        return (*self.shape(0, 1), *grown) if self.chance(0.3) else grown


Odd = Literal["plain", "endless", "extreme"]
"""The kind of elements: ordinary; with infinities, NaN and extreme integers, which rounding does not change; or with any special values."""
PLAIN: Final[Odd] = "plain"
ENDLESS: Final[Odd] = "endless"
EXTREME: Final[Odd] = "extreme"

_USUAL: Final = (0.0, 1.0, 1.0, -0.0, 2.0, 0.5, 0.25, 3.0, -1.0, 4.0)
_EXTREME: Final = (
    *(0.0, 1.0, -0.0, -1.0, 2.0, 0.5, 1e-40, 3e38, 1e-30, 7e4, float("inf"), float("-inf"), float("nan")),
    *(2.0**power for power in (-149, -130, -126, -24, -20, -15, -14, 15, 16, 127)),
)
_NUMBERS: Final[dict[Odd, tuple[float, ...]]] = {
    PLAIN: _USUAL,
    ENDLESS: (*_USUAL, float("inf"), float("-inf"), float("nan")),
    EXTREME: _EXTREME,
}
_ODD: Final = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 1e-40, 3e38, 1e-6, 7e4])
_ENDLESS: Final = np.array([0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0])
_INF: Final = float("inf")
_FEW: Final[dict[Odd, tuple[tuple[float, ...], ...]]] = {
    ENDLESS: ((_INF,), (-_INF,), (_INF, -_INF), (0.0,), (0.0, _INF), (0.0, 1.0, -200.0)),
    EXTREME: ((-0.0,), (-0.0,), (0.0, -0.0), (_INF,), (_INF, -_INF), (0.0, 1.0, -1.0), (1e-40,), (3e38,)),
}
"""Numbers of special arrays with few of them: a sum is -0.0 only if all its terms are. `exp(-200)` underflows in float32."""
_OF_FEW: Final = 0.2
"""Probability of such an array."""


def draw_array(generator: "np.random.Generator", shape: Sequence[int], dtype: str, odd: Odd = PLAIN) -> Array:
    """A random array. Ordinary floats are occasionally small integers. Of extreme arrays, half of the floats and some of the integers are
    special values, or all are of a few numbers."""
    kind = to_numpy(dtype)
    shape = tuple(shape)
    if dtype == "bool":
        return np.asarray(generator.integers(0, 2, shape)).astype(np.bool_)
    if dtype in COMPLEX:
        return np.asarray(generator.normal(size=shape) + 1j * generator.normal(size=shape)).astype(kind)
    if dtype not in FLOATS:
        return _integers(generator, shape, kind, odd != PLAIN)
    if odd == PLAIN and generator.random() < 0.25:
        values = np.asarray(generator.integers(-3, 4, shape), np.float64)
    else:
        values = np.asarray(generator.normal(size=shape))
    if odd != PLAIN:
        some, share = (_ODD, 0.5) if odd == EXTREME else (_ENDLESS, 0.2)
        if generator.random() < _OF_FEW:
            few = np.array(_FEW[odd][generator.integers(len(_FEW[odd]))])
            values = few[generator.integers(len(few), size=shape)]
        else:
            values = np.where(generator.random(shape) < share, some[generator.integers(len(some), size=shape)], values)
    with np.errstate(all="ignore"):
        return np.asarray(values).astype(kind)


def _integers(generator: "np.random.Generator", shape: tuple[int, ...], kind: "np.dtype[np.generic]", special: bool) -> Array:
    limits = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    low, high = int(limits.min), int(limits.max)
    if not special and generator.random() < 0.5:
        return np.asarray(generator.integers(max(low, -4), min(high, 5), shape)).astype(kind)
    values = np.asarray(generator.integers(max(low, -128), min(high, 127) + 1, shape))
    if special:
        extreme = np.array([low, high, 0, 1, low + 1], np.uint64 if low == 0 else np.int64)
        odd = extreme[generator.integers(len(extreme), size=shape)]
        return np.where(generator.random(shape) < 0.5, values.astype(extreme.dtype), odd).astype(kind)
    return values.astype(kind)


def draw_constant(sampler: Sampler, shape: tuple[int, ...], dtype: str, literals: Sequence[float], odd: Odd = PLAIN) -> Tensor:
    """A constant: uniform (with a value that the rule names, or another), stored as a splat or densely, or with varying elements."""
    if sampler.chance(0.55):
        values = literals if literals and sampler.chance(0.6) else _NUMBERS[odd]
        return uniform(sampler.pick(values), shape, dtype, stored_once=sampler.chance(0.5))
    array = draw_array(sampler.generator, shape, dtype, odd)
    if sampler.chance(0.4) and array.dtype.kind not in "bc":
        with np.errstate(all="ignore"):
            array = np.abs(array)
    return Tensor.dense(array)


def uniform(value: AnyValue, shape: tuple[int, ...], dtype: str, *, stored_once: bool = True) -> Tensor:
    """A uniform constant with the nearest value that the element type has."""
    kind = to_numpy(dtype)
    if dtype == "bool":
        value = bool(value)
    elif dtype not in FLOATS and dtype not in COMPLEX:
        limits = ml_dtypes.iinfo(kind)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
        value = int(value) if abs(value) < 100 else 7  # excludes infinity and NaN
        value = min(max(value, int(limits.min)), int(limits.max))
    with np.errstate(all="ignore"):
        element = np.asarray(value).astype(kind)
    return Tensor.splat(element, shape, dtype) if stored_once else Tensor.dense(np.full(shape, element, kind))
