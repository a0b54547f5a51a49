"""The cheapest few choices of an e-graph: after the best one, those that do without a node of it.

A choice that differs from another lacks one of its nodes. So the next best is looked for once for each node of the best, in the e-graph
without that node, and what comes of that is branched upon in turn, the cheapest first (Lawler 1972). Each search is greedy, and there are
only so many of them, so that one may be missed; those that come back are programs, and all different.
"""

from collections.abc import Iterable, Sequence
from heapq import heappop, heappush
from itertools import count as numbers
from typing import Final

from passat.rules.extraction.ladder import Climb, NoProgramError, climb
from passat.rules.extraction.space import Space

BRANCHES: Final = 32
"""Nodes of one choice, the dearest first, that it is done without."""


def several(space: Space, roots: Sequence[int], first: Climb, count: int) -> list[Climb]:
    """At most so many different choices for the roots, the cheapest first; `first` is the best that is known, and among them.

    >>> space = Space([0, 0, 0], [(), (), ()], [1.0, 3.0, 2.0], {0: [0, 1, 2]}, [0, 0, 0])
    >>> [found.cost for found in several(space, [0], climb(space, [0]), 5)]
    [1.0, 2.0, 3.0]
    """
    found: list[Climb] = []
    number = numbers()
    told: set[frozenset[int]] = set()
    tried: set[frozenset[int]] = set()
    queue: list[tuple[float, int, Climb, frozenset[int]]] = [(first.cost, next(number), first, frozenset())]
    while queue and len(found) < count:
        _, _, best, without = heappop(queue)
        key = frozenset(best.choice.values())
        if key not in told:
            told.add(key)
            found.append(best)
        if len(found) == count:
            break
        chosen = [node for cls, node in best.choice.items() if len(space.alternatives.get(cls, ())) > 1]
        for node in sorted(chosen, key=lambda node: (-space.costs[node], node))[:BRANCHES]:
            banned = without | {node}
            if banned in tried or len(tried) >= BRANCHES * count:
                continue
            tried.add(banned)
            try:
                other = climb(_without(space, banned), roots)
            except NoProgramError:
                continue
            heappush(queue, (other.cost, next(number), other, banned))
    return sorted(found, key=lambda one: one.cost)


def _without(space: Space, nodes: Iterable[int]) -> Space:
    """The space in which no program has these nodes: each of them needs itself."""
    children, alternatives = list(space.children), dict(space.alternatives)
    for node in nodes:
        cls = space.classes[node]
        children[node] = (cls,)
        alternatives[cls] = [other for other in alternatives.get(cls, ()) if other != node]
    return Space(space.classes, children, space.costs, alternatives, space.default)
