"""Explanations as plain data: for each node of a result the rules that led to it, and the nodes of the input that it comes from."""

import difflib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any as AnyValue


class ExplainError(ValueError):
    """Something that cannot be explained: a node that there is not, a model without provenance."""


@dataclass(frozen=True)
class Explained:
    """A node of the result: its name, its operator, the values that it makes; the nodes of the input that it comes from, and the steps that
    led from there to it, each as "pass: rule at node". A node without steps is the input's own."""

    name: str
    op: str
    outputs: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name, or that of the first value where the node has none, with the operator."""
        return f"{self.name or next(iter(self.outputs), '')} ({self.op})"

    def __str__(self) -> str:
        if not self.steps:
            return f"{self.title} is the input's own"
        lines = [self.title, *(f"  from {source}" for source in self.sources)]
        return "\n".join([*lines, *(f"  {number}. {step}" for number, step in enumerate(self.steps, 1))])


@dataclass(frozen=True)
class Explanation:
    """All nodes of a result, or those that were asked for."""

    nodes: tuple[Explained, ...]

    @property
    def changed(self) -> tuple[Explained, ...]:
        """The nodes that are not the input's own."""
        return tuple(node for node in self.nodes if node.steps)

    def of(self, name: str) -> "Explanation":
        """The nodes of a name: their own, that of a value which they make, or that of a node of the input which they come from. Raises
        ExplainError where there are none."""
        for found in (
            [node for node in self.nodes if node.name == name],
            [node for node in self.nodes if name in node.outputs],
            [node for node in self.nodes if name in node.sources],
        ):
            if found and name:
                return Explanation(tuple(found))
        names = {text for node in self.nodes for text in (node.name, *node.outputs, *node.sources) if text}
        near = difflib.get_close_matches(name, sorted(names), 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ExplainError(f"no node of the result is called {name!r}, makes it, or comes from it{hint}")

    def to_dict(self) -> dict[str, AnyValue]:
        """The explanation as plain data for JSON."""
        return {"nodes": [asdict(node) for node in self.nodes]}

    def to_json(self) -> str:
        """The explanation as a JSON object."""
        return json.dumps(self.to_dict(), indent=2)

    def __str__(self) -> str:
        changed = self.changed
        if len(self.nodes) == 1:
            return str(self.nodes[0])
        own = len(self.nodes) - len(changed)
        others = "; the others are the input's own" if own else ""
        head = f"{len(changed)} of {len(self.nodes)} nodes were changed{others}"
        return "\n\n".join([head, *map(str, changed)])


def as_texts(data: AnyValue) -> tuple[str, ...]:
    """A list of texts that stands in metadata as JSON; nothing where it is none."""
    try:
        found = json.loads(data)
    except (TypeError, ValueError, RecursionError):
        return ()
    return tuple(found) if isinstance(found, list) and all(isinstance(text, str) for text in found) else ()


def joined(sources: Sequence[str], steps: Sequence[str], earlier: "dict[str, Explained]") -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Sources and steps, where some of the sources have a history of their own: theirs come first."""
    names: dict[str, None] = {}
    taken: dict[str, None] = {}
    for source in sources:
        before = earlier.get(source)
        names.update(dict.fromkeys([source] if before is None else before.sources or (source,)))
        taken.update(dict.fromkeys([] if before is None else before.steps))
    taken.update(dict.fromkeys(steps))
    return tuple(names), tuple(taken)
