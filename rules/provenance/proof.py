"""Why nodes of a saturated graph are equal: which applications of rules made them so, one after the other, and through operands."""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.rules.engine.graph import Graph
from passat.rules.engine.journal import Application

_CONGRUENT: Final = -1
"""The nodes are alike, but for operands that are equal."""
_OTHER: Final = -2
"""The nodes are equal for a reason that no application gives: what was computed of constants."""


class Proof:
    """The unions of a saturation made again in order, with what follows for the nodes above. Each joins two trees of nodes by an edge, so
    that there is one path between two nodes of a class, and what an edge rests on is older than the edge."""

    def __init__(self, graph: Graph, applications: Sequence[Application]) -> None:
        self._graph = graph
        self._classes = list(range(len(graph)))
        self._sizes = [1] * len(graph)
        self._up: dict[int, tuple[int, int]] = {}
        """For each node below another one of its tree that node, and the place of the application, or why else the two are equal."""
        self._users: dict[int, list[int]] = {}
        self._alike: dict[tuple[object, ...], int] = {}
        for node, operands in enumerate(graph.operands):
            self._alike[self._key(node)] = node
            for operand in dict.fromkeys(operands):
                self._users.setdefault(operand, []).append(node)
        for place, application in enumerate(applications):
            for root, made in application.unions:
                self._unite(root, made, place)
        for cls, nodes in graph.members.items():
            for node in nodes:
                self._unite(cls, node, _OTHER)

    def applications(self, pairs: Iterable[tuple[int, int]]) -> set[int]:
        """The places of the applications that make the nodes of each pair equal."""
        found: set[int] = set()
        seen: set[int] = set()
        stack = list(pairs)
        while stack:
            for node in self._path(*stack.pop()):
                if node in seen:
                    continue
                seen.add(node)
                above, why = self._up[node]
                if why >= 0:
                    found.add(why)
                elif why == _CONGRUENT:
                    stack += zip(self._graph.operands[node], self._graph.operands[above], strict=True)
        return found

    def _path(self, one: int, other: int) -> list[int]:
        """The nodes below the edges of the path between two nodes; nothing where they are not equal."""
        first, second = self._ancestors(one), self._ancestors(other)
        if first[-1] != second[-1]:
            return []
        while first and second and first[-1] == second[-1]:
            first.pop()
            second.pop()
        return first + second

    def _ancestors(self, node: int) -> list[int]:
        """The node and those above it."""
        found = [node]
        while node in self._up:
            node = self._up[node][0]
            found.append(node)
        return found

    def _find(self, node: int) -> int:
        classes = self._classes
        while classes[node] != node:
            classes[node] = classes[classes[node]]
            node = classes[node]
        return node

    def _key(self, node: int) -> tuple[object, ...]:
        graph = self._graph
        return graph.symbols[node], graph.payloads[node], tuple(map(self._find, graph.operands[node]))

    def _unite(self, one: int, other: int, why: int) -> None:
        pending = [(one, other, why)]
        while pending:
            below, above, why = pending.pop()
            gone, kept = self._find(below), self._find(above)
            if gone == kept:
                continue
            if self._sizes[gone] > self._sizes[kept]:
                below, above, gone, kept = above, below, kept, gone
            edge = above, why
            while below in self._up:  # the smaller tree hangs from this node now
                following, self._up[below] = self._up[below], edge
                edge, below = (below, following[1]), following[0]
            self._up[below] = edge
            self._classes[gone] = kept
            self._sizes[kept] += self._sizes[gone]
            users = self._users.pop(gone, [])
            pending += [(node, self._alike.setdefault(self._key(node), node), _CONGRUENT) for node in users]
            self._users.setdefault(kept, []).extend(users)
