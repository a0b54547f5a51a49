"""The cheapest choice that there is, proven: extraction as a 0-1 programme, solved by OR-tools CP-SAT (extra `exact`).

One variable for each node and class: a class that is needed takes exactly one node, a node that is taken needs the classes of its
operands. Choices with cycles are no programs: in each strongly connected part of the classes a place in an order is chosen along.
"""

import math
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.rules.space import Space
from passat.rules.trees import trees_from_leaves

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel, IntVar

_DIGITS: Final = 6
"""Costs that are whole after multiplying with a power of ten up to this one are taken exactly; others are rounded to so many digits."""
_COMPARED: Final = 200
"""In classes of more nodes it is not looked for nodes that another one makes needless."""


class ExactUnavailableError(ImportError):
    """Exact extraction is asked for and OR-tools is not installed."""


class Exact(NamedTuple):
    """What the solver came to: the node of each class that the roots need, or None where it found nothing in time; what no choice can
    be cheaper than; whether the choice is proven to cost just that."""

    choice: dict[int, int] | None
    bound: float
    proven: bool


def is_available() -> bool:
    """Whether OR-tools is installed."""
    return find_spec("ortools") is not None


def solve_exactly(space: Space, roots: Sequence[int], hint: Mapping[int, int], seconds: float, *, seed: int = 0) -> Exact:
    """The cheapest choice for the roots, looked for during `seconds` from a choice that is known. Costs are not negative.

    Raises ExactUnavailableError without OR-tools.
    """
    try:
        from ortools.sat.python import cp_model
    except ImportError:
        raise ExactUnavailableError("exact extraction needs OR-tools: pip install 'passat[exact]'") from None
    nodes = useful_nodes(space, roots)
    scale, loss = _scale([space.costs[node] for found in nodes.values() for node in found])
    model = cp_model.CpModel()
    needed = {cls: model.new_bool_var("") for cls in nodes}
    taken = {node: model.new_bool_var("") for found in nodes.values() for node in found}
    for root in set(roots):
        model.add(needed[root] == 1)
    for cls, found in nodes.items():
        model.add(sum([taken[node] for node in found]) == needed[cls])
        for node in found:
            for part in set(space.children[node]):
                model.add_implication(taken[node], needed[part])
    places = _forbid_cycles(model, space, nodes, taken)
    model.minimize(sum([round(space.costs[node] * scale) * variable for node, variable in taken.items()]))
    for cls, variable in needed.items():
        model.add_hint(variable, cls in hint)
    for node, variable in taken.items():
        model.add_hint(variable, hint.get(space.classes[node]) == node)
    for place, cls in enumerate(hint):  # parts before wholes
        if cls in places:
            model.add_hint(places[cls], place)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = min(8, os.cpu_count() or 1)
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    bound = max(0.0, (solver.best_objective_bound - loss) / scale)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Exact(None, 0.0 if status == cp_model.UNKNOWN and not math.isfinite(bound) else bound, False)
    choice = {cls: node for cls, found in nodes.items() for node in found if solver.value(taken[node])}
    return Exact(choice, bound, status == cp_model.OPTIMAL and loss == 0)


def useful_nodes(space: Space, roots: Sequence[int]) -> dict[int, list[int]]:
    """The nodes of each class that a cheapest choice for the roots may take. Those that cannot be part of a program are left out, and
    those that another one of their class makes needless: it costs no more and needs nothing else."""
    finite = trees_from_leaves(space)
    members: dict[int, list[int]] = {}
    for node, cls in enumerate(space.classes):
        parts = space.children[node]
        if cls not in parts and all(part in finite for part in parts):
            members.setdefault(cls, []).append(node)
    kept: dict[int, list[int]] = {}
    stack = list(dict.fromkeys(roots))
    while stack:
        cls = stack.pop()
        if cls not in kept:
            kept[cls] = _not_needless(space, members.get(cls, []))
            stack.extend(part for node in kept[cls] for part in space.children[node])
    return kept


def _not_needless(space: Space, nodes: Sequence[int]) -> list[int]:
    if len(nodes) > _COMPARED:
        return list(nodes)
    kept: list[tuple[int, frozenset[int]]] = []
    for node in sorted(nodes, key=lambda node: (space.costs[node], len(space.children[node]), node)):
        parts = frozenset(space.children[node])
        if not any(others <= parts for _, others in kept):
            kept.append((node, parts))
    return [node for node, _ in kept]


def _forbid_cycles(
    model: "CpModel", space: Space, nodes: Mapping[int, Sequence[int]], taken: Mapping[int, "IntVar"]
) -> "dict[int, IntVar]":
    """Gives each class that may lie on a cycle a place, which those of its operands come before."""
    import networkx as nx

    graph = nx.DiGraph((cls, part) for cls, found in nodes.items() for node in found for part in space.children[node])
    places: dict[int, IntVar] = {}
    for component in nx.strongly_connected_components(graph):
        if len(component) < 2:
            continue
        for cls in component:
            places[cls] = model.new_int_var(0, len(component) - 1, "")
        for cls in component:
            for node in nodes[cls]:
                for part in component.intersection(space.children[node]):
                    model.add(places[part] < places[cls]).only_enforce_if(taken[node])
    return places


def _scale(costs: Sequence[float]) -> tuple[float, float]:
    """What to multiply costs with so that they are whole, and how much a sum of them may lose by being rounded all the same."""
    for digits in range(_DIGITS + 1):
        scale = 10.0**digits
        if all(math.isclose(cost * scale, round(cost * scale), rel_tol=1e-12, abs_tol=1e-12) for cost in costs):
            return scale, 0.0
    scale = 10.0**_DIGITS / max(costs)
    return scale, 0.5 * len(costs)
