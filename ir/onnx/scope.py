"""Names of a graph: what they stand for, which of them a subgraph takes from outside, and in which order nodes can be read."""

import heapq
from collections.abc import Iterable, Mapping
from typing import Final, TypeVar

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto
from onnx.inliner import inline_local_functions

from passat.ir.expr import Constant, Expr, Var
from passat.ir.onnx.errors import OnnxError

MAX_DEPTH: Final = 31
"""Subgraphs nested deeper than this are refused: protobuf reads no message of more than 100 levels, and a subgraph takes three."""
GRAPH: Final = 5

E = TypeVar("E", bound=Expr)


class UndefinedError(LookupError):
    """A name that stands for nothing yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.reader = ""


class Scope:
    """The values of one graph by name. A subgraph's scope has a parent, and captures what it takes from there as variables of its own."""

    __slots__ = ("captured", "depth", "parent", "values")

    def __init__(self, parent: "Scope | None") -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Expr] = {}
        self.captured: dict[int, tuple[Var, Expr]] = {}
        if self.depth > MAX_DEPTH:
            raise OnnxError(f"subgraphs are nested more than {MAX_DEPTH} deep, which is more than protobuf reads")

    def define(self, name: str, value: E) -> E:
        """Gives a name its value. Raises OnnxError where it has one."""
        if name in self.values:
            raise OnnxError(f"the name {name!r} is given to two values")
        self.values[name] = value
        return value

    def find(self, name: str) -> Expr:
        """The value of a name: of this graph, a constant of an outer one, or a variable that captures one. Raises UndefinedError."""
        value = self.values.get(name)
        if value is not None:
            return value
        if self.parent is None:
            raise UndefinedError(name)
        outer = self.parent.find(name)
        if isinstance(outer, Constant):
            value = outer
        else:
            value, _ = self.captured.setdefault(id(outer), (Var(name, outer.checked_type), outer))
        self.values[name] = value
        return value


def subgraphs(node: NodeProto) -> Iterable[GraphProto]:
    """The graphs among the attributes of a node."""
    for attribute in node.attribute:
        yield from attribute_graphs(attribute)


def attribute_graphs(attribute: AttributeProto) -> Iterable[GraphProto]:
    """The graphs that an attribute holds."""
    if attribute.HasField("g"):
        yield attribute.g
    yield from attribute.graphs


def free_names(graph: GraphProto, depth: int = 0) -> dict[str, None]:
    """The names that a graph reads from outside, in the order in which it does."""
    if depth > MAX_DEPTH:
        raise OnnxError(f"subgraphs are nested more than {MAX_DEPTH} deep, which is more than protobuf reads")
    made = defined_names(graph)
    free: dict[str, None] = {}
    for node in graph.node:
        free.update((name, None) for name in node.input if name and name not in made)
        for inner in subgraphs(node):
            free.update((name, None) for name in free_names(inner, depth + 1) if name not in made)
    free.update((value.name, None) for value in graph.output if value.name not in made)
    return free


def defined_names(graph: GraphProto) -> set[str]:
    """The names that a graph itself gives values to; not those inside its subgraphs."""
    made = {value.name for value in graph.input}
    made.update(tensor.name for tensor in graph.initializer)
    made.update(sparse.values.name for sparse in graph.sparse_initializer)
    made.update(name for node in graph.node for name in node.output)
    return made


def read_names(graph: GraphProto) -> set[str]:
    """Every name that is read anywhere in a graph and the graphs inside it."""
    found: set[str] = set()
    stack = [graph]
    while stack:
        inner = stack.pop()
        found.update(value.name for value in inner.output)
        for node in inner.node:
            found.update(node.input)
            stack.extend(subgraphs(node))
    return found


def unread_outputs(graph: GraphProto) -> set[str]:
    """The outputs of a graph that none of its nodes reads."""
    found = {value.name for value in graph.output}
    for node in graph.node:
        found.difference_update(node.input)
        for inner in subgraphs(node):
            found -= read_names(inner)
    return found


def inner_graphs(attributes: Iterable[AttributeProto]) -> Iterable[GraphProto]:
    """The graphs among some attributes, and those inside them."""
    stack = [graph for attribute in attributes for graph in attribute_graphs(attribute)]
    while stack:
        graph = stack.pop()
        yield graph
        stack.extend(inner for node in graph.node for inner in subgraphs(node))


def inner_nodes(attributes: Iterable[AttributeProto]) -> Iterable[NodeProto]:
    """The nodes of the graphs among some attributes, and of those inside them."""
    for graph in inner_graphs(attributes):
        yield from graph.node


def all_names(attributes: Iterable[AttributeProto]) -> set[str]:
    """Every name given to a value anywhere inside the graphs among some attributes."""
    return {name for graph in inner_graphs(attributes) for name in defined_names(graph)}


def rename_free(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames what a graph reads from outside, in place."""
    made = defined_names(graph)
    inner = {old: new for old, new in names.items() if old not in made}
    if not inner:
        return
    for node in graph.node:
        for i, name in enumerate(node.input):
            if name in inner:
                node.input[i] = inner[name]
        for subgraph in subgraphs(node):
            rename_free(subgraph, inner)
    for value in graph.output:
        value.name = inner.get(value.name, value.name)


def sort_nodes(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """The nodes, each after those whose results it reads, otherwise in the given order. Raises OnnxError that shows a cycle."""
    listed = list(nodes)
    maker = {name: i for i, node in enumerate(listed) for name in node.output if name}
    reads: list[set[int]] = []
    readers: list[list[int]] = [[] for _ in listed]
    for i, node in enumerate(listed):
        names = [*node.input, *(name for graph in subgraphs(node) for name in free_names(graph))]
        reads.append({maker[name] for name in names if name in maker})
        for source in reads[i]:
            readers[source].append(i)
    waiting = [len(sources) for sources in reads]
    ready = [i for i, count in enumerate(waiting) if not count]
    order: list[NodeProto] = []
    while ready:
        i = heapq.heappop(ready)
        order.append(listed[i])
        for reader in readers[i]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    if len(order) < len(listed):
        raise OnnxError(f"the graph has a cycle: {_cycle(listed, reads, waiting)}")
    return order


def _cycle(nodes: list[NodeProto], reads: list[set[int]], waiting: list[int]) -> str:
    at = next(i for i, count in enumerate(waiting) if count)
    path: list[int] = []
    while at not in path:
        path.append(at)
        at = next(source for source in sorted(reads[at]) if waiting[source])
    cycle = path[path.index(at) :]
    shown = [describe(nodes[i]) for i in cycle]
    if len(shown) > 8:
        shown = [*shown[:4], f"... {len(shown) - 8} more ...", *shown[-4:]]
    return " reads from ".join([*shown, describe(nodes[cycle[0]])])


def describe(node: NodeProto) -> str:
    """A node as error messages call it: by its name, or by what it makes, and its operator."""
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if node.name:
        return f"node {node.name!r} ({kind})"
    return f"the {kind} node that makes {node.output[0]!r}" if node.output else f"a {kind} node"


def without_functions(model: ModelProto) -> ModelProto:
    """A copy of a model in which the nodes of local functions stand where the functions were called."""
    return inline_local_functions(model) if model.functions else ModelProto.FromString(model.SerializeToString())
