"""Stages of a saturation: which rules run together and for how long, and which of them can match at all."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from passat.rules.engine.graph import Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.rule import LOWERING


class Stage(NamedTuple):
    """Rules that run in one e-graph until it is saturated, or for a number of iterations. `groupers` are applied at the start of the stage,
    to the input program. `rule_matches` is the default budget per rule and iteration. A stage that is `beside` runs together with the
    preceding one."""

    matchers: tuple[Matcher, ...]
    groupers: tuple[Grouper, ...] = ()
    rounds: int | None = None
    rule_matches: int | None = None
    beside: bool = False

    @staticmethod
    def of(rules: Iterable[Matcher | Grouper], rounds: int | None = None, rule_matches: int | None = None) -> "Stage":
        """The stage of some rules, without lowering rules."""
        given = list(rules)
        return Stage(
            tuple(each for each in given if isinstance(each, Matcher) and each.rule.kind != LOWERING),
            tuple(each for each in given if isinstance(each, Grouper)),
            rounds,
            rule_matches,
        )


Makes = tuple[Symbol, frozenset[Symbol]]
"""A symbol, and the symbols that an eager rule may replace it with."""


def reachable(present: Iterable[Symbol], matchers: Collection[Matcher], eager: Collection[Makes] = ()) -> list[Matcher]:
    """The matchers that can match, given the symbols of the program and those that eager rules create."""
    known = set(present)
    while True:
        found = [matcher for matcher in matchers if matcher.symbols <= known]
        wider = known.union(*(matcher.makes for matcher in found))
        wider.update(*(made for symbol, made in eager if symbol in wider))
        if wider == known:
            return found
        known = wider
