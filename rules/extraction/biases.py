"""Biases as they are run: in the product or convolution that they are added to, where nothing else reads that; by themselves elsewhere."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.ir.ops.linear import takes_bias
from passat.rules.cost import CostModel, price_apart
from passat.rules.engine.graph import Graph


class Bias(NamedTuple):
    """A node that adds a bias: the class that it is added to, the nodes of that class that take it along, and by how much it costs more
    where none does."""

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
    """The biases of a graph that a product may take along. Those that none can take along get the cost that they have apart, in `costs`.
    `constant` says of each class whether it is."""
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
