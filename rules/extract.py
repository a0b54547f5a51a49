"""Taking the best program out of a saturated graph: a worklist over tree costs, then improvement of the cost as a DAG.

The program that went in is always one of the candidates: the smallest node of each class. So the result is never dearer than it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.rules.cost import EPSILON, CostModel
from passat.rules.graph import CONST_SYMBOL, REGION, Graph, Symbol

_SWEEPS = 4
_LESS = 1 - 1e-12
"""Costs are sums in changing order; what is not less by this factor is not less."""


class Extraction(NamedTuple):
    """A choice of one node for each class that the roots need, in an order that has parts before wholes, its cost, and the cost of what
    went in."""

    choice: dict[int, int]
    cost: float
    input_cost: float


def extract(graph: Graph, roots: Sequence[int], members: Mapping[int, Sequence[int]], model: CostModel) -> Extraction:
    """The cheapest program found for `roots`. `members` lists the nodes of each class that has more than one."""
    space = _Space(graph, members, model)
    classes = [graph.find(root) for root in roots]
    best = start = _Solution.of_input(space, classes)
    input_cost = start.total
    if space.alternatives:
        greedy = space.cheapest_trees()
        start.improve(greedy)
        same = all(start.choice[cls] == node for cls, node in greedy.items() if start.uses[cls])
        other = None if same else _Solution.of_choice(space, greedy, classes)
        if other is not None and other.total < start.total * _LESS:
            other.improve(greedy)
            best = other
    return Extraction(best.in_order(), best.total, input_cost)


class _Space:
    """What there is to choose from, as lists over nodes: operands as classes, costs, what a class has where nobody chooses, and the
    classes in which there is a choice."""

    def __init__(self, graph: Graph, members: Mapping[int, Sequence[int]], model: CostModel) -> None:
        self.graph = graph
        self.classes: list[int] = []
        for node, up in enumerate(graph.classes):  # classes are named by their smallest node, so links go down
            self.classes.append(node if up == node else self.classes[up])
        self.children = self._children()
        self.default = list(range(len(graph)))
        self.alternatives: dict[int, list[int]] = {}
        symbols = graph.symbols
        for cls, nodes in sorted(members.items()):
            if self.classes[cls] == cls:
                kept = sorted(nodes)
                if len(kept) > 2 or symbols[kept[0]] is symbols[kept[-1]]:
                    distinct = {(symbols[node], graph.payloads[node], self.children[node]): node for node in reversed(kept)}
                    kept = sorted(distinct.values())
                constant = [node for node in kept if symbols[node] is CONST_SYMBOL]
                self.alternatives[cls] = constant[:1] or kept
                self.default[cls] = self.alternatives[cls][0]
        self.costs = self._costs(model)

    def _children(self) -> list[tuple[int, ...]]:
        classes = self.classes
        merged = {node for node, cls in enumerate(classes) if node != cls}
        if not merged:
            return self.graph.operands
        untouched = merged.isdisjoint
        return [parts if untouched(parts) else tuple([classes[part] for part in parts]) for parts in self.graph.operands]

    def _costs(self, model: CostModel) -> list[float]:
        """What each node itself costs: nothing to speak of where it is no call, or a call on constants alone. The model is asked once for
        each operator on the same types (which the graph keeps alive)."""
        graph, classes = self.graph, self.classes
        payloads, types, constants = graph.payloads, graph.types, graph.constants
        type_of = [id(types[cls]) for cls in classes].__getitem__
        constant = [cls in constants for cls in classes] if constants else [False] * len(classes)
        is_constant = constant.__getitem__
        prices: dict[tuple[object, ...], float] = {}
        costs: list[float] = []
        for node, (symbol, parts) in enumerate(zip(graph.symbols, self.children, strict=True)):
            op = symbol.op
            if parts and constant[parts[0]] and all(map(is_constant, parts)) and _is_plain(symbol):
                if self.default[classes[node]] == node:
                    constant[classes[node]] = True
                costs.append(EPSILON)
            elif op is None:
                costs.append(EPSILON)
            else:
                key = (symbol, payloads[node], type_of(node), *map(type_of, parts))
                price = prices.get(key)
                if price is None:
                    result = types[classes[node]]
                    price = prices[key] = model.call(op, [types[part] for part in parts], result, graph.attrs[payloads[node]])
                    if not (math.isfinite(price) and price > 0):
                        raise ValueError(f"the cost model gave {price} for {op.name}; costs are positive and finite")
                costs.append(price)
        return costs

    def cheapest_trees(self) -> dict[int, int]:
        """The cheapest node of each class where there is a choice, by the cost of trees (shared parts counted each time)."""
        classes, children, costs, default, alternatives = self.classes, self.children, self.costs, self.default, self.alternatives
        total = [math.inf] * len(classes)
        level = [0] * len(classes)
        users: list[list[int]] = [[] for _ in classes]
        choice: dict[int, int] = {}
        for node, (cls, parts) in enumerate(zip(classes, children, strict=True)):
            for part in parts:
                users[part].append(cls)
            if cls == node:
                if default[cls] != node:
                    parts = children[default[cls]]  # noqa: PLW2901
                tree, deepest = costs[default[cls]], 0
                for part in parts:
                    tree += total[part]
                    if level[part] > deepest:  # noqa: PLR1730  # a call of max for each operand takes twice as long
                        deepest = level[part]
                total[cls] = tree
                level[cls] = deepest + 1
        # In the order of depth a change of cost passes through the classes above it once, not once for each path.
        work: list[list[int]] = [[] for _ in range(max(level) + 1)]
        waiting = bytearray(len(classes))
        for cls in alternatives:
            work[level[cls]].append(cls)
            waiting[cls] = 1
        here = 0
        while here < len(work):
            if not work[here]:
                here += 1
                continue
            cls = work[here].pop()
            waiting[cls] = 0
            best, chosen = total[cls] * _LESS, -1
            for node in alternatives.get(cls) or (cls,):
                tree = costs[node]
                for part in children[node]:
                    tree += total[part]
                if tree < best:
                    best, chosen = tree, node
            if chosen < 0:
                continue
            total[cls] = best
            if cls in alternatives:
                choice[cls] = chosen
            for user in users[cls]:
                if not waiting[user]:
                    waiting[user] = 1
                    work[level[user]].append(user)
                    here = min(here, level[user])
        return choice


def _is_plain(symbol: Symbol) -> bool:
    """Whether what a symbol makes of constants is constant."""
    return not symbol.op.stateful if symbol.op is not None else symbol.kind != REGION


class _Solution:
    """A choice, with the number of uses of each class in it, so that a change is priced by what it adds and what it frees."""

    def __init__(self, space: _Space, choice: list[int], order: Sequence[int], roots: Sequence[int], position: list[float]) -> None:
        """`order` has all classes that the roots need, parts before wholes; `position` is where a class stands in it."""
        self.space = space
        self.choice = choice
        self.position = position
        children, costs = space.children, space.costs
        self.uses = uses = [0] * len(choice)
        for root in roots:
            uses[root] += 1
        total = 0.0
        for cls in reversed(order):
            if uses[cls]:
                node = choice[cls]
                total += costs[node]
                for part in children[node]:
                    uses[part] += 1
        self.total = total

    @staticmethod
    def of_input(space: _Space, roots: Sequence[int]) -> "_Solution":
        """The program that went in."""
        # The smallest nodes of classes are in the order in which they were made, parts before wholes.
        order = range(len(space.default))
        return _Solution(space, space.default.copy(), order, roots, list(map(float, order)))

    @staticmethod
    def of_choice(space: _Space, chosen: Mapping[int, int], roots: Sequence[int]) -> "_Solution | None":
        """The program of a choice; None where it has a cycle and is no program."""
        choice, children = space.default.copy(), space.children
        for cls, node in chosen.items():
            choice[cls] = node
        order: list[int] = []
        state = bytearray(len(choice))  # 1: its parts are being walked; 2: it stands in the order
        for root in roots:
            stack = [root]
            while stack:
                top = stack[-1]
                if state[top]:
                    if state[top] == 1:
                        state[top] = 2
                        order.append(top)
                    stack.pop()
                    continue
                state[top] = 1
                for part in children[choice[top]]:
                    if not state[part]:
                        stack.append(part)
                    elif state[part] == 1:
                        return None
        position = [math.inf] * len(choice)
        for i, cls in enumerate(order):
            position[cls] = float(i)
        return _Solution(space, choice, order, roots, position)

    def in_order(self) -> dict[int, int]:
        """The classes of the solution with their nodes, parts before wholes."""
        used = [cls for cls, count in enumerate(self.uses) if count]
        used.sort(key=self.position.__getitem__)
        return {cls: self.choice[cls] for cls in used}

    def _use(self, cls: int) -> None:
        uses, choice, children, costs = self.uses, self.choice, self.space.children, self.space.costs
        stack = [cls]
        while stack:
            top = stack.pop()
            uses[top] += 1
            if uses[top] == 1:
                self.total += costs[choice[top]]
                stack.extend(children[choice[top]])

    def _free(self, cls: int) -> None:
        uses, choice, children, costs = self.uses, self.choice, self.space.children, self.space.costs
        stack = [cls]
        while stack:
            top = stack.pop()
            uses[top] -= 1
            if not uses[top]:
                self.total -= costs[choice[top]]
                stack.extend(children[choice[top]])

    def improve(self, preferred: Mapping[int, int]) -> None:
        """Tries each alternative of each class, and keeps what makes the whole cheaper, until nothing does. `preferred` is what
        classes outside the solution come in with."""
        uses, choice = self.uses, self.choice
        for _ in range(_SWEEPS):
            before = self.total
            for cls, nodes in self.space.alternatives.items():
                if uses[cls] and len(nodes) > 1:
                    for node in nodes:
                        if uses[cls] and node != choice[cls]:
                            self._try(cls, node, preferred)
            if not self.total < before * _LESS:
                return

    def _try(self, cls: int, node: int, preferred: Mapping[int, int]) -> None:
        """Lets a class take a node where that makes the whole cheaper and keeps it acyclic."""
        space, choice, position = self.space, self.choice, self.position
        total, old, here = self.total, choice[cls], position[cls]
        if self._frees_nothing(old, node) and space.costs[node] >= space.costs[old]:
            return
        added = self._cone(node, cls, here, preferred)
        if added is None:
            return
        saved = [choice[new] for new, _ in added]
        for new, chosen in added:
            choice[new] = chosen
        for part in space.children[node]:
            self._use(part)
        self.total += space.costs[node] - space.costs[old]
        choice[cls] = node
        for part in space.children[old]:
            self._free(part)
        if self.total < total * _LESS:
            # What came in stands right after what it uses, as far before this class as can be.
            for new, chosen in added:
                low = max((position[part] for part in space.children[chosen]), default=-2.0)
                position[new] = low + min(1.0, here - low) * 1e-4
            return
        for part in space.children[old]:
            self._use(part)
        choice[cls] = old
        for part in space.children[node]:
            self._free(part)
        for (new, _), chosen in zip(added, saved, strict=True):
            choice[new] = chosen
        self.total = total

    def _frees_nothing(self, old: int, node: int) -> bool:
        """Whether all operands of the one node stay in use when the other takes its place."""
        kept, parts = self.space.children[node], self.space.children[old]
        return all(self.uses[part] > parts.count(part) or part in kept for part in parts)

    def _cone(self, node: int, cls: int, here: float, preferred: Mapping[int, int]) -> list[tuple[int, int]] | None:
        """The classes that taking a node brings in, parts before wholes, with their nodes; None where that could close a cycle:
        where it meets the class itself, or one that is not known to come before it."""
        children, default, uses, position = self.space.children, self.space.default, self.uses, self.position
        brought: dict[int, int] = {}
        ordered: list[tuple[int, int]] = []
        stack: list[tuple[int, bool]] = [(part, False) for part in children[node]]
        open_: set[int] = set()
        while stack:
            top, done = stack.pop()
            if done:
                open_.discard(top)
                ordered.append((top, brought[top]))
                continue
            if top == cls or top in open_:
                return None
            if top in brought:
                continue
            if uses[top]:
                if position[top] >= here:
                    return None
                continue
            brought[top] = preferred.get(top, default[top])
            open_.add(top)
            stack.append((top, True))
            stack.extend((part, False) for part in children[brought[top]])
        return ordered
