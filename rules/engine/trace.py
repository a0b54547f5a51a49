"""What saturations did, step by step, for those who ask afterward: explanations, certificates, why a rule did not fire, reports."""

from collections.abc import Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.ir.expr import Expr

if TYPE_CHECKING:
    from passat.rules.engine.graph import Graph
    from passat.rules.engine.grouping import Grouper
    from passat.rules.engine.matching import Matcher
    from passat.rules.engine.report import Saturation
    from passat.rules.engine.saturate import Saturator
    from passat.rules.engine.stage import Stage
    from passat.rules.engine.variant import Placed
    from passat.rules.extraction.space import Space

KEPT: Final = 10_000
"""So many refused matches of a rule are kept with their reasons."""


class Application(NamedTuple):
    """A match that a rule was applied to: where it lies (of a rule with several roots, all of them), the class of each root as it was then
    and the node that may stand there now, the nodes that were made for it, as a range, and the round."""

    rule: str
    matcher: "Matcher | Grouper"
    matched: "tuple[Placed, ...]"
    unions: tuple[tuple[int, int], ...]
    made: range
    round: int


class Rejected(NamedTuple):
    """A match that a rule refused, and why."""

    matcher: "Matcher"
    row: tuple[int, ...]
    reason: str
    round: int


class Run(NamedTuple):
    """One saturation and what was taken out of it: which pass it belongs to, or passes that share an e-graph, and which function; the body
    that went in, and the one that came out; the graph, the root of the body there, and how many nodes it had at first; everything that
    rules did, in order; the nodes of each class that has several; for each new node the rule that made it and the class where it matched;
    the space that was chosen from, and the choice (both None where nothing changed and nothing was chosen); the rules that found more than
    their budgets in some round."""

    pass_name: str
    function: str
    body: Expr
    result: Expr
    graph: "Graph"
    root: int
    initial: int
    stages: "Sequence[Stage]"
    saturation: "Saturation"
    applications: Sequence[Application]
    refused: Mapping[str, Sequence[Rejected]]
    members: Mapping[int, Sequence[int]]
    provenance: Mapping[int, tuple[str, int]]
    space: "Space | None"
    choice: Mapping[int, int] | None
    banned: Set[str] = frozenset()
    owners: Mapping[str, str] = MappingProxyType({})

    def pass_of(self, rule: str) -> str:
        """The pass that a rule belongs to, of those that share the e-graph."""
        return self.owners.get(rule, self.pass_name)


class Trace:
    """Collects the runs of all rule passes of a context (`rules.trace`). Functions are taken whole then, and nothing from the cache, so
    that every step is seen. It keeps the graphs alive.

    >>> from passat.passmgr import PassContext
    >>> PassContext(config={"rules.trace": Trace()}).get_config("rules.trace").runs
    []
    """

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.pass_name = ""
        self.function = ""
        self.owners: Mapping[str, str] = {}

    def at(self, pass_name: str, function: str, owners: Mapping[str, str] = MappingProxyType({})) -> None:
        """The runs that follow belong to this pass and function; of several passes together, `owners` tells which one has a rule."""
        self.pass_name, self.function, self.owners = pass_name, function, owners

    def note(
        self,
        graph: "Graph",
        root: int,
        initial: int,
        body: Expr,
        result: Expr,
        stages: "Sequence[Stage]",
        saturator: "Saturator",
        steps: "Steps",
        space: "Space | None",
        choice: Mapping[int, int] | None,
    ) -> None:
        """Adds a run."""
        self.runs.append(
            Run(
                *(self.pass_name, self.function, body, result, graph, root, initial, tuple(stages), saturator.result),
                *(steps.applications, steps.refused, saturator.members, saturator.provenance, space, choice, steps.banned, self.owners),
            )
        )


class Steps:
    """What rules do in one saturation, in order."""

    def __init__(self) -> None:
        self.applications: list[Application] = []
        self.refused: dict[str, list[Rejected]] = {}
        self.banned: set[str] = set()

    def refuse(self, matcher: "Matcher", row: tuple[int, ...], reason: str, round_: int) -> None:
        """Keeps a refusal, of each rule the first `KEPT`."""
        known = self.refused.setdefault(matcher.name, [])
        if len(known) < KEPT:
            known.append(Rejected(matcher, row, reason, round_))
