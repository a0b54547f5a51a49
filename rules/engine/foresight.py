"""Predicts the number of matches of an iteration before running it, since egglog cannot be stopped within one."""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.rules.engine.graph import Graph, Symbol
from passat.rules.engine.mirror import Asked
from passat.rules.engine.variant import Variant

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
