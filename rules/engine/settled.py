"""Whether anything can follow from the unions of the first round. Where nothing can, egglog is not asked: handing it a program takes longer
than all that is done to one in which a few powers become products.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from passat.rules.engine.graph import Graph, Symbol, either_way
from passat.rules.engine.matching import Variant
from passat.rules.engine.mirror import Asked


class _Joined(NamedTuple):
    """Nodes that have joined the class of another: the class of each, and those that each class has got."""

    classes: Mapping[int, int]
    members: Mapping[int, Sequence[int]]


def settled(graph: Graph, unions: Iterable[tuple[int, int]], initial: int, queries: Sequence[Asked]) -> list[tuple[int, int]] | None:
    """The merges, as (node, class), that unions come to where nothing else does: no fold, no merge of what uses the nodes, no new match of
    the queries, no other fact. None where something may.

    Every class must still be one node, and every node have been looked at: those that the program came with, the first `initial`, with all
    the queries, and those that rules have made with the reducing ones.
    """
    joined = _join(graph, unions, initial)
    near = None if joined is None else _edges_into(graph, joined)
    if joined is None or near is None or any(not memo.keys().isdisjoint(joined.members) for memo in graph.facts.values()):
        return None
    nodes: dict[Symbol, list[int]] = {}
    new: dict[Symbol, list[int]] = {}
    for node, symbol in enumerate(graph.symbols):
        nodes.setdefault(symbol, []).append(node)
        if node >= initial:
            new.setdefault(symbol, []).append(node)
    edges: set[tuple[Symbol, int, Symbol]] = set()
    for matcher, variant, _ in queries:
        if not matcher.rule.reducing and variant.search(graph, new.get(matcher.root, ())):
            return None
        if not near.isdisjoint(variant.edges):
            edges = edges or near | graph.edges()
            if variant.edges <= edges and _matches_through(graph, variant, nodes.get(matcher.root, ()), joined):
                return None
    return sorted(joined.classes.items())


def _join(graph: Graph, unions: Iterable[tuple[int, int]], initial: int) -> _Joined | None:
    """What the unions join; None where that are two nodes of the program, which may make others equal, or where it tells a constant."""
    classes: dict[int, int] = {}
    for union in unions:
        kept, gone = sorted([_last(classes, node) for node in union])
        if kept == gone:
            continue
        if gone < initial or (kept in graph.constants) != (gone in graph.constants):
            return None
        classes[gone] = kept
    members: dict[int, list[int]] = {}
    for node, cls in classes.items():
        classes[node] = kept = _last(classes, cls)
        members.setdefault(kept, []).append(node)
    return _Joined(classes, members)


def _last(classes: Mapping[int, int], node: int) -> int:
    while node in classes:
        node = classes[node]
    return node


def _edges_into(graph: Graph, joined: _Joined) -> set[tuple[Symbol, int, Symbol]] | None:
    """Which symbols stand above those that have joined the class of another; None where a node uses one that has, since it may be equal to
    another node now."""
    symbols, classes, members = graph.symbols, joined.classes, joined.members
    touched = {*classes, *members}
    edges: set[tuple[Symbol, int, Symbol]] = set()
    for node, operands in enumerate(graph.operands):
        if not touched.isdisjoint(operands):
            for i, part in enumerate(operands):
                if part in classes:
                    return None
                edges.update([(symbols[node], i, symbols[member]) for member in members.get(part, ())])
    return either_way(edges)


def _matches_through(graph: Graph, variant: Variant, roots: Iterable[int], joined: _Joined) -> bool:
    """Whether a variant matches at one of the roots by way of a node that has joined the class of another."""
    members = {cls: (cls, *others) for cls, others in joined.members.items()}
    inner = [part for _, _, part, expected in variant.steps if expected is not None]
    return any(
        registers[part] in joined.classes
        for root in roots
        for registers, _ in variant.ways(graph, root, members, lambda node: joined.classes.get(node, node))
        for part in inner
    )
