"""How many matches a round will find, before it is run: egglog cannot be stopped inside one."""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.mirror import Asked
from passat.rules.engine.variant import Variant

LARGE: Final = 16
"""A class with this many nodes is large: where its users are members of the class too, a pattern of five calls matches a million times.
To foresee a round takes some 3 ms; no transformer export has a class as large."""


def may_explode(graph: Graph, initial: int) -> bool:
    """Whether it is worth to foresee a round: the graph, which began with `initial` nodes, has grown, or a class of it is large."""
    return len(graph) >= 2 * initial + 10_000 or max(map(len, graph.members.values()), default=1) >= LARGE


def foresee(graph: Graph, queries: Sequence[Asked], asked: Iterable[int], most: int) -> bool:
    """Whether the queries would find more matches than that in all: a class of a thousand nodes matches a thousand times below each of its
    users."""
    find = graph.find
    inside: dict[tuple[int, Symbol], list[int]] = {}
    roots: dict[Symbol, list[int]] = {}
    for node, symbol in enumerate(graph.symbols):
        inside.setdefault((find(node), symbol), []).append(node)
        roots.setdefault(symbol, []).append(node)
    expected = 0
    for number in asked:
        matcher, variant, _ = queries[number]
        candidates = roots.get(matcher.root, ())
        if candidates and any(symbol is not None for *_, symbol in variant.steps):
            expected += _ways(graph, variant, candidates, inside, most)
            if expected > most:
                return True
    return False


def _ways(graph: Graph, variant: Variant, candidates: Sequence[int], inside: dict[tuple[int, Symbol], list[int]], most: int) -> int:
    """In how many ways a pattern matches at some nodes, holes that have to be equal not being compared; once it is more than `most`, any
    number above that."""
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
