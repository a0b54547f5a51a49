"""Exact extraction by HiGHS, a solver of mixed-integer programmes, through OR-tools' MathOpt."""

import datetime
from collections.abc import Mapping
from typing import Final

from passat.rules.extraction.exact import Exact, Programme

_WHOLE: Final = 1e5
_GAP: Final = 1e-8
"""How much cheaper another choice can be, as a part of the whole, where the solver calls its own the cheapest."""


def solve_by_mip(programme: Programme, known: Mapping[int, int], seconds: float, seed: int) -> Exact:
    """The cheapest choice that HiGHS finds. It starts from nothing: MathOpt does not hand a known choice on to it."""
    from ortools.math_opt.python import mathopt

    space, nodes = programme.space, programme.nodes
    model = mathopt.Model()
    needed = {cls: model.add_variable(lb=float(cls in programme.roots), ub=1.0) for cls in nodes}
    taken = {node: model.add_binary_variable() for found in nodes.values() for node in found}
    places = {cls: model.add_variable(lb=0.0, ub=count - 1.0) for cls, count in programme.places.items()}
    for cls, found in nodes.items():
        model.add_linear_constraint(mathopt.fast_sum([taken[node] for node in found]) == needed[cls])
    for (_, part), users in programme.users.items():
        model.add_linear_constraint(mathopt.fast_sum([taken[node] for node in users]) <= needed[part])
    for cls, part in programme.cyclic:
        for node in programme.users[cls, part]:
            model.add_linear_constraint(places[part] + 1 <= places[cls] + programme.places[cls] * (1 - taken[node]))
    apart = {node: model.add_variable(lb=0.0, ub=1.0) for node in programme.biases}
    for node, bias in programme.biases.items():
        if bias.on in programme.roots:
            model.add_linear_constraint(taken[node] <= apart[node])
        for reader in programme.readers(node):
            model.add_linear_constraint(taken[node] + taken[reader] - 1 <= apart[node])
        takers = mathopt.fast_sum([taken[taker] for taker in bias.takers if taker in taken])
        model.add_linear_constraint(taken[node] - takers <= apart[node])
    # The solver's tolerances are absolute as well: costs come as parts of what is known, a hundred thousand of them.
    scale = _WHOLE / (programme.cost(known) or 1.0)
    dues = [scale * space.costs[node] * variable for node, variable in taken.items()]
    dues += [scale * programme.biases[node].apart * variable for node, variable in apart.items()]
    model.minimize(mathopt.fast_sum(dues))
    limits = mathopt.SolveParameters(
        time_limit=datetime.timedelta(seconds=seconds),
        random_seed=seed,
        relative_gap_tolerance=_GAP,
        absolute_gap_tolerance=_GAP * _WHOLE,
    )
    result = mathopt.solve(model, mathopt.SolverType.HIGHS, params=limits)
    bound = max(0.0, result.dual_bound() / scale)
    if not result.has_primal_feasible_solution():
        return Exact(None, bound, False)
    values = result.variable_values()
    choice = {cls: max(found, key=lambda node: values[taken[node]]) for cls, found in nodes.items() if values[needed[cls]] > 0.5}
    return Exact(choice, bound, result.termination.reason == mathopt.TerminationReason.OPTIMAL)
