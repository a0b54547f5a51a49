"""Reads the types and constants of a model that kernels need, and inserts kernel nodes."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any as AnyValue
from typing import Final, NamedTuple, TypeAlias

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper, shape_inference

from passat.ir.onnx.frame import label_of
from passat.ir.onnx.scope import read_names, sort_nodes, subgraphs
from passat.ir.tensor import Array

Shape: TypeAlias = tuple[int | str, ...]
DTYPES: Final[dict[int, str]] = {
    TensorProto.FLOAT: "float32", TensorProto.DOUBLE: "float64", TensorProto.FLOAT16: "float16", TensorProto.BOOL: "bool",
    TensorProto.INT8: "int8", TensorProto.UINT8: "uint8", TensorProto.INT32: "int32", TensorProto.INT64: "int64",
}  # fmt: skip
"""The element types that kernels support."""
ELEMENTS: Final = {dtype: number for number, dtype in DTYPES.items()}
"""Their numbers in ONNX."""


class Tensor(NamedTuple):
    """The type and the shape of a value."""

    dtype: str
    shape: Shape


class KernelNode(NamedTuple):
    """A node with a kernel: the numbers of the nodes that it replaces, the name of its kernel, its inputs and outputs."""

    nodes: list[int]
    kernel: str
    inputs: list[str]
    outputs: list[str]


class Scalar(NamedTuple):
    """A constant with one element."""

    value: float
    dtype: str
    shape: Shape


def tensor_types(model: ModelProto, alike: Set[str]) -> dict[str, Tensor]:
    """The types of the values of known rank. Each unknown size gets a unique name; nodes of the elementwise operators `alike` keep it."""
    graph = shape_inference.infer_shapes(model, data_prop=True).graph
    found: dict[str, Tensor] = {}
    for value in (*graph.input, *graph.value_info, *graph.output):
        tensor = value.type.tensor_type
        if tensor.elem_type in DTYPES and tensor.HasField("shape"):
            sizes = tuple(dim.dim_value if dim.HasField("dim_value") else dim.dim_param for dim in tensor.shape.dim)
            found[value.name] = Tensor(
                DTYPES[tensor.elem_type], tuple(size if size != "" else f"{value.name} {axis}" for axis, size in enumerate(sizes))
            )
    for tensor_ in graph.initializer:
        if tensor_.data_type in DTYPES:
            found[tensor_.name] = Tensor(DTYPES[tensor_.data_type], tuple(tensor_.dims))
    for node in graph.node:
        if node.op_type in alike and node.output[0] in found and all(name in found for name in node.input if name):
            dtype, shape = found[node.output[0]]
            kept = _broadcast([found[name].shape for name in node.input if name], shape)
            found[node.output[0]] = Tensor(
                dtype, tuple(known if isinstance(own, str) else own for own, known in zip(shape, kept, strict=True))
            )
    return found


def _broadcast(shapes: Sequence[Shape], result: Shape) -> Shape:
    """The sizes of a result. A size that a single operand determines is that of the operand."""
    sizes: list[int | str] = []
    for axis, own in enumerate(result):
        found = {shape[axis - len(result)] for shape in shapes if axis - len(result) >= -len(shape)} - {1}
        sizes.append(found.pop() if len(found) == 1 else own)
    return tuple(sizes)


def scalars(graph: GraphProto) -> dict[str, Scalar]:
    """The constants with one element."""
    found = {name: _scalar(tensor) for name, tensor in _constants(graph)}
    return {name: scalar for name, scalar in found.items() if scalar is not None}


def _constants(graph: GraphProto) -> Iterator[tuple[str, TensorProto]]:
    """The constants of a graph by name: initializers that are no inputs, and values of Constant."""
    inputs = {value.name for value in graph.input}
    yield from ((tensor.name, tensor) for tensor in graph.initializer if tensor.name not in inputs)
    for node in graph.node:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx") and len(node.attribute) == 1 and node.attribute[0].name == "value":
            yield node.output[0], node.attribute[0].t


def _scalar(tensor: TensorProto) -> Scalar | None:
    if tensor.data_type not in DTYPES or any(size != 1 for size in tensor.dims) or tensor.data_location == TensorProto.EXTERNAL:
        return None
    return Scalar(numpy_helper.to_array(tensor).reshape(-1)[0].item(), DTYPES[tensor.data_type], tuple(tensor.dims))


def attributes_of(node: NodeProto) -> dict[str, float]:
    """The numeric attributes of a node, and `tanh` if the attribute `approximate` has this value."""
    found: dict[str, float] = {}
    for attribute in node.attribute:
        if attribute.type == AttributeProto.FLOAT:
            found[attribute.name] = attribute.f
        elif attribute.type == AttributeProto.INT:
            found[attribute.name] = attribute.i
        elif attribute.type == AttributeProto.STRING and attribute.s == b"tanh":
            found["tanh"] = 1.0
        elif attribute.type == AttributeProto.INTS and len(attribute.ints) == 1:
            found[attribute.name] = attribute.ints[0]
    return found


def reduced_axes(node: NodeProto, graph_integers: Mapping[str, Sequence[int]], rank: int) -> tuple[int, ...] | None:
    """The axes of a reduction, by number from the first; None if they are not constant."""
    axes: Sequence[int] | None = next((attribute.ints for attribute in node.attribute if attribute.name == "axes"), None)
    if axes is None and len(node.input) > 1 and node.input[1]:
        axes = graph_integers.get(node.input[1])
        if axes is None:
            return None
    if not axes:
        unchanged = any(attribute.name == "noop_with_empty_axes" and attribute.i for attribute in node.attribute)
        return None if unchanged else tuple(range(rank))
    found = sorted({axis % rank if rank else axis for axis in axes})
    return tuple(found) if all(-rank <= axis < rank for axis in axes) else None


def integers(graph: GraphProto) -> dict[str, Sequence[int]]:
    """The constants that may be axes: vectors of few integers."""
    return {
        name: numpy_helper.to_array(tensor).tolist()
        for name, tensor in _constants(graph)
        if tensor.data_type == TensorProto.INT64
        and len(tensor.dims) == 1
        and tensor.dims[0] <= 16
        and tensor.data_location != TensorProto.EXTERNAL
    }


def constants_of(graph: GraphProto) -> dict[str, Array]:
    """The constants of a graph."""
    return {name: numpy_helper.to_array(tensor) for name, tensor in _constants(graph)}


def with_kernel_nodes(
    model: ModelProto, chosen: Sequence[KernelNode], constants: Set[str], domain: str, types: Mapping[str, Tensor]
) -> ModelProto:
    """Replaces groups of nodes by the `chosen` kernel nodes, and declares the types of their results: ONNX Runtime infers no shapes of
    custom operators and fuses less without shapes. Removes unused `constants`."""
    nodes = list(model.graph.node)
    gone = {number for group, _, _, _ in chosen for number in group}
    made = {number: node for number, node in enumerate(nodes) if number not in gone}
    for group, name, inputs, outputs in chosen:
        last = nodes[group[-1]]
        made[group[-1]] = helper.make_node(name, inputs, outputs, name=last.name, domain=domain)
        made[group[-1]].MergeFromString(label_of(last))
    changed = ModelProto()
    changed.CopyFrom(model)
    del changed.graph.node[:]
    changed.graph.node.extend(sort_nodes(made[number] for number in sorted(made)))
    # Kernels contain their constants, so the initializers may be unused now.
    unused = constants - read_names(changed.graph)
    written = {name for node in made.values() for name in node.output}
    vanished = {name for number in gone for name in nodes[number].output if name not in written} | unused
    for values in (changed.graph.initializer, changed.graph.value_info):
        _keep(values, [value.name not in vanished for value in values])
    _keep(changed.graph.node, [node.op_type != "Constant" or node.output[0] not in unused for node in changed.graph.node])
    declared = {value.name for value in (*changed.graph.value_info, *changed.graph.output)}
    for name in dict.fromkeys(name for node in chosen for name in node.outputs if name in types and name not in declared):
        dtype, shape = types[name]
        known = [None if isinstance(size, str) and " " in size else size for size in shape]  # `tensor_types` makes names with spaces
        changed.graph.value_info.append(helper.make_tensor_value_info(name, ELEMENTS[dtype], known))
    changed.opset_import.append(helper.make_opsetid(domain, 1))
    return changed


def _keep(values: AnyValue, kept: Sequence[bool]) -> None:
    """Removes the other entries of a repeated field, from the end, without copying them."""
    for number in reversed(range(len(kept))):
        if not kept[number]:
            del values[number]


def names_read(node: NodeProto) -> set[str]:
    """The values that a node reads, including those in its subgraphs."""
    return set(node.input).union(*(read_names(inner) for inner in subgraphs(node)))
