"""Stages of a saturation: which rules are heard together and how long, and which of them can come to match at all."""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from passat.rules.engine.graph import Symbol
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.matching import Matcher
from passat.rules.rule import LOWERING


class Stage(NamedTuple):
    """Rules that run in one e-graph until they find nothing new, or for so many rounds. `groupers` are applied when the stage begins, to
    the program as it came in. `rule_matches` is the budget of its rules in a round where they have none of their own. One that is `beside`
    runs together with the stage before it."""

    matchers: tuple[Matcher, ...]
    groupers: tuple[Grouper, ...] = ()
    rounds: int | None = None
    rule_matches: int | None = None
    beside: bool = False

    @staticmethod
    def of(rules: Iterable[Matcher | Grouper], rounds: int | None = None, rule_matches: int | None = None) -> "Stage":
        """The stage of some rules; those that lower are none of its own."""
        given = list(rules)
        return Stage(
            tuple(each for each in given if isinstance(each, Matcher) and each.rule.kind != LOWERING),
            tuple(each for each in given if isinstance(each, Grouper)),
            rounds,
            rule_matches,
        )


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
