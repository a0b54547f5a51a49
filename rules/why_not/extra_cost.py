"""What a program would cost with what a rule made and extraction did not take."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.rules.engine.journal import Application, Run
from passat.rules.extraction.improve import Solution
from passat.rules.extraction.space import Space
from passat.rules.extraction.trees import cheapest_trees

_SEARCHED = 16
"""Of so many places the cheapest program is searched for; where there are more, what one change adds and frees is taken as it is."""


class Priced(NamedTuple):
    """By how much a program would be dearer than its `cost`."""

    extra: float
    cost: float


def extra_costs(run: Run, applications: Sequence[Application]) -> list[Priced | None]:
    """By how much the program would be dearer with what each application made by itself, everything else as cheap as can be found. None
    where the place is no part of the program, or the program would need itself. Of a saturation that something was taken out of."""
    assert run.space is not None
    assert run.choice is not None
    graph, space, choice = run.graph, run.space, run.choice
    root = graph.find(run.root)
    trees = cheapest_trees(space)
    cost = space.cost(choice, [root])
    now = Solution.of_choice(space, choice, [root])
    few = len(applications) <= _SEARCHED
    found: list[Priced | None] = []
    for application in applications:
        forced = {graph.find(cls): node for cls, node in application.unions if graph.find(cls) in choice}
        extra: list[float] = []
        if forced and (now is None or few or len(forced) > 1):
            extra += [total - cost for total in _searched(space, choice, trees, forced, root)]
        elif forced and now is not None:
            ((cls, node),) = forced.items()
            difference = now.difference(cls, node, trees)
            extra += [] if difference is None else [difference]
        found.append(Priced(min(extra), cost) if extra else None)
    return found


def _searched(space: Space, choice: Mapping[int, int], trees: Mapping[int, int], forced: Mapping[int, int], root: int) -> list[float]:
    """The costs of the programs that are found which have certain nodes."""
    alternatives = {**space.alternatives, **{cls: [node] for cls, node in forced.items()}}
    narrow = Space(space.classes, space.children, space.costs, alternatives, space.default, space.biases)
    totals = []
    for start in ({**trees, **choice}, {**choice, **trees}):
        solution = Solution.of_choice(narrow, {**start, **forced}, [root])
        if solution is not None:
            solution.improve(trees)
            totals.append(solution.total)
    return totals
