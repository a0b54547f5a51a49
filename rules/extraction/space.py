"""The search space of extraction: the nodes of an e-graph as arrays, with e-classes, operands and costs; from a saturated graph or a file.

A bias is nearly free if it is fused into its product or convolution, which requires that it is the only reader; otherwise it costs an
addition. A view is nearly free unless the program returns it, which is a copy. Files use the JSON format of extraction-gym, which compares
extractors.
"""

import math
import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.ir.bounded_read import decode_json, read_bounded
from passat.ir.cost import view
from passat.ir.onnx.opaque import dequantizes
from passat.ir.ops.linear import takes_bias
from passat.ir.passat_error import PassatError
from passat.rules.cost import EPSILON, LARGEST, ConstantAware, CostModel, Dequantized, price, price_apart, price_copied
from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import CONST_SYMBOL, REGION, Symbol


class Bias(NamedTuple):
    """A node that adds a bias: the e-class that it is added to, the nodes of that e-class that can fuse it, and its extra cost if none
    does."""

    on: int
    takers: frozenset[int]
    apart: float


def biases_of(
    graph: Graph,
    classes: Sequence[int],
    members: Mapping[int, Sequence[int]],
    constant: Sequence[bool],
    costs: list[float],
    model: CostModel,
) -> dict[int, Bias]:
    """The biases of a graph that a product may fuse. Biases that none can fuse get their full cost in `costs`. `constant` marks constant
    e-classes."""
    found: dict[int, Bias] = {}
    prices: dict[tuple[object, ...], float] = {}
    takers: dict[tuple[int, int], frozenset[int]] = {}
    for node, symbol in enumerate(graph.symbols):
        if symbol.op is None or symbol.op.name != "nn.bias_add":
            continue
        on, vector = (classes[part] for part in graph.operands[node])
        if constant[on] and constant[vector]:
            continue
        axis = graph.attrs[graph.payloads[node]].axis
        types, known = [graph.types[on], graph.types[vector]], [constant[on], constant[vector]]
        key = (axis, *map(id, types), *known)
        if key not in prices:
            prices[key] = price_apart(model, types, graph.types[classes[node]], axis, known)
        more = prices[key] - costs[node]
        if more <= 0:
            continue
        if (on, axis) not in takers:
            takers[on, axis] = frozenset(each for each in members.get(on, (on,)) if _takes(graph, classes, each, axis))
        if takers[on, axis]:
            found[node] = Bias(on, takers[on, axis], more)
        else:
            costs[node] += more
    return found


def _takes(graph: Graph, classes: Sequence[int], node: int, axis: int) -> bool:
    op = graph.symbols[node].op
    types = [graph.types[classes[part]] for part in graph.operands[node]]
    return op is not None and takes_bias(op, graph.attrs[graph.payloads[node]], types, axis)


LESS = 1 - 1e-12
"""Relative tolerance: costs are sums in varying order, and a smaller difference counts as equal."""


@dataclass(slots=True, eq=False)
class Space:
    """Nodes by number. `classes` has the e-class of each node, named by its smallest node; `children` its operands, as e-classes; `costs`
    its own cost. `alternatives` has the nodes of each e-class with a choice, and `default` the default node of each e-class. `biases` are
    nodes that cost more unless fused, and `biased` those on each e-class."""

    classes: list[int]
    children: Sequence[tuple[int, ...]]
    costs: list[float]
    alternatives: dict[int, list[int]]
    default: list[int]
    biases: Mapping[int, Bias] = field(default_factory=dict)
    biased: dict[int, list[int]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        for node, bias in self.biases.items():
            self.biased.setdefault(bias.on, []).append(node)

    @staticmethod
    def of_graph(graph: Graph, model: CostModel, results: Iterable[int] = ()) -> "Space":
        """The search space of a saturated graph; `results` are nodes whose values are results of the program. The default is the input
        program."""
        classes: list[int] = []
        for node, up in enumerate(graph.classes):  # e-classes are named by their smallest node, so links go down
            classes.append(node if up == node else classes[up])
        space = Space(classes, _children(graph, classes), [], {}, list(range(len(graph))))
        symbols = graph.symbols
        for cls, nodes in sorted(graph.members.items()):
            kept = sorted(nodes)
            if len(kept) > 2 or symbols[kept[0]] is symbols[kept[-1]]:
                distinct = {(symbols[node], graph.payloads[node], space.children[node]): node for node in reversed(kept)}
                kept = sorted(distinct.values())
            constant = [node for node in kept if symbols[node] is CONST_SYMBOL]
            space.alternatives[cls] = constant[:1] or kept
            space.default[cls] = space.alternatives[cls][0]
        costs, biases = _costs(graph, space, model, {classes[result] for result in results})
        return Space(classes, space.children, costs, space.alternatives, space.default, biases)

    def without(self, nodes: Iterable[int]) -> "Space":
        """The space without these nodes: each of them needs itself."""
        children, alternatives = list(self.children), dict(self.alternatives)
        for node in nodes:
            cls = self.classes[node]
            children[node] = (cls,)
            alternatives[cls] = [other for other in alternatives.get(cls, ()) if other != node]
        return replace(self, children=children, alternatives=alternatives)

    def cost(self, choice: Mapping[int, int], roots: Iterable[int]) -> float:
        """The DAG cost of a choice: one node per e-class that the roots need."""
        total = math.fsum([self.costs[node] for node in choice.values()])
        chosen = [node for node in choice.values() if node in self.biases] if self.biases else []
        if not chosen:
            return total
        uses = Counter(part for node in choice.values() for part in self.children[node])
        uses.update(roots)
        apart = [bias.apart for bias in map(self.biases.__getitem__, chosen) if uses[bias.on] > 1 or choice[bias.on] not in bias.takers]
        return total + math.fsum(apart)


def _children(graph: Graph, classes: Sequence[int]) -> list[tuple[int, ...]]:
    merged = {node for node, cls in enumerate(classes) if node != cls}
    if not merged:
        return graph.operands
    untouched = merged.isdisjoint
    return [parts if untouched(parts) else tuple([classes[part] for part in parts]) for parts in graph.operands]


def _costs(graph: Graph, space: Space, model: CostModel, results: Container[int]) -> tuple[list[float], dict[int, Bias]]:
    """The cost of each node itself, and the biases that may be fused; `results` are e-classes that the program
    returns. Nodes other than calls, and calls on constants except arithmetic on dequantized weights, are nearly free. The model is queried
    once per operator, types (which the graph keeps alive) and, if it distinguishes them, constant operands."""
    classes, default = space.classes, space.default
    payloads, types, constants = graph.payloads, graph.types, graph.constants
    type_of = [id(types[cls]) for cls in classes].__getitem__
    constant = [cls in constants for cls in classes] if constants else [False] * len(classes)
    is_constant = constant.__getitem__
    aware = isinstance(model, ConstantAware)
    prices: dict[tuple[object, ...], float] = {}
    dequantized = Dequantized(model) if any(dequantizes(symbol.op) for symbol in set(graph.symbols)) else None
    costs: list[float] = []
    free: list[int] = []
    for node, (symbol, parts) in enumerate(zip(graph.symbols, space.children, strict=True)):
        op = symbol.op
        folded, factor = op is None, 1.0
        if dequantized is not None and op is not None:
            factor = dequantized.factor(classes[node], op, graph.attrs[payloads[node]], parts, [constant[part] for part in parts])
        if parts and constant[parts[0]] and all(map(is_constant, parts)) and _is_plain(symbol):
            if default[classes[node]] == node:
                constant[classes[node]] = True
            folded = op is None or dequantized is None or not dequantized.computes(op, parts)
        if op is None or folded:
            free.append(node)
            costs.append(EPSILON)
        else:
            key = (symbol, payloads[node], type_of(node), *map(type_of, parts))
            if aware:
                key = (*key, *map(is_constant, parts))
            cost = prices.get(key)
            if cost is None:
                known = [constant[part] for part in parts]
                cost = prices[key] = price(
                    model, op, [types[part] for part in parts], types[classes[node]], graph.attrs[payloads[node]], known
                )
            if op.cost is view and classes[node] in results:
                cost = max(cost, price_copied(model, types[classes[node]]))
            costs.append(factor * cost)
    little = 1e-3 * min(prices.values(), default=1.0)
    if little < EPSILON:  # in the units of this model, free nodes would cost more than calls
        for node in free:
            costs[node] = little
    return costs, biases_of(graph, classes, space.alternatives, constant, costs, model)


def _is_plain(symbol: Symbol) -> bool:
    """True if a node of the symbol with constant operands is constant."""
    return not symbol.op.stateful if symbol.op is not None else symbol.kind != REGION


BYTES_LIMIT: Final = 2 << 30
"""Maximum size of a file in bytes."""


class EGraphFileError(PassatError, ValueError):
    """A file that is not an e-graph, or from which nothing can be extracted; the message names the file and the node."""


class EGraphFile(NamedTuple):
    """An e-graph from a file: its search space, the root e-classes, and the node ids by number."""

    space: Space
    roots: list[int]
    names: list[str]


def read_egraph(path: str | os.PathLike[str]) -> EGraphFile:
    """Reads an e-graph. Raises EGraphFileError, and OSError if the file cannot be read."""
    where = os.fspath(path)
    content = read_bounded(where, BYTES_LIMIT)
    try:
        data = decode_json(content)
    except ValueError as error:
        raise EGraphFileError(f"{where} is not JSON: {error}") from error
    try:
        return parse_egraph(data)
    except EGraphFileError as error:
        raise EGraphFileError(f"{where}: {error}") from None


def parse_egraph(data: AnyValue) -> EGraphFile:
    """The e-graph that decoded JSON describes. Raises EGraphFileError.

    >>> one = {"op": "x", "cost": 1.0, "eclass": "a", "children": []}
    >>> parse_egraph({"nodes": {"n0": one}, "root_eclasses": ["a"]}).space.costs
    [1.0]
    """
    if not isinstance(data, Mapping) or not isinstance(data.get("nodes"), Mapping) or not isinstance(data.get("root_eclasses"), list):
        raise EGraphFileError('not an e-graph: "nodes" (by id) and a list of "root_eclasses" are required')
    nodes: Mapping[str, AnyValue] = data["nodes"]
    numbers = {name: number for number, name in enumerate(nodes)}
    first: dict[str, int] = {}
    classes: list[int] = []
    costs: list[float] = []
    members: dict[int, list[int]] = {}
    for name, number in numbers.items():
        node = nodes[name]
        if not isinstance(node, Mapping) or not isinstance(node.get("eclass"), str) or not isinstance(node.get("children"), list):
            raise EGraphFileError(f'the node {name!r} must have an "eclass" and a list of "children"')
        cost = node.get("cost", 1.0)
        if isinstance(cost, bool) or not isinstance(cost, (int, float)) or not 0 <= cost <= LARGEST:
            raise EGraphFileError(f"the cost of the node {name!r} is {cost!r}; it must be a number from 0 to {LARGEST:g}")
        cls = first.setdefault(node["eclass"], number)
        classes.append(cls)
        costs.append(float(cost))
        members.setdefault(cls, []).append(number)
    children = []
    for name, node in nodes.items():
        missing = [child for child in node["children"] if not isinstance(child, str) or child not in numbers]
        if missing:
            raise EGraphFileError(f"the node {name!r} has the child {missing[0]!r}, which is not a node")
        children.append(tuple([classes[numbers[child]] for child in node["children"]]))
    roots = []
    for root in data["root_eclasses"]:
        if not isinstance(root, str) or root not in first:
            raise EGraphFileError(f"no node has the root e-class {root!r}")
        roots.append(first[root])
    if not roots:
        raise EGraphFileError("it has no roots, so there is nothing to extract")
    alternatives = {cls: found for cls, found in members.items() if len(found) > 1}
    return EGraphFile(Space(classes, children, costs, alternatives, list(range(len(classes)))), list(dict.fromkeys(roots)), list(nodes))
