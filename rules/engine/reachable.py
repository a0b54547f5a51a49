"""Which rules can come to match in a program: those whose operators occur there, or are made by rules that can."""

from collections.abc import Collection, Iterable

from passat.rules.engine.graph import Symbol
from passat.rules.engine.matching import Matcher

Makes = tuple[Symbol, frozenset[Symbol]]
"""A symbol, and those that an eager rule may make of it."""


def reachable(present: Iterable[Symbol], matchers: Collection[Matcher], eager: Collection[Makes] = ()) -> list[Matcher]:
    """The matchers that can come to match where there are those symbols, and those that eager rules make of them."""
    known = set(present)
    while True:
        found = [matcher for matcher in matchers if matcher.symbols <= known]
        wider = known.union(*(matcher.makes for matcher in found))
        wider.update(*(made for symbol, made in eager if symbol in wider))
        if wider == known:
            return found
        known = wider
