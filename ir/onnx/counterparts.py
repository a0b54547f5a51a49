"""Matches special nodes of two models: random nodes, and nodes that ONNX Runtime does not support."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple


class Named(NamedTuple):
    """A node with its identifying properties: its key, the name of its first result, and its dependent outputs."""

    key: Hashable
    name: str
    use: Hashable = None


def counterparts(nodes: Sequence[Named], others: Sequence[Named]) -> list[int | None]:
    """For each of the other nodes, returns the index of the matching node, or None.

    A match has the same key. Among the remaining nodes, it prefers one with the same name and use, then the same name, then the same use,
    then the first.

    >>> a, b = Named("Exp", "a", "y"), Named("Exp", "b", "z")
    >>> counterparts([a, b], [b, a]), counterparts([a, b], [Named("Exp", "c"), b]), counterparts([a], [a, b])
    ([1, 0], [0, 1], [0, None])
    >>> counterparts([a, b], [Named("Exp", "z", "z")])
    [1]
    """
    found: list[int | None] = [None] * len(others)
    ways: Sequence[Callable[[Named], Hashable]] = (
        lambda node: node,
        lambda node: (node.key, node.name),
        lambda node: (node.key, node.use),
        lambda node: node.key,
    )
    for way in ways:
        left: dict[Hashable, list[int]] = {}
        for number in sorted(set(range(len(nodes))) - set(found), reverse=True):
            left.setdefault(way(nodes[number]), []).append(number)
        for place, other in enumerate(others):
            if found[place] is None and left.get(way(other)):
                found[place] = left[way(other)].pop()
    return found
