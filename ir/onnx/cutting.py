"""Cuts models at nodes that ONNX Runtime does not support: their results become inputs, and their operands become outputs.

The remaining model can be run, so two models can be compared except for the cut nodes, which must be the same in both.
"""

import contextlib
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from onnx import ModelProto, NodeProto, TensorProto, TypeProto, ValueInfoProto, helper, shape_inference

from passat.ir.counting import counted
from passat.ir.onnx.counterparts import Named, counterparts
from passat.ir.onnx.same_graph import Numbering
from passat.ir.onnx.scope import free_names, inner_nodes, nodes_of, sort_nodes, subgraphs, without_functions

_UNREGISTERED: Final = (
    re.compile(r"([\w.]*):(\w+)\(-?\d+\) is not a registered function/op"),
    re.compile(r"(?:)()No Op registered for (\w+)"),
)
_FLOATS: Final = (1, 10, 11, 16)
_UNIMPLEMENTED: Final = re.compile(r"Could not find an implementation for (\w+)\(\d+\) node")


def unknown_operators(complaint: str, model: ModelProto) -> set[tuple[str, str]]:
    """Returns the operators of a model, by domain and name, that are unknown according to ONNX Runtime's error message.

    Excludes standard ONNX operators without a kernel for the given types, since passes rewrite them.
    """
    found = {match for pattern in _UNREGISTERED for match in pattern.findall(complaint)}
    missing = set(_UNIMPLEMENTED.findall(complaint))
    domains = {(node.domain, node.op_type) for node in nodes_of(model) if node.domain not in ("", "ai.onnx")}
    return found | {(domain, name) for domain, name in domains if name in missing}


class CutError(ValueError):
    """A model cannot be cut like another one. The message describes the difference."""


class Hole(NamedTuple):
    """A node at which a model is cut: its operator, and the names of its operands (including captured values) and results. For an If, also
    the declared results of its first branch."""

    named: Named
    reads: tuple[str, ...]
    makes: tuple[str, ...]
    branch: tuple[ValueInfoProto, ...]


class Cut:
    """Cuts a model at all nodes of some operators.

    `model` is the remaining model, whose new inputs have the types declared or inferred for the results, or else the type of the first
    operand.
    """

    def __init__(self, model: ModelProto, operators: Collection[tuple[str, str]]) -> None:
        self.operators = frozenset(operators)
        self._numbering = Numbering()
        plain, self._holes = _emptied(model, self.operators, self._numbering)
        self._types = _types_of_results(plain, self._holes)
        self.model = self._filled(plain, self._holes, range(len(self._holes)))

    @property
    def made(self) -> set[str]:
        """The inputs that replace results."""
        return {_end(number, place, "result") for number, place in self._types}

    @property
    def where(self) -> str:
        """Describes where the model is cut."""
        names = sorted(f"{domain}.{name}" if domain else name for domain, name in self.operators)
        return f"cut at {counted(len(self._holes), 'node')} unknown to ONNX Runtime ({', '.join(names)})"

    def like(self, other: ModelProto) -> ModelProto:
        """Cuts another model at the corresponding nodes. Raises CutError if they do not correspond one to one."""
        plain, holes = _emptied(other, self.operators, self._numbering)
        numbers = counterparts([hole.named for hole in self._holes], [hole.named for hole in holes])
        if len(holes) != len(self._holes) or None in numbers:
            raise CutError(
                f"ONNX Runtime does not know {counted(len(self._holes), 'node')} of the original and "
                f"{counted(len(holes), 'node')} of the result, "
                f"and {sum(number is not None for number in numbers)} of them correspond"
            )
        return self._filled(plain, holes, [number for number in numbers if number is not None])

    def _filled(self, plain: ModelProto, holes: Sequence[Hole], numbers: Sequence[int]) -> ModelProto:
        """Adds the new inputs and outputs to a model, named by the indices of the nodes in the original."""
        made = ModelProto()
        made.CopyFrom(plain)
        graph = made.graph
        for hole, number in sorted(zip(holes, numbers, strict=True), key=lambda pair: pair[1]):
            for place, name in enumerate(hole.makes):
                if name:
                    graph.input.add(name=_end(number, place, "result")).type.CopyFrom(self._types[number, place])
                    graph.node.append(helper.make_node("Identity", [_end(number, place, "result")], [name]))
            for place, name in enumerate(hole.reads):
                if name:
                    graph.output.add(name=_end(number, place, "operand"))
                    graph.node.append(helper.make_node("Identity", [name], [_end(number, place, "operand")]))
        nodes = sort_nodes(graph.node)
        copies = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
        del graph.node[:], graph.value_info[:]
        graph.node.extend(copies)
        return made


def _end(number: int, place: int, what: str) -> str:
    return f"{what} {place} of unknown node {number}"


def _emptied(model: ModelProto, operators: Collection[tuple[str, str]], numbering: Numbering) -> tuple[ModelProto, list[Hole]]:
    """Removes the nodes of some operators on which outputs depend, and returns the model and these nodes. Nodes that contain them, such as
    If, are removed entirely."""
    made = without_functions(model)
    graph = made.graph
    kept: list[NodeProto] = []
    holes: list[Hole] = []
    needed = {value.name for value in graph.output}
    for node in reversed(sort_nodes(graph.node)):
        if needed.isdisjoint(node.output):
            continue
        captured = tuple(name for inner in subgraphs(node) for name in free_names(inner))
        needed.update(node.input, captured)
        if any((each.domain, each.op_type) in operators for each in (node, *inner_nodes(node.attribute))):
            named = Named(numbering.describe(node, captured), next(iter(node.output), ""))
            holes.append(Hole(named, (*node.input, *captured), tuple(node.output), _branch(node)))
        else:
            kept.append(NodeProto.FromString(node.SerializeToString()))
    del graph.node[:]
    graph.node.extend(reversed(kept))
    return made, holes[::-1]


def _branch(node: NodeProto) -> tuple[ValueInfoProto, ...]:
    return tuple(subgraphs(node)[0].output) if node.op_type == "If" else ()


def _types_of_results(plain: ModelProto, holes: Sequence[Hole]) -> dict[tuple[int, int], TypeProto]:
    """The types of the results of the cut nodes: declared, or else the type of the first operand with a known type."""
    known = {value.name: value.type for value in (*plain.graph.value_info, *plain.graph.output)}
    found: dict[tuple[int, int], TypeProto] = {}
    probe = ModelProto()
    probe.CopyFrom(plain)
    for number, hole in enumerate(holes):
        given: TypeProto | None = None
        for place, name in enumerate(hole.makes):
            type_ = known.get(name) or (hole.branch[place].type if hole.branch else None)
            if name and (type_ is None or not _says_something(type_)):
                given = given or _first_known(probe, hole.reads)
                type_ = given
            if name and type_ is not None:
                found[number, place] = type_
                probe.graph.input.add(name=name).type.CopyFrom(type_)
            elif name:
                found[number, place] = helper.make_tensor_type_proto(TensorProto.FLOAT, None)
    return found


def _says_something(type_: TypeProto) -> bool:
    return type_.WhichOneof("value") is not None and (not type_.HasField("tensor_type") or bool(type_.tensor_type.elem_type))


def _first_known(model: ModelProto, names: Iterable[str]) -> TypeProto | None:
    """The first inferred type among some values, preferring numeric ones."""
    with contextlib.suppress(Exception):  # any failure of the inference
        model = shape_inference.infer_shapes(model)
    known = {value.name: value.type for value in (*model.graph.input, *model.graph.value_info, *model.graph.output)}
    known |= {tensor.name: helper.make_tensor_type_proto(tensor.data_type, tensor.dims) for tensor in model.graph.initializer}
    found = [known[name] for name in names if name in known and _says_something(known[name])]
    return next((type_ for type_ in found if type_.tensor_type.elem_type in _FLOATS), found[0] if found else None)
