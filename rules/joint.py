"""Saturates adjacent rule passes in one e-graph (`rules.joint`), so that their order does not matter.

A pass by itself extracts the cheapest program that its own rules find. If one pass makes a program slightly more expensive, so that another
can make it much cheaper, separate passes miss the combination; a shared e-graph finds it.
"""

import functools
import math
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from passat.passmgr import PassContext
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.report import EngineReport
from passat.rules.rule import equation_of
from passat.rules.rule_pass import RulePass


class JointPass(RulePass):
    """The rule passes of a stage as one. The counts of a rule go to the pass that it belongs to. All other counts, and those of rules that
    several passes share, go to the stage."""

    def __init__(self, passes: tuple[RulePass, ...], stage: str) -> None:
        super().__init__(
            tuple(dict.fromkeys(rules for pass_ in passes for rules in pass_.sets)),
            name=stage,
            opt_level=max(pass_.info.opt_level for pass_ in passes),
            merge=any(pass_.merge for pass_ in passes),
        )
        self.passes = passes
        holders: dict[str, set[str]] = {}
        for pass_ in passes:
            for rule in pass_.declared:
                holders.setdefault(rule.name, set()).add(pass_.info.name)
        self.owners = {rule: next(iter(names)) for rule, names in holders.items() if len(names) == 1}

    @property
    def picked_by(self) -> tuple[str, ...]:
        """The names of the stage and of its passes."""
        return (self.info.name, *(pass_.info.name for pass_ in self.passes))

    def record(self, ctx: PassContext, report: EngineReport, seconds: float, exact_seconds: float = 0.0) -> None:
        """Records the counts of the rules: for the stage, and for each pass."""
        parts: dict[str, EngineReport] = {}
        rules, report.rules = report.rules, {}
        for direction, statistics in rules.items():
            owner = self.owners.get(equation_of(direction))
            part = report if owner is None else parts.setdefault(owner, EngineReport())
            part.rules[direction] = statistics
        super().record(ctx, report, seconds, exact_seconds)
        for pass_ in self.passes:
            if pass_.info.name in parts:
                pass_.record(ctx, parts.pop(pass_.info.name), 0.0)

    def _stages(self, math: str, disabled: Sequence[str]) -> list[Stage]:
        """The first stages of all passes merged, then the second ones, and so on. A rule shared by several passes appears once, with the
        widest limits."""
        beside = zip_longest(*(_bounded(pass_._stages(math, disabled), pass_.rounds) for pass_ in self.passes))
        return [stage for stages in beside for stage in _together([each for each in stages if each is not None])]


def _bounded(stages: Sequence[Stage], rounds: int | None) -> list[Stage]:
    """The stages, with at most this many iterations each."""
    most = math.inf if rounds is None else rounds
    return [each._replace(rounds=_limit(min(_wide(each.rounds), most))) for each in stages]


def _together(stages: Sequence[Stage]) -> Iterator[Stage]:
    """The stages merged: one for each pair of limits."""
    widest: dict[Directions, tuple[float, float]] = {}
    for stage in stages:
        for each in stage.rules:
            rounds, matches = widest.get(each, (0, 0))
            widest[each] = (max(rounds, _wide(stage.rounds)), max(matches, _wide(stage.rule_matches)))
    groupers = tuple(dict.fromkeys(grouper for stage in stages for grouper in stage.groupers))
    limits = dict.fromkeys(widest.values()) or {(math.inf, math.inf): None}
    for at, (rounds, matches) in enumerate(limits):
        rules = tuple([each for each, limit in widest.items() if limit == (rounds, matches)])
        yield Stage(rules, () if at else groupers, _limit(rounds), _limit(matches), beside=at > 0)


def _wide(limit: int | None) -> float:
    return math.inf if limit is None else limit


def _limit(wide: float) -> int | None:
    return None if wide == math.inf else int(wide)


@functools.lru_cache(maxsize=64)
def joint_pass(passes: tuple[RulePass, ...], stage: str) -> JointPass:
    """The combined pass: a cached object, which keeps its engine."""
    return JointPass(passes, stage)
