"""Plans the storage of a graph's values, as TVM's GraphPlanMemory does: values whose lives do not overlap share storage."""

import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal

RANGE: Final = 16
"""A value reuses storage that is at most this many times larger or smaller."""


@dataclass(frozen=True)
class PlannedNode:
    """A node: the values that it reads, as pairs of node and index, and the sizes of its results in bytes.

    `fixed` nodes are inputs and constants, whose storage is never shared. The result of a `view` has the storage of its first input.
    """

    inputs: Sequence[tuple[int, int]]
    sizes: Sequence[int]
    kind: Literal["fixed", "computed", "view"] = "computed"


@dataclass(frozen=True)
class MemoryPlan:
    """The storage of each result, by node, and the size of each storage in bytes."""

    storage_ids: Sequence[Sequence[int]]
    sizes: Sequence[int]


def plan_memory(nodes: Sequence[PlannedNode], heads: Sequence[tuple[int, int]]) -> MemoryPlan:
    """Plans the storage of nodes in execution order; `heads` are the results of the graph, which live to the end.

    Results get their storage before that of the inputs is released, so no function works in place.

    >>> chain = [PlannedNode([], [40], "fixed"), *(PlannedNode([(i, 0)], [40]) for i in range(4))]
    >>> plan_memory(chain, [(4, 0)]).storage_ids
    [[0], [1], [2], [1], [2]]
    """
    return _Planner(nodes, heads).run()


class _Planner:
    def __init__(self, nodes: Sequence[PlannedNode], heads: Sequence[tuple[int, int]]) -> None:
        self._nodes = nodes
        self._ids: list[list[int]] = []
        self._sizes: list[int] = []
        self._uses: list[int] = []
        """The uses of each storage that are still to come."""
        self._free: list[tuple[int, int]] = []
        """Sizes and numbers of free storages, sorted."""
        self._readers: list[list[int]] = [[0] * len(node.sizes) for node in nodes]
        for number, index in [*(read for node in nodes for read in node.inputs), *heads]:
            self._readers[number][index] += 1

    def run(self) -> MemoryPlan:
        for number, node in enumerate(self._nodes):
            readers = self._readers[number]
            if node.kind == "view":
                above, index = node.inputs[0]
                storage = self._ids[above][index]
                self._uses[storage] += readers[0]
                ids = [storage]
            else:
                take = self._new if node.kind == "fixed" else self._request
                ids = [take(size) for size in node.sizes]
                for storage, count in zip(ids, readers, strict=True):
                    self._uses[storage] = count + (node.kind == "fixed")
            self._ids.append(ids)
            for storage in ids:
                self._release(storage)
            for above, index in node.inputs:
                storage = self._ids[above][index]
                self._uses[storage] -= 1
                self._release(storage)
        return MemoryPlan(self._ids, self._sizes)

    def _new(self, size: int) -> int:
        self._sizes.append(size)
        self._uses.append(0)
        return len(self._sizes) - 1

    def _request(self, size: int) -> int:
        """A free storage: the smallest that is large enough, else the largest, which grows; a new one where none is near in size."""
        free = self._free
        at = bisect.bisect_left(free, (size, -1))
        if at < len(free) and free[at][0] <= size * RANGE:
            return free.pop(at)[1]
        if at > 0 and free[at - 1][0] >= size / RANGE:
            storage = free.pop(at - 1)[1]
            self._sizes[storage] = size
            return storage
        return self._new(size)

    def _release(self, storage: int) -> None:
        entry = (self._sizes[storage], storage)
        if self._uses[storage] == 0:
            at = bisect.bisect_left(self._free, entry)
            if at == len(self._free) or self._free[at] != entry:
                self._free.insert(at, entry)
