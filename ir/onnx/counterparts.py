"""Nodes of two models that stand for each other: those that draw random numbers, and those that ONNX Runtime does not run."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple


class Named(NamedTuple):
    """A node as it is known again: by what it is, the name of its first result, and what depends on it."""

    key: Hashable
    name: str
    use: Hashable = None


def counterparts(nodes: Sequence[Named], others: Sequence[Named]) -> list[int | None]:
    """For each of the other nodes the number of the node that it stands for: the next one that is left of the same key, and of the same
    name and use where there is one, else of the same name, else of the same use. None where none is left.

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
