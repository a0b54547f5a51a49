"""Lowering: rules that say what operators are made of which the target does not have, applied to the program that was taken out.

What they match is not taken out again, whatever that costs; so they run last, and the program gets dearer where it must.
"""

from collections.abc import Sequence
from typing import NamedTuple

from passat.rules.cost import CostModel
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.stage import Stage
from passat.rules.engine.trace import Steps
from passat.rules.extraction.ladder import NoProgramError, climb
from passat.rules.extraction.space import Space


class Lowered(NamedTuple):
    """What came of it: the saturation, its steps, what there was to choose from, the choice (None where nothing was lowered), how many
    calls were lowered, and why not, where some program without them could not be found."""

    saturator: Saturator
    steps: Steps
    space: Space | None
    choice: dict[int, int] | None
    calls: int
    problem: str = ""


def lower(graph: Graph, root: int, matchers: Sequence[Matcher], limits: Limits, model: CostModel) -> Lowered:
    """The program of a root in which none of the calls stays that the rules match, nor of those that they make of them."""
    steps = Steps()
    saturator = Saturator(graph, [Stage(tuple(matchers))], limits, steps=steps)
    saturator.run()
    gone = _matched(graph, saturator, steps)
    if not gone:
        return Lowered(saturator, steps, None, None, 0)
    space = Space.of_graph(graph, saturator.members, model)
    try:
        choice = climb(space.without(gone), [graph.find(root)]).choice
    except NoProgramError:
        return Lowered(saturator, steps, space, None, 0, "not lowered: what the rules make needs what they match")
    return Lowered(saturator, steps, space, choice, len(gone))


def _matched(graph: Graph, saturator: Saturator, steps: Steps) -> set[int]:
    """The nodes that rules were applied to."""
    find, gone = graph.find, set()
    for step in steps.applications:
        assert isinstance(step.matcher, Matcher), "rules with several roots do not lower"
        cls, key = find(step.unions[0][0]), graph.key(step.matched[0].nodes[0])
        gone |= {node for node in saturator.members.get(cls, [cls]) if graph.key(node) == key}
    return gone
