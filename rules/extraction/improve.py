"""A choice of nodes as a program with shared parts: the cheapest trees first, in each class the node whose tree costs least, then its
improvement, one class at a time, priced by what a change adds and frees."""

import math
from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

from passat.rules.extraction.space import LESS, Space

PATIENCE: Final = 50
"""How often each node may be looked at, on average, until classes are settled in the order of their costs, which takes each node once, but
for a heap. Large classes that are made of themselves are looked at again after each of their nodes."""


def cheapest_trees(space: Space) -> dict[int, int]:
    """The cheapest node of each class where there is a choice, starting from a default that is a program whose parts come before wholes."""
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
    # In the order of depth a change of cost passes through the classes above it once, not once for each path.
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


def trees_from_leaves(space: Space) -> dict[int, int]:
    """The cheapest node of each class that has a finite tree, whatever the default: classes are settled in the order of their costs, as in
    Knuth's generalization of Dijkstra's algorithm (1977). Costs are not negative."""
    classes, children, costs = space.classes, space.children, space.costs
    total: dict[int, float] = {}
    choice: dict[int, int] = {}
    users: list[list[int]] = [[] for _ in classes]
    missing: list[int] = []
    ready: list[tuple[float, int]] = []
    for node, parts in enumerate(children):
        distinct = set(parts)
        missing.append(len(distinct))
        for part in distinct:
            users[part].append(node)
        if not parts:
            ready.append((costs[node], node))
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
                heappush(ready, (costs[user] + sum([total[part] for part in children[user]]), user))
    return choice


SWEEPS: Final = 4
"""Sweeps over the classes in which there is a choice."""


class _Undo(NamedTuple):
    """What a class had chosen before, and what the classes had that came in."""

    old: int
    saved: list[tuple[int, int]]


class Solution:
    """A choice, with the number of uses of each class in it, so that a change is priced by what it adds and what it frees."""

    def __init__(self, space: Space, choice: list[int], order: Sequence[int], roots: Sequence[int], position: list[float]) -> None:
        """`order` has all classes that the roots need, parts before wholes; `position` is where a class stands in it. What is computed
        from nothing stands before all else, wherever the program first names it: weights of several products, which one product takes."""
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
        """What biases cost more that are not taken along, by the class that they are added to; part of the total."""
        for cls in space.biased:
            self._recount(cls)

    @staticmethod
    def of_input(space: Space, roots: Sequence[int]) -> "Solution":
        """The program that went in."""
        # The smallest nodes of classes are in the order in which they were made, parts before wholes.
        order = range(len(space.default))
        return Solution(space, space.default.copy(), order, roots, list(map(float, order)))

    @staticmethod
    def of_choice(space: Space, chosen: Mapping[int, int], roots: Sequence[int]) -> "Solution | None":
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
        return Solution(space, choice, order, roots, position)

    def in_order(self) -> dict[int, int]:
        """The classes of the solution with their nodes, parts before wholes."""
        used = [cls for cls, count in enumerate(self.uses) if count]
        used.sort(key=self.position.__getitem__)
        return {cls: self.choice[cls] for cls in used}

    def _recount(self, cls: int) -> None:
        """Brings up to date what biases on a class cost more."""
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
        """Brings up to date what biases cost more where a class has taken another of its nodes."""
        biased, children = self.space.biased, self.space.children
        for part in (cls, *(part for node in nodes for part in children[node])):
            if part in biased:
                self._recount(part)

    def improve(self, preferred: Mapping[int, int], groups: Sequence[Sequence[tuple[int, int]]] = (), *, ties: bool = False) -> None:
        """Tries each alternative of each class, and each group of choices at once, and keeps what makes the whole cheaper, until nothing
        does. `preferred` is what classes outside the solution come in with. With `ties` classes also take what they prefer where that
        costs the same: of two changes that pay together, one may."""
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

    def alternatives(self, preferred: Mapping[int, int]) -> int:
        """At how many classes of the solution another node could be taken, as far as can be told without a search."""
        return sum(
            any(node != self.choice[cls] and self._cone(node, cls, self.position[cls], preferred) is not None for node in nodes)
            for cls, nodes in self.space.alternatives.items()
            if self.uses[cls] and len(nodes) > 1
        )

    def difference(self, cls: int, node: int, preferred: Mapping[int, int]) -> float | None:
        """What it adds to the total if a class of the solution takes another node, what is freed taken off; None where that might close a
        cycle. The solution stays as it is."""
        total = self.total
        undo = self._take(cls, node, preferred)
        if undo is None:
            return None
        added = self.total - total
        self._put_back(cls, node, undo)
        self.total = total
        return added

    def _try(self, cls: int, node: int, preferred: Mapping[int, int], *, tie: bool) -> None:
        """Lets a class take a node where that makes the whole cheaper, or no dearer for a `tie`, and keeps it acyclic."""
        if not tie and self.space.costs[node] >= self.space.costs[self.choice[cls]] and self._frees_nothing(self.choice[cls], node):
            return
        total = self.total
        undo = self._take(cls, node, preferred)
        if undo is not None and not (self.total < total * LESS or (tie and self.total <= total / LESS)):
            self._put_back(cls, node, undo)
            self.total = total

    def _try_together(self, group: Sequence[tuple[int, int]], preferred: Mapping[int, int]) -> None:
        """Lets classes take nodes where that makes the whole cheaper if all of them do."""
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
        """Lets a class take a node, and what it needs come in. Returns what undoes it; None, and nothing done, where that might close a
        cycle."""
        space, choice, position = self.space, self.choice, self.position
        old, here = choice[cls], position[cls]
        added = self._cone(node, cls, here, preferred)
        if added is None:
            return None
        saved = [(new, choice[new]) for new, _ in added]
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
        # What came in stands right after what it uses, as far before this class as can be.
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
        for new, chosen in undo.saved:
            self.choice[new] = chosen
        if self.space.biased:
            self._recount_around(cls, node, undo.old)

    def _frees_nothing(self, old: int, node: int) -> bool:
        """Whether all operands of the one node stay in use when the other takes its place, and no bias may be taken along then."""
        kept, parts, biased = self.space.children[node], self.space.children[old], self.space.biased
        return all((self.uses[part] > parts.count(part) and part not in biased) or part in kept for part in parts)

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
