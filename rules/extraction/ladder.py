"""The ladder of extraction on any e-graph, without a program to start from: cheapest trees, improvement as a DAG, exact search."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from passat.ir.passat_error import PassatError
from passat.rules.extraction.exact import solve_exactly
from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.space import Space


class NoProgramError(PassatError, ValueError):
    """A root of which every derivation needs itself: nothing can be extracted."""


class Climb(NamedTuple):
    """What came of it: the node of each class that the roots need, parts before wholes; its cost, each node once; what no choice costs less
    than (0 where nobody looked); whether the choice is proven to be the cheapest; the cost and the seconds of each stage."""

    choice: dict[int, int]
    cost: float
    bound: float
    proven: bool
    stages: dict[str, tuple[float, float]]


def climb(space: Space, roots: Sequence[int], seconds: float = 0.0, *, seed: int = 0) -> Climb:
    """The cheapest choice for the roots: greedy, and with `seconds` exact as far as these reach. Costs are not negative.

    Raises NoProgramError, and ExactUnavailableError where exact search is asked for without OR-tools.

    >>> space = Space([0, 1], [(), (0, 0)], [2.0, 1.0], {}, [0, 1])
    >>> climb(space, [1]).cost
    3.0
    """
    start = time.perf_counter()
    trees = trees_from_leaves(space)
    without = next((root for root in roots if root not in trees), None)
    if without is not None:
        raise NoProgramError(f"the root class of node {without} has no finite program: each of its nodes needs itself")
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
    assert exact.choice is not None, "the known choice at least"
    cost = space.cost(exact.choice, roots)
    stages["exact"] = (cost, time.perf_counter() - start)
    return Climb(exact.choice, cost, exact.bound, exact.proven, stages)
