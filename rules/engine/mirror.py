"""Mirrors a graph in egglog: sends nodes and unions, receives merges and matches. Since egglog cannot be stopped within an iteration, the
number of matches is predicted before."""

from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Final

from passat.rules.engine.edges import Edges
from passat.rules.engine.egraph import EGraphs, Query
from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.matching import Matcher
from passat.rules.engine.variant import Variant

_EGRAPHS: Final = EGraphs()

Asked = tuple[Matcher, Variant, int]
"""A query: the matcher, its variant, and its stage."""


class Mirror:
    """An egglog e-graph that mirrors a graph. Borrowed on the first query, returned by `close`."""

    def __init__(self, graph: Graph, queries: Sequence[Asked], edges: Edges) -> None:
        self.begun = False
        self._graph = graph
        self._queries = queries
        self._edges = edges
        self._lease = ExitStack()
        self._copies: dict[int, int] = {}
        """The queries that may be asked: which of several equal ones each is."""
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
        copies: Counter[Query] = Counter()
        for number, (matcher, variant, stage) in enumerate(self._queries):
            if stage >= first:
                visible |= matcher.symbols
                self._copies[number] = copies[variant.query]
                copies[variant.query] += 1
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
        for symbol in visible:
            if rows[symbol.name]:
                self._egraph.declare(symbol.name, symbol.arity, symbol.has_payload)
            if f"retire_{symbol.name}" in retired:
                self._egraph.declare_retiring(symbol.name, symbol.arity, symbol.has_payload)
        self._egraph.load({"bare": bare, **rows, **retired}, unions)

    def step(self, asked: Sequence[int] = ()) -> tuple[list[tuple[int, ...]], dict[int, list[tuple[int, ...]]]]:
        """The merges, and the new matches of some queries that can match."""
        known = list(map(self._known_as, asked))
        moved, found = self._egraph.step(known)
        return moved, {number: found[mine] for number, mine in zip(asked, known, strict=True)}


LARGE: Final = 16
"""Minimum number of nodes of a large e-class. If its users belong to the same e-class, a pattern of five calls matches a million times. The
prediction takes about 3 ms; no transformer export has such a large e-class."""


def may_explode(graph: Graph, initial: int) -> bool:
    """True if a prediction is worthwhile: the graph has grown well beyond `initial` nodes, or has a large e-class."""
    return len(graph) >= 2 * initial + 10_000 or max(map(len, graph.members.values()), default=1) >= LARGE


def foresee(graph: Graph, queries: Sequence[Asked], asked: Iterable[int], most: int) -> bool:
    """True if the queries would find more than `most` matches: an e-class of a thousand nodes matches a thousand times below each of its
    users."""
    find = graph.find
    inside: dict[tuple[int, Symbol], list[int]] = {}
    heads: dict[int, list[Symbol]] = {}
    for node, symbol in enumerate(graph.symbols):
        cls = find(node)
        made = inside.setdefault((cls, symbol), [])
        made.append(node)
        if len(made) == 1:
            heads.setdefault(cls, []).append(symbol)
    above: dict[tuple[Symbol, int, Symbol], list[int]] = {}
    for node, symbol in enumerate(graph.symbols):
        for i, operand in enumerate(graph.operands[node]):
            for head in heads[find(operand)]:
                above.setdefault((symbol, i, head), []).append(node)
    expected = 0
    for number in asked:
        matcher, variant, _ = queries[number]
        steps = [(i, symbol) for whole, i, _, symbol in variant.steps if whole == 0 and symbol is not None]
        if steps:
            candidates = min([above.get((matcher.root, i, symbol), []) for i, symbol in steps], key=len)
            expected += _ways(graph, variant, candidates, inside, most)
            if expected > most:
                return True
    return False


def _ways(graph: Graph, variant: Variant, candidates: Sequence[int], inside: dict[tuple[int, Symbol], list[int]], most: int) -> int:
    """The number of ways in which a pattern matches at some nodes, ignoring equality of holes; any number above `most` once it exceeds
    that."""
    find, operands = graph.find, graph.operands
    below: dict[int, list[tuple[int, int, Symbol]]] = {}
    for whole, i, part, symbol in variant.steps:
        if symbol is not None:
            below.setdefault(whole, []).append((i, part, symbol))
    counted: dict[tuple[int, int], int] = {}

    def count(register: int, nodes: Sequence[int]) -> int:
        total = 0
        for node in nodes:
            ways = 1
            for i, part, symbol in below.get(register, ()):
                key = (part, find(operands[node][i]))
                if key not in counted:
                    counted[key] = count(part, inside.get((key[1], symbol), ()))
                ways *= counted[key]
                if not ways:
                    break
            total += ways
            if total > most:
                break
        return total

    return count(0, candidates)
