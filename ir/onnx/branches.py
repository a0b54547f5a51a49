"""Observes which branches of a model's If nodes run, by a model that computes only their conditions."""

from collections.abc import Sequence

from onnx import ModelProto, NodeProto, TensorProto, helper

from passat.ir.onnx.scope import defined_names, nodes_of, open_inputs
from passat.ir.onnx.specialize import needed_names


def computed_ifs(model: ModelProto) -> list[NodeProto]:
    """The If nodes of the graph itself, not of subgraphs and functions, whose condition is computed, or an input."""
    made = {name for node in model.graph.node if node.op_type != "Constant" for name in node.output}
    made |= {value.name for value in model.graph.input} - {tensor.name for tensor in model.graph.initializer}
    return [node for node in model.graph.node if node.op_type == "If" and node.input[0] in made]


def if_names(model: ModelProto) -> set[str]:
    """The names of all If nodes, or of their first outputs, also of those in subgraphs and functions."""
    return {node.name or node.output[0] for node in nodes_of(model) if node.op_type == "If"}


def conditions_of(model: ModelProto) -> ModelProto:
    """A model with the same inputs that returns the conditions of `computed_ifs`, in order."""
    graph = model.graph
    wanted = [node.input[0] for node in computed_ifs(model)]
    needed = needed_names(graph, wanted)
    made = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    made.graph.name = graph.name
    made.graph.input.extend(open_inputs(graph))
    made.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in needed)
    made.graph.sparse_initializer.extend(tensor for tensor in graph.sparse_initializer if tensor.values.name in needed)
    made.graph.node.extend(node for node in graph.node if any(name in needed for name in node.output if name))
    names = defined_names(graph)
    for name in wanted:
        output = f"{name}_observed"
        while output in names:
            output += "_"
        names.add(output)
        made.graph.node.append(helper.make_node("Identity", [name], [output]))
        made.graph.output.append(helper.make_tensor_value_info(output, TensorProto.BOOL, None))
    return made


def branch_names(nodes: Sequence[NodeProto], taken: Sequence[Sequence[bool]], model: ModelProto) -> list[str]:
    """The branches that no run takes, of some If nodes with their conditions in each run, if a model has nodes of the same names."""
    names = if_names(model)
    return [
        f"{'else' if runs[0] else 'then'}_branch of {name!r}"
        for name, runs in zip((node.name or node.output[0] for node in nodes), zip(*taken, strict=True), strict=True)
        if len(set(runs)) == 1 and name in names
    ]
