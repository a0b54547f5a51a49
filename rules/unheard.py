"""Why no pass of a pipeline looks for a rule."""

from collections.abc import Collection
from typing import NamedTuple

from passat.passmgr import PassContext, Plan
from passat.rules.rule import Rule, equation_of
from passat.rules.rule_pass import ALWAYS, RulePass


class Unheard(NamedTuple):
    """Whether a pass of the pipeline has the rule, and why none looks for it; '' where one does."""

    is_held: bool
    why: str


def unheard(rule: Rule, plan: Plan, ctx: PassContext, ran: Collection[str] | None = None) -> Unheard:
    """Why no pass of a plan looks for a rule; `ran` are the passes that ran in fact, by default all that the plan has running."""
    steps = [(step, step.pass_) for step in plan.walk() if isinstance(step.pass_, RulePass)]
    name = equation_of(rule.name)
    holding = [(step, pass_) for step, pass_ in steps if any(one.name == name for rules in (*pass_.sets, *ALWAYS) for one in rules)]
    whys = []
    for step, pass_ in holding:
        vetoed = "an instrument vetoed it" if ran is not None and step.name not in ran else ""
        idle = vetoed if step.runs else step.why
        why = pass_.left_out(rule, ctx) or (f"{step.name} does not run: {idle}" if idle else "")
        if not why:
            return Unheard(is_held=True, why="")
        whys.append(why)
    told = list(dict.fromkeys(whys))
    return Unheard(
        bool(holding), f"{', '.join(told[:-1])} and {told[-1]}" if len(told) > 1 else "".join(told) or "no pass of the pipeline has it"
    )
