"""Who requires whom: the graph of requirements, and the order in which what a pass requires has to run.

Nodes are passes. A pass of the pipeline at hand is a node by its identity, a pass that is required by a name is one node per name.
An edge leads from a pass to what it requires, or from a Sequential to what it contains.
"""

import graphlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import Pass
from passat.passmgr.registry import PassOptionError, UnknownPassError, get_entry

Node = int | str
"""A pass of the pipeline by its `id`, or a required pass by its name."""

DEPTH_LIMIT: Final = 100
"""How deep pipelines nest."""


class PassDependencyError(ValueError):
    """Requirements that no order can satisfy: passes that require each other, or that undo each other's work."""


class State:
    """What the passes that have run so far established, and is still true: names of passes, each with the step it ran in.

    A pass with declared facts (`provides`) is established while all of them hold. A pass without is established until a pass runs that
    does not keep its name; passes that only run because they are required do count as keeping it, or two
    requirements of one pass could never both be met.
    """

    __slots__ = ("_by_facts", "_facts", "steps")

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self._facts: dict[str, frozenset[str]] = {}
        # Names with the same facts stand and fall together; those without any, under the empty set, one by one.
        self._by_facts: dict[frozenset[str], dict[str, None]] = {}

    def copy(self) -> "State":
        """A state that can be changed without changing this one."""
        copy = State()
        copy.steps, copy._facts = dict(self.steps), dict(self._facts)
        copy._by_facts = {facts: dict(names) for facts, names in self._by_facts.items()}
        return copy

    def __contains__(self, name: str) -> bool:
        return name in self.steps

    @property
    def names(self) -> frozenset[str]:
        """The names of the established passes."""
        return frozenset(self.steps)

    def facts(self, name: str) -> frozenset[str]:
        """What an established pass provides."""
        return self._facts[name]

    def ran(self, name: str, info: PassInfo, step: str, *, as_requirement: bool) -> bool:
        """A pass runs, under a name. Returns whether it undid what another had established."""
        lost: list[str] = []
        if EVERYTHING not in info.preserves:
            for facts, names in self._by_facts.items():
                if facts:
                    lost += () if all(map(info.keeps, facts)) else names
                elif not as_requirement:
                    lost += [other for other in names if not info.keeps(other)]
        lost = [other for other in lost if other != name]
        self.lost(lost)
        self.finished(name, info.provides, step)
        return bool(lost)

    def lost(self, names: Iterable[str]) -> None:
        """What these passes established no longer holds."""
        for name in names:
            del self.steps[name]
            del self._by_facts[self._facts.pop(name)][name]

    def finished(self, name: str, provides: frozenset[str], step: str) -> None:
        """A pass has run, or a pipeline whose members have; a pipeline undoes nothing that they did not."""
        if name in self.steps:
            self.lost([name])  # it may have been another pass of that name, with other facts
        self.steps[name] = step
        self._facts[name] = provides
        self._by_facts.setdefault(provides, {})[name] = None

    def replace(self, kept: Iterable[str], ran: Mapping[str, frozenset[str]], step: str) -> bool:
        """A pipeline has run of which is known what it kept and established. Returns whether it undid anything."""
        lost = [name for name in self.steps if name not in kept and name not in ran]
        self.lost(lost)
        for name, provides in ran.items():
            self.finished(name, provides, step)
        return bool(lost)


class Requirements:
    """The requirements of the passes of a pipeline, transitively, and of the members of nested pipelines.

    A name means the registered pass, else a member of the pipeline with that name. Raises UnknownPassError for a name that is neither,
    PassOptionError for a pass that cannot be made without options, and PassDependencyError for passes that require each other.
    """

    def __init__(self, members: Sequence[Pass]) -> None:
        self._members = {pass_.info.name: pass_ for pass_ in reversed(_flatten(members))}
        self._nodes: dict[str, str] = {}
        self._resolved: dict[str, Pass] = {}
        self._requires: dict[Node, tuple[str, ...]] = {}
        self._labels: dict[Node, str] = {}
        self._edges: dict[Node, dict[Node, str]] = {}
        """Whom each pass requires or contains, with the verb."""
        waiting: list[tuple[Node, Pass]] = [(id(pass_), pass_) for pass_ in members]
        while waiting:
            node, pass_ = waiting.pop()
            if node in self._requires:
                continue
            self._labels[node] = node if isinstance(node, str) else pass_.info.name
            self._requires[node] = tuple(dict.fromkeys(self._resolve(name, pass_) for name in pass_.info.required))
            edges = self._edges[node] = dict.fromkeys(self._requires[node], "requires")
            waiting += [(required, self._resolved[required]) for required in edges if isinstance(required, str)]
            for member in pass_.members or ():
                edges[id(member)] = "contains"
                waiting.append((id(member), member))
        try:
            graphlib.TopologicalSorter(self._edges).prepare()
        except graphlib.CycleError:
            raise PassDependencyError(f"passes require each other in a cycle: {self._show_cycle()}") from None

    def pass_of(self, name: str) -> Pass:
        """The pass that a required name stands for."""
        return self._resolved[name]

    def requires(self, node: Node) -> tuple[str, ...]:
        """The names of the passes that a pass itself requires, in declared order."""
        return self._requires[node]

    def order(self, node: Node, state: State) -> list[str]:
        """The required passes of a pass that are not established, with theirs; each after what it requires, otherwise in declared order."""
        # The search is written out: over a filtered view of networkx it takes ten times as long, and it runs for every pass.
        order: list[str] = []
        seen: set[str] = set()
        stack: list[tuple[Node, Iterator[str]]] = [(node, iter(self._requires[node]))]
        while stack:
            done, rest = stack[-1]
            for name in rest:
                if name not in seen and name not in state:
                    seen.add(name)
                    stack.append((name, iter(self._requires[name])))
                    break
            else:
                stack.pop()
                if stack:
                    order.append(str(done))
        return order

    def undo_each_other(self, target: str, names: Iterable[str]) -> PassDependencyError:
        """The error for a pass whose requirements cannot hold at one time."""
        names = tuple(dict.fromkeys(names))
        undo = [f"{name} undoes {', '.join(lost)}" for name in names if (lost := [other for other in names if self._undoes(name, other)])]
        return PassDependencyError(f"no order satisfies what {target} requires: {'; '.join(undo)}")

    def _undoes(self, name: str, other: str) -> bool:
        facts = self.pass_of(other).info.provides
        return name != other and not all(self.pass_of(name).info.keeps(fact) for fact in facts)

    def _resolve(self, name: str, by: Pass) -> str:
        """The node of a required name. Two passes of one name, such as one pass registered with different options, are two nodes."""
        node = self._nodes.get(name)
        if node is not None:
            return node
        try:
            entry = get_entry(name)
            key, short = entry.key, entry.name
            if key not in self._nodes:
                required = entry.make({})
        except (UnknownPassError, PassOptionError) as error:
            if isinstance(error, PassOptionError) or name not in self._members:
                raise type(error)(f"the pass {by.info.name} requires {name}. {error}") from None
            key = short = f"the member {name}"
            required = self._members[name]
        if key not in self._nodes:
            node = next(label for label in (required.info.name, short, key) if label not in self._resolved)
            self._resolved[node] = required
            self._nodes[key] = node
        return self._nodes.setdefault(name, self._nodes[key])

    def _show_cycle(self) -> str:
        """A shortest cycle through the first pass that is in one."""
        import networkx as nx  # here, because it takes 0.1 s and pipelines without an error do without it

        graph: nx.DiGraph[Node] = nx.DiGraph()
        graph.add_edges_from((whole, part) for whole, parts in self._edges.items() for part in parts)
        cyclic = {node for part in nx.strongly_connected_components(graph) for node in part if len(part) > 1 or node in graph[node]}
        start = next(node for node in self._labels if node in cyclic)
        back = nx.single_target_shortest_path(graph, start)
        cycle = [start, *min((back[node] for node in graph[start] if node in back), key=len)]
        return self._labels[start] + "".join(f" {self._edges[whole][part]} {self._labels[part]}" for whole, part in pairwise(cycle))


def _flatten(passes: Iterable[Pass]) -> list[Pass]:
    """All passes of nested pipelines, each once, before those in them."""
    found: dict[int, Pass] = {}
    stack = [iter(passes)]
    while stack:
        pass_ = next(stack[-1], None)
        if pass_ is None:
            stack.pop()
        elif id(pass_) not in found:
            found[id(pass_)] = pass_
            stack.append(iter(pass_.members or ()))
    return list(found.values())
