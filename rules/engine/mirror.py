"""Mirrors a graph in egglog: sends nodes and unions, receives merges and matches. Since egglog cannot be stopped within an iteration, the
number of matches is predicted before."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from math import prod
from typing import Final

from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EGraphs, Query
from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.matching import Matcher
from passat.rules.engine.variant import Variant

_EGRAPHS: Final = EGraphs()

Asked = tuple[Matcher, Variant, int]
"""A query: the matcher, its variant, and its stage."""
Retired = dict[Symbol, list[tuple[int, ...]]]
"""Nodes to retire, by symbol: the operands of each, and its payload if it has one."""


class Mirror:
    """An egglog e-graph that mirrors a graph. Borrowed on the first query, returned by `close`."""

    def __init__(self, graph: Graph, queries: Sequence[Asked], edges: Edges) -> None:
        self.begun = False
        self._graph = graph
        self._queries = queries
        self._edges = edges
        self._lease = ExitStack()
        self._copies: dict[int, int] = {}
        """The queries that may be asked: which of several equal ones each is. Those of one stage are one, if they are asked together."""
        self._numbers: dict[int, int] = {}
        self._allowed: set[int] = set()
        self._loaded = 0
        self._visible: list[Symbol] = []

    def close(self) -> None:
        """Returns the e-graph. After a failure it is not reused."""
        self._lease.close()

    def abandon(self) -> None:
        """Discards the e-graph after a failure."""
        self._lease.pop_all()

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

    def step(self, asked: Sequence[int] = ()) -> tuple[list[tuple[int, ...]], dict[int, list[tuple[int, ...]]]]:
        """The merges, and the new matches of some queries that can match."""
        known = list(map(self._known_as, asked))
        moved, found = self._egraph.step(list(dict.fromkeys(known)))
        return moved, {number: found[mine] for number, mine in zip(asked, known, strict=True)}


LARGE: Final = 16
"""Minimum number of nodes of a large e-class. If its users belong to the same e-class, a pattern of five calls matches a million times. The
prediction takes about 3 ms; no transformer export has such a large e-class."""


def may_explode(graph: Graph, initial: int) -> bool:
    """True if a prediction is worthwhile: the graph has grown well beyond `initial` nodes, or has a large e-class."""
    return len(graph) >= 2 * initial + 10_000 or max(map(len, graph.members.values()), default=1) >= LARGE


def excessive(graph: Graph, queries: Sequence[Asked], asked: Iterable[int], most: int) -> list[int]:
    """The queries that would each find more than `most` matches."""
    candidates: _Candidates = {}
    large = [number for number, bound in _bounds(graph, queries, asked).items() if bound > most]
    return [number for number in large if _count(graph, queries[number], most, candidates) > most]


def foresee(graph: Graph, queries: Sequence[Asked], asked: Iterable[int], most: int) -> bool:
    """True if the queries would find more than `most` matches: an e-class of a thousand nodes that are not retired matches a thousand times
    below each of its users. Counts them for the queries that may find most, until the bounds of the others suffice."""
    bounds = _bounds(graph, queries, asked)
    counted, left = 0, sum(bounds.values())
    candidates: _Candidates = {}
    for number in sorted(bounds, key=bounds.__getitem__, reverse=True):
        if counted + left <= most:
            return False
        left -= bounds[number]
        counted += _count(graph, queries[number], most, candidates)
        if counted > most:
            return True
    return False


_Candidates = dict[tuple[Symbol, int, Symbol], list[int]]
"""The nodes of a symbol whose operand at a place may be a node of another symbol."""


def _count(graph: Graph, query: Asked, most: int, candidates: _Candidates) -> int:
    """The number of matches of a query, up to some number; remembers the candidates for its root."""
    matcher, variant, _ = query
    edges = [(matcher.root, i, symbol) for i, symbol in _inner(variant)]
    for edge in edges:
        if edge not in candidates:
            candidates[edge] = _having(graph, *edge)
    return _ways(graph, variant, min([candidates[edge] for edge in edges], key=len), most)


def _bounds(graph: Graph, queries: Sequence[Asked], asked: Iterable[int]) -> dict[int, int]:
    """Numbers of matches that the queries with inner terms cannot exceed, from the most nodes of a symbol that an e-class has."""
    roots = Counter(graph.symbols)
    most: dict[Symbol, int] = {}
    for nodes in graph.members.values():
        for symbol, count in Counter([graph.symbols[node] for node in nodes if node not in graph.retired]).items():
            most[symbol] = max(most.get(symbol, 1), count)
    bounds: dict[int, int] = {}
    for number in asked:
        matcher, variant, _ = queries[number]
        if _inner(variant):
            ways = [most.get(symbol, 1) for *_, symbol in variant.steps if symbol is not None]
            bounds[number] = roots[matcher.root] * prod(ways)
    return bounds


def _inner(variant: Variant) -> list[tuple[int, Symbol]]:
    """The operands of the root that have a symbol, with their positions."""
    return [(i, symbol) for whole, i, _, symbol in variant.steps if whole == 0 and symbol is not None]


def _having(graph: Graph, root: Symbol, place: int, symbol: Symbol) -> list[int]:
    """The nodes of a symbol whose operand at a place may be a node of another one."""
    operands = graph.operands
    nodes = [node for node, head in enumerate(graph.symbols) if head is root and node not in graph.retired]
    return [node for node in nodes if _nodes(graph, operands[node][place], symbol)]


def _nodes(graph: Graph, cls: int, symbol: Symbol) -> list[int]:
    """The nodes of an e-class that have a symbol and match."""
    cls = graph.find(cls)
    return [node for node in graph.members.get(cls, (cls,)) if graph.symbols[node] is symbol and node not in graph.retired]


Below = dict[int, list[tuple[int, int, Symbol]]]
"""The terms of a left side below each register, as (operand, register, symbol)."""


def _ways(graph: Graph, variant: Variant, candidates: Sequence[int], most: int) -> int:
    """The number of ways in which a pattern matches at some nodes, ignoring equality of holes; any number above `most` once it exceeds
    that."""
    below: Below = {}
    for whole, i, part, symbol in variant.steps:
        if symbol is not None:
            below.setdefault(whole, []).append((i, part, symbol))
    return _ways_at(graph, below, 0, candidates, most, {})


def _ways_at(graph: Graph, below: Below, register: int, nodes: Sequence[int], most: int, known: dict[tuple[int, int], int]) -> int:
    """The number of ways in which the part of a pattern in a register matches at some nodes. A closure would refer to itself, and so keep
    the graph until the next garbage collection."""
    find, operands, total = graph.find, graph.operands, 0
    for node in nodes:
        ways = 1
        for i, part, symbol in below.get(register, ()):
            key = (part, find(operands[node][i]))
            if key not in known:
                known[key] = _ways_at(graph, below, part, _nodes(graph, key[1], symbol), most, known)
            ways *= known[key]
            if not ways:
                break
        total += ways
        if total > most:
            break
    return total
