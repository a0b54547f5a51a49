"""Pass requirements: name resolution, cycle detection, and tracking of established facts."""

import graphlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from passat.ir.passat_error import PassatError
from passat.passmgr.options import PassOptionError
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import Pass, nested_passes
from passat.passmgr.registry import UnknownPassError, get_entry

Node = int | str
"""A node: the `id` of a pass of the pipeline, or the name of a required pass."""

DEPTH_LIMIT: Final = 100
"""Maximum nesting depth of pipelines and of transitive requirements."""


class PassDependencyError(PassatError, ValueError):
    """No order satisfies the declarations: passes require each other, undo each other, or must each come before the other."""

    exit_code = 2


class State:
    """The passes whose effect still holds, by name, each with the step it ran in.

    A pass with declared facts (`provides`) is established while all of them hold. A pass without facts is established until a pass runs
    that does not preserve its name. Passes that run only because they are required count as preserving it; otherwise two requirements of
    one pass could never both hold.
    """

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self._facts: dict[str, frozenset[str]] = {}

    def ran(self, name: str, info: PassInfo, step: str, *, as_requirement: bool) -> None:
        """Records that a pass runs, under a name."""
        if EVERYTHING not in info.preserves:
            for other in list(self.steps):
                facts = self._facts[other]
                if not (all(map(info.keeps, facts)) if facts else as_requirement or info.keeps(other)):
                    del self.steps[other]
        self.finished(name, info, step)

    def finished(self, name: str, info: PassInfo, step: str) -> None:
        """Records the end of a pass, or of a pipeline whose members have run. A pipeline itself undoes nothing."""
        self.steps[name] = step
        self._facts[name] = info.provides


class Requirements:
    """The transitive requirements of the passes of a pipeline, including members of nested pipelines.

    A name refers to the registered pass, or else to the member of the pipeline with that name. Raises UnknownPassError for an unknown name,
    PassOptionError for a pass that cannot be created without options, and PassDependencyError for cyclic requirements.
    """

    def __init__(self, members: Sequence[Pass]) -> None:
        self._members: dict[str, Pass] = {}
        for pass_ in nested_passes(*members):
            self._members.setdefault(pass_.info.name, pass_)
        self._nodes: dict[str, str] = {}
        self._resolved: dict[str, Pass] = {}
        self._requires: dict[Node, tuple[str, ...]] = {}
        labels: dict[Node, str] = {}
        edges: dict[Node, dict[Node, str]] = {}  # the passes that each pass requires or contains, with the verb for messages
        waiting: list[tuple[Node, Pass]] = [(id(pass_), pass_) for pass_ in members]
        while waiting:
            node, pass_ = waiting.pop()
            if node in edges:
                continue
            labels[node] = node if isinstance(node, str) else pass_.info.name
            self._requires[node] = tuple(dict.fromkeys(self._resolve(name, pass_) for name in pass_.info.required))
            edges[node] = dict.fromkeys(self._requires[node], "requires") | {id(member): "contains" for member in pass_.members or ()}
            waiting += [(name, self._resolved[name]) for name in self._requires[node]]
            waiting += [(id(member), member) for member in pass_.members or ()]
        try:
            graphlib.TopologicalSorter(edges).prepare()
        except graphlib.CycleError as error:
            cycle = error.args[1][::-1]
            shown = "".join(f" {edges[whole][part]} {labels[part]}" for whole, part in pairwise(cycle))
            raise PassDependencyError(f"passes require each other in a cycle: {labels[cycle[0]]}{shown}") from None

    def pass_of(self, name: str) -> Pass:
        """The pass that a required name refers to."""
        return self._resolved[name]

    def requires(self, node: Node) -> tuple[str, ...]:
        """The names of the direct requirements of a pass, in declared order."""
        return self._requires[node]

    def undo_each_other(self, target: str, names: Iterable[str]) -> PassDependencyError:
        """The error for a pass whose requirements cannot hold at the same time."""
        undone = {name: [other for other in names if self._undoes(name, other)] for name in names}
        said = "; ".join(f"{name} undoes {', '.join(others)}" for name, others in undone.items() if others)
        return PassDependencyError(f"no order satisfies the requirements of {target}: {said or 'the requirements of some undo others'}")

    def _undoes(self, name: str, other: str) -> bool:
        return name != other and not all(map(self.pass_of(name).info.keeps, self.pass_of(other).info.provides))

    def _resolve(self, name: str, by: Pass) -> str:
        """The node of a required name. Passes of the same name with different options are different nodes."""
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
                raise type(error)(f"the pass {by.info.name} requires {name}: {error}") from None
            key = short = f"the member {name}"
            required = self._members[name]
        if key not in self._nodes:
            node = next(label for label in (required.info.name, short, key) if label not in self._resolved)
            self._resolved[node] = required
            self._nodes[key] = node
        return self._nodes.setdefault(name, self._nodes[key])


def names_in_pass(pass_: Pass) -> frozenset[str]:
    """The names of a pass and of all members of a pipeline."""
    return frozenset(each.info.name for each in nested_passes(pass_))
