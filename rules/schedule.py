"""Schedules: which rules of a pass are heard together, in which order, and how long."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, cast

from passat.rules.pattern import RuleError
from passat.rules.rule import RuleSetMeta


class Phase(NamedTuple):
    """Rule sets that run together, in the e-graph that the phases before have left, until they find nothing new; or for so many `rounds`.
    A rule that finds more than `rule_matches` in one round is put off."""

    sets: tuple[RuleSetMeta, ...]
    rounds: int | None = None
    rule_matches: int | None = None


def phase(*sets: RuleSetMeta, rounds: int | None = None, rule_matches: int | None = None) -> Phase:
    """A phase of a pass: `rule_pass(phase(Simple), phase(Products, rounds=2))`. Raises RuleError for what is no rule set, and for limits
    below one.

    >>> from passat.rules.library import Arithmetic
    >>> phase(Arithmetic, rounds=2).rounds
    2
    """
    if not sets:
        raise RuleError("phase needs at least one rule set")
    for name, limit in (("rounds", rounds), ("rule_matches", rule_matches)):
        if limit is not None and limit < 1:
            raise RuleError(f"phase: {name} is at least 1, not {limit!r}")
    return Phase(rule_sets(sets, "phase"), rounds, rule_matches)


def rule_sets(given: Iterable[object], where: str) -> tuple[RuleSetMeta, ...]:
    """What is given, where all of it is rule sets. Raises RuleError."""
    sets = tuple(given)
    for rules in sets:
        if not isinstance(rules, RuleSetMeta):
            raise RuleError(f"{where} takes classes derived from RuleSet, not {rules!r}")
    return cast(tuple[RuleSetMeta, ...], sets)


def phases_of(given: Sequence[RuleSetMeta | Phase]) -> tuple[Phase, ...]:
    """The phases of a pass; rule sets that stand by themselves side by side are one phase."""
    phases: list[Phase] = []
    together = False
    for each in given:
        if isinstance(each, Phase):
            phases.append(each)
        elif together:
            phases[-1] = Phase((*phases[-1].sets, each))
        else:
            phases.append(Phase((each,)))
        together = not isinstance(each, Phase)
    return tuple(phases)
