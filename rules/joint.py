"""Rule passes that stand side by side, saturated in one e-graph (`rules.joint`): no order among them is better than another then.

By itself each pass takes out the cheapest program that its own rules know. What one pass makes a little dearer, so that another can make it
much cheaper, is lost between them; in one e-graph it is not.
"""

import functools

from passat.passmgr import PassContext
from passat.rules.engine.report import EngineReport
from passat.rules.rule_pass import RulePass
from passat.rules.schedule import joint_phases


class JointPass(RulePass):
    """Several rule passes as one. What rules did is counted under the first pass that has the rule, all else under the first pass."""

    def __init__(self, passes: tuple[RulePass, ...]) -> None:
        rounds = [pass_.rounds for pass_ in passes if pass_.rounds is not None]
        super().__init__(
            joint_phases(pass_.phases for pass_ in passes),
            name="+".join(pass_.info.name for pass_ in passes),
            opt_level=max(pass_.info.opt_level for pass_ in passes),
            merge=any(pass_.merge for pass_ in passes),
            rounds=max(rounds) if len(rounds) == len(passes) else None,
        )
        self.passes = passes
        self._owners = {rule.name: pass_.info.name for pass_ in reversed(passes) for rule in pass_.rules}

    @property
    def picked_by(self) -> tuple[str, ...]:
        """The names of the passes, and the one of all together."""
        return (self.info.name, *(pass_.info.name for pass_ in self.passes))

    def record(self, ctx: PassContext, report: EngineReport, seconds: float, exact_seconds: float = 0.0) -> None:
        """Counts for each pass what its rules did."""
        first = self.passes[0].info.name
        rules, report.rules = report.rules, {}
        self.passes[0].record(ctx, report, seconds, exact_seconds)
        for rule, statistics in rules.items():
            part = EngineReport()
            part.rules[rule] = statistics
            owner = self._owners.get(rule, first)
            next(pass_ for pass_ in self.passes if pass_.info.name == owner).record(ctx, part, 0.0)


@functools.lru_cache(maxsize=64)
def joint_pass(passes: tuple[RulePass, ...]) -> JointPass:
    """The pass that several are together: one object, which keeps its engine."""
    return JointPass(passes)
