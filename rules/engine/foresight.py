"""How many matches a round will find, before it is run: egglog cannot be stopped inside one."""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.mirror import Asked

LARGE: Final = 100
"""A class with this many nodes is large: where its users are members of the class too, patterns match a million times."""


def foresee(graph: Graph, queries: Sequence[Asked], asked: Iterable[int], initial: int, largest: int, most: int) -> bool:
    """Whether some query would find more matches than that: a class of a thousand nodes matches a thousand times below each of its users.
    Only looked at once the graph, which began with `initial` nodes, has grown, or its `largest` class is large."""
    if len(graph) < 2 * initial + 10_000 and largest < LARGE:
        return False
    find = graph.find
    inside: dict[tuple[int, Symbol], int] = {}
    roots: dict[Symbol, list[int]] = {}
    for node, symbol in enumerate(graph.symbols):
        key = (find(node), symbol)
        inside[key] = inside.get(key, 0) + 1
        roots.setdefault(symbol, []).append(node)
    expected = 0
    for number in asked:
        matcher, variant, _ = queries[number]
        below = [(i, symbol) for whole, i, _, symbol in variant.steps if whole == 0 and symbol is not None]
        if not below:
            continue
        for node in roots.get(matcher.root, ()):
            ways = 1
            for i, symbol in below:
                ways *= inside.get((find(graph.operands[node][i]), symbol), 0)
            expected += ways
        if expected > most:
            return True
    return False
