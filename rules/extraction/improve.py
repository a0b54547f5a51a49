"""Extraction by DAG cost: starts from the cheapest trees (per e-class, the node with the lowest tree cost), then improves one e-class at a
time by the cost that a change adds and frees."""

import math
from collections.abc import Callable, Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from passat.rules.extraction.space import LESS, Space

PATIENCE: Final = 50
"""Average number of visits per node before e-classes are settled in order of cost, which visits each node once but needs a heap. Large
cyclic e-classes are revisited after each of their nodes."""


def cheapest_trees(space: Space) -> dict[int, int]:
    """The cheapest node of each e-class with a choice, starting from a default program in topological order."""
    classes, children, costs, default, alternatives = space.classes, space.children, space.costs, space.default, space.alternatives
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
    # Visiting nodes by depth propagates a change of cost to each user once, not once per path.
    work: list[list[int]] = [[] for _ in range(max(level) + 1)]
    waiting = bytearray(len(classes))
    for cls in alternatives:
        work[level[cls]].append(cls)
        waiting[cls] = 1
    here = looked_at = 0
    while here < len(work):
        if not work[here]:
            here += 1
            continue
        cls = work[here].pop()
        waiting[cls] = 0
        best, chosen = total[cls] * LESS, -1
        nodes = alternatives.get(cls) or (cls,)
        looked_at += len(nodes)
        if looked_at > PATIENCE * len(classes):
            return {cls: node for cls, node in trees_from_leaves(space).items() if cls in alternatives}
        for node in nodes:
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


def trees_from_leaves(space: Space, uses: Sequence[int] | None = None, free: Sequence[int] = ()) -> dict[int, int]:
    """The cheapest node of each e-class that has a finite tree, without a default. Settles e-classes in order of cost, as in Knuth's
    generalization of Dijkstra's algorithm (1977). Costs must not be negative. With the use counts of a solution, each use of an e-class
    bears an equal share of its cost. E-classes whose number in `free` is not 0 cost nothing, and get no tree."""
    classes, children, costs = space.classes, space.children, space.costs
    share = [1 / max(count, 1) for count in uses] if uses else [1.0] * len(classes)
    total = {cls: 0.0 for cls, count in enumerate(free) if count}
    choice: dict[int, int] = {}
    users: list[list[int]] = [[] for _ in classes]
    missing: list[int] = []
    ready: list[tuple[float, int]] = []
    for node, parts in enumerate(children):
        if free and free[classes[node]]:
            missing.append(0)
            continue
        distinct = {part for part in parts if not free[part]} if free else set(parts)
        missing.append(len(distinct))
        for part in distinct:
            users[part].append(node)
        if not distinct:
            ready.append((costs[node] * share[classes[node]], node))
    heapify(ready)
    while ready:
        tree, node = heappop(ready)
        cls = classes[node]
        if cls in total:
            continue
        total[cls] = tree
        choice[cls] = node
        for user in users[cls]:
            missing[user] -= 1
            if not missing[user] and classes[user] not in total:
                tree = costs[user] + sum([total[part] for part in children[user]])
                heappush(ready, (tree * share[classes[user]], user))
    return choice


SWEEPS: Final = 4
"""Number of sweeps over the e-classes with a choice."""


class _Undo(NamedTuple):
    """The previous choice of an e-class, and those of the e-classes that the change brought in, with their positions: an earlier change of
    a group may have freed them, and is undone as well."""

    old: int
    saved: list[tuple[int, int, float]]


class Solution:
    """A choice with the use count of each e-class, so that a change is priced by what it adds and frees."""

    def __init__(self, space: Space, choice: list[int], order: Sequence[int], roots: Sequence[int], position: list[float]) -> None:
        """`order` has all e-classes that the roots need, operands first; `position` is the position of an e-class in it. E-classes without
        operands come first, regardless of their position in the program, so that one product can use the weights of several."""
        self.space = space
        self.choice = choice
        self.position = position
        children, costs = space.children, space.costs
        for cls in order:
            if not children[choice[cls]]:
                position[cls] = -1.0
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
        self._apart: dict[int, float] = {}
        """The extra cost of unfused biases, by the e-class that they are added to; part of the total."""
        for cls in space.biased:
            self._recount(cls)

    @staticmethod
    def of_input(space: Space, roots: Sequence[int]) -> "Solution":
        """The input program."""
        # The smallest nodes of e-classes are in creation order, operands first.
        order = range(len(space.default))
        return Solution(space, space.default.copy(), order, roots, list(map(float, order)))

    @staticmethod
    def of_choice(space: Space, chosen: Mapping[int, int], roots: Sequence[int]) -> "Solution | None":
        """The program of a choice; None if it has a cycle."""
        choice, children = space.default.copy(), space.children
        for cls, node in chosen.items():
            choice[cls] = node
        order: list[int] = []
        state = bytearray(len(choice))  # 1: its operands are being visited; 2: it is in the order
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
        return Solution(space, choice, order, roots, position)

    def sharing(self) -> list[list[tuple[int, int]]]:
        """Joint changes that share a new operand, such as a sum of two masks that each layer adds: alone, none of them saves anything."""
        space, uses = self.space, self.uses
        users: dict[int, dict[int, int]] = {}
        for cls, nodes in space.alternatives.items():
            if uses[cls]:
                for node in nodes:
                    for part in space.children[node]:
                        if not uses[part]:
                            users.setdefault(part, {}).setdefault(cls, node)
        return [list(group.items()) for group in users.values() if len(group) > 1]

    def in_order(self) -> dict[int, int]:
        """The e-classes of the solution with their nodes, operands first."""
        used = [cls for cls, count in enumerate(self.uses) if count]
        used.sort(key=self.position.__getitem__)
        return {cls: self.choice[cls] for cls in used}

    def _recount(self, cls: int) -> None:
        """Updates the extra cost of the biases on an e-class."""
        space, uses, choice = self.space, self.uses, self.choice
        apart = 0.0
        for node in space.biased[cls]:
            own = space.classes[node]
            if uses[own] and choice[own] == node:
                bias = space.biases[node]
                if uses[cls] > 1 or choice[cls] not in bias.takers:
                    apart += bias.apart
        self.total += apart - self._apart.get(cls, 0.0)
        self._apart[cls] = apart

    def _use(self, cls: int) -> None:
        uses, choice, children, costs = self.uses, self.choice, self.space.children, self.space.costs
        biased = self.space.biased
        stack = [cls]
        while stack:
            top = stack.pop()
            uses[top] += 1
            if uses[top] == 1:
                self.total += costs[choice[top]]
                stack.extend(children[choice[top]])
            if top in biased:
                self._recount(top)

    def _free(self, cls: int) -> None:
        uses, choice, children, costs = self.uses, self.choice, self.space.children, self.space.costs
        biased = self.space.biased
        stack = [cls]
        while stack:
            top = stack.pop()
            uses[top] -= 1
            if not uses[top]:
                self.total -= costs[choice[top]]
                stack.extend(children[choice[top]])
            if top in biased:
                self._recount(top)

    def _recount_around(self, cls: int, *nodes: int) -> None:
        """Updates the extra cost of biases after an e-class changed its node."""
        biased, children = self.space.biased, self.space.children
        for part in (cls, *(part for node in nodes for part in children[node])):
            if part in biased:
                self._recount(part)

    def improve(self, preferred: Mapping[int, int], groups: Sequence[Sequence[tuple[int, int]]] = (), *, ties: bool = False) -> None:
        """Tries each alternative of each e-class, and each group of joint choices, and keeps improvements, until a fixpoint. `preferred`
        has the nodes that e-classes outside the solution get if a change brings them in. With `ties`, e-classes also take a preferred node
        of equal cost, which may enable a later improvement."""
        uses, choice = self.uses, self.choice
        for _ in range(SWEEPS):
            before = self.total
            for group in groups:
                self._try_together(group, preferred)
            for cls, nodes in self.space.alternatives.items():
                if uses[cls] and len(nodes) > 1:
                    for node in nodes:
                        if uses[cls] and node != choice[cls]:
                            self._try(cls, node, preferred, tie=ties and preferred.get(cls) == node)
            if not self.total < before * LESS:
                return

    def improve_with(self, trees: Callable[[], Mapping[int, int]], groups: Sequence[Sequence[tuple[int, int]]]) -> None:
        """Improves with trees that depend on the solution as preferred nodes, until a fixpoint."""
        for _ in range(SWEEPS):
            before = self.total
            self.improve(trees(), groups)
            if not self.total < before * LESS:
                return

    def shared_trees(self) -> dict[int, int]:
        """The cheapest trees of shared costs. Where values have many uses, such as the sums of residual blocks, the cheapest trees by
        themselves compute each value anew for each use."""
        return trees_from_leaves(self.space, self.uses)

    def additions(self) -> dict[int, int]:
        """The cheapest additions to the solution: trees in which its e-classes are free. The cheapest trees by themselves may compute
        another form of a value that the solution has."""
        return trees_from_leaves(self.space, free=self.uses)

    def alternatives(self, preferred: Mapping[int, int]) -> int:
        """The number of e-classes of the solution with an alternative, as far as known without a search."""
        return sum(
            any(node != self.choice[cls] and self._cone(node, cls, self.position[cls], preferred) is not None for node in nodes)
            for cls, nodes in self.space.alternatives.items()
            if self.uses[cls] and len(nodes) > 1
        )

    def difference(self, cls: int, node: int, preferred: Mapping[int, int]) -> float | None:
        """The change of the total if an e-class takes another node; None if that might close a cycle. Does not modify the solution."""
        total = self.total
        undo = self._take(cls, node, preferred)
        if undo is None:
            return None
        added = self.total - total
        self._put_back(cls, node, undo)
        self.total = total
        return added

    def _try(self, cls: int, node: int, preferred: Mapping[int, int], *, tie: bool) -> None:
        """Changes the node of an e-class if the total decreases, or stays equal for a `tie`, and no cycle arises."""
        if not tie and self.space.costs[node] >= self.space.costs[self.choice[cls]] and self._frees_nothing(self.choice[cls], node):
            return
        total = self.total
        undo = self._take(cls, node, preferred)
        if undo is not None and not (self.total < total * LESS or (tie and self.total <= total / LESS)):
            self._put_back(cls, node, undo)
            self.total = total

    def share(self, preferred: Mapping[int, int]) -> bool:
        """Tries the joint changes of `sharing`, which are many, once. Returns True if one of them saves something."""
        before = self.total
        for group in self.sharing():
            self._try_together(group, preferred)
        return self.total < before * LESS

    def _try_together(self, group: Sequence[tuple[int, int]], preferred: Mapping[int, int]) -> None:
        """Changes the nodes of several e-classes jointly if the total decreases."""
        total = self.total
        done: list[tuple[int, int, _Undo]] = []
        for cls, node in group:
            if not self.uses[cls] or self.choice[cls] == node:
                continue
            undo = self._take(cls, node, preferred)
            if undo is None:
                break
            done.append((cls, node, undo))
        else:
            if self.total < total * LESS:
                return
        for cls, node, undo in reversed(done):
            self._put_back(cls, node, undo)
        self.total = total

    def _take(self, cls: int, node: int, preferred: Mapping[int, int]) -> "_Undo | None":
        """Changes the node of an e-class and brings in what it needs. Returns the undo record; None, without a change, if that might close
        a cycle."""
        space, choice, position = self.space, self.choice, self.position
        old, here = choice[cls], position[cls]
        added = self._cone(node, cls, here, preferred)
        if added is None:
            return None
        saved = [(new, choice[new], position[new]) for new, _ in added]
        for new, chosen in added:
            choice[new] = chosen
        for part in space.children[node]:
            self._use(part)
        self.total += space.costs[node] - space.costs[old]
        choice[cls] = node
        for part in space.children[old]:
            self._free(part)
        if space.biased:
            self._recount_around(cls, node, old)
        # New e-classes go right after their operands, as early as possible.
        for new, chosen in added:
            low = max((position[part] for part in space.children[chosen]), default=-2.0)
            position[new] = low + min(1.0, here - low) * 1e-4
        return _Undo(old, saved)

    def _put_back(self, cls: int, node: int, undo: "_Undo") -> None:
        for part in self.space.children[undo.old]:
            self._use(part)
        self.choice[cls] = undo.old
        for part in self.space.children[node]:
            self._free(part)
        for new, chosen, place in undo.saved:
            self.choice[new] = chosen
            self.position[new] = place
        if self.space.biased:
            self._recount_around(cls, node, undo.old)

    def _frees_nothing(self, old: int, node: int) -> bool:
        """True if replacing one node by the other frees none of its operands and enables no bias fusion."""
        kept, parts, biased = self.space.children[node], self.space.children[old], self.space.biased
        return all((self.uses[part] > parts.count(part) and part not in biased) or part in kept for part in parts)

    def _cone(self, node: int, cls: int, here: float, preferred: Mapping[int, int]) -> list[tuple[int, int]] | None:
        """The e-classes that a change to a node brings in, operands first, with their nodes. None if the change might close a cycle, by
        reaching the e-class itself or one that is not known to precede it."""
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
