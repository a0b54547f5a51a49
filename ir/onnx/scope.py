"""Names in a graph: their values, captures by subgraphs, and topological order of nodes."""

import heapq
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto
from onnx.inliner import inline_local_functions

from passat.ir.expr import Constant, Expr, Var
from passat.ir.onnx.errors import OnnxError

MAX_DEPTH: Final = 31
"""Maximum nesting depth of subgraphs: protobuf messages have at most 100 levels, and a subgraph takes three."""
GRAPH: Final = 5

E = TypeVar("E", bound=Expr)


class UndefinedError(LookupError):
    """A name is not defined yet."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name
        self.reader = ""


class Scope:
    """The values of a graph by name. The scope of a subgraph has a parent, and captures values of it as variables."""

    __slots__ = ("captured", "depth", "parent", "values")

    def __init__(self, parent: "Scope | None") -> None:
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.values: dict[str, Expr] = {}
        self.captured: dict[int, tuple[Var, Expr]] = {}
        if self.depth > MAX_DEPTH:
            raise OnnxError(f"subgraphs are nested more than {MAX_DEPTH} levels deep, which exceeds the limit of protobuf")

    def define(self, name: str, value: E) -> E:
        """Defines a name. Raises OnnxError if it is already defined."""
        if name in self.values:
            raise OnnxError(f"two values have the name {name!r}")
        self.values[name] = value
        return value

    def find(self, name: str) -> Expr:
        """Returns the value of a name: of this graph, a constant of an outer one, or a variable for a captured value. Raises
        UndefinedError."""
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


def subgraphs(node: NodeProto) -> list[GraphProto]:
    """The subgraphs of a node."""
    return [graph for attribute in node.attribute for graph in attribute_graphs(attribute)]


def attribute_graphs(attribute: AttributeProto) -> Sequence[GraphProto]:
    """The graphs that an attribute holds."""
    return [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs


def free_names(graph: GraphProto, depth: int = 0) -> dict[str, None]:
    """The outer names that a graph reads, in order."""
    if depth > MAX_DEPTH:
        raise OnnxError(f"subgraphs are nested more than {MAX_DEPTH} levels deep, which exceeds the limit of protobuf")
    made = defined_names(graph)
    free: dict[str, None] = {}
    for node in graph.node:
        free.update((name, None) for name in node.input if name and name not in made)
        for inner in subgraphs(node):
            free.update((name, None) for name in free_names(inner, depth + 1) if name not in made)
    free.update((value.name, None) for value in graph.output if value.name not in made)
    return free


def defined_names(graph: GraphProto) -> set[str]:
    """The names that a graph defines, excluding its subgraphs."""
    made = {value.name for value in graph.input}
    made.update(tensor.name for tensor in graph.initializer)
    made.update(sparse.values.name for sparse in graph.sparse_initializer)
    made.update(name for node in graph.node for name in node.output)
    return made


def open_inputs(graph: GraphProto) -> list[ValueInfoProto]:
    """The inputs of a graph without an initializer."""
    own = {tensor.name for tensor in graph.initializer} | {tensor.values.name for tensor in graph.sparse_initializer}
    return [value for value in graph.input if value.name not in own]


def read_names(graph: GraphProto) -> set[str]:
    """All names that are read in a graph and its subgraphs."""
    found: set[str] = set()
    stack = [graph]
    while stack:
        inner = stack.pop()
        found.update(value.name for value in inner.output)
        for node in inner.node:
            found.update(node.input[:])
            stack.extend(subgraphs(node))
    return found


def unread_outputs(graph: GraphProto) -> set[str]:
    """The outputs of a graph that none of its nodes reads."""
    found = {value.name for value in graph.output}
    for node in graph.node:
        found.difference_update(node.input[:])  # a slice is a list, and takes half the time of iterating over the field
        for inner in subgraphs(node):
            found -= read_names(inner)
    return found


def inner_graphs(attributes: Iterable[AttributeProto]) -> Iterable[GraphProto]:
    """The graphs in some attributes, including nested ones."""
    stack = [graph for attribute in attributes for graph in attribute_graphs(attribute)]
    while stack:
        graph = stack.pop()
        yield graph
        stack.extend(inner for node in graph.node for inner in subgraphs(node))


def inner_nodes(attributes: Iterable[AttributeProto]) -> Iterable[NodeProto]:
    """The nodes in the graphs of some attributes, including nested ones."""
    for graph in inner_graphs(attributes):
        yield from graph.node


def all_names(attributes: Iterable[AttributeProto]) -> set[str]:
    """All names of values in the graphs of some attributes, including nested ones."""
    return {name for graph in inner_graphs(attributes) for name in defined_names(graph)}


def rename_free(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames the outer names that a graph reads, in place."""
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


def rename_captured(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames all outer names that a graph reads, in place, and those of its own values that have one of the new names."""
    own = defined_names(graph) | all_names(attribute for node in graph.node for attribute in node.attribute)
    if own.isdisjoint(names.values()):
        rename_free(graph, names)
        return
    taken = {*own, *names, *names.values()}
    fresh = (name for number in itertools.count() if (name := f"inner:{number}") not in taken)
    between = dict(zip(names, fresh, strict=False))
    rename_free(graph, between)
    _rename_own(graph, dict(zip(sorted(own.intersection(names.values())), fresh, strict=False)))
    rename_free(graph, {new: names[name] for name, new in between.items()})


def _rename_own(graph: GraphProto, names: Mapping[str, str]) -> None:
    """Renames values of a graph and its subgraphs, in place. None of the old names is that of an outer value."""
    for values in (graph.input, graph.output, graph.value_info, graph.initializer, [sparse.values for sparse in graph.sparse_initializer]):
        for value in values:
            value.name = names.get(value.name, value.name)
    for node in graph.node:
        for places in (node.input, node.output):
            for i, name in enumerate(places):
                if name in names:
                    places[i] = names[name]
        for subgraph in subgraphs(node):
            _rename_own(subgraph, names)


def nodes_of(model: ModelProto) -> Iterable[NodeProto]:
    """All nodes of a model: those of its graph, of subgraphs, and of local functions."""
    for nodes in (model.graph.node, *(function.node for function in model.functions)):
        for node in nodes:
            yield node
            if subgraphs(node):
                yield from inner_nodes(node.attribute)


def sort_nodes(nodes: Iterable[NodeProto]) -> list[NodeProto]:
    """Sorts nodes topologically, otherwise keeping their order. Raises OnnxError that shows the cycle if there is one."""
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
    """Describes a node in messages: by its name, or else by its first output, and by its operator."""
    kind = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    if node.name:
        return f"node {node.name!r} ({kind})"
    return f"the {kind} node that produces {node.output[0]!r}" if node.output else f"a {kind} node"


def tensors_of(model: ModelProto) -> Iterable[TensorProto]:
    """All tensors of a model: initializers, sparse tensors, attributes, and those in subgraphs, local functions and training
    information."""
    graphs: list[GraphProto] = [model.graph]
    for info in model.training_info:
        graphs += [info.initialization, info.algorithm]
    for function in model.functions:
        yield from _node_tensors(function.node, graphs)
    while graphs:
        graph = graphs.pop()
        yield from graph.initializer
        for sparse in graph.sparse_initializer:
            yield sparse.values
            yield sparse.indices
        yield from _node_tensors(graph.node, graphs)


def _node_tensors(nodes: Iterable[NodeProto], graphs: list[GraphProto]) -> Iterable[TensorProto]:
    for node in nodes:
        if node.attribute:
            graphs.extend(subgraphs(node))
            for attribute in node.attribute:
                if attribute.HasField("t"):
                    yield attribute.t
                yield from attribute.tensors


def without_functions(model: ModelProto) -> ModelProto:
    """Returns a copy of a model with local functions inlined."""
    copy: ModelProto = ModelProto.FromString(model.SerializeToString())
    if not copy.functions:
        return copy
    defaults = {(function.domain, function.name, function.overload): function.attribute_proto for function in copy.functions}
    for node in itertools.chain(copy.graph.node, *(function.node for function in copy.functions)):
        for each in (node, *inner_nodes(node.attribute)):  # the inliner ignores default values of attributes
            given = {attribute.name for attribute in each.attribute}
            missing = defaults.get((each.domain, each.op_type, each.overload), ())
            each.attribute.extend(attribute for attribute in missing if attribute.name not in given)
    inlined: ModelProto = inline_local_functions(copy)
    return inlined
