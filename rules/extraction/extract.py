"""Extracts the best program from a saturated graph: a worklist over tree costs, then local improvement of the DAG cost.

The input program, the smallest node of each e-class, is always a candidate. The result is therefore never more expensive, unless a rank
above 0 is requested.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from passat.rules.cost import CostModel
from passat.rules.engine.graph import Graph
from passat.rules.extraction.exact import solve_exactly
from passat.rules.extraction.improve import Solution, cheapest_trees, trees_from_leaves
from passat.rules.extraction.ladder import Climb, several
from passat.rules.extraction.space import LESS, Space

OVERPRICED: Final = 0.98
"""Cost of the best program relative to the cheapest trees below which extraction starts from trees that share, too. It takes a seventh of
the time of 20,000 wide, where it gains 0.06 % at most (0.987, 0.990 and 1.000 there, 0.89 in a DenseNet)."""


class Extraction(NamedTuple):
    """A choice of one node per required e-class, operands first; its cost; the cost of the input; a lower bound, if exact search was
    requested; the number of e-classes with more than one extractable e-node; and the search space."""

    choice: dict[int, int]
    cost: float
    input_cost: float
    bound: float | None = None
    alternatives: int = 0
    space: Space | None = None


def extract(
    graph: Graph,
    roots: Sequence[int],
    loaded: int,
    model: CostModel,
    exact_seconds: float = 0.0,
    together: Sequence[Sequence[tuple[int, int]]] = (),
    rank: int = 0,
    results: Sequence[int] = (),
    accept: Callable[[Mapping[int, int]], bool] | None = None,
) -> Extraction:
    """The cheapest program found for `roots`. `results` are nodes whose
    values the program returns. `loaded` is the number of nodes before rules ran; calls that rules add must exist in the target opset.
    `together` has joint choices for several e-classes. `exact_seconds` continues with an exact search (passat.rules.extraction.exact). A
    `rank` above 0 requests the next best accepted program, or the last if there are fewer (passat.rules.extraction.ladder)."""
    space = Space.of_graph(graph, model, results)
    classes = [graph.find(root) for root in roots]
    best = _best(space, graph, classes, exact_seconds, together)
    while missing := _unwritable(best, graph, loaded):
        space = space.without(missing)
        best = _best(space, graph, classes, exact_seconds, together)
    if not rank or not space.alternatives:
        return best
    known = Climb(best.choice, best.cost, 0.0, False, {})
    others = [found for found in several(space, classes, known, rank + 1, accept) if found is not known]
    if not others:
        return best
    chosen = others[min(rank, len(others)) - 1]
    return best._replace(choice=chosen.choice, cost=chosen.cost)


def _unwritable(best: Extraction, graph: Graph, loaded: int) -> set[int]:
    """The calls of a program that rules added and that the target opset lacks."""
    return {node for node in best.choice.values() if node >= loaded and unwritable(graph, node)}


def unwritable(graph: Graph, node: int) -> str:
    """Why a node cannot be part of the result: a call that the target opset lacks; '' if it can."""
    op, opset, types = graph.symbols[node].op, graph.environment.written, graph.types
    if op is None or opset is None:
        return ""
    from passat.ir.onnx.writable import missing_from  # needs onnx, as does every program that has an opset

    operands = [types[part] for part in graph.operands[node]]
    why = missing_from(opset, op, operands, types[node], graph.attrs[graph.payloads[node]])
    return why and f"the model is written in opset {opset}, and {why}"


def _best(
    space: Space, graph: Graph, classes: Sequence[int], exact_seconds: float, together: Sequence[Sequence[tuple[int, int]]]
) -> Extraction:
    best = start = Solution.of_input(space, classes)
    input_cost, uses = start.total, start.uses.copy()
    places = 0
    if space.alternatives:
        greedy = cheapest_trees(space)
        groups = [[(graph.find(cls), node) for cls, node in group] for group in together]
        start.improve(greedy, groups)
        same = all(start.choice[cls] == node for cls, node in greedy.items() if start.uses[cls])
        other = None if same else Solution.of_choice(space, greedy, classes)
        trees = start.total if same else math.inf if other is None else other.total
        if other is not None and other.total < start.total * LESS:
            other.improve(greedy, groups)
            best = other
        wider = Solution.of_choice(space, best.in_order(), classes)
        if wider is not None:
            wider.improve(greedy, groups, ties=True)
            if wider.total < best.total * LESS:
                best = wider
        if best.share(greedy):
            best.improve(greedy, groups)
        if best.total < trees * OVERPRICED:  # values have several uses, and trees compute them for each
            best.improve_with(best.shared_trees, groups)
            shared = trees_from_leaves(space, uses)
            for made, preferred in ((other, greedy), (Solution.of_choice(space, shared, classes), shared)):
                if made is not None and made is not best:
                    made.improve(preferred, groups)
                    if made.total < best.total * LESS:
                        best = made
        best.improve_with(best.additions, groups)
        places = best.alternatives(greedy)
    if exact_seconds > 0 and space.alternatives:
        found = solve_exactly(space, classes, best.in_order(), exact_seconds)
        assert found.choice is not None, "includes the known choice"
        return Extraction(found.choice, space.cost(found.choice, classes), input_cost, found.bound, places, space)
    choice = best.in_order()
    cost = space.cost(choice, classes)
    if cost * LESS > input_cost:  # rounding: totals that changed many times, with prices orders of magnitude apart, are inexact
        return Extraction(Solution.of_input(space, classes).in_order(), input_cost, input_cost, None, places, space)
    return Extraction(choice, cost, input_cost, None, places, space)
