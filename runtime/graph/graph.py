"""Graphs of primitive functions, as TVM's graph executor reads them from JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.bounded_read import decode_json
from passat.ir.counting import counted
from passat.ir.dtypes import NAMES
from passat.ir.types import TensorType
from passat.runtime.graph.graph_error import GraphError

NOP: Final = "__nop"
"""The function of nodes whose result has the elements of their input, in another shape."""
COPY: Final = "__copy"
"""The function of nodes that copy their input."""


@dataclass(frozen=True)
class GraphNode:
    """An input, which has no function, or a call of a function on entries (pairs of node and index)."""

    name: str
    function: str | None
    inputs: tuple[tuple[int, int], ...]
    outputs: int


@dataclass(frozen=True)
class Graph:
    """A graph in execution order. An entry is a result of a node; its number is `row_ptr[node] + index`."""

    nodes: Sequence[GraphNode]
    inputs: Sequence[int]
    """The nodes that are inputs."""
    heads: Sequence[tuple[int, int]]
    """The results."""
    types: Sequence[TensorType]
    """The types of the entries."""
    storage_ids: Sequence[int]
    row_ptr: Sequence[int]

    def entry(self, node: int, index: int) -> int:
        """The number of an entry."""
        return self.row_ptr[node] + index


def read_graph(text: str) -> Graph:
    """Reads a graph from TVM's JSON. Raises GraphError with the location for anything else."""
    try:
        whole = decode_json(text)
    except (ValueError, TypeError, AttributeError) as error:
        raise GraphError(f"the graph is not JSON: {error}") from None
    return _Reader(whole).graph()


class _Reader:
    def __init__(self, whole: AnyValue) -> None:
        self._whole = _of(dict, whole, "the graph")

    def graph(self) -> Graph:
        nodes: list[GraphNode] = []
        for number, each in enumerate(self._list("nodes")):
            nodes.append(self._node(each, number, nodes))
        row_ptr = [0]
        for made in nodes:
            row_ptr.append(row_ptr[-1] + made.outputs)
        if self._list("node_row_ptr") != row_ptr:
            raise GraphError(f"'node_row_ptr' of the graph must be {row_ptr}, the running number of results")
        inputs = [_number(node, len(nodes), "an element of 'arg_nodes'") for node in self._list("arg_nodes")]
        for number in inputs:
            if nodes[number].function is not None:
                raise GraphError(f"'arg_nodes' of the graph has the node {number}, which is not an input")
        given = set(inputs)
        for number, node in enumerate(nodes):
            if node.function is None and number not in given:
                raise GraphError(f"'arg_nodes' of the graph lacks the input {node.name!r}, which is node {number}")
        if len({nodes[number].name for number in inputs}) < len(inputs):
            raise GraphError("two inputs of the graph have the same name, or 'arg_nodes' names one twice")
        heads = [_entry(head, nodes, "an element of 'heads'") for head in self._list("heads")]
        attrs = _of(dict, self._whole.get("attrs"), "'attrs' of the graph")
        count = row_ptr[-1]
        types = list(self._types(attrs, count))
        storage = [_number(each, 1 << 31, "a storage") for each in _attribute(attrs, "storage_id", "list_int", count)]
        return Graph(nodes, inputs, heads, types, storage, row_ptr)

    def _list(self, key: str) -> list[AnyValue]:
        found: list[AnyValue] = _of(list, self._whole.get(key), f"{key!r} of the graph")
        return found

    def _node(self, node: AnyValue, number: int, before: Sequence[GraphNode]) -> GraphNode:
        where = f"node {number}"
        node = _of(dict, node, where)
        name = _of(str, node.get("name"), f"the name of {where}")
        where = f"node {number} ({name})"
        kind = node.get("op")
        if kind == "null":
            return GraphNode(name, None, (), 1)
        if kind != "tvm_op":
            raise GraphError(f"{where} of the graph is of the kind {kind!r:.60}; known are 'null' and 'tvm_op'")
        attrs = _of(dict, node.get("attrs"), f"'attrs' of {where}")
        function = _of(str, attrs.get("func_name"), f"'func_name' of {where}")
        inputs = tuple(_entry(each, before, f"an input of {where}") for each in _of(list, node.get("inputs"), f"'inputs' of {where}"))
        outputs = _count(attrs.get("num_outputs"), f"'num_outputs' of {where}")
        if _count(attrs.get("num_inputs"), f"'num_inputs' of {where}") != len(inputs):
            raise GraphError(f"{where} of the graph has {counted(len(inputs), 'input')}, but 'num_inputs' is {attrs['num_inputs']}")
        if function == NOP and (len(inputs) != 1 or outputs != 1):
            raise GraphError(f"{where} of the graph is a {NOP}, which has one input and one result")
        return GraphNode(name, function, inputs, outputs)

    def _types(self, attrs: Mapping[str, AnyValue], count: int) -> Iterator[TensorType]:
        shapes = _attribute(attrs, "shape", "list_shape", count)
        dtypes = _attribute(attrs, "dltype", "list_str", count)
        for shape, dtype in zip(shapes, dtypes, strict=True):
            if not isinstance(dtype, str) or dtype not in NAMES:
                raise GraphError(f"the graph has the unknown element type {dtype!r:.60}")
            yield TensorType([_number(dim, 1 << 62, "a size") for dim in _of(list, shape, "a shape")], dtype)


def nbytes(type_: TensorType, what: str) -> int:
    """The size of a tensor in bytes. Raises GraphError that names `what` for unknown sizes."""
    if not type_.is_static:
        raise GraphError(f"{what} has the type {type_!r}; a graph needs known sizes: use executor='vm', or fix them")
    return math.ceil(type_.nbytes)


def _of(kind: type, value: AnyValue, what: str) -> AnyValue:
    if not isinstance(value, kind):
        raise GraphError(f"{what} must be a {kind.__name__}, not {value!r:.60}")
    return value


def _number(value: AnyValue, limit: int, what: str) -> int:
    if type(value) is not int or not 0 <= value < limit:
        raise GraphError(f"{what} must be an integer from 0 to {limit - 1}, not {value!r:.60}")
    return value


def _count(value: AnyValue, what: str) -> int:
    if not isinstance(value, str) or not value.isdecimal() or len(value) > 9:
        raise GraphError(f"{what} must be a number in a string, not {value!r:.60}")
    return int(value)


def _entry(value: AnyValue, nodes: Sequence[GraphNode], what: str) -> tuple[int, int]:
    if not isinstance(value, list) or not 2 <= len(value) <= 3:
        raise GraphError(f"{what} must be [node, index, version], not {value!r:.60}")
    node = _number(value[0], len(nodes), f"{what}: the node")
    return node, _number(value[1], nodes[node].outputs, f"{what}: the index")


def _attribute(attrs: Mapping[str, AnyValue], key: str, kind: str, count: int) -> list[AnyValue]:
    found = attrs.get(key)
    if not isinstance(found, list) or len(found) != 2 or found[0] != kind or not isinstance(found[1], list):
        raise GraphError(f"{key!r} of the graph must be [{kind!r}, [...]]")
    if len(found[1]) != count:
        raise GraphError(f"{key!r} of the graph has {counted(len(found[1]), 'element')}, but the nodes have {counted(count, 'result')}")
    return list(found[1])
