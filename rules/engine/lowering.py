"""Lowering: decomposes operators that the target lacks, in the extracted program.

The lowered calls are excluded from extraction regardless of cost, so lowering runs last, and the cost may increase.
"""

from collections.abc import Sequence
from typing import NamedTuple

from passat.rules.cost import CostModel
from passat.rules.engine.directions import Directions
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.stage import Stage
from passat.rules.engine.trace import Steps
from passat.rules.extraction.ladder import NoProgramError, climb
from passat.rules.extraction.space import Space


class Lowered(NamedTuple):
    """The result of lowering: the saturation, its trace, the search space, the choice (None if nothing was lowered), the number of lowered
    calls, and the reason if no program without them exists."""

    saturator: Saturator
    steps: Steps
    space: Space | None
    choice: dict[int, int] | None
    calls: int
    problem: str = ""


def lower(graph: Graph, root: int, rules: Sequence[Directions], limits: Limits, model: CostModel, results: Sequence[int] = ()) -> Lowered:
    """Extracts a program for a root that contains no calls that the rules match, even if rules create such calls. `results` are nodes whose
    values the program returns."""
    steps = Steps()
    saturator = Saturator(graph, [Stage(tuple(rules))], limits, steps=steps)
    saturator.run()
    gone = _matched(graph, saturator, steps)
    if not gone:
        return Lowered(saturator, steps, None, None, 0)
    space = Space.of_graph(graph, saturator.members, model, results)
    try:
        choice = climb(space.without(gone), [graph.find(root)]).choice
    except NoProgramError:
        return Lowered(saturator, steps, space, None, 0, "not lowered: the results of the rules depend on the calls that they match")
    return Lowered(saturator, steps, space, choice, len(gone))


def _matched(graph: Graph, saturator: Saturator, steps: Steps) -> set[int]:
    """The nodes to which rules were applied."""
    find, gone = graph.find, set()
    for step in steps.applications:
        assert isinstance(step.matcher, Matcher), "multi-pattern rules do not lower"
        cls, key = find(step.unions[0][0]), graph.key(step.matched[0].nodes[0])
        gone |= {node for node in saturator.members.get(cls, [cls]) if graph.key(node) == key}
    return gone
