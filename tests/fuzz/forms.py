"""Other forms of a model that compute the same: constants as nodes, sparse or as defaults of inputs, values that pass through sequences,
optionals, branches and loops, unknown shapes, other names and another order of the nodes."""

from collections.abc import Callable
from typing import Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

SPARSE_FROM: Final = 11
SEQUENCES_FROM: Final = 11
VALUES_FROM: Final = 12
OPTIONALS_FROM: Final = 15
_PLAIN: Final = (TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL)
"""Element types of values that pass through other nodes."""
_ODD: Final = ("a b", "x/y:0", "ü", "0", "#", "input", "_", "Constant_1", '"', "v.1")

Random = np.random.Generator


def in_another_form(model: ModelProto, random: Random) -> ModelProto:
    """A model that computes the same, in another form. The given model stays."""
    made = ModelProto()
    made.CopyFrom(model)
    for change in _CHANGES:
        if random.random() < 0.4:
            change(made, random)
    return made


def _opset(model: ModelProto) -> int:
    return max((entry.version for entry in model.opset_import if not entry.domain), default=0)


def _constants_become_nodes(model: ModelProto, random: Random) -> None:
    """Some initializers become Constant nodes, with the attribute for their type, if there is one."""
    graph = model.graph
    for tensor in list(graph.initializer):
        if random.random() < 0.5:
            node = helper.make_node("Constant", [], [tensor.name], value=tensor)
            array = numpy_helper.to_array(tensor) if tensor.data_type in (TensorProto.FLOAT, TensorProto.INT64) else None
            if array is not None and array.ndim < 2 and array.size and _opset(model) >= VALUES_FROM and random.random() < 0.5:
                name = f"value_{'float' if array.dtype == np.float32 else 'int'}{'s' if array.ndim else ''}"
                node = helper.make_node("Constant", [], [tensor.name], **{name: array.tolist()})
            elif array is not None and array.size and array.ndim and _opset(model) >= SPARSE_FROM and random.random() < 0.3:
                node = helper.make_node("Constant", [], [tensor.name], sparse_value=_sparse(tensor))
            graph.initializer.remove(tensor)
            graph.node.insert(0, node)


def _sparse(tensor: TensorProto) -> onnx.SparseTensorProto:
    array = numpy_helper.to_array(tensor)
    flat = array.reshape(-1)
    kept = np.flatnonzero((flat != 0) | np.signbit(flat.astype(np.float64)))
    return helper.make_sparse_tensor(
        numpy_helper.from_array(flat[kept], tensor.name), numpy_helper.from_array(kept.astype(np.int64), "indices"), array.shape
    )


def _constants_become_sparse(model: ModelProto, random: Random) -> None:
    for tensor in list(model.graph.initializer):
        if tensor.data_type == TensorProto.FLOAT and 0 not in tensor.dims and tensor.dims and random.random() < 0.3:
            model.graph.sparse_initializer.append(_sparse(tensor))
            model.graph.initializer.remove(tensor)


def _constants_become_defaults(model: ModelProto, random: Random) -> None:
    """Some initializers become values of inputs that need not be given."""
    for tensor in model.graph.initializer:
        if random.random() < 0.3:
            model.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims)))


def _shapes_become_unknown(model: ModelProto, random: Random) -> None:
    """Some sizes of inputs and outputs are unknown, and some values between have no shape."""
    graph = model.graph
    for value in [*graph.input, *graph.output, *graph.value_info]:
        if value.type.HasField("tensor_type") and random.random() < 0.4:
            if value in graph.value_info and random.random() < 0.3:
                value.type.tensor_type.ClearField("shape")
            for dim in value.type.tensor_type.shape.dim if value.type.tensor_type.HasField("shape") else ():
                if random.random() < 0.5:
                    dim.Clear()


def _values_take_detours(model: ModelProto, random: Random) -> None:
    """Some inputs pass through nodes that return them."""
    graph, opset = model.graph, _opset(model)
    inputs: list[ValueInfoProto] = [each for each in graph.input if each.name not in {tensor.name for tensor in graph.initializer}]
    for value in inputs:
        kind = value.type.tensor_type.elem_type
        if value.type.HasField("tensor_type") and kind in _PLAIN and random.random() < 0.5:
            name, to = value.name, f"{value.name}_detour"
            options = [_through_identity, *([_through_branches, _through_loop, _through_sequence] if opset >= SEQUENCES_FROM else [])]
            options += [_through_optional] if opset >= OPTIONALS_FROM else []
            made = options[int(random.integers(len(options)))](value, to)
            for node in graph.node:
                _rename(node, {name: to})
            for at, node in enumerate(made):
                graph.node.insert(at, node)


def _rename(node: NodeProto, names: dict[str, str]) -> None:
    """Renames values in a node, and in its nested graphs."""
    for field in (node.input, node.output):
        for i, name in enumerate(field):
            field[i] = names.get(name, name)
    for attribute in node.attribute:
        for graph in [attribute.g] if attribute.type == onnx.AttributeProto.GRAPH else attribute.graphs:
            for inner in graph.node:
                _rename(inner, names)
            for value in (*graph.output, *graph.value_info):
                value.name = names.get(value.name, value.name)


def _through_identity(value: ValueInfoProto, to: str) -> list[NodeProto]:
    return [helper.make_node("Identity", [value.name], [to])]


def _through_sequence(value: ValueInfoProto, to: str) -> list[NodeProto]:
    zero = numpy_helper.from_array(np.asarray(-1, np.int64))
    return [
        helper.make_node("Constant", [], [f"{to}_at"], value=zero),
        helper.make_node("SequenceConstruct", [value.name, value.name], [f"{to}_all"]),
        helper.make_node("SequenceAt", [f"{to}_all", f"{to}_at"], [to]),
    ]


def _through_optional(value: ValueInfoProto, to: str) -> list[NodeProto]:
    return [
        helper.make_node("Optional", [value.name], [f"{to}_held"]),
        helper.make_node("OptionalGetElement", [f"{to}_held"], [to]),
    ]


def _result(value: ValueInfoProto, name: str) -> ValueInfoProto:
    return helper.make_tensor_value_info(name, value.type.tensor_type.elem_type, None)


def _through_branches(value: ValueInfoProto, to: str) -> list[NodeProto]:
    """An If on the number of elements, whose branches both return the value."""
    branches = [
        helper.make_graph([helper.make_node("Identity", [value.name], [f"{to}_{side}"])], side, [], [_result(value, f"{to}_{side}")])
        for side in ("then", "else")
    ]
    return [
        helper.make_node("Size", [value.name], [f"{to}_size"]),
        helper.make_node("Cast", [f"{to}_size"], [f"{to}_some"], to=TensorProto.BOOL),
        helper.make_node("If", [f"{to}_some"], [to], then_branch=branches[0], else_branch=branches[1]),
    ]


def _through_loop(value: ValueInfoProto, to: str) -> list[NodeProto]:
    """A Loop that carries the value for two iterations."""
    body = helper.make_graph(
        [helper.make_node("Identity", [f"{to}_go"], [f"{to}_on"]), helper.make_node("Identity", [f"{to}_in"], [f"{to}_out"])],
        "body",
        [
            helper.make_tensor_value_info(f"{to}_i", TensorProto.INT64, []),
            helper.make_tensor_value_info(f"{to}_go", TensorProto.BOOL, []),
            _result(value, f"{to}_in"),
        ],
        [helper.make_tensor_value_info(f"{to}_on", TensorProto.BOOL, []), _result(value, f"{to}_out")],
    )
    return [
        helper.make_node("Constant", [], [f"{to}_trips"], value=numpy_helper.from_array(np.asarray(2, np.int64))),
        helper.make_node("Loop", [f"{to}_trips", "", value.name], [to], body=body),
    ]


def _names_become_odd(model: ModelProto, random: Random) -> None:
    """Some nodes and their results have names of other characters."""
    graph = model.graph
    outside = {value.name for value in (*graph.input, *graph.output)} | {tensor.name for tensor in graph.initializer}
    made = [name for node in graph.node for name in node.output if name and name not in outside]
    odd = [name for name in _ODD if name not in {*outside, *made}]
    chosen = dict(zip([made[int(i)] for i in random.permutation(len(made))], odd, strict=False))
    for node in graph.node:
        _rename(node, chosen)
    for node, name in zip(graph.node, _ODD, strict=False):
        node.name = name
    for value in graph.value_info:
        value.name = chosen.get(value.name, value.name)


_CHANGES: Final[tuple[Callable[[ModelProto, Random], None], ...]] = (
    _constants_become_nodes,
    _constants_become_sparse,
    _constants_become_defaults,
    _shapes_become_unknown,
    _values_take_detours,
    _names_become_odd,
)
