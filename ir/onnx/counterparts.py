"""Nodes of two models that stand for each other: those that draw random numbers, and those that ONNX Runtime does not run."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple


class Named(NamedTuple):
    """A node as it is known again: by what it is, and the name of its first result."""

    key: Hashable
    name: str


def counterparts(nodes: Sequence[Named], others: Sequence[Named]) -> list[int | None]:
    """For each of the other nodes the number of the node that it stands for: one of the same key, and of the same name where there is one,
    else the next that is left. None where none is left.

    >>> a, b = Named("Exp", "a"), Named("Exp", "b")
    >>> counterparts([a, b], [b, a]), counterparts([a, b], [Named("Exp", "c"), b]), counterparts([a], [a, b])
    ([1, 0], [0, 1], [0, None])
    """
    numbers = {node: number for number, node in reversed(list(enumerate(nodes)))}
    found: list[int | None] = [numbers.pop(other, None) for other in others]
    left: dict[Hashable, list[int]] = {}
    for number in sorted(set(range(len(nodes))) - set(found), reverse=True):
        left.setdefault(nodes[number].key, []).append(number)
    for place, other in enumerate(others):
        if found[place] is None and left.get(other.key):
            found[place] = left[other.key].pop()
    return found
