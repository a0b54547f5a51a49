"""Statistics of runs: per rule, per saturation, and per function."""

from dataclasses import dataclass, field
from typing import Final

from passat.rules.engine.limits import SATURATED, Stop, StopReason
from passat.rules.guards import Reject
from passat.rules.rule import without_operators

_REASONS: Final = 5
"""Maximum number of distinct rejection reasons kept per rule."""


class Skipped(str):
    """A failure to process a function: the engine left it unchanged. The text says why."""

    __slots__ = ()


class Ended(str):
    """A remark that a limit, an interruption or a failure of egglog ended a saturation or a search early."""

    __slots__ = ()


class Rejected(str):
    """A remark that a number of matches of a rule were rejected for one reason."""

    __slots__ = ("matches", "reason", "rule")
    rule: str
    reason: str
    matches: int

    def __new__(cls, rule: str, reason: str, matches: int) -> "Rejected":
        """The remark, with its parts."""
        made = super().__new__(cls, f"{rule} rejected {matches} {'time' if matches == 1 else 'times'}: {reason}")
        made.rule, made.reason, made.matches = rule, reason, matches
        return made

    def __reduce__(self) -> tuple[type, tuple[str, str, int]]:
        return (Rejected, (self.rule, self.reason, self.matches))


class Inapplicable(str):
    """Why a pass does not run on a module, as a remark of the pass."""

    __slots__ = ()


def early_end(stop: Stop) -> Ended:
    """The remark about a saturation that ended early."""
    return Ended(f"{stop}; the best program so far was extracted")


@dataclass
class RuleStatistics:
    """Statistics of one rule: matches processed, matches rejected with the reasons (the first few, counted), unions made."""

    matches: int = 0
    rejected: int = 0
    unions: int = 0
    seconds: float = 0.0
    reasons: dict[str, int] = field(default_factory=dict)

    def reject(self, rejection: Reject) -> None:
        """Counts a rejection."""
        self.rejected += 1
        reason = str(rejection)
        if reason in self.reasons or len(self.reasons) < _REASONS:
            self.reasons[reason] = self.reasons.get(reason, 0) + 1


@dataclass(frozen=True)
class Round:
    """One iteration: nodes and e-classes after it, matches processed, unions made, and seconds."""

    nodes: int
    classes: int
    matches: int
    unions: int
    seconds: float


@dataclass
class Saturation:
    """The result of a saturation: its iterations, why it stopped, statistics per rule and iteration, and the rules that ended before
    (`Shares`), with what to say of each."""

    rounds: int = 0
    stopped: Stop = SATURATED
    nodes: int = 0
    rules: dict[str, RuleStatistics] = field(default_factory=dict)
    history: list[Round] = field(default_factory=list)
    ended: dict[str, str] = field(default_factory=dict)

    def of(self, rule: str) -> RuleStatistics:
        """The statistics of a rule."""
        return self.rules.setdefault(rule, RuleStatistics())

    @property
    def unions(self) -> int:
        """The number of unions made by all rules."""
        return sum(statistics.unions for statistics in self.rules.values())


@dataclass
class EngineReport:
    """Statistics of a run, including regions: iterations, nodes in the e-graph, stop reasons, rules that ended before, statistics per rule;
    eager rule applications, common subexpressions merged, calls lowered; e-classes with more than one extractable e-node; costs by the
    model; the optimality gap of each exact search; why nothing was done, if there is a reason; the number of regions of a large function,
    of regions replayed from equal ones, and of cached results; whether the function changed."""

    rounds: int = 0
    nodes: int = 0
    stopped: list[Stop] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    rules: dict[str, RuleStatistics] = field(default_factory=dict)
    eager: int = 0
    merged: int = 0
    lowered: int = 0
    alternatives: int = 0
    cost_before: float = 0.0
    cost_after: float = 0.0
    gaps: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    regions: int = 0
    replayed: int = 0
    changed: int = 0

    def add(self, other: "EngineReport") -> None:
        """Adds the statistics of another run."""
        self.rounds = max(self.rounds, other.rounds)
        for name in ("nodes", "eager", "merged", "lowered", "alternatives", "cost_before", "cost_after"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("stopped", "ended", "failures"):
            ours = getattr(self, name)
            ours += [text for text in getattr(other, name) if text not in ours]
        self.gaps += other.gaps
        self.add_rules(other.rules)

    def add_saturation(self, result: Saturation) -> None:
        """Adds one saturation."""
        self.rounds = max(self.rounds, result.rounds)
        self.nodes += result.nodes
        self.add_rules(result.rules)
        if result.stopped.reason is StopReason.FAILED:
            self.failures.append(early_end(result.stopped))
        elif result.stopped != SATURATED:
            self.stopped.append(result.stopped)
        ended = dict.fromkeys(f"{without_operators(rule)} {how}" for rule, how in result.ended.items())
        self.ended += [text for text in ended if text not in self.ended]

    def add_rules(self, rules: dict[str, RuleStatistics]) -> None:
        """Adds the statistics per rule of one saturation."""
        for name, new in rules.items():
            old = self.rules.setdefault(name, RuleStatistics())
            old.matches += new.matches
            old.rejected += new.rejected
            old.unions += new.unions
            old.seconds += new.seconds
            for reason, count in new.reasons.items():
                old.reasons[reason] = old.reasons.get(reason, 0) + count
