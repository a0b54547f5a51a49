"""What passes require: their names resolved, cycles refused, and what holds of what has run."""

import graphlib
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from passat.ir.passat_error import PassatError
from passat.passmgr.pass_info import EVERYTHING, PassInfo
from passat.passmgr.passes import Pass
from passat.passmgr.registry import PassOptionError, UnknownPassError, get_entry

Node = int | str
"""A pass of the pipeline by its `id`, or a required pass by its name."""

DEPTH_LIMIT: Final = 100
"""How deep pipelines, and requirements of requirements, nest."""


class PassDependencyError(PassatError, ValueError):
    """Declarations that no order can satisfy: passes that require each other, undo each other's work, or each come before the other."""

    exit_code = 2


class State:
    """What the passes that have run so far established, and is still true: names of passes, each with the step it ran in.

    A pass with declared facts (`provides`) is established while all of them hold. A pass without is established until a pass runs that
    does not keep its name; passes that only run because they are required do count as keeping it, or two
    requirements of one pass could never both be met.
    """

    def __init__(self) -> None:
        self.steps: dict[str, str] = {}
        self._facts: dict[str, frozenset[str]] = {}

    def ran(self, name: str, info: PassInfo, step: str, *, as_requirement: bool) -> None:
        """A pass runs, under a name."""
        if EVERYTHING not in info.preserves:
            for other in list(self.steps):
                facts = self._facts[other]
                if not (all(map(info.keeps, facts)) if facts else as_requirement or info.keeps(other)):
                    del self.steps[other]
        self.finished(name, info, step)

    def finished(self, name: str, info: PassInfo, step: str) -> None:
        """A pass has run, or a pipeline whose members have; a pipeline undoes nothing that they did not."""
        self.steps[name] = step
        self._facts[name] = info.provides


class Requirements:
    """The requirements of the passes of a pipeline, transitively, and of the members of nested pipelines.

    A name means the registered pass, else a member of the pipeline with that name. Raises UnknownPassError for a name that is neither,
    PassOptionError for a pass that cannot be made without options, and PassDependencyError for passes that require each other.
    """

    def __init__(self, members: Sequence[Pass]) -> None:
        self._members: dict[str, Pass] = {}
        pending = list(reversed(members))
        while pending:
            pass_ = pending.pop()
            self._members.setdefault(pass_.info.name, pass_)
            pending += reversed(pass_.members or ())
        self._nodes: dict[str, str] = {}
        self._resolved: dict[str, Pass] = {}
        self._requires: dict[Node, tuple[str, ...]] = {}
        labels: dict[Node, str] = {}
        edges: dict[Node, dict[Node, str]] = {}  # whom each pass requires or contains, with the verb
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
        """The pass that a required name stands for."""
        return self._resolved[name]

    def requires(self, node: Node) -> tuple[str, ...]:
        """The names of the passes that a pass itself requires, in declared order."""
        return self._requires[node]

    def undo_each_other(self, target: str, names: Iterable[str]) -> PassDependencyError:
        """The error for a pass whose requirements cannot hold at one time."""
        undone = {name: [other for other in names if self._undoes(name, other)] for name in names}
        said = "; ".join(f"{name} undoes {', '.join(others)}" for name, others in undone.items() if others)
        return PassDependencyError(f"no order satisfies what {target} requires: {said or 'what these require undoes others of them'}")

    def _undoes(self, name: str, other: str) -> bool:
        return name != other and not all(map(self.pass_of(name).info.keeps, self.pass_of(other).info.provides))

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


def names_in_pass(pass_: Pass) -> frozenset[str]:
    """The name of a pass, and of all members of a pipeline."""
    return frozenset((pass_.info.name,)).union(*map(names_in_pass, pass_.members or ()))


def short_name(name: str) -> str:
    """The name of a pass without the prefix of its registration.

    >>> short_name("relay._transform.FoldConstant")
    'FoldConstant'
    """
    return name.rpartition("transform.")[2]
