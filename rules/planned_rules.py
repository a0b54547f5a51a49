"""Which rules a plan runs: why a rule does not run, and disabled passes whose rules run in other passes."""

from collections.abc import Collection, Iterable
from typing import Final, NamedTuple

from passat.passmgr import PassContext, Plan
from passat.passmgr.planning.plan import Reason, Step
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import RulePass

_NAMED: Final = 3
"""Maximum number of passes, and of sets, that a sentence names."""


class NotRun(NamedTuple):
    """Whether a pass of the pipeline has the rule, and why no pass runs it; '' if one does."""

    is_held: bool
    why: str


def why_not_run(rule: Rule, plan: Plan, ctx: PassContext, ran: Collection[str] | None = None) -> NotRun:
    """Why no pass of a plan runs a rule; `ran` are the passes that actually ran, by default all that the plan runs."""
    name = equation_of(rule.name)
    holding = [(step, pass_) for step, pass_ in _rule_passes(plan) if any(one.name == name for one in pass_.declared)]
    whys = []
    for step, pass_ in holding:
        vetoed = "an instrument vetoed it" if ran is not None and step.name not in ran else ""
        idle = vetoed if step.runs else step.why
        why = pass_.left_out(rule, ctx) or (f"{step.name} does not run: {idle}" if idle else "")
        if not why:
            return NotRun(is_held=True, why="")
        whys.append(why)
    told = list(dict.fromkeys(whys))
    return NotRun(
        bool(holding), f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "no pass of the pipeline has it"
    )


def disabled_in_vain(plan: Plan, ctx: PassContext) -> list[str]:
    """A sentence for each disabled pass all of whose rules run in other passes."""
    if not any(step.reason is Reason.DISABLED for step in plan.walk()):
        return []
    running: dict[str, list[str]] = {}
    for step, pass_ in _rule_passes(plan):
        for rule in pass_.declared if step.runs else ():
            if not pass_.left_out(rule, ctx):
                running.setdefault(rule.name, []).append(step.name)
    said = []
    for step, pass_ in _rule_passes(plan):
        own = {rule.name: rules.__name__ for rules in pass_.sets for rule in rules if not pass_.left_out(rule, ctx)}
        if step.reason is Reason.DISABLED and own and own.keys() <= running.keys():
            sets = _some(own.values())
            passes = _some(name for rule in own for name in running[rule])
            said.append(
                f"{step.name} is disabled, but other passes run its rules, too ({passes}): disable the rules or their sets ({sets})"
            )
    return said


def _some(names: Iterable[str]) -> str:
    """The first names."""
    distinct = list(dict.fromkeys(names))
    return ", ".join(distinct[:_NAMED]) + (" ..." if len(distinct) > _NAMED else "")


def _rule_passes(plan: Plan) -> list[tuple[Step, RulePass]]:
    return [(step, step.pass_) for step in plan.walk() if isinstance(step.pass_, RulePass)]
