"""Mirrors a graph in egglog: sends nodes and unions, receives merges, which change the graph's facts, and matches."""

from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final, NamedTuple

from passat.rules.engine.directions import StageQuery
from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EGraphs, Query
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import TUPLE, Symbol

_EGRAPHS: Final = EGraphs()

Matches = dict[int, list[tuple[int, ...]]]
"""Matches by query number."""
Retired = dict[Symbol, list[tuple[int, ...]]]
"""Nodes to retire, by symbol: the operands of each, and its payload if it has one."""


class Step(NamedTuple):
    """The outcome of an iteration of egglog: the new matches, the e-classes whose facts changed, and the unions that follow from eager
    rules, which egglog does not know yet."""

    matches: Matches
    learned: set[int]
    unions: list[tuple[int, int]]


class Mirror:
    """An egglog e-graph that mirrors a graph. Borrowed by `begin`, returned by `close`."""

    def __init__(self, graph: Graph, queries: Sequence[StageQuery], edges: Edges) -> None:
        self.begun = False
        self.merged = 0
        """The number of merged e-classes."""
        self._graph = graph
        self._queries = queries
        self._edges = edges
        self._lease = ExitStack()
        self._copies: dict[int, int] = {}
        """The queries that may be asked: which of several equal ones each is. Those of one stage are one, if they are asked together."""
        self._numbers: dict[int, int] = {}
        self._allowed: set[int] = set()
        self._loaded = 0
        self._unions: list[tuple[int, int]] = []
        """The unions that egglog was given since its last iteration."""
        self._visible: list[Symbol] = []

    def close(self) -> None:
        """Returns the e-graph. After a failure it is not reused."""
        self._lease.close()

    def abandon(self, unions: Iterable[tuple[int, int]]) -> None:
        """Discards the e-graph after a failure. Makes the unions that it was given, and further ones, in the graph."""
        self._lease.pop_all()
        self._merge([*self._unions, *unions])

    def begin(self, first: int = 0) -> None:
        """Borrows an e-graph for a stage. Queries of this and later stages may be asked if their operators occur or may be created."""
        self.begun = True
        self._egraph = self._lease.enter_context(_EGRAPHS.lend())
        visible: set[Symbol] = set()
        copies: dict[Query, dict[object, int]] = {}
        for number, (matcher, variant, stage) in enumerate(self._queries):
            if stage >= first:
                visible |= matcher.symbols
                places = copies.setdefault(variant.query, {})
                self._copies[number] = places.setdefault((stage, variant.numbers), len(places))
        # Sorted, since the order of tables decides which of equal rows egglog keeps, and thus which of equal matches are found.
        self._visible = sorted(visible, key=lambda symbol: symbol.name)

    def _known_as(self, number: int) -> int:
        """egglog's number of a query, which is defined when it is first asked: three in four never are. Its symbols are declared, since a
        query is asked only if the program has them."""
        matcher, variant, _ = self._queries[number]
        known = self._numbers.get(number)
        if known is None:
            for head in sorted(matcher.either_way, key=lambda symbol: symbol.name):
                self._egraph.declare_commuting(head.name, head.has_payload)
            known = self._numbers[number] = self._egraph.add_query(variant.query, self._copies[number])
        return known

    def asked(self, numbers: Iterable[int]) -> list[int]:
        """Those of some queries that can match. One that can match once always can."""
        queries, copies, known, allow = self._queries, self._copies, self._allowed, self._edges.allow
        found: list[int] = []
        for number in numbers:
            if number not in known:
                if number not in copies or not allow(queries[number][0].root, queries[number][1]):
                    continue
                known.add(number)
            found.append(number)
        return found

    def load(self, unions: Iterable[tuple[int, int]], retired: Retired) -> None:
        """Loads the nodes added to the graph since the last call, makes unions, and retires nodes."""
        self._unions += unions
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
        for symbol in visible:
            if rows[symbol.name]:
                self._egraph.declare(symbol.name, symbol.arity, symbol.has_payload)
        for symbol, nodes in retired.items():
            if symbol in table:
                self._egraph.declare_retiring(symbol.name, symbol.arity, symbol.has_payload)
            rows[f"retire_{symbol.name}"] = ["\t".join(map(str, row)) for row in nodes]
            known = [graph.there(symbol, row[-1] if symbol.has_payload else 0, row[: symbol.arity]) for row in nodes]
            graph.retired.update(node for node in known if node is not None)
        self._egraph.load({"bare": bare, **rows}, unions)

    def step(self, asked: Sequence[int] = ()) -> Step:
        """Runs some queries that can match, and merges the e-classes of the graph that egglog has merged."""
        known = list(map(self._known_as, asked))
        moved, found = self._egraph.step(list(dict.fromkeys(known)))
        learned, unions = self._merge(moved)
        return Step({number: found[mine] for number, mine in zip(asked, known, strict=True)}, learned, unions)

    def _merge(self, pairs: Iterable[tuple[int, ...]]) -> tuple[set[int], list[tuple[int, int]]]:
        """Merges e-classes of the graph. Returns the e-classes whose facts changed, and the unions that follow from eager rules."""
        graph, learned = self._graph, set()
        merged: list[tuple[int, int]] = []
        unions: list[tuple[int, int]] = []
        self._unions = []
        self._edges.extend()
        for pair in pairs:
            kept, gone = sorted(map(graph.find, pair))
            if kept == gone:
                continue
            if (kept in graph.constants) != (gone in graph.constants):
                learned.add(kept)
            self._edges.unite(kept, gone)
            graph.unite(kept, gone)
            merged.append((kept, gone))
        self.merged += len(merged)
        if learned and graph.eager is not None and graph.eager.about_calls:
            folded, unions = _update_users(graph, learned)
            learned |= folded
        if any(analysis.names_classes for analysis in graph.facts):
            learned |= {kept for kept, _ in merged}
        return learned.union(*[facts.update(merged, learned) for facts in graph.facts.values()]), unions


def _update_users(graph: Graph, learned: Iterable[int]) -> tuple[set[int], list[tuple[int, int]]]:
    """Applies eager rules to users of e-classes that became constant, and in turn to their users. Returns the e-classes that became
    constant, and the unions to make."""
    users: dict[int, list[int]] = {}
    for node, operands in enumerate(graph.operands):
        for operand in operands:
            users.setdefault(graph.find(operand), []).append(node)
    folded: set[int] = set()
    unions: list[tuple[int, int]] = []
    work = list(learned)
    while work:
        for user in users.get(work.pop(), ()):
            cls = graph.find(user)
            if cls in graph.constants:
                continue
            if graph.symbols[user].kind == TUPLE:
                known = graph.learn_tuple(user)
            else:
                made = graph.make_again(user)
                known = made >= 0 and graph.find(made) in graph.constants
                if known:
                    graph.constants[cls] = graph.constants[graph.find(made)]
                if made >= 0 and graph.find(made) != cls:
                    unions.append((cls, made))
            if known:
                folded.add(cls)
                work.append(cls)
    return folded, unions
