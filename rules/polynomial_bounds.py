"""Bounds of polynomials (`passat.rules.polynomials`), from the value ranges of their atoms (`passat.rules.ranges`).

A quotient whose dividend occurs as well is replaced by the dividend minus a remainder: `x - x//4*4` lies in [0, 3] for every x.
"""

import math
from typing import NamedTuple

from passat.ir.shape import Dim, SymDim
from passat.rules.guards import Term
from passat.rules.polynomials import class_of, polynomial, terms_of
from passat.rules.ranges import RANGES, limits_of


class Bounds(NamedTuple):
    """A closed interval of integers; infinite where nothing is known."""

    low: float
    high: float

    def __add__(self, other: "Bounds") -> "Bounds":  # type: ignore[override]  # intervals are added, not concatenated
        return Bounds(self.low + other.low, self.high + other.high)

    def times(self, other: "Bounds") -> "Bounds":
        """The bounds of products."""
        found = [_product(a, b) for a in self for b in other]
        return Bounds(min(found), max(found))

    def meet(self, other: "Bounds") -> "Bounds":
        """The intersection."""
        return Bounds(max(self.low, other.low), min(self.high, other.high))


ALL = Bounds(-math.inf, math.inf)


def _product(a: float, b: float) -> float:
    return 0 if a == 0 or b == 0 else a * b


def bounds_of_term(x: Term) -> Bounds:
    """The bounds of a term by its value range; the limits of the element type count as unbounded, since arithmetic does not overflow."""
    found, limits = x.fact(RANGES), limits_of(x.type.dtype)
    if found is None or limits is None:
        return ALL
    return Bounds(-math.inf if found.low <= limits.low else found.low, math.inf if found.high >= limits.high else found.high)


def bounds_of(dim: Dim, x: Term) -> Bounds:
    """The bounds of a polynomial over atoms of the e-graph of a term."""
    found = _sum(dim, x)
    for names, factor in terms_of(dim):
        if len(names) != 1 or not (found.low == -math.inf or found.high == math.inf or found.low < found.high):
            continue
        atom = x.of_class(class_of(names[0]))
        for name, truncates in (("floor_divide", False), ("divide", True)):
            for dividend, divisor in atom.calls(name):
                by = polynomial(divisor)
                if isinstance(by, int) and by > 0 and factor % by == 0:
                    # c*(p//c) is p - r, and r is the remainder
                    rest = dim - SymDim.named(names[0]) * factor + polynomial(dividend) * (factor // by)
                    remainder = Bounds(1 - by if truncates else 0, by - 1)
                    found = found.meet(_sum(rest, x) + remainder.times(Bounds(-factor // by, -factor // by)))
    return found


def _sum(dim: Dim, x: Term) -> Bounds:
    total = Bounds(0, 0)
    for names, factor in terms_of(dim):
        part = Bounds(factor, factor)
        for name in dict.fromkeys(names):
            power, bounds = names.count(name), bounds_of_term(x.of_class(class_of(name)))
            if power % 2 == 0:
                size = Bounds(0 if bounds.low <= 0 <= bounds.high else min(abs(bounds.low), abs(bounds.high)), max(map(abs, bounds)))
                bounds, power = size.times(size), power // 2
            whole = bounds
            for _ in range(power - 1):
                whole = whole.times(bounds)
            part = part.times(whole)
        total += part
    return total
