"""What extraction chooses from: the nodes of an e-graph as lists, with their classes, operands and costs."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from passat.rules.cost import EPSILON, ConstantAware, CostModel, price
from passat.rules.engine.graph import CONST_SYMBOL, REGION, Graph, Symbol
from passat.rules.extraction.biases import Bias, biases_of

LESS = 1 - 1e-12
"""Costs are sums in changing order; what is not less by this factor is not less."""


class Space:
    """Nodes by number. `classes` has the class of each node, which is named by the smallest node in it; `children` its operands, as
    classes; `costs` what it costs by itself. `alternatives` has the nodes of each class in which there is a choice, and `default` for
    each class the node that stands for it where nobody chooses. `biases` are nodes that cost more where they are not taken along, and
    `biased` those of each class that they are added to."""

    __slots__ = ("alternatives", "biased", "biases", "children", "classes", "costs", "default")

    def __init__(
        self,
        classes: list[int],
        children: Sequence[tuple[int, ...]],
        costs: list[float],
        alternatives: dict[int, list[int]],
        default: list[int],
        biases: Mapping[int, Bias] | None = None,
    ) -> None:
        self.classes = classes
        self.children = children
        self.costs = costs
        self.alternatives = alternatives
        self.default = default
        self.biases = biases or {}
        self.biased: dict[int, list[int]] = {}
        for node, bias in self.biases.items():
            self.biased.setdefault(bias.on, []).append(node)

    @staticmethod
    def of_graph(graph: Graph, members: Mapping[int, Sequence[int]], model: CostModel) -> "Space":
        """The space of a saturated graph, whose classes of several nodes `members` lists; the default is the program that went in."""
        classes: list[int] = []
        for node, up in enumerate(graph.classes):  # classes are named by their smallest node, so links go down
            classes.append(node if up == node else classes[up])
        space = Space(classes, _children(graph, classes), [], {}, list(range(len(graph))))
        symbols = graph.symbols
        for cls, nodes in sorted(members.items()):
            if classes[cls] == cls:
                kept = sorted(nodes)
                if len(kept) > 2 or symbols[kept[0]] is symbols[kept[-1]]:
                    distinct = {(symbols[node], graph.payloads[node], space.children[node]): node for node in reversed(kept)}
                    kept = sorted(distinct.values())
                constant = [node for node in kept if symbols[node] is CONST_SYMBOL]
                space.alternatives[cls] = constant[:1] or kept
                space.default[cls] = space.alternatives[cls][0]
        costs, biases = _costs(graph, space, model)
        return Space(classes, space.children, costs, space.alternatives, space.default, biases)

    def without(self, nodes: Iterable[int]) -> "Space":
        """The space in which no program has these nodes: each of them needs itself."""
        children, alternatives = list(self.children), dict(self.alternatives)
        for node in nodes:
            cls = self.classes[node]
            children[node] = (cls,)
            alternatives[cls] = [other for other in alternatives.get(cls, ()) if other != node]
        return Space(self.classes, children, self.costs, alternatives, self.default, self.biases)

    def cost(self, choice: Mapping[int, int], roots: Iterable[int]) -> float:
        """What the program of a choice costs: one node for each class that the roots need."""
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


def _costs(graph: Graph, space: Space, model: CostModel) -> tuple[list[float], dict[int, Bias]]:
    """What each node itself costs, and the biases that may be taken along: nothing to speak of where it is no call, or a call on constants
    alone. The model is asked once for each operator on the same types (which the graph keeps alive), and the same operands constant where
    that makes a difference to it."""
    classes, default = space.classes, space.default
    payloads, types, constants = graph.payloads, graph.types, graph.constants
    type_of = [id(types[cls]) for cls in classes].__getitem__
    constant = [cls in constants for cls in classes] if constants else [False] * len(classes)
    is_constant = constant.__getitem__
    aware = isinstance(model, ConstantAware)
    prices: dict[tuple[object, ...], float] = {}
    costs: list[float] = []
    free: list[int] = []
    for node, (symbol, parts) in enumerate(zip(graph.symbols, space.children, strict=True)):
        op = symbol.op
        if parts and constant[parts[0]] and all(map(is_constant, parts)) and _is_plain(symbol):
            if default[classes[node]] == node:
                constant[classes[node]] = True
            free.append(node)
            costs.append(EPSILON)
        elif op is None:
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
            costs.append(cost)
    little = 1e-3 * min(prices.values(), default=1.0)
    if little < EPSILON:  # in the units of this model, what is free would cost more than calls do
        for node in free:
            costs[node] = little
    return costs, biases_of(graph, classes, space.alternatives, constant, costs, model)


def _is_plain(symbol: Symbol) -> bool:
    """Whether what a symbol makes of constants is constant."""
    return not symbol.op.stateful if symbol.op is not None else symbol.kind != REGION
