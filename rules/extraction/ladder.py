"""The stages of extraction on any e-graph, without an input program: cheapest trees, DAG improvement, exact search."""

import time
from collections.abc import Sequence
from typing import NamedTuple

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
