"""Reads the shapes and constants of a model that kernels need, and inserts kernel nodes."""

from collections.abc import Sequence, Set
from typing import TypeAlias

from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper, shape_inference

from passat.ir.onnx.scope import read_names

Shape: TypeAlias = tuple[int | str, ...]


def float32_shapes(model: ModelProto) -> dict[str, Shape]:
    """The shapes of the float32 values of known rank; an unknown size is the empty string."""
    graph = shape_inference.infer_shapes(model).graph
    found: dict[str, Shape] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.elem_type == TensorProto.FLOAT and tensor.HasField("shape"):
            found[value.name] = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)
    for tensor_ in graph.initializer:
        if tensor_.data_type == TensorProto.FLOAT:
            found[tensor_.name] = tuple(tensor_.dims)
    return found


def float32_scalars(graph: GraphProto) -> dict[str, tuple[float, Shape]]:
    """The float32 constants with one element, each with its shape."""
    inputs = {value.name for value in graph.input}
    found = {tensor.name: _scalar(tensor) for tensor in graph.initializer if tensor.name not in inputs}
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.attribute) == 1 and node.attribute[0].name == "value":
            found[node.output[0]] = _scalar(node.attribute[0].t)
    return {name: scalar for name, scalar in found.items() if scalar is not None}


def _scalar(tensor: TensorProto) -> tuple[float, Shape] | None:
    if tensor.data_type != TensorProto.FLOAT or any(size != 1 for size in tensor.dims) or tensor.data_location == TensorProto.EXTERNAL:
        return None
    return float(numpy_helper.to_array(tensor).reshape(-1)[0]), tuple(tensor.dims)


def with_kernel_nodes(
    model: ModelProto, chosen: Sequence[tuple[list[int], str, list[str]]], constants: Set[str], domain: str
) -> ModelProto:
    """Replaces each group of nodes by a kernel node, given by its name and inputs. Removes unused `constants`."""
    nodes = list(model.graph.node)
    last = {group[-1]: (name, inputs) for group, name, inputs in chosen}
    gone = {number for group, _, _ in chosen for number in group}
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    for number, node in enumerate(nodes):
        if number in last:
            name, inputs = last[number]
            changed.graph.node.append(helper.make_node(name, inputs, list(node.output), name=node.name, domain=domain))
        elif number not in gone:
            changed.graph.node.append(node)
    # Kernels contain their constants, so the initializers may be unused now.
    unused = constants - read_names(changed.graph)
    vanished = {nodes[number].output[0] for number in gone - last.keys()} | unused
    for values in (changed.graph.initializer, changed.graph.value_info):
        for value in [value for value in values if value.name in vanished]:
            values.remove(value)
    for node in [node for node in changed.graph.node if node.op_type == "Constant" and node.output[0] in unused]:
        changed.graph.node.remove(node)
    changed.opset_import.append(helper.make_opsetid(domain, 1))
    return changed
