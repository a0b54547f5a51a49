"""Taking the best program out of a saturated graph: a worklist over tree costs, then improvement of the cost as a DAG.

The program that went in is always one of the candidates: the smallest node of each class. So the result is never dearer than it.
"""

import heapq
import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from passat.ir.op import Op
from passat.rules.cost import EPSILON, CostModel
from passat.rules.graph import CALL, CONST, LEAF, Graph

_SWEEPS = 4


class Extraction(NamedTuple):
    """A choice of one node for each class that the roots need, in an order that has parts before wholes, its cost, and the cost of what
    went in."""

    choice: dict[int, int]
    cost: float
    input_cost: float


def extract(graph: Graph, roots: Sequence[int], members: Mapping[int, Sequence[int]], model: CostModel) -> Extraction:
    """The cheapest program found for `roots`. `members` lists the nodes of each class that has more than one."""
    extractor = _Extractor(graph, members, model)
    classes = [graph.find(root) for root in roots]
    best = start = _Solution(extractor, {}, classes)
    input_cost = start.total
    if extractor.alternatives:
        greedy = extractor.worklist()
        start.improve(greedy)
        other = _Solution(extractor, greedy, classes)
        if other.total < start.total * (1 - 1e-12) and other.order():
            other.improve(greedy)
            best = other
    return Extraction({cls: best.node(cls) for cls in best.classes()}, best.total, input_cost)


class _Extractor:
    """Operands as classes, costs of nodes, and the classes where there is something to choose."""

    def __init__(self, graph: Graph, members: Mapping[int, Sequence[int]], model: CostModel) -> None:
        self.graph = graph
        self.model = model
        self.alternatives: dict[int, list[int]] = {}
        self._children: dict[int, tuple[int, ...]] = {}
        self._costs: dict[int, float] = {}
        self._prices: dict[tuple[object, ...], float] = {}
        self._constant: dict[int, bool] = {}
        for cls, nodes in sorted(members.items()):
            if graph.find(cls) == cls:
                distinct = {self._identity(node): node for node in sorted(nodes, reverse=True)}
                kept = sorted(distinct.values())
                constant = [node for node in kept if graph.symbols[node].kind == CONST]
                self.alternatives[cls] = constant[:1] or kept

    def _identity(self, node: int) -> tuple[object, ...]:
        return (self.graph.symbols[node], self.graph.payloads[node], self.children(node))

    def children(self, node: int) -> tuple[int, ...]:
        """The classes of a node's operands."""
        found = self._children.get(node)
        if found is None:
            graph = self.graph
            classes = graph.classes
            found = graph.operands[node]
            for operand in found:
                if classes[operand] != operand:
                    found = tuple([graph.find(operand) for operand in found])
                    break
            self._children[node] = found
        return found

    def default(self, cls: int) -> int:
        """The node that a class has where nobody chose: its constant, or its smallest node."""
        nodes = self.alternatives.get(cls)
        return nodes[0] if nodes is not None else cls

    def is_constant(self, cls: int) -> bool:
        """Whether the class is computed from constants alone (as the program that went in has it)."""
        known = self._constant
        found = known.get(cls)
        if found is not None:
            return found
        graph = self.graph
        stack = [cls]
        while stack:
            top = stack[-1]
            if top in known:
                stack.pop()
                continue
            node = self.default(top)
            symbol = graph.symbols[node]
            if top in graph.constants or symbol.kind in (CONST, LEAF) or (symbol.op is not None and symbol.op.stateful):
                known[top] = top in graph.constants or symbol.kind == CONST
                continue
            parts = self.children(node)
            missing = [part for part in parts if part not in known and part < top]
            if missing:
                stack.extend(missing)
            else:
                known[top] = bool(parts) and all(known.get(part, False) for part in parts)
        return known[cls]

    def cost(self, node: int) -> float:
        """What a node itself costs; nothing to speak of where it is no call, or a call on constants alone."""
        found = self._costs.get(node)
        if found is None:
            graph = self.graph
            symbol = graph.symbols[node]
            found = EPSILON
            if symbol.kind == CALL and symbol.op is not None:
                parts = self.children(node)
                for part in parts:
                    if not self.is_constant(part):
                        found = self._price(node, symbol.op, parts)
                        break
                else:
                    if not parts or symbol.op.stateful:
                        found = self._price(node, symbol.op, parts)
            self._costs[node] = found
        return found

    def _price(self, node: int, op: Op, parts: Sequence[int]) -> float:
        """The cost of a call by the model, asked once for each operator on the same types (which are kept alive by the graph)."""
        graph = self.graph
        types = graph.types
        result = types[graph.find(node)]
        key = (op, graph.payloads[node], id(result), *[id(types[part]) for part in parts])
        found = self._prices.get(key)
        if found is None:
            found = self.model.call(op, [types[part] for part in parts], result, graph.attrs[graph.payloads[node]])
            if not (math.isfinite(found) and found > 0):
                raise ValueError(f"the cost model gave {found} for {op.name}; costs are positive and finite")
            self._prices[key] = found
        return found

    def worklist(self) -> dict[int, int]:
        """The cheapest node of each class where there is a choice, by the cost of trees (shared parts counted each time)."""
        graph, alternatives = self.graph, self.alternatives
        children, cost, find = self.children, self.cost, graph.classes
        total: list[float] = [math.inf] * len(graph)
        level: list[int] = [0] * len(graph)
        choice: dict[int, int] = {}
        users: dict[int, list[int]] = {}
        for node in range(len(graph)):
            cls = find[node] if find[node] == node else graph.find(node)
            if cls != node and cls not in alternatives:
                continue
            parts = children(node)
            for part in parts:
                found = users.get(part)
                if found is None:
                    users[part] = [cls]
                else:
                    found.append(cls)
            if cls == node:
                first = self.default(cls)
                if first != node:
                    parts = children(first)
                tree, deepest = cost(first), 0
                for part in parts:
                    tree += total[part]
                    deepest = max(deepest, level[part])
                total[cls] = tree
                level[cls] = deepest + 1
        # In the order of depth a change of cost passes through the classes above it once, not once for each path.
        work = [(level[cls], cls) for cls in alternatives]
        heapq.heapify(work)
        waiting = set(alternatives)
        while work:
            _, cls = heapq.heappop(work)
            waiting.discard(cls)
            best, chosen = total[cls] * (1 - 1e-12), -1
            for node in alternatives.get(cls, (cls,)):
                tree = cost(node)
                for part in children(node):
                    tree += total[part]
                if tree < best:
                    best, chosen = tree, node
            if chosen >= 0:
                total[cls] = best
                if cls in alternatives:
                    choice[cls] = chosen
                for user in users.get(cls, ()):
                    if user not in waiting:
                        waiting.add(user)
                        heapq.heappush(work, (level[user], user))
        return choice


class _Solution:
    """A choice, with the number of uses of each class in it, so that a change is priced by what it adds and what it frees."""

    def __init__(self, extractor: _Extractor, choice: dict[int, int], roots: Sequence[int]) -> None:
        self.extractor = extractor
        self.choice = dict(choice)
        self.uses: dict[int, int] = {}
        self.total = 0.0
        # The smallest nodes of classes are in the order in which they were made, parts before wholes.
        self._position: dict[int, float] = {} if choice else {cls: float(cls) for cls in range(len(extractor.graph))}
        for root in roots:
            self._use(root)

    def node(self, cls: int) -> int:
        """The node chosen for a class."""
        found = self.choice.get(cls)
        return self.extractor.default(cls) if found is None else found

    def classes(self) -> list[int]:
        """The classes of the solution, parts before wholes."""
        return sorted(self.uses, key=self._position.__getitem__)

    def _use(self, cls: int) -> None:
        uses, stack, extractor = self.uses, [cls], self.extractor
        total = self.total
        while stack:
            top = stack.pop()
            count = uses.get(top, 0)
            uses[top] = count + 1
            if not count:
                node = self.node(top)
                total += extractor.cost(node)
                stack.extend(extractor.children(node))
        self.total = total

    def _free(self, cls: int) -> None:
        uses, stack = self.uses, [cls]
        while stack:
            top = stack.pop()
            uses[top] -= 1
            if not uses[top]:
                del uses[top]
                node = self.node(top)
                self.total -= self.extractor.cost(node)
                stack.extend(self.extractor.children(node))

    def order(self) -> bool:
        """Orders the classes, parts before wholes; false where the choice has a cycle and is no program."""
        position: dict[int, float] = {}
        state: dict[int, int] = {}
        for root in list(self.uses):
            stack = [root]
            while stack:
                top = stack[-1]
                if state.get(top) == 2:
                    stack.pop()
                elif state.get(top) == 1:
                    state[top] = 2
                    position[top] = float(len(position))
                    stack.pop()
                else:
                    state[top] = 1
                    for part in self.extractor.children(self.node(top)):
                        if state.get(part) == 1:
                            return False
                        if part not in state:
                            stack.append(part)
        self._position = position
        return True

    def improve(self, preferred: Mapping[int, int]) -> None:
        """Tries each alternative of each class, and keeps what makes the whole cheaper, until nothing does. `preferred` is what
        classes outside the solution come in with."""
        for _ in range(_SWEEPS):
            before = self.total
            for cls, nodes in self.extractor.alternatives.items():
                if cls in self.uses and len(nodes) > 1:
                    for node in nodes:
                        if cls in self.uses and node != self.node(cls):
                            self._try(cls, node, preferred)
            if not self.total < before * (1 - 1e-12):
                return

    def _try(self, cls: int, node: int, preferred: Mapping[int, int]) -> None:
        """Lets a class take a node where that makes the whole cheaper and keeps it acyclic."""
        extractor = self.extractor
        here = self._position.get(cls)
        if here is None:
            return
        total, old = self.total, self.node(cls)
        added = self._cone(node, cls, here, preferred)
        if added is None:
            return
        saved = {new: self.choice.get(new) for new, _ in added}
        for new, chosen in added:
            self.choice[new] = chosen
        for part in extractor.children(node):
            self._use(part)
        self.total += extractor.cost(node) - extractor.cost(old)
        self.choice[cls] = node
        for part in extractor.children(old):
            self._free(part)
        if self.total < total * (1 - 1e-12):
            # What came in stands right after what it uses, as far before this class as can be.
            for new, chosen in added:
                low = max((self._position[part] for part in extractor.children(chosen)), default=-2.0)
                self._position[new] = low + min(1.0, here - low) * 1e-4
            return
        for part in extractor.children(old):
            self._use(part)
        self.choice[cls] = old
        for part in extractor.children(node):
            self._free(part)
        for new, before in saved.items():
            if before is None:
                del self.choice[new]
            else:
                self.choice[new] = before
        self.total = total

    def _cone(self, node: int, cls: int, here: float, preferred: Mapping[int, int]) -> list[tuple[int, int]] | None:
        """The classes that taking a node brings in, parts before wholes, with their nodes; None where that could close a cycle:
        where it meets the class itself, or one that is not known to come before it."""
        brought: dict[int, int] = {}
        ordered: list[tuple[int, int]] = []
        stack: list[tuple[int, bool]] = [(part, False) for part in self.extractor.children(node)]
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
            if top in self.uses:
                if self._position.get(top, math.inf) >= here:
                    return None
                continue
            brought[top] = preferred.get(top, self.extractor.default(top))
            open_.add(top)
            stack.append((top, True))
            stack.extend((part, False) for part in self.extractor.children(brought[top]))
        return ordered
