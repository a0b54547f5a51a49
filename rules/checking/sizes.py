"""Ranks, sizes, attributes and single numbers that satisfy comparisons: shapes for which `x.shape[0] % 8 == 0` and `x.ndim == 2` hold."""

import inspect
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.rules import attribute_arithmetic as arithmetic
from passat.rules.checking.case import Key
from passat.rules.checking.sampler import Sampler
from passat.rules.guards import Reject, dtype_of, scalar_of
from passat.rules.pattern import AttrHole, Computed, Pattern
from passat.rules.samples import Sample

if TYPE_CHECKING:
    from passat.rules.checking.plan import Plan

_RANK, _SIZES, _ITEM, _DTYPE, _SCALAR, _SUM, _DIFFERENCE, _PRODUCT, _QUOTIENT, _REMAINDER = (
    inspect.unwrap(each)
    for each in (
        *(
            arithmetic.rank,
            arithmetic.sizes,
            arithmetic.item,
            dtype_of,
            scalar_of,
            arithmetic.sum_of,
            arithmetic.difference,
            arithmetic.product,
        ),
        *(arithmetic.floor_quotient, arithmetic.remainder),
    )
)
_ARITHMETIC: Final = frozenset({_ITEM, _SUM, _DIFFERENCE, _PRODUCT, _QUOTIENT, _REMAINDER})
_LONGEST: Final = 4096
"""The longest dimension that is planned."""
_MOST_AXES: Final = 6
"""The highest rank that is planned."""


class Sizes:
    """Ranks and sizes that are wanted of terms, from which `shapes` makes shapes."""

    def __init__(self, plan: "Plan", sampler: Sampler) -> None:
        self._plan = plan
        self._sampler = sampler
        self._terms: dict[Key, Pattern] = {}
        self._ranks: dict[Key, int] = {}
        self._sizes: dict[Key, dict[int, int]] = {}

    def known(self, value: AnyValue) -> AnyValue:
        """The value of an argument of a comparison, as far as the plan determines it; otherwise None."""
        plan = self._plan
        if isinstance(value, AttrHole):
            return plan.attrs.get(value.name)
        if not isinstance(value, Computed):
            return None if isinstance(value, Pattern) else value
        if value.args and isinstance(term := value.args[0], Pattern):
            shape = plan.shape(term)
            if value.function is _DTYPE:
                return plan.dtypes.get(term.key)
            if value.function is _RANK:
                return self._ranks.get(term.key) if shape is None else len(shape)
            return shape if value.function is _SIZES else None
        planned = self._planned(value)
        if planned is not None:
            return planned
        args = list(map(self.known, value.args))
        if value.function not in _ARITHMETIC or None in args:
            return None
        try:
            return value.function(*args)
        except Reject:
            return None

    def _planned(self, value: Computed) -> int | None:
        """The size that is wanted of a term whose shape is open."""
        if value.function is not _ITEM:
            return None
        whole, place = value.args
        return self._sizes.get(whole.args[0].key, {}).get(place) if _is_shape(whole) and isinstance(place, int) else None

    def want(self, value: Computed, wanted: AnyValue) -> None:
        """Plans the attribute, or the size, rank or element type of a term, from which the value is computed; nothing if it is not computed
        from one of them and numbers."""
        part: AnyValue = value
        while isinstance(part, Computed) and isinstance(wanted, (int, float)) and (solved := self._solved(part, wanted)) is not None:
            part, wanted = solved
        if not isinstance(part, Computed):
            self._plan.settle(part, Sample(value=wanted))
        elif part.function is _ITEM:
            whole, place = part.args
            if _is_shape(whole) and isinstance(place, int) and _is_within(wanted, _LONGEST):
                self._terms[whole.args[0].key] = whole.args[0]
                self._sizes.setdefault(whole.args[0].key, {}).setdefault(place, math.ceil(wanted))
        elif part.args and isinstance(term := part.args[0], Pattern):
            if part.function is _RANK and _is_within(wanted, _MOST_AXES):
                self._terms[term.key] = term
                self._ranks.setdefault(term.key, math.ceil(wanted))
            elif part.function is _SIZES and isinstance(wanted, tuple):
                self._plan.settle(term, Sample(shape=wanted))
            elif part.function is _SCALAR and isinstance(wanted, (int, float)):
                self._plan.settle(term, Sample(elements=(wanted,)))
            elif part.function is _DTYPE and isinstance(wanted, str):
                self._plan.settle(term, Sample(dtype=wanted))

    def _solved(self, value: Computed, wanted: float) -> tuple[AnyValue, float] | None:
        """The operand of arithmetic, and its value. Of two open operands, the second is planned first."""
        if value.function not in _ARITHMETIC or len(value.args) != 2 or value.function is _ITEM:
            return None
        one, other = value.args
        if isinstance(one, Computed) and isinstance(other, Computed):
            self.want(other, self._share(value, int(wanted)))
            other = self.known(other)
        if value.function in (_SUM, _PRODUCT) and isinstance(one, (int, float)):
            one, other = other, one
        if not isinstance(other, (int, float)):
            return (other, one - wanted) if value.function is _DIFFERENCE and isinstance(one, (int, float)) else None
        if value.function is _SUM:
            return one, wanted - other
        if value.function is _DIFFERENCE:
            return one, wanted + other
        if other <= 0:
            return None
        if value.function is _PRODUCT:
            return one, wanted // other if wanted % other == 0 else wanted / other
        if value.function is _QUOTIENT:
            return one, wanted * other
        return one, wanted + other * self._sampler.pick((0, 1, 1, 2))

    def _share(self, value: Computed, wanted: int) -> int:
        """A number for the second operand of arithmetic whose operands are both open, for which the first can be solved."""
        if value.function is _PRODUCT:
            return next((factor for factor in range(math.isqrt(max(wanted, 1)), 1, -1) if wanted % factor == 0), 1)
        if value.function is _SUM:
            return wanted // 2
        least = wanted + 1 if value.function is _REMAINDER else 0 if value.function is _DIFFERENCE else 1
        return least + self._sampler.integer(0, 2)

    def shapes(self) -> Iterator[tuple[Pattern, tuple[int, ...]]]:
        """A shape for each term, with the ranks and sizes wanted."""
        sampler = self._sampler
        for key, term in self._terms.items():
            sizes = self._sizes.get(key, {})
            least = max((place + 1 if place >= 0 else -place for place in sizes), default=0)
            rank = self._ranks.get(key, min(least + sampler.pick((0, 0, 1)), max(least, sampler.most)))
            dims = [sampler.dim() for _ in range(rank)]
            for place, size in sizes.items():
                if -rank <= place < rank:
                    dims[place] = size
            yield term, tuple(dims)


def _is_shape(value: AnyValue) -> bool:
    """True for `x.shape`."""
    return isinstance(value, Computed) and value.function is _SIZES and isinstance(value.args[0], Pattern)


def _is_within(number: AnyValue, most: int) -> bool:
    """True for a number that a size or a rank may have."""
    return isinstance(number, (int, float)) and 0 <= number <= most
