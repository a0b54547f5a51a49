"""Mirrors a graph in egglog: sends nodes and unions, receives merges and matches."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EGraphs, Query
from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.matching import Matcher
from passat.rules.engine.stage import Stage, reachable
from passat.rules.engine.variant import Variant

_EGRAPHS: Final = EGraphs()

Asked = tuple[Matcher, Variant, int]
"""A query: the matcher, its variant, and its stage."""


class Mirror:
    """An egglog e-graph that mirrors a graph. Borrowed on the first query, returned by `close`."""

    def __init__(self, graph: Graph, stages: Sequence[Stage], queries: Sequence[Asked], edges: Edges) -> None:
        self.begun = False
        self._graph = graph
        self._stages = stages
        self._queries = queries
        self._edges = edges
        self._lease = ExitStack()
        self._known_as: dict[int, int] = {}
        self._loaded = 0
        self._visible: list[Symbol] = []

    def close(self) -> None:
        """Returns the e-graph. After a failure it is not reused."""
        self._lease.close()

    def abandon(self) -> None:
        """Discards the e-graph after a failure."""
        self._lease.pop_all()

    def begin(self, first: int = 0) -> None:
        """Borrows an e-graph for a stage. Defines only queries that can match: those of rules of this and later stages whose operators
        occur or may be created."""
        self.begun = True
        self._egraph = self._lease.enter_context(_EGRAPHS.lend())
        found = reachable(self._graph.symbols, self._stages[first:])
        possible = [matcher for matchers in found.values() for matcher in matchers]
        # Sorted, since the order of tables decides which of equal rows egglog keeps, and thus which of equal matches are found.
        self._visible = sorted(set().union(*(matcher.symbols for matcher in possible)), key=lambda symbol: symbol.name)
        for symbol in self._visible:
            self._egraph.declare(symbol.name, symbol.arity, symbol.has_payload)
        for matcher in possible:
            if matcher.rule.reducing:
                self._egraph.declare_retiring(matcher.root.name, matcher.root.arity, matcher.root.has_payload)
            for head in sorted(matcher.either_way, key=lambda symbol: symbol.name):
                self._egraph.declare_commuting(head.name, head.has_payload)
        chosen = set(possible)
        copies: Counter[Query] = Counter()
        for number, (matcher, variant, stage) in enumerate(self._queries):
            if matcher in chosen and stage >= first:
                self._known_as[number] = self._egraph.add_query(variant.query, copies[variant.query])
                copies[variant.query] += 1

    def asked(self, numbers: Iterable[int]) -> list[int]:
        """Those of some queries that can match."""
        queries, allow = self._queries, self._edges.allow
        return [number for number in numbers if number in self._known_as and allow(queries[number][0].root, queries[number][1])]

    def load(self, unions: Iterable[tuple[int, int]], retired: dict[str, list[str]]) -> None:
        """Loads the nodes added to the graph since the last call, makes unions, and retires nodes. `retired` has lines of operands and
        payload for `retire_<symbol>`."""
        graph, visible = self._graph, self._visible
        rows: dict[str, list[str]] = {symbol.name: [] for symbol in visible}
        table = {
            symbol: (rows[symbol.name].append, "\t".join(["%d"] * (1 + symbol.arity + symbol.has_payload)), symbol.has_payload)
            for symbol in visible
        }
        bare: list[str] = []
        symbols, payloads, operands = graph.symbols, graph.payloads, graph.operands
        for node in range(self._loaded, len(graph)):
            found = table.get(symbols[node])
            if found is None:
                bare.append(str(node))
                continue
            add, row, has_payload = found
            add(row % (node, *operands[node], payloads[node]) if has_payload else row % (node, *operands[node]))
        self._loaded = len(graph)
        self._egraph.load({"bare": bare, **rows, **retired}, unions)

    def step(self, asked: Sequence[int]) -> tuple[list[tuple[int, ...]], dict[int, list[tuple[int, ...]]]]:
        """The merges, and the new matches of some queries that can match."""
        moved, found = self._egraph.step([self._known_as[number] for number in asked])
        return moved, {number: found[self._known_as[number]] for number in asked}

    def merges(self) -> list[tuple[int, ...]]:
        """The merges that resulted from unions."""
        return self._egraph.merges()
