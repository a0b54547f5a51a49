"""The edges of an e-graph between symbols: a rule can match only if it has those of the left side."""

from collections.abc import Iterable, Set
from typing import Any as AnyValue

from passat.ir.tensor import Tensor
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.variant import Variant

Edge = tuple[Symbol, int, Symbol]
"""A node of the first symbol has, as the operand at a place, an e-class with a node of the second. Commutative operators count at both
places."""
Place = tuple[Symbol, int]


class Edges:
    """The edges of a growing graph. Only ever gains edges, since e-nodes are never removed."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._present: set[Symbol] = set()
        self._found: set[Edge] = set()
        self._walked = 0
        self._users: dict[int, set[Place]] | None = None
        """The symbols and places that use each e-class; none before the first union, since programs without one do not need them."""
        self._heads = {cls: {graph.symbols[node] for node in nodes} for cls, nodes in graph.members.items()}
        """The symbols of the nodes in each e-class of several nodes."""
        self._numbers: dict[Place, dict[object, AnyValue]] = {}
        """The numbers at the places that were looked at: the elements of constants whose elements are equal. Without them, a chain of 5,000
        elementwise calls takes 1.05 times the time, and exports 1.0."""

    def allow(self, root: Symbol, variant: Variant) -> bool:
        """True if a left side may match: its root occurs, all its edges do, and its numbers are operands where they have to be."""
        return (
            root in self._present
            and variant.edges <= self._found
            and all(any(element == number for element in self._numbers_at((whole, i)).values()) for whole, i, number in variant.numbers)
        )

    def extend(self) -> None:
        """Adds the edges of the nodes that were added to the graph since the last call."""
        graph, start = self._graph, self._walked
        if start == len(graph):
            return
        symbols, operands, find = graph.symbols, graph.operands, graph.find
        new = range(start, len(graph))
        self._walked = len(graph)
        self._present.update(symbols[start:])
        if self._users is None:
            made = {(symbols[node], i, symbols[part]) for node in new for i, part in enumerate(operands[node])}
        else:
            made = set()
            for node in new:
                for i, part in enumerate(operands[node]):
                    cls = find(part)
                    self._use(cls, symbols[node], i)
                    made.update([(symbols[node], i, head) for head in self._heads.get(cls, (symbols[cls],))])
        self._found.update([(whole, place, part) for whole, i, part in made for place in _places(whole, i)])
        self._count(new, {head for head, _ in self._numbers})

    def unite(self, kept: int, gone: int) -> None:
        """Adds the edges of two e-classes that are about to be united."""
        if self._users is None:
            self._users = {}
            for node in range(self._walked):
                for i, part in enumerate(self._graph.operands[node]):
                    self._use(self._graph.find(part), self._graph.symbols[node], i)
        symbols = self._graph.symbols
        above, others = self._users.get(kept, set()), self._users.pop(gone, set())
        mine, theirs = self._heads.get(kept, {symbols[kept]}), self._heads.pop(gone, {symbols[gone]})
        for users, cls, heads in ((above, gone, theirs), (others, kept, mine)):
            self._found.update([(whole, i, head) for whole, i in users for head in heads])
            self._add_number(cls, users)
        self._heads[kept] = mine | theirs
        if others:
            self._users[kept] = above | others

    def _use(self, cls: int, head: Symbol, place: int) -> None:
        assert self._users is not None
        self._users.setdefault(cls, set()).update([(head, i) for i in _places(head, place)])

    def _numbers_at(self, place: Place) -> dict[object, AnyValue]:
        if place not in self._numbers:
            self._numbers[place] = {}
            self._count(range(self._walked), {place[0]})
        return self._numbers[place]

    def _count(self, nodes: Iterable[int], heads: Set[Symbol]) -> None:
        """Adds the numbers that are operands of those of some nodes that have one of these symbols."""
        graph = self._graph
        for node in nodes if heads else ():
            head = graph.symbols[node]
            if head in heads:
                for i, part in enumerate(graph.operands[node]):
                    self._add_number(graph.find(part), [(head, place) for place in _places(head, i)])

    def _add_number(self, cls: int, places: Iterable[Place]) -> None:
        """Adds the number that an e-class is, if any, at those of some places that were asked about."""
        value = self._graph.constants.get(cls)
        if isinstance(value, Tensor):
            for place in places:
                if place in self._numbers and (element := value.uniform()) is not None:
                    self._numbers[place][value.dtype, element] = element


def _places(head: Symbol, place: int) -> tuple[int, ...]:
    """The places at which an operand counts: both, if the operator is commutative."""
    return (place, 1 - place) if head.op is not None and head.op.commutative else (place,)
