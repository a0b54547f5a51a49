"""Checks whether two models are equal up to the names of nodes and inner values and the order of nodes.

Uses value numbering: the number of a value identifies its operator, its attributes and the numbers of its operands, across all models of
one `Numbering`. Graphs with equal results and equally many nodes of each number are equal up to names. (Equal nodes are not distinguished
by their users.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper

from passat.ir.onnx.frame import opsets_of
from passat.ir.onnx.scope import attribute_graphs, sort_nodes
from passat.ir.onnx.tensors import EXTERNAL, raw_bytes, read_tensor

Key: TypeAlias = object
"""An identifying key: comparable, and hashable unless stated otherwise."""

SMALL: Final = 64
"""Maximum size in bytes of tensors whose key contains the bytes."""
COMMUTATIVE: Final = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})
"""Commutative operators of the default domain, bit for bit."""


def differs_in_names_only(model: ModelProto, other: ModelProto) -> bool:
    """Whether two models are equal up to names of nodes and inner values, and the order of nodes.

    Ignores parts that do not affect computation (declared types of inner values, documentation, unused constants and imports). Opsets must
    be equal.
    """
    if any(part(model) != part(other) for part in (_interface, _operators, _versions, _functions)):
        return False
    numbering = Numbering()
    return numbering.graph(model.graph) == numbering.graph(other.graph)


class Numbering:
    """Assigns value numbers: equal numbers to equal computations."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}

    def number(self, key: Key) -> int:
        """Returns the number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def graph(self, graph: GraphProto, outer: Mapping[str, int] | None = None, depth: int = 0) -> Key:
        """The key of a graph: its results, and the count of nodes with each number.

        `outer` are the numbers of values around a subgraph. The inputs of a subgraph are identified by position, those of a model by name.
        """
        values = dict(outer or {})
        for tensor in graph.initializer:
            values[tensor.name] = self.number(("constant", _content(tensor)))
        for sparse in graph.sparse_initializer:
            values[sparse.values.name] = self.number(("sparse", _serialized(sparse)))
        for place, value in enumerate(graph.input):
            values[value.name] = self.number(("input", depth, place if depth else value.name))
        counts: Counter[int] = Counter()
        for node in sort_nodes(graph.node):
            if node.op_type == "Constant" and not node.domain and len(node.attribute) == 1 and node.attribute[0].HasField("t"):
                values[node.output[0]] = self.number(("constant", _content(node.attribute[0].t)))
                continue
            key = self.node(node, values, depth)
            counts[key] += 1
            values.update((name, self.number((key, place))) for place, name in enumerate(node.output) if name)
        return tuple(values.get(value.name, -1) for value in graph.output), frozenset(counts.items())

    def describe(self, node: NodeProto, captured: Iterable[str]) -> int:
        """The number of a node without its operands; `captured` are the outer values that its subgraphs read."""
        values = {name: self.number(("captured", place)) for place, name in enumerate(dict.fromkeys(captured))}
        attributes = frozenset((attribute.name, self._attribute(attribute, values, 0)) for attribute in node.attribute)
        ends = tuple(tuple(bool(name) for name in names) for names in (node.input, node.output))
        return self.number((_domain(node), node.op_type, node.overload, attributes, ends))

    def node(self, node: NodeProto, values: Mapping[str, int], depth: int = 0) -> int:
        """The number of a node whose operands have the given numbers."""
        operands = [values.get(name, -1) if name else -2 for name in node.input]
        domain = _domain(node)
        if not domain and node.op_type in COMMUTATIVE:
            operands.sort()
        made = tuple(bool(name) for name in node.output)
        attributes = frozenset((attribute.name, self._attribute(attribute, values, depth)) for attribute in node.attribute)
        return self.number((domain, node.op_type, node.overload, tuple(operands), made, attributes))

    def _attribute(self, attribute: AttributeProto, values: Mapping[str, int], depth: int) -> Key:
        graphs = list(attribute_graphs(attribute))
        if graphs:
            return tuple(self.graph(graph, values, depth + 1) for graph in graphs)
        if attribute.HasField("t"):
            return _content(attribute.t)
        plain = AttributeProto()
        plain.CopyFrom(attribute)
        plain.ClearField("doc_string")
        return _serialized(plain)


def _domain(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else node.domain


_ELEMENTS: Final = {
    ("value_float", AttributeProto.FLOAT): TensorProto.FLOAT,
    ("value_floats", AttributeProto.FLOATS): TensorProto.FLOAT,
    ("value_int", AttributeProto.INT): TensorProto.INT64,
    ("value_ints", AttributeProto.INTS): TensorProto.INT64,
    ("value_string", AttributeProto.STRING): TensorProto.STRING,
    ("value_strings", AttributeProto.STRINGS): TensorProto.STRING,
}
"""The element types of non-tensor attributes of Constant, by name and type of the attribute."""


def constant_of(node: NodeProto, folder: str | None) -> Key | None:
    """The key of a Constant node's value, equal to that of an initializer.

    None for other nodes, and in a function if the value is an attribute of the call.
    """
    if node.op_type != "Constant" or _domain(node) or not node.output or len(node.attribute) != 1 or node.attribute[0].ref_attr_name:
        return None
    (attribute,) = node.attribute
    if attribute.HasField("t"):
        return content_of(attribute.t, folder)
    if attribute.HasField("sparse_tensor"):
        return sparse_content(attribute.sparse_tensor)
    element = _ELEMENTS.get((attribute.name, attribute.type))
    if element is None:
        return None
    value = helper.get_attribute_value(attribute)
    many = attribute.name.endswith("s")
    return _content(helper.make_tensor("", element, [len(value)] if many else [], value if many else [value]))


def sparse_content(sparse: SparseTensorProto) -> Key:
    """The key of the elements of a sparse tensor, without its name."""
    unnamed = SparseTensorProto()
    unnamed.CopyFrom(sparse)
    unnamed.values.ClearField("name")
    return _serialized(unnamed)


def _content(tensor: TensorProto) -> Key:
    """The key of the elements of a tensor: their external location, their bytes if few, or their hash."""
    head = (tensor.data_type, tuple(tensor.dims))
    if tensor.data_location == EXTERNAL:
        return (*head, tuple(sorted((entry.key, entry.value) for entry in tensor.external_data)))
    if tensor.data_type == TensorProto.STRING:
        return (*head, tuple(tensor.string_data))
    data = tensor.raw_data if tensor.HasField("raw_data") else read_tensor(tensor, None).numpy().tobytes()
    return (*head, _identity(data))


def _identity(data: bytes) -> Key:
    return data if len(data) <= SMALL else hash(data)


def content_of(tensor: TensorProto, folder: str | None) -> Key:
    """The key of the elements, element type and shape of a tensor. External data in `folder` is read."""
    if tensor.data_location != EXTERNAL:
        return _content(tensor)
    return (tensor.data_type, tuple(tensor.dims), _identity(raw_bytes(read_tensor(tensor, folder))))


def _interface(model: ModelProto) -> Key:
    graph = model.graph
    # In these versions the initializers are inputs as well.
    constants = {tensor.name for tensor in graph.initializer} if model.ir_version < 4 else set()
    return [value.name for value in graph.input if value.name not in constants], [value.name for value in graph.output]


def _operators(model: ModelProto) -> Key:
    """The count of each operator, as a cheap first comparison."""
    return Counter((node.domain, node.op_type) for node in model.graph.node if node.op_type != "Constant")


def _versions(model: ModelProto) -> Key:
    """The versions of the domains that nodes use."""
    used = {"" if node.domain == "ai.onnx" else node.domain for node in model.graph.node}
    return {domain: version for domain, version in opsets_of(model).items() if domain in used}


def _functions(model: ModelProto) -> Key:
    return sorted(map(_serialized, model.functions))


def _serialized(proto: AttributeProto | SparseTensorProto | FunctionProto) -> bytes:
    data: bytes = proto.SerializeToString(deterministic=True)
    return data
