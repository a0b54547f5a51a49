"""Predicts the number of matches of an iteration, since egglog cannot be stopped within one."""

from collections import Counter
from collections.abc import Iterable, Sequence
from math import prod
from operator import itemgetter
from typing import Final

from passat.rules.engine.directions import StageQuery
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.variant import Variant

LARGE: Final = 16
"""Minimum number of nodes of a large e-class. If its users belong to the same e-class, a pattern of five calls matches a million times. The
prediction takes about 3 ms; no transformer export has such a large e-class."""


def may_explode(graph: Graph, initial: int) -> bool:
    """True if a prediction is worthwhile: the graph has grown well beyond `initial` nodes, or has a large e-class."""
    return len(graph) >= 2 * initial + 10_000 or max(map(len, graph.members.values()), default=1) >= LARGE


def excessive(graph: Graph, asked: Iterable[StageQuery], most: int) -> list[StageQuery]:
    """The queries that would each find more than `most` matches."""
    candidates: _Candidates = {}
    large = [query for bound, query in _bounds(graph, asked) if bound > most]
    return [query for query in large if _count(graph, query, most, candidates) > most]


def foresee(graph: Graph, asked: Iterable[StageQuery], most: int) -> bool:
    """True if the queries would find more than `most` matches: an e-class of a thousand nodes that are not retired matches a thousand times
    below each of its users. Counts them for the queries that may find most, until the bounds of the others suffice."""
    bounds = _bounds(graph, asked)
    counted, left = 0, sum(bound for bound, _ in bounds)
    candidates: _Candidates = {}
    for bound, query in sorted(bounds, key=itemgetter(0), reverse=True):
        if counted + left <= most:
            return False
        left -= bound
        counted += _count(graph, query, most, candidates)
        if counted > most:
            return True
    return False


_Candidates = dict[tuple[Symbol, int, Symbol], list[int]]
"""The nodes of a symbol whose operand at a place may be a node of another symbol."""


def _count(graph: Graph, query: StageQuery, most: int, candidates: _Candidates) -> int:
    """The number of matches of a query, up to some number; remembers the candidates for its root."""
    edges = [(query.matcher.root, i, symbol) for i, symbol in _inner(query.variant)]
    for edge in edges:
        if edge not in candidates:
            candidates[edge] = _having(graph, *edge)
    return _ways(graph, query.variant, min([candidates[edge] for edge in edges], key=len), most)


def _bounds(graph: Graph, asked: Iterable[StageQuery]) -> list[tuple[int, StageQuery]]:
    """The queries with inner terms, each with a number of matches that it cannot exceed, from the most nodes of a symbol that an e-class
    has."""
    roots = Counter(graph.symbols)
    most: dict[Symbol, int] = {}
    for nodes in graph.members.values():
        for symbol, count in Counter([graph.symbols[node] for node in nodes if node not in graph.retired]).items():
            most[symbol] = max(most.get(symbol, 1), count)
    bounds: list[tuple[int, StageQuery]] = []
    for query in asked:
        if _inner(query.variant):
            ways = [most.get(symbol, 1) for *_, symbol in query.variant.steps if symbol is not None]
            bounds.append((roots[query.matcher.root] * prod(ways), query))
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
