"""Calls that are written as the nodes from which they were read.

A rule that recognizes an operator in several nodes, such as a SiLU in `x * sigmoid(x)`, makes a call. If the opset of the result has no
such operator, it is written as these nodes again: nothing has changed in the model.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.traverse import post_order
from passat.rules.provenance.node_traces import REWRITTEN, SELECTED, NodeTraces

if TYPE_CHECKING:
    from onnx import ModelProto, NodeProto

_BY_PASSES: Final = frozenset({REWRITTEN, SELECTED})
"""What passes without rules do to calls: they make them of other tensors, such as those of fewer positions."""


class SameNodes(NamedTuple):
    """A call, the nodes from which it was read, and the nodes as which it is written, in the same order."""

    call: Call
    sources: list["NodeProto"]
    nodes: list["NodeProto"]


def name_of_node(node: "NodeProto") -> str:
    """The name of a node, or else of its first output."""
    return node.name or next(filter(None, node.output), "")


def written_as_read(
    before: "ModelProto", after: "ModelProto", module: IRModule, written: Mapping[int, Sequence[str]], node_traces: NodeTraces
) -> Iterator[SameNodes]:
    """The calls of `module` that are written as several nodes which compute what the nodes did from which they come. `written` has the
    names of the values that each call is written as."""
    read = _Nodes(before)
    made = _Nodes(after)
    for function in module.functions.values():
        for call in post_order(function):
            names = written.get(id(call), ()) if isinstance(call, Call) else ()
            if isinstance(call, Call) and len(nodes := made.of(names)) > 1 and node_traces.changed(call):
                trace = node_traces.of(call)
                sources = read.of(trace.sources)
                if _BY_PASSES.isdisjoint(event.rule for event in trace.events) and _alike(sources, nodes):
                    yield SameNodes(call, sources, nodes)


class _Nodes:
    """The nodes of a model, by their names and those of their outputs."""

    def __init__(self, model: "ModelProto") -> None:
        from passat.ir.onnx.scope import nodes_of  # needs onnx

        self._nodes = list(nodes_of(model))
        self._places: dict[str, int] = {}
        for place, node in enumerate(self._nodes):
            for name in (*node.output, node.name):
                if name:
                    self._places.setdefault(name, place)

    def of(self, names: Iterable[str]) -> list["NodeProto"]:
        """The nodes of some names, in the order of the model."""
        return [self._nodes[place] for place in sorted({self._places[name] for name in names if name in self._places})]


def _alike(some: Sequence["NodeProto"], others: Sequence["NodeProto"]) -> bool:
    """True if nodes have the same operators and attributes, and are connected in the same way."""
    names: dict[str, str] = {}
    if len(some) != len(others):
        return False
    for one, other in zip(some, others, strict=True):
        if (one.domain, one.op_type, len(one.input), len(one.output)) != (other.domain, other.op_type, len(other.input), len(other.output)):
            return False
        if _attributes(one) != _attributes(other):
            return False
        for name, its in zip((*one.input, *one.output), (*other.input, *other.output), strict=True):
            if names.setdefault(name, its) != its:
                return False
    return len(set(names.values())) == len(names)


def _attributes(node: "NodeProto") -> list[bytes]:
    return sorted(attribute.SerializeToString(deterministic=True) for attribute in node.attribute)
