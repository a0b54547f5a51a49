"""Traces of saturations: the events that explanations, certificates, why-not and reports read."""

from collections.abc import Iterator, Mapping, Sequence, Set
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.ir.expr import Expr
from passat.rules.engine.graph import Graph, operands_of
from passat.rules.rule import equation_of

if TYPE_CHECKING:
    from passat.rules.engine.directions import Stage
    from passat.rules.engine.grouping import Grouper
    from passat.rules.engine.matching import Matcher
    from passat.rules.engine.report import Saturation
    from passat.rules.engine.saturate import Saturator
    from passat.rules.engine.variant import Placed
    from passat.rules.extraction.space import Space

KEPT: Final = 10_000
"""Number of rejected matches kept per rule, with their reasons."""


class Application(NamedTuple):
    """A match that a rule was applied to: its position (one per root of a multi-pattern rule), the e-class of each root at that time with
    its replacement node, the range of nodes created, and the iteration."""

    rule: str
    matcher: "Matcher | Grouper"
    matched: "tuple[Placed, ...]"
    unions: tuple[tuple[int, int], ...]
    made: range
    round: int


class Rejected(NamedTuple):
    """A match that a rule rejected, and why."""

    matcher: "Matcher"
    row: tuple[int, ...]
    reason: str
    round: int


class Run(NamedTuple):
    """One saturation and its extraction: the pass, or stage of passes, and the function; the body before and after; the graph, its root and
    its initial number of nodes; all rule events, in order; the rule and matched e-class of each new
    node; the search space and the choice (both None if nothing changed); the rules that exceeded their budget and were banned; the passes
    of the rules; the rule that retired each retired node; the numbers of the stages that ended at their limit of iterations."""

    pass_name: str
    function: str
    body: Expr
    result: Expr
    graph: Graph
    root: int
    initial: int
    stages: "Sequence[Stage]"
    saturation: "Saturation"
    applications: Sequence[Application]
    rejected: Mapping[str, Sequence[Rejected]]
    provenance: Mapping[int, tuple[str, int]]
    space: "Space | None"
    choice: Mapping[int, int] | None
    banned: Set[str] = frozenset()
    owners: Mapping[str, str] = MappingProxyType({})
    retired: Mapping[int, str] = MappingProxyType({})
    cut: Set[int] = frozenset()

    def pass_of(self, rule: str) -> str:
        """The pass that a rule belongs to, among those that share the e-graph; the stage if several passes have it."""
        return self.owners.get(equation_of(rule), self.pass_name)

    def extracted(self) -> Iterator[tuple[Expr, int]]:
        """The expressions of a result that was extracted, each with its e-class."""
        graph, choice = self.graph, self.choice or {}
        stack, seen = [(self.result, graph.find(self.root))], set[int]()
        while stack:
            expr, cls = stack.pop()
            if id(expr) in seen:
                continue
            seen.add(id(expr))
            yield expr, cls
            node, parts = choice.get(cls), operands_of(expr)
            if id(expr) in graph.ids:
                stack += [(part, graph.find(graph.ids[id(part)])) for part in parts if id(part) in graph.ids]
            elif node is not None and len(parts) == len(graph.operands[node]):
                stack += [(part, graph.find(operand)) for part, operand in zip(parts, graph.operands[node], strict=True)]


class Trace:
    """Collects the runs of all rule passes of a context (`rules.trace`). It disables regions and the cache, so that all events are
    recorded, and keeps the graphs alive.

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
        """Sets the pass and function of the runs that follow; if several passes run jointly, `owners` maps rules to passes."""
        self.pass_name, self.function, self.owners = pass_name, function, owners

    def note(
        self, saturator: "Saturator", root: int, body: Expr, result: Expr, space: "Space | None", choice: Mapping[int, int] | None
    ) -> None:
        """Adds a run."""
        done, steps = saturator, saturator.steps
        assert steps is not None
        self.runs.append(
            Run(
                *(self.pass_name, self.function, body, result, done.graph, root, done.initial, tuple(done.stages), done.result),
                *(steps.applications, steps.rejected, done.provenance, space, choice, steps.banned, self.owners),
                *(steps.retired, steps.cut),
            )
        )


class Steps:
    """The events of one saturation, in order."""

    def __init__(self) -> None:
        self.applications: list[Application] = []
        self.rejected: dict[str, list[Rejected]] = {}
        self.banned: set[str] = set()
        self.retired: dict[int, str] = {}
        self.cut: set[int] = set()

    def reject(self, matcher: "Matcher", row: tuple[int, ...], reason: str, round_: int) -> None:
        """Records a rejection; keeps the first `KEPT` of each rule."""
        known = self.rejected.setdefault(matcher.name, [])
        if len(known) < KEPT:
            known.append(Rejected(matcher, row, reason, round_))
