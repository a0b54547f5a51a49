"""Random choices, shapes and element types."""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from numpy.random import Generator

from passat.ir.dtypes import NAMES

ALL_TYPES: Final = ("float32", "float16", "float64", "bfloat16", "int64", "int32", "int8", "uint8", "int16", "uint32", "bool")
FLOAT_TYPES: Final = ("float32", "float16", "float64", "bfloat16")
RARE_TYPES: Final = tuple(sorted(NAMES - {*ALL_TYPES, "string"}))
"""Element types that few operators take: narrow ones, complex numbers."""


class Dice:
    """Random choices from a generator. `most` bounds ranks, `largest` sizes."""

    def __init__(self, generator: Generator, *, most: int = 4, largest: int = 4) -> None:
        self.generator = generator
        self.most = most
        self.largest = largest
        self._sizes = tuple(size for size in (0, 1, 1, 2, 2, 2, 3, 3, 3, 4) if size <= largest)

    def pick(self, choices: Sequence[AnyValue]) -> AnyValue:
        """One of several."""
        return choices[int(self.generator.random() * len(choices))]

    def chance(self, share: float) -> bool:
        """True that often."""
        return bool(self.generator.random() < share)

    def integer(self, low: int, high: int) -> int:
        """An integer between two, both included."""
        return low + int(self.generator.random() * (high - low + 1))

    def dim(self) -> int:
        """A size, now and then 0."""
        return int(self.pick(self._sizes))

    def full(self) -> int:
        """A size that is not 0."""
        return max(self.dim(), 1)

    def shape(self, low: int = 0, high: int | None = None) -> tuple[int, ...]:
        """A shape of a rank between two; half of the shapes hold no 0."""
        rank = self.integer(low, max(low, self.most if high is None else high))
        size = self.full if self.chance(0.5) else self.dim
        return tuple(size() for _ in range(rank))

    def weaker(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that broadcasts to another; now and then with an axis more."""
        kept = tuple(1 if self.chance(0.3) else dim for dim in shape[self.integer(0, len(shape)) if self.chance(0.6) else 0 :])
        return (1, *kept) if self.chance(0.08) else kept

    def along(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape of one element, or as long as another one along one of its axes."""
        axis = self.integer(0, len(shape))
        kept = tuple(dim if i == axis else 1 for i, dim in enumerate(shape))
        return kept[min(axis, self.integer(0, len(shape))) :]

    def stronger(self, shape: Sequence[int]) -> tuple[int, ...]:
        """A shape that another broadcasts to; now and then it is no stronger in some of its axes."""
        grown = tuple(self.dim() if dim == 1 and self.chance(0.5) else dim for dim in shape)
        return (*self.shape(0, 1), *grown) if self.chance(0.3) else grown
