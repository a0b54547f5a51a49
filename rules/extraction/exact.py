"""The cheapest choice that there is, proven: extraction as a 0-1 programme, solved by OR-tools (extra `exact`).

One variable for each node and class: a class that is needed takes one node, a node that is taken needs the classes of its operands.
Choices with cycles are no programs: in each strongly connected part of the classes a place in an order is chosen along.

Two solvers of OR-tools share the time. HiGHS, a solver of mixed-integer programmes, proves in seconds what CP-SAT does not prove in
minutes, since the linear relaxation is what bounds these programmes; CP-SAT starts from the choice that is known.
"""

import time
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Final, NamedTuple

from passat.rules.extraction.space import LESS, Space
from passat.rules.extraction.trees import trees_from_leaves

_SHARE: Final = 0.7
"""Of the time that HiGHS gets, where it does not come to an end before."""
_MOST_SECONDS: Final = 1e8
"""What a solver takes for no limit; more does not fit its clock."""
_COMPARED: Final = 200
"""In classes of more nodes it is not looked for nodes that another one makes needless."""


class ExactUnavailableError(ImportError):
    """Exact extraction is asked for and OR-tools is not installed."""


class Exact(NamedTuple):
    """What a solver came to: the node of each class that the roots need, parts before wholes, or None where it found nothing in time;
    what no choice can cost less than; whether the choice is proven to be the cheapest."""

    choice: dict[int, int] | None
    bound: float
    proven: bool


class Programme:
    """What there is to choose from for some roots, without what no cheapest choice takes.

    `nodes` has the nodes of each class; `users` for each class and each class that some of its nodes need, those nodes; `biases` the nodes
    that cost more where they are not taken along; `cyclic` the pairs of classes that may lie on a cycle; `places` how many places there are
    in the order of the classes that each class may lie on a cycle with.
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
        graph = nx.DiGraph(iter(self.users))
        components = [component for component in nx.strongly_connected_components(graph) if len(component) > 1]
        self.places = {cls: len(component) for component in components for cls in sorted(component)}
        together = {cls: number for number, component in enumerate(components) for cls in component}
        self.cyclic = [(cls, part) for cls, part in self.users if together.get(cls, -1) == together.get(part, -2)]

    def cost(self, choice: Mapping[int, int]) -> float:
        """What a choice costs, each node once."""
        return self.space.cost(choice, self.roots)

    def readers(self, bias: int) -> list[int]:
        """The nodes beside a bias that read what it is added to."""
        on = self.biases[bias].on
        return [node for cls in self.nodes for node in self.users.get((cls, on), ()) if node != bias]

    def needed(self, choice: Mapping[int, int]) -> dict[int, int]:
        """The part of a choice that the roots need, parts before wholes."""
        ordered: dict[int, int] = {}
        stack = [(root, False) for root in sorted(self.roots)]
        while stack:
            cls, done = stack.pop()
            if done:
                ordered.setdefault(cls, choice[cls])
            elif cls not in ordered:
                stack.append((cls, True))
                stack.extend((part, False) for part in self.space.children[choice[cls]] if part not in ordered)
        return ordered


def is_available() -> bool:
    """Whether OR-tools is installed."""
    return find_spec("ortools") is not None


def solve_exactly(space: Space, roots: Sequence[int], known: Mapping[int, int], seconds: float, *, seed: int = 0) -> Exact:
    """The cheapest choice for the roots, looked for during `seconds` from a choice that is known, parts before wholes.

    Costs are not negative. What comes back is never dearer than what is known. Raises ExactUnavailableError without OR-tools.
    """
    if not is_available():
        raise ExactUnavailableError("exact extraction needs OR-tools: pip install 'passat[exact]'")
    from passat.rules.extraction.exact_cpsat import solve_by_cpsat
    from passat.rules.extraction.exact_mip import solve_by_mip

    seconds = min(seconds, _MOST_SECONDS)
    start = time.perf_counter()
    programme = Programme(space, roots)
    best, cost, bound = dict(known), programme.cost(known), 0.0
    for solve, share in ((solve_by_mip, _SHARE), (solve_by_cpsat, 1.0)):
        left = share * (seconds - (time.perf_counter() - start))
        if left <= 0:
            continue
        found = solve(programme, best, left, seed)
        bound = max(bound, found.bound)
        if found.choice is not None:
            choice = programme.needed(found.choice)
            if programme.cost(choice) < cost * LESS:
                best, cost = choice, programme.cost(choice)
        if found.proven or bound >= cost * LESS:
            return Exact(best, min(bound, cost), True)
    return Exact(best, min(bound, cost), False)


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
    dearest: list[float] = []
    for node in sorted(nodes, key=lambda node: (space.costs[node], len(space.children[node]), node)):
        parts, cost = frozenset(space.children[node]), space.costs[node]
        if not any(others <= parts and most <= cost for (_, others), most in zip(kept, dearest, strict=True)):
            kept.append((node, parts))
            dearest.append(cost + space.biases[node].apart if node in space.biases else cost)
    return [node for node, _ in kept]
