"""What became of the matches of a saturation: the nodes that they stand for, and whether what rules made there was taken."""

from collections import deque
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Final

from passat.rules.engine.grouping import Grouper
from passat.rules.engine.journal import Application, Run
from passat.rules.engine.matching import Matcher
from passat.rules.provenance.histories import Index
from passat.rules.why_not.view import View

_ABOVE: Final = 1_000
"""So many nodes above a place are looked at."""


class History:
    """A saturation, with what is asked of it again and again. `view` is its graph as it is at the end."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.view = View(run.graph, run.members, run.provenance, run.initial)

    @cached_property
    def matched(self) -> list[tuple[int, ...]]:
        """The nodes that each application matched, its root first; of a rule with several roots all of these."""
        return [self._matched(application) for application in self.run.applications]

    def _matched(self, application: Application) -> tuple[int, ...]:
        if isinstance(application.matcher, Grouper):
            return tuple(placed.nodes[0] for placed in application.matched)
        return application.matched[0].nodes

    @cached_property
    def retired(self) -> Mapping[int, str]:
        """The reducing rule that rewrote a node, of all those that some did."""
        return {
            nodes[0]: application.rule
            for nodes, application in zip(self.matched, self.run.applications, strict=True)
            if isinstance(application.matcher, Matcher) and application.matcher.rule.reducing
        }

    @cached_property
    def taken(self) -> list[bool]:
        """Of each application, whether the result is equal to what went in by it, or by others that say the same."""
        index = Index(0, self.run)
        return [place in index.used or index.repeats(place) for place in range(len(self.run.applications))]

    @cached_property
    def _users(self) -> Mapping[int, Sequence[int]]:
        """The classes that use each class, in the program that came in."""
        graph = self.run.graph
        users: dict[int, list[int]] = {}
        for node in range(self.run.initial):
            for operand in graph.operands[node]:
                users.setdefault(graph.find(operand), []).append(graph.find(node))
        return users

    def rewritten_above(self, application: Application) -> tuple[str, int] | None:
        """What took the place of an application out of the program: the rule that rewrote something above it, and that class."""
        run, graph = self.run, self.run.graph
        assert run.choice is not None
        seen: set[int] = set()
        work = deque(graph.find(root) for root, _ in application.unions)
        while work and len(seen) < _ABOVE:
            cls = work.popleft()
            if cls in seen:
                continue
            seen.add(cls)
            chosen = run.choice.get(cls)
            if chosen is None:
                work.extend(self._users.get(cls, ()))
            elif chosen in run.provenance:
                return run.provenance[chosen][0], cls
        return None
