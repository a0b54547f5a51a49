"""The edges of an e-graph between symbols: a rule can match only if it has those of the left side."""

from passat.rules.engine.graph import Graph, Symbol, either_way

Edge = tuple[Symbol, int, Symbol]
"""A node of the first symbol has, as the operand at a place, an e-class with a node of the second. Commutative operators count at both
places."""


class Edges:
    """The edges of a growing graph. Only ever gains edges, since e-nodes are never removed."""

    def __init__(self, graph: Graph) -> None:
        self._found: set[Edge] = set()
        self._graph = graph
        self._present: set[Symbol] = set()
        self._walked = 0
        self._users: dict[int, set[tuple[Symbol, int]]] | None = None
        """The symbols and places that use each e-class; none before the first union, since programs without one do not need them."""

    def allow(self, root: Symbol, edges: frozenset[Edge]) -> bool:
        """True if a left side may match: its root occurs, and all its edges do."""
        return root in self._present and edges <= self._found

    def extend(self) -> None:
        """Adds the edges of the nodes that were added to the graph since the last call."""
        graph, start = self._graph, self._walked
        if start == len(graph):
            return
        symbols, operands, members, find = graph.symbols, graph.operands, graph.members, graph.find
        self._walked = len(graph)
        self._present.update(symbols[start:])
        if self._users is None:
            self._found.update(
                either_way(
                    [(symbols[node], i, symbols[part]) for node in range(start, len(graph)) for i, part in enumerate(operands[node])]
                )
            )
            return
        made: set[Edge] = set()
        for node in range(start, len(graph)):
            head = symbols[node]
            for i, part in enumerate(operands[node]):
                cls = find(part)
                self._use(cls, head, i)
                made.update([(head, i, symbols[member]) for member in members.get(cls, (cls,))])
        self._found.update(either_way(made))

    def unite(self, kept: int, gone: int) -> None:
        """Adds the edges of two e-classes that are about to be united."""
        if self._users is None:
            self._users = {}
            for node in range(self._walked):
                for i, part in enumerate(self._graph.operands[node]):
                    self._use(self._graph.find(part), self._graph.symbols[node], i)
        symbols, members = self._graph.symbols, self._graph.members
        above, others = self._users.get(kept, set()), self._users.pop(gone, set())
        for users, cls in ((above, gone), (others, kept)):
            heads = {symbols[member] for member in members.get(cls, (cls,))}
            self._found.update([(whole, i, head) for whole, i in users for head in heads])
        if others:
            self._users[kept] = above | others

    def _use(self, cls: int, head: Symbol, place: int) -> None:
        assert self._users is not None
        users = self._users.get(cls)
        if users is None:
            users = self._users[cls] = set()
        users.add((head, place))
        if head.op is not None and head.op.commutative:
            users.add((head, 1 - place))
