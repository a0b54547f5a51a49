"""Common parts of sums and products: operands that several of them have, in any order and grouping.

A chain is a tree of calls of one operator with two operands, such as `(a + b) + (c + d)`, whose inner calls have no other uses. A joining
rule that regroups (`Reassociate.grouped`) makes a part of a chain, such as `a + d`, only if that brings two operands together which another
chain has, too. In a program whose chains have no two operands in common, it makes nothing.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, combinations
from typing import Final

from passat.rules.engine.graph import Graph
from passat.rules.engine.symbols import Symbol

MOST: Final = 6
"""Maximum number of operands of a chain and of a part: the number of parts is exponential."""
PARTS: Final = 64
"""Maximum number of parts that are made for one operator. With twice as many, sixty sums of six of ten tensors take half as long again, and
have as many calls."""


class CommonParts:
    """The chains of the program that a graph was loaded from which have two operands that another chain has, too."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._shared: dict[Symbol, frozenset[tuple[int, int]]] = {}
        """The pairs of operands that several chains have."""
        self._operands: dict[int, tuple[int, ...]] = {}
        """The operands of inner calls of chains, and of the parts that were made."""
        self._long: set[int] = set()
        """The calls that combine more operands than a chain may have."""
        self._made: set[int] = set()
        self._count = Counter[Symbol]()
        self._choices: dict[int, dict[int, int]] = {}
        """The nodes that e-classes may be, each by the part that it uses."""

    def make(self, head: Symbol, parts: tuple[int, ...], root: int) -> int | None:
        """The node of a part of a chain, whose calls include `root`. None unless the part brings two operands together that another chain
        has, too."""
        shared = self._shared.get(head)
        if shared is None:
            shared = self._shared[head] = self._find(head)
        if not shared or root in self._long:
            return None
        graph = self._graph
        left, right = (self._operands.get(part, (part,)) for part in map(graph.find, parts))
        if len(left) + len(right) > MOST or not any((min(a, b), max(a, b)) in shared for a in left for b in right):
            return None
        found = graph.there(head, 0, parts)
        if found is not None or self._count[head] == PARTS:
            return found
        self._count[head] += 1
        made = graph.make(head, 0, parts)
        self._operands.setdefault(made, (*left, *right))
        self._made.add(made)
        return made

    def use(self, part: int, root: int, node: int) -> None:
        """Records that a node of the e-class `root` uses a part."""
        self._choices.setdefault(root, {}).setdefault(part, node)

    def together(self) -> list[list[tuple[int, int]]]:
        """Choices that pay only together: for each part, those that lead to it in all chains."""
        find = self._graph.find
        made = set(map(find, self._made))
        users: dict[int, dict[int, int]] = {}
        for root, uses in self._choices.items():
            for part, node in uses.items():
                users.setdefault(find(part), {})[find(root)] = node
        groups = [list(_leading_to(part, users, made).items()) for part in users]
        return [group for group in groups if len(group) > 1]

    def _find(self, head: Symbol) -> frozenset[tuple[int, int]]:
        graph = self._graph
        calls = {node: graph.operands[node] for node, each in enumerate(graph.symbols) if each is head and graph.origins[node] is not None}
        program = (parts for parts, origin in zip(graph.operands, graph.origins, strict=True) if origin is not None)
        inner = _used_once(program, {part for parts in calls.values() for part in parts if part in calls}, calls)
        pairs = Counter[tuple[int, int]]()
        for node, parts in calls.items():  # operands come first
            operands = tuple(chain.from_iterable(self._operands.get(part, (part,)) for part in parts))
            if len(operands) > MOST or any(part in inner and part in self._long for part in parts):
                self._long.add(node)
            elif node in inner:
                self._operands[node] = operands
            else:
                pairs.update({*combinations(sorted(operands), 2)})
        return frozenset(pair for pair, count in pairs.items() if count > 1)


def _used_once(operands: Iterable[Sequence[int]], nodes: set[int], calls: dict[int, tuple[int, ...]]) -> set[int]:
    """The nodes with one use, by one of the calls."""
    uses = Counter(part for parts in operands for part in parts if part in nodes) if nodes else Counter[int]()
    within = Counter(part for parts in calls.values() for part in parts if part in nodes)
    return {node for node in nodes if uses[node] == within[node] == 1}


def _leading_to(part: int, users: Mapping[int, Mapping[int, int]], made: set[int]) -> dict[int, int]:
    """The nodes that e-classes must be so that each chain uses a part, over as few parts between as possible."""
    towards: dict[int, tuple[int, int]] = {}
    reached = [part]
    for below in reached:
        for root, node in users.get(below, {}).items():
            if root != part and root not in towards:
                towards[root] = (node, below)
                reached.append(root)
    found: dict[int, int] = {}
    for root in reached[1:]:
        if root not in made:
            while root != part:
                found[root], root = towards[root]  # noqa: PLW2901
    return found
