"""Whether two models differ in nothing but names: those of nodes and inner values, and the order in which nodes stand.

Each value gets a number by what computes it, the same one in all models of one `Numbering`: the operator, its attributes and the numbers of
its operands. Values of equal numbers are computed alike, so graphs with the same results and equally many nodes of each number are the same
up to names. (Which one of several equal nodes is read is not told apart.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto, helper

from passat.ir.onnx.frame import opsets_of
from passat.ir.onnx.scope import attribute_graphs, sort_nodes
from passat.ir.onnx.tensors import EXTERNAL, raw_bytes, read_tensor

Key: TypeAlias = object
"""What identifies something: a value that can be compared and, but where it says otherwise, hashed."""

SMALL: Final = 64
"""Most bytes of a tensor that are kept as they are."""
COMMUTATIVE: Final = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal", "BitwiseAnd", "BitwiseOr", "BitwiseXor"})
"""Operators of the default domain whose two operands may be swapped without changing a bit of the result."""


def differs_in_names_only(model: ModelProto, other: ModelProto) -> bool:
    """Whether two models are the same up to names of nodes and inner values, and the order of nodes.

    What does not compute (declared types of inner values, texts, unused constants and imports) may differ. Opsets must be the same.
    """
    if any(part(model) != part(other) for part in (_interface, _operators, _versions, _functions)):
        return False
    numbering = Numbering()
    return numbering.graph(model.graph) == numbering.graph(other.graph)


class Numbering:
    """Gives equal numbers to what computes the same."""

    def __init__(self) -> None:
        self._numbers: dict[Key, int] = {}

    def number(self, key: Key) -> int:
        """The number of a key."""
        return self._numbers.setdefault(key, len(self._numbers))

    def graph(self, graph: GraphProto, outer: Mapping[str, int] | None = None, depth: int = 0) -> Key:
        """What identifies a graph: its results, and how many nodes it has of each number. `outer` are the numbers of values around a
        subgraph, whose inputs are known by their places; those of a model are known by their names."""
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
        """The number of a node by itself, whatever its operands are; `captured` is what its graphs read from outside."""
        values = {name: self.number(("captured", place)) for place, name in enumerate(dict.fromkeys(captured))}
        attributes = frozenset((attribute.name, self._attribute(attribute, values, 0)) for attribute in node.attribute)
        ends = tuple(tuple(bool(name) for name in names) for names in (node.input, node.output))
        return self.number((_domain(node), node.op_type, node.overload, attributes, ends))

    def node(self, node: NodeProto, values: Mapping[str, int], depth: int = 0) -> int:
        """The number of a node, whose operands have the given numbers."""
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
"""The element types of the attributes of Constant that are no tensors, by name and type of the attribute."""


def constant_of(node: NodeProto, folder: str | None) -> Key | None:
    """What identifies what a Constant node holds, as that of an initializer; None for all other nodes, and in a function where an attribute
    of the call decides."""
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
    """What identifies the elements of a sparse tensor, whatever its name is."""
    unnamed = SparseTensorProto()
    unnamed.CopyFrom(sparse)
    unnamed.values.ClearField("name")
    return _serialized(unnamed)


def _content(tensor: TensorProto) -> Key:
    """What identifies the elements of a tensor: where they lie, their bytes, or the hash of many bytes."""
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
    """What identifies the elements of a tensor, with its element type and shape; `folder` is that of external data, which is read."""
    if tensor.data_location != EXTERNAL:
        return _content(tensor)
    return (tensor.data_type, tuple(tensor.dims), _identity(raw_bytes(read_tensor(tensor, folder))))


def _interface(model: ModelProto) -> Key:
    graph = model.graph
    constants = {tensor.name for tensor in graph.initializer} if model.ir_version < 4 else set()  # those are inputs there as well
    return [value.name for value in graph.input if value.name not in constants], [value.name for value in graph.output]


def _operators(model: ModelProto) -> Key:
    """How often each operator occurs, which is quickly told."""
    return Counter((node.domain, node.op_type) for node in model.graph.node if node.op_type != "Constant")


def _versions(model: ModelProto) -> Key:
    """The versions of the domains that nodes belong to."""
    used = {"" if node.domain == "ai.onnx" else node.domain for node in model.graph.node}
    return {domain: version for domain, version in opsets_of(model).items() if domain in used}


def _functions(model: ModelProto) -> Key:
    return sorted(map(_serialized, model.functions))


def _serialized(proto: AttributeProto | SparseTensorProto | FunctionProto) -> bytes:
    data: bytes = proto.SerializeToString(deterministic=True)
    return data
