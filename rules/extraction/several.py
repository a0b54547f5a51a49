"""The k cheapest choices of an e-graph: after the best one, choices that exclude one of its nodes.

Two different choices differ in at least one node. So the search for the next best excludes each node of the best in turn, then branches on
the results, cheapest first (Lawler 1972). The searches are greedy and bounded in number, so one may be missed; the results are valid
programs and distinct. The bound depends on the size of the e-graph, not on the clock, so that results are reproducible.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count as numbers
from typing import Final

from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.ladder import Climb, NoProgramError, climb
from passat.rules.extraction.space import Space

BRANCHES: Final = 32
"""Maximum number of nodes of one choice to exclude: those whose replacement costs least."""
WORK: Final = 200_000
"""Maximum number of nodes that all searches visit together, approximately; at least `FEWEST` searches run."""
FEWEST: Final = 4


def several(
    space: Space, roots: Sequence[int], first: Climb, count: int, accept: Callable[[Mapping[int, int]], bool] | None = None
) -> list[Climb]:
    """At most `count` distinct choices for the roots, cheapest first, including `first`, the best known one. Skips rejected choices.

    >>> space = Space([0, 0, 0], [(), (), ()], [1.0, 3.0, 2.0], {0: [0, 1, 2]}, [0, 0, 0])
    >>> [found.cost for found in several(space, [0], climb(space, [0]), 5)]
    [1.0, 2.0, 3.0]
    """
    found: list[Climb] = []
    if count == 1 and (accept is None or accept(first.choice)):
        return [first]
    space = space.without(_doubles(space))
    preferred = trees_from_leaves(space)
    left = min(BRANCHES * count, max(FEWEST, WORK // len(space.classes)))
    number = numbers()
    told: set[frozenset[int]] = set()
    tried: set[frozenset[int]] = set()
    queue: list[tuple[float, int, Climb, frozenset[int]]] = [(first.cost, next(number), first, frozenset())]
    while queue and len(found) < count:
        _, _, best, banned = heappop(queue)
        key = frozenset(best.choice.values())
        if key not in told:
            told.add(key)
            if accept is None or accept(best.choice):
                found.append(best)
        if len(found) == count or not left:
            continue  # existing results are still added
        for node in _branches(space.without(banned), roots, best, preferred)[:BRANCHES]:
            without = banned | {node}
            if without in tried or not left:
                continue
            tried.add(without)
            left -= 1
            try:
                other = climb(space.without(without), roots)
            except NoProgramError:
                continue
            heappush(queue, (other.cost, next(number), other, without))
    return sorted(found, key=lambda one: one.cost)


def _branches(space: Space, roots: Sequence[int], best: Climb, preferred: Mapping[int, int]) -> list[int]:
    """The nodes of a choice that have an alternative, ordered by the estimated cost of the replacement."""
    solution = Solution.of_choice(space, best.choice, roots)
    assert solution is not None, "a valid program"
    added: list[tuple[float, int]] = []
    for cls, node in best.choice.items():
        others = [other for other in space.alternatives.get(cls, ()) if other != node]
        prices = [solution.difference(cls, other, preferred) for other in others]
        if prices:
            added.append((min((price for price in prices if price is not None), default=math.inf), node))
    return [node for _, node in sorted(added)]


def _doubles(space: Space) -> list[int]:
    """Nodes that no choice uses, because an equal node exists or their e-class is constant."""
    kept = {cls: set(nodes) for cls, nodes in space.alternatives.items()}
    return [node for node, cls in enumerate(space.classes) if cls in kept and node not in kept[cls]]
