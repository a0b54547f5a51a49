"""Stages of a saturation: which rules run together and for how long, and which of them can match at all."""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from passat.rules.engine.directions import Directions, operators_of
from passat.rules.engine.graph import Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher


class Stage(NamedTuple):
    """Rules that run in one e-graph until it is saturated, or for a number of iterations. `groupers` are applied at the start of the stage,
    to the input program. `rule_matches` is the default budget per rule and iteration. A stage that is `beside` runs together with the
    preceding one."""

    rules: tuple[Directions, ...]
    groupers: tuple[Grouper, ...] = ()
    rounds: int | None = None
    rule_matches: int | None = None
    beside: bool = False

    @property
    def matchers(self) -> list[Matcher]:
        """The matchers of all directions of the rules."""
        return [matcher for each in self.rules for matcher in each.matchers]


Makes = tuple[Symbol, frozenset[Symbol]]
"""A symbol, and the symbols that an eager rule may replace it with."""


def reachable(present: Iterable[Symbol], stages: Sequence[Stage], eager: Collection[Makes] = ()) -> dict[Directions, list[Matcher]]:
    """The matchers that can match, by rule, given the symbols of the program and those that eager rules create."""
    rules = dict.fromkeys([each for stage in stages for each in stage.rules])
    known = set(present)
    found: dict[Directions, list[Matcher]] = {each: [] for each in rules}
    grown = True
    while grown:
        before = len(known)
        operators = operators_of(known)
        for each in rules:
            matchers = each.within(known, operators)
            if len(matchers) > len(found[each]):
                found[each] = matchers
                known.update(*[matcher.makes for matcher in matchers])
        for symbol, made in eager:
            if symbol in known:
                known |= made
        grown = len(known) > before
    return found
