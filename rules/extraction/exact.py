"""Exact extraction: a 0-1 program, solved by the mixed-integer solver HiGHS of OR-tools (extra `exact`)."""

import datetime
import time
from collections.abc import Container, Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

from passat.ir.passat_error import PassatError
from passat.rules.extraction.improve import Solution, trees_from_leaves
from passat.rules.extraction.space import LESS, Space

_MOST_SECONDS: Final = 1e8
"""Stands for no limit; larger values overflow the solver's clock."""
_COMPARED: Final = 200
"""E-classes with more nodes are not checked for dominated nodes."""


class ExactUnavailableError(PassatError, ImportError):
    """Exact extraction was requested, but OR-tools is not installed."""


class Exact(NamedTuple):
    """The result of a solver: the node of each required e-class, operands first, or None if it found nothing in time; a lower bound of the
    cost; whether the choice is proven optimal."""

    choice: dict[int, int] | None
    bound: float
    proven: bool


class Program:
    """The search space for some roots, without nodes that no cheapest choice contains.

    `nodes` has the nodes of each e-class; `users` maps an e-class and an operand e-class to the nodes between them; `biases` has the nodes
    that cost more unless fused; `cyclic` has the pairs of e-classes that may lie on a cycle; `places` bounds the topological order among
    the e-classes that may share a cycle.
    """

    def __init__(self, space: Space, roots: Sequence[int]) -> None:
        import networkx as nx

        self.space = space
        self.roots = frozenset(roots)
        self.nodes = useful_nodes(space, roots)
        self.users: dict[tuple[int, int], list[int]] = {}
        for cls, nodes in self.nodes.items():
            for node in nodes:
                for part in dict.fromkeys(space.children[node]):
                    self.users.setdefault((cls, part), []).append(node)
        self.biases = {node: space.biases[node] for found in self.nodes.values() for node in found if node in space.biases}
        graph: nx.DiGraph[int] = nx.DiGraph()
        graph.add_edges_from(self.users)
        components = [component for component in nx.strongly_connected_components(graph) if len(component) > 1]
        self.places = {cls: len(component) for component in components for cls in sorted(component)}
        together = {cls: number for number, component in enumerate(components) for cls in component}
        self.cyclic = [(cls, part) for cls, part in self.users if together.get(cls, -1) == together.get(part, -2)]

    def cost(self, choice: Mapping[int, int]) -> float:
        """The DAG cost of a choice."""
        return self.space.cost(choice, self.roots)

    def readers(self, bias: int) -> list[int]:
        """The other nodes that read the operand of a bias."""
        on = self.biases[bias].on
        return [node for cls in self.nodes for node in self.users.get((cls, on), ()) if node != bias]


def is_available() -> bool:
    """True if OR-tools is installed."""
    return find_spec("ortools") is not None


def solve_exactly(space: Space, roots: Sequence[int], known: Mapping[int, int], seconds: float, *, seed: int = 0) -> Exact:
    """Searches for the cheapest choice for the roots for `seconds`, starting from a known choice; operands first.

    Costs must not be negative. The result is never more expensive than the known choice. Raises ExactUnavailableError without OR-tools.
    """
    if not is_available():
        raise ExactUnavailableError("exact extraction needs OR-tools: pip install 'passat[exact]'")

    seconds = min(seconds, _MOST_SECONDS)
    start = time.perf_counter()
    program = Program(space, roots)
    best, cost, bound = dict(known), program.cost(known), 0.0
    left = seconds - (time.perf_counter() - start)
    if left <= 0:
        return Exact(best, bound, False)
    found = solve_by_mip(program, known, left, seed)
    if found.choice is not None:
        solution = Solution.of_choice(space, found.choice, roots)
        assert solution is not None, "the solver's choices have no cycles"
        choice = solution.in_order()
        if program.cost(choice) < cost * LESS:
            best, cost = choice, program.cost(choice)
    return Exact(best, min(found.bound, cost), found.proven or found.bound >= cost * LESS)


def useful_nodes(space: Space, roots: Sequence[int]) -> dict[int, list[int]]:
    """The nodes of each e-class that a cheapest choice for the roots may contain. Omits nodes without a finite program, and nodes dominated
    by another of their e-class, which costs no more and needs no other operands. Nodes with which a bias does not apply are kept."""
    takers = {taker for bias in space.biases.values() for taker in bias.takers}
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
            kept[cls] = _not_needless(space, members.get(cls, []), takers)
            stack.extend(part for node in kept[cls] for part in space.children[node])
    return kept


def _not_needless(space: Space, nodes: Sequence[int], takers: Container[int]) -> list[int]:
    if len(nodes) > _COMPARED:
        return list(nodes)
    kept: list[tuple[int, frozenset[int]]] = []
    dearest: list[float] = []
    for node in sorted(nodes, key=lambda node: (space.costs[node], len(space.children[node]), node)):
        parts, cost = frozenset(space.children[node]), space.costs[node]
        if node in takers or not any(others <= parts and most <= cost for (_, others), most in zip(kept, dearest, strict=True)):
            kept.append((node, parts))
            dearest.append(cost + space.biases[node].apart if node in space.biases else cost)
    return [node for node, _ in kept]


_WHOLE: Final = 1e5
_GAP: Final = 1e-8
"""The relative gap at which the solver considers its choice optimal."""


def solve_by_mip(program: Program, known: Mapping[int, int], seconds: float, seed: int) -> Exact:
    """The cheapest choice that HiGHS finds. It has no warm start: MathOpt does not pass a known choice on."""
    from ortools.math_opt.python import mathopt

    space, nodes = program.space, program.nodes
    model = mathopt.Model()
    needed = {cls: model.add_variable(lb=float(cls in program.roots), ub=1.0) for cls in nodes}
    taken = {node: model.add_binary_variable() for found in nodes.values() for node in found}
    places = {cls: model.add_variable(lb=0.0, ub=count - 1.0) for cls, count in program.places.items()}
    for cls, found in nodes.items():
        model.add_linear_constraint(mathopt.fast_sum([taken[node] for node in found]) == needed[cls])
    for (_, part), users in program.users.items():
        model.add_linear_constraint(mathopt.fast_sum([taken[node] for node in users]) <= needed[part])
    for cls, part in program.cyclic:
        for node in program.users[cls, part]:
            model.add_linear_constraint(places[part] + 1 <= places[cls] + program.places[cls] * (1 - taken[node]))
    apart = {node: model.add_variable(lb=0.0, ub=1.0) for node in program.biases}
    for node, bias in program.biases.items():
        if bias.on in program.roots:
            model.add_linear_constraint(taken[node] <= apart[node])
        for reader in program.readers(node):
            model.add_linear_constraint(taken[node] + taken[reader] - 1 <= apart[node])
        takers = mathopt.fast_sum([taken[taker] for taker in bias.takers if taker in taken])
        model.add_linear_constraint(taken[node] - takers <= apart[node])
    # The solver also has absolute tolerances: scale costs to the known total, times a hundred thousand.
    scale = _WHOLE / (program.cost(known) or 1.0)
    dues = [scale * space.costs[node] * variable for node, variable in taken.items()]
    dues += [scale * program.biases[node].apart * variable for node, variable in apart.items()]
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
