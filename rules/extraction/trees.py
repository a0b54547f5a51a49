"""The cheapest trees: in each class the node whose tree costs least, shared parts counted each time they are used."""

import math
from heapq import heapify, heappop, heappush
from typing import Final

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
    Knuth's generalisation of Dijkstra's algorithm (1977). Costs are not negative."""
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
