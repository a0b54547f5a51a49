"""Exact extraction by CP-SAT, the constraint solver of OR-tools."""

import math
import os
from collections.abc import Mapping, Sequence
from typing import Final

from passat.rules.extraction.exact import Exact, Programme

_DIGITS: Final = 6
"""Costs that are whole after multiplying with a power of ten up to this one are taken exactly; others are rounded to so many digits."""


def solve_by_cpsat(programme: Programme, known: Mapping[int, int], seconds: float, seed: int) -> Exact:
    """The cheapest choice that CP-SAT finds from one that is known."""
    from ortools.sat.python import cp_model

    space, nodes = programme.space, programme.nodes
    biases = programme.biases
    scale, loss = _scale([*(space.costs[node] for found in nodes.values() for node in found), *(bias.apart for bias in biases.values())])
    model = cp_model.CpModel()
    needed = {cls: model.new_bool_var("") for cls in nodes}
    taken = {node: model.new_bool_var("") for found in nodes.values() for node in found}
    places = {cls: model.new_int_var(0, count - 1, "") for cls, count in programme.places.items()}
    for root in programme.roots:
        model.add(needed[root] == 1)
    for cls, found in nodes.items():
        model.add(sum([taken[node] for node in found]) == needed[cls])
    for (_, part), users in programme.users.items():
        model.add(sum([taken[node] for node in users]) <= needed[part])
    for cls, part in programme.cyclic:
        for node in programme.users[cls, part]:
            model.add(places[part] < places[cls]).only_enforce_if(taken[node])
    apart = {node: model.new_bool_var("") for node in biases}
    for node, bias in biases.items():
        if bias.on in programme.roots:
            model.add(taken[node] <= apart[node])
        for reader in programme.readers(node):
            model.add(taken[node] + taken[reader] - 1 <= apart[node])
        model.add(taken[node] - sum([taken[taker] for taker in bias.takers if taker in taken]) <= apart[node])
    dues = [round(space.costs[node] * scale) * variable for node, variable in taken.items()]
    dues += [round(biases[node].apart * scale) * variable for node, variable in apart.items()]
    model.minimize(sum(dues))
    for cls, variable in needed.items():
        model.add_hint(variable, cls in known)
    for node, variable in taken.items():
        model.add_hint(variable, known.get(space.classes[node]) == node)
    solver = cp_model.CpSolver()
    solver.parameters.max_time_in_seconds = seconds
    solver.parameters.num_workers = min(8, os.cpu_count() or 1)
    solver.parameters.random_seed = seed
    status = solver.solve(model)
    bound = max(0.0, (solver.best_objective_bound - loss) / scale)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Exact(None, 0.0, False)
    choice = {cls: node for cls, found in nodes.items() for node in found if solver.value(taken[node])}
    return Exact(choice, bound, status == cp_model.OPTIMAL and loss == 0)


def _scale(costs: Sequence[float]) -> tuple[float, float]:
    """What to multiply costs with so that they are whole, and how much a sum of them may lose by being rounded all the same."""
    for digits in range(_DIGITS + 1):
        scale = 10.0**digits
        if all(math.isclose(cost * scale, round(cost * scale), rel_tol=1e-12, abs_tol=1e-12) for cost in costs):
            return scale, 0.0
    return 10.0**_DIGITS / max(costs), 0.5 * len(costs)
