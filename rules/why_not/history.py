"""What became of the matches of a saturation: the nodes that they stand for, and whether what rules made there was taken."""

from collections import deque
from collections.abc import Mapping, Sequence, Set
from functools import cached_property
from typing import Any as AnyValue
from typing import Final

from passat.rules.engine.graph import CONST_SYMBOL
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.journal import Application, Run
from passat.rules.engine.matching import Matcher
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
        """Of each application, whether the result has what it made, or what was made of that."""
        run = self.run
        found = [False] * len(run.applications)
        if run.choice is None:
            return found
        used = {self.run.graph.key(node) for node in run.choice.values()}
        changed = True
        while changed:  # what is matched was made before, so that in this order one more look is enough but for cycles
            changed = False
            for i in reversed(range(len(found))):
                if not found[i] and any(self._is_used(used, node, root, self.matched[i][0]) for root, node in run.applications[i].unions):
                    found[i] = changed = True
                    used |= {self.run.graph.key(node) for node in self.matched[i]}
        return found

    def _is_used(self, used: Set[AnyValue], node: int, root: int, matched: int) -> bool:
        """Whether the node that an application put into the class of a root, where another had matched, stands in the result."""
        run = self.run
        assert run.choice is not None
        if self.run.graph.key(node) == self.run.graph.key(matched):
            return False
        chosen = run.choice.get(run.graph.find(root))
        if chosen is not None and self.run.graph.key(chosen) in (self.run.graph.key(matched), self.run.graph.key(self._origin(matched))):
            return False  # what stood there stands there still, though rules may have gone there and back
        if self.run.graph.key(node) in used:
            return True
        if chosen is None:
            return False
        # A hole, or a constant by now, is the class itself.
        return run.graph.symbols[chosen] is CONST_SYMBOL or node not in run.provenance

    def _origin(self, node: int) -> int:
        """What stood in the program in the place of a node that rules have made."""
        seen = {node}
        while node in self._stood and self._stood[node] not in seen:
            node = self._stood[node]
            seen.add(node)
        return node

    @cached_property
    def _stood(self) -> Mapping[int, int]:
        """For each node that an application put into the place of another, that one."""
        applied = zip(self.run.applications, self.matched, strict=True)
        made = [(node, root) for one, roots in applied for (_, node), root in zip(one.unions, roots, strict=False) if node in one.made]
        return dict(reversed(made))

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
