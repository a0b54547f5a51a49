"""What reducing rules have made of a program: the newest node of each e-class, and the nodes that it replaces."""

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from passat.rules.engine.graph import Graph
from passat.rules.engine.mirror import Retired
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.variant import Variant


class Renewals:
    """The nodes that reducing rules made for the e-classes of a graph, and those that they retired.

    Egglog unites a new node with its e-class in the next iteration. Walks before it match through the newest node of each e-class.
    """

    def __init__(self, graph: Graph, *, traced: bool) -> None:
        self.newest: dict[int, int] = {}
        """The newest node that a reducing rule made for an e-class."""
        self.combined: set[int] = set()
        """The e-classes for which a reducing rule combined constants."""
        self._graph = graph
        self._traced = traced
        self._made_for: dict[int, int] = {}
        """The e-classes of such nodes, with which they may not be united yet."""
        self._retired: Retired = {}
        self._postponed: Retired = {}
        """The nodes to retire an iteration later than the others."""
        self._united: dict[int, list[int]] = {}
        """The nodes of e-classes that are about to be united with new nodes, if the run is traced."""

    def renew(self, root: int, made: int, *, combines: bool) -> None:
        """Records a new node for an e-class, or for another new node of it; it may combine constants."""
        cls = self._made_for.setdefault(made, self._made_for.get(root, root))
        for each in {cls, root}:
            self.newest[each] = made
            if self._traced:
                self._united[each] = [*self.members().get(each, (each,)), made]
        if combines:
            self.combined |= {root, cls}

    def is_renewed(self, node: int) -> bool:
        """True if a reducing rule has made a node for an operand."""
        return not self.newest.keys().isdisjoint(self._graph.operands[node])

    def matches(self, variant: Variant, nodes: Sequence[int]) -> list[tuple[int, ...]]:
        """The matches at some nodes through the newest nodes of e-classes."""
        return variant.again(self._graph, nodes, self.newest)

    def members(self) -> Mapping[int, Sequence[int]]:
        """The nodes of each e-class with several, new ones included."""
        return ChainMap(self._united, self._graph.members)

    def users_of_combined(self, initial: int) -> Iterator[int]:
        """Those of the first nodes for which a reducing rule has combined constants, or for an operand; as it does, also new ones."""
        combined, operands = self.combined, self._graph.operands
        return (node for node in range(initial) if node in combined or not combined.isdisjoint(operands[node]))

    # ---- retired nodes

    def retire(self, head: Symbol, node: tuple[int, ...]) -> None:
        """Retires a node, given by its operands and payload, before the next iteration."""
        self._retired.setdefault(head, []).append(node)

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """A context in which nodes are retired an iteration later than usual."""
        retired, self._retired = self._retired, {}
        yield
        self._retired, self._postponed = retired, self._retired

    def next_retired(self) -> Retired:
        """Begins an iteration; returns the nodes to retire before it."""
        retired, self._retired, self._postponed = self._retired, self._postponed, {}
        self._united.clear()
        return retired
