"""Extraction on any e-graph, without an input program: in stages (cheapest trees, DAG improvement, exact search), and the next best
choices."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from heapq import heappop, heappush
from itertools import count as numbers
from typing import Final, NamedTuple

from passat.ir.passat_error import PassatError
from passat.rules.extraction.exact import solve_exactly
from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.space import Space


class NoProgramError(PassatError, ValueError):
    """Every derivation of the e-class of the node `root` needs the e-class itself: nothing can be extracted."""

    def __init__(self, root: int, name: str) -> None:
        super().__init__(f"the root e-class of node {name} has no finite program: each of its nodes needs itself")
        self.root = root


class Climb(NamedTuple):
    """The result: the node of each required e-class, operands first; its DAG cost; a lower bound (0 without exact search); whether the
    choice is proven optimal; cost and seconds of each stage."""

    choice: dict[int, int]
    cost: float
    bound: float
    proven: bool
    stages: dict[str, tuple[float, float]]


def climb(space: Space, roots: Sequence[int], seconds: float = 0.0, *, seed: int = 0) -> Climb:
    """The cheapest choice for the roots: greedy, then exact if `seconds` is positive. Costs must not be negative.

    Raises NoProgramError, and ExactUnavailableError if exact search is requested without OR-tools.

    >>> space = Space([0, 1], [(), (0, 0)], [2.0, 1.0], {}, [0, 1])
    >>> climb(space, [1]).cost
    3.0
    """
    start = time.perf_counter()
    trees = trees_from_leaves(space)
    without = next((root for root in roots if root not in trees), None)
    if without is not None:
        raise NoProgramError(without, str(without))
    solution = Solution.of_choice(space, trees, roots)
    assert solution is not None, "trees have no cycles"
    stages = {"trees": (solution.total, time.perf_counter() - start)}
    start = time.perf_counter()
    solution.improve(trees)
    choice = solution.in_order()
    cost = space.cost(choice, roots)
    stages["dag"] = (cost, time.perf_counter() - start)
    if seconds <= 0:
        return Climb(choice, cost, 0.0, False, stages)
    start = time.perf_counter()
    exact = solve_exactly(space, roots, choice, seconds, seed=seed)
    assert exact.choice is not None, "includes the known choice"
    cost = space.cost(exact.choice, roots)
    stages["exact"] = (cost, time.perf_counter() - start)
    return Climb(exact.choice, cost, exact.bound, exact.proven, stages)


BRANCHES: Final = 32
"""Maximum number of nodes of one choice to exclude: those whose replacement costs least."""
WORK: Final = 200_000
"""Maximum number of nodes that all searches visit together, approximately; at least `FEWEST` searches run."""
FEWEST: Final = 4


def several(
    space: Space, roots: Sequence[int], first: Climb, count: int, accept: Callable[[Mapping[int, int]], bool] | None = None
) -> list[Climb]:
    """At most `count` distinct choices for the roots, cheapest first, including `first`, the best known one. Skips rejected choices.

    Two different choices differ in at least one node. So the search for the next best excludes each node of the best in turn, then branches
    on the results, cheapest first (Lawler 1972). The searches are greedy and bounded in number, so one may be missed; the results are valid
    programs and distinct. The bound depends on the size of the e-graph, not on the clock, so that results are reproducible.

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
