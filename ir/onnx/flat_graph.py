"""Lists the nodes of a model, including those of subgraphs and local functions, as input for drawings and tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, TensorProto

from passat.ir.onnx.alignment import location_of, location_within
from passat.ir.onnx.frame import opsets_of
from passat.ir.onnx.opaque import operator_name
from passat.ir.onnx.plain_nodes import attribute_text, plain
from passat.ir.onnx.scope import attribute_graphs, free_names, sort_nodes, subgraphs
from passat.ir.onnx.tensors import read_tensor
from passat.ir.tensor import Tensor

NODE: Final = "node"
INPUT: Final = "input"
OUTPUT: Final = "output"


@dataclass(slots=True)
class FlatNode:
    """A node, an input or an output of the model. `operands` are the numbers of other nodes, or constants. `where` names the subgraph or
    function that contains it, empty for the main graph, and `owner` is the number of the node that has the subgraph, or -1."""

    kind: str
    operator: str
    name: str = ""
    outputs: tuple[str, ...] = ()
    operands: list["int | Tensor | str"] = field(default_factory=list)
    attributes: dict[str, str] = field(default_factory=dict)
    where: str = ""
    owner: int = -1


def flat_graph(model: ModelProto, folder: str | None = None) -> list[FlatNode]:
    """Lists the nodes of a model, each after those that it reads. Constant nodes are operands, not nodes of their own. Attributes with
    default values are omitted.

    Raises OnnxError for a cycle.
    """
    reader = _Reader(folder)
    reader.read(model.graph, "", {}, opsets_of(model), -1)
    for function in model.functions:
        reader.read(function, location_of(function), {}, opsets_of(function), -1)
    return reader.nodes


_Scope = dict[str, "int | Tensor | str"]


class _Reader:
    def __init__(self, folder: str | None) -> None:
        self.nodes: list[FlatNode] = []
        self._folder = folder

    def read(self, graph: GraphProto | FunctionProto, where: str, outer: _Scope, opsets: Mapping[str, int], owner: int) -> None:
        scope = dict(outer)
        if isinstance(graph, GraphProto):
            scope.update((tensor.name, self._constant(tensor)) for tensor in graph.initializer)
            scope.update((sparse.values.name, "sparse tensor") for sparse in graph.sparse_initializer)
            inputs = [value.name for value in graph.input if value.name not in scope or value.name in outer]
            outputs = [value.name for value in graph.output]
        else:
            inputs, outputs = list(graph.input), list(graph.output)
        for name in inputs:
            scope[name] = self._keep(FlatNode(INPUT, name, name, (name,), where=where, owner=owner))
        for node in sort_nodes(graph.node):
            self._read_node(node, where, scope, opsets, owner)
        # An output of a subgraph is an operand of its owner. Only the main graph and functions have output boxes.
        if owner < 0:
            for name in outputs:
                self._keep(FlatNode(OUTPUT, name, name, operands=[scope.get(name, name)], where=where))

    def _read_node(self, node: NodeProto, where: str, scope: _Scope, opsets: Mapping[str, int], owner: int) -> None:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and node.output:
            scope[node.output[0]] = self._held(node)
            return
        said = plain(node, opsets)
        captured = [name for graph in subgraphs(node) for name in free_names(graph)]
        found = FlatNode(
            NODE,
            operator_name(node),
            node.name,
            tuple(name for name in node.output if name),
            [scope.get(name, name) for name in [*said.input, *dict.fromkeys(captured)] if name],
            {each.name: attribute_text(each) for each in said.attribute if not (each.HasField("g") or each.graphs)},
            where,
            owner,
        )
        number = self._keep(found)
        scope.update(dict.fromkeys(found.outputs, number))
        for attribute in node.attribute:
            for graph in attribute_graphs(attribute):
                self.read(graph, location_within(where, node, attribute.name), scope, opsets, number)

    def _keep(self, node: FlatNode) -> int:
        self.nodes.append(node)
        return len(self.nodes) - 1

    def _constant(self, tensor: TensorProto) -> "Tensor | str":
        try:
            return read_tensor(tensor, self._folder)
        except ValueError:  # nothing is computed with it here
            return "tensor of unknown type"

    def _held(self, node: NodeProto) -> "Tensor | str":
        attributes: Sequence[AttributeProto] = node.attribute
        if len(attributes) == 1 and attributes[0].HasField("t"):
            return self._constant(attributes[0].t)
        return f"constant {attribute_text(attributes[0])}" if len(attributes) == 1 else "constant"
