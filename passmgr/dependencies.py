"""Who requires whom: the graph of requirements, and the order in which what a pass requires has to run.

Nodes are passes. A pass of the pipeline at hand is a node by its identity, a pass that is required by a name is one node per name.
An edge leads from a pass to what it requires, or from a Sequential to what it contains.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass
from passat.passmgr.registry import UnknownPassError, get_pass

Node = int | str
"""A pass of the pipeline by its `id`, or a required pass by its name."""

DEPTH_LIMIT: Final = 100
"""How deep pipelines nest."""

STEPS_LIMIT: Final = 1000
"""Runs of required passes before one pass beyond which the search for an order is given up."""


class PassDependencyError(ValueError):
    """Requirements that no order can satisfy: passes that require each other, or that undo each other's work."""


class State:
    """What the passes that have run so far established, and is still true: names of passes, each with the step it ran in.

    A pass with declared facts (`provides`) is established while all of them hold. A pass without is established until a pass runs that
    does not keep its name; passes that only run because they are required do count as keeping it, or two
    requirements of one pass could never both be met.
    """

    __slots__ = ("_facts", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self._facts: dict[str, frozenset[str]] = {}

    def copy(self) -> "State":
        """A state that can be changed without changing this one."""
        copy = State()
        copy.steps, copy._facts = dict(self.steps), dict(self._facts)
        return copy

    def __contains__(self, name: str) -> bool:
        return name in self.steps

    @property
    def names(self) -> frozenset[str]:
        """The names of the established passes."""
        return frozenset(self.steps)

    def ran(self, info: PassInfo, step: str, *, as_requirement: bool) -> bool:
        """A pass runs. Returns whether it undid what another had established."""
        lost = []
        for name, facts in self._facts.items():
            kept = all(map(info.keeps, facts)) if facts else as_requirement or info.keeps(name)
            if not kept and name != info.name:
                lost.append(name)
        for name in lost:
            del self.steps[name], self._facts[name]
        self.finished(info, step)
        return bool(lost)

    def finished(self, info: PassInfo, step: str) -> None:
        """A pass whose members have run is done: it undoes nothing that they did not."""
        self.steps[info.name] = step
        self._facts[info.name] = info.provides


class Requirements:
    """The requirements of the passes of a pipeline, transitively, and of the members of nested pipelines.

    A name means the registered pass, else a member of the pipeline with that name. Raises UnknownPassError for a name that is neither,
    and PassDependencyError for passes that require each other.
    """

    def __init__(self, members: Sequence[Pass]) -> None:
        import networkx as nx  # here, because it takes 0.1 s and contexts and single passes do without it

        self._members = {pass_.info.name: pass_ for pass_ in reversed(list(_flatten(members)))}
        self._resolved: dict[str, Pass] = {}
        self._graph: nx.DiGraph[Node] = nx.DiGraph()
        self._requires: dict[Node, tuple[str, ...]] = {}
        waiting: list[tuple[Node, Pass]] = [(id(pass_), pass_) for pass_ in members]
        while waiting:
            node, pass_ = waiting.pop()
            if node in self._requires:
                continue
            names = []
            self._graph.add_node(node, label=pass_.info.name)
            for name in pass_.info.required:
                required = self._resolve(name, pass_)
                names.append(required.info.name)
                self._graph.add_edge(node, required.info.name, verb="requires")
                waiting.append((required.info.name, required))
            for member in pass_.members or ():
                self._graph.add_edge(node, id(member), verb="contains")
                waiting.append((id(member), member))
            self._requires[node] = tuple(dict.fromkeys(names))
        try:
            cycle = nx.find_cycle(self._graph)
        except nx.NetworkXNoCycle:
            return
        raise PassDependencyError(f"passes require each other in a cycle: {self._show_cycle([edge[:2] for edge in cycle])}")

    def pass_of(self, name: str) -> Pass:
        """The pass that a required name stands for."""
        return self._resolved[name]

    def requires(self, node: Node) -> tuple[str, ...]:
        """The names of the passes that a pass itself requires, in declared order."""
        return self._requires[node]

    def order(self, node: Node, state: State) -> list[str]:
        """The required passes of a pass that are not established, with theirs; each after what it requires, otherwise in declared order."""
        import networkx as nx

        if all(name in state for name in self._requires[node]):
            return []

        def is_needed(other: Node) -> bool:
            return other == node or (isinstance(other, str) and other not in state)

        def is_requirement(whole: Node, part: Node) -> bool:
            return bool(self._graph.edges[whole, part]["verb"] == "requires")

        needed = nx.subgraph_view(self._graph, filter_node=is_needed, filter_edge=is_requirement)
        return [other for other in nx.dfs_postorder_nodes(needed, node) if isinstance(other, str) and other != node]

    def undo_each_other(self, target: str, names: Iterable[str]) -> PassDependencyError:
        """The error for a pass whose requirements cannot hold at one time."""
        undo = [
            f"{name} undoes {', '.join(lost)}"
            for name in dict.fromkeys(names)
            if (lost := [other for other in dict.fromkeys(names) if other != name and not self._keeps(name, other)])
        ]
        return PassDependencyError(f"no order satisfies what {target} requires: {'; '.join(undo)}")

    def _keeps(self, name: str, other: str) -> bool:
        facts = self.pass_of(other).info.provides
        return all(self.pass_of(name).info.keeps(fact) for fact in facts)

    def _resolve(self, name: str, by: Pass) -> Pass:
        try:
            required = get_pass(name)
        except UnknownPassError as error:
            if name not in self._members:
                raise UnknownPassError(f"the pass {by.info.name} requires {name}. {error}") from None
            required = self._members[name]
        return self._resolved.setdefault(required.info.name, required)

    def _show_cycle(self, cycle: list[tuple[Node, Node]]) -> str:
        label = self._graph.nodes
        first = f"{label[cycle[0][0]]['label']}"
        return first + "".join(f" {self._graph.edges[whole, part]['verb']} {label[part]['label']}" for whole, part in cycle)


def _flatten(passes: Iterable[Pass]) -> Iterable[Pass]:
    for pass_ in passes:
        yield pass_
        yield from _flatten(pass_.members or ())
