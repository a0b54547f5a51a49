"""Which nodes of a dataflow graph are computed together: groups that grow towards post-dominators, in Relay's three phases."""

from collections.abc import Callable, Sequence
from typing import Final

from passat.rules.fusion.dataflow import Dataflow
from passat.rules.fusion.dominators import NOTHING, PostDominators
from passat.rules.fusion.patterns import OpPattern, combine

_ELEMWISE, _BROADCAST, _INJECTIVE = OpPattern.ELEMWISE, OpPattern.BROADCAST, OpPattern.INJECTIVE
_REDUCE, _TAIL, _TUPLE, _OPAQUE = OpPattern.COMM_REDUCE, OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.TUPLE, OpPattern.OPAQUE
_SINKS: Final = frozenset({_ELEMWISE, _BROADCAST, _INJECTIVE, _REDUCE, _TAIL})
"""Kinds of groups that elementwise operators may become part of."""
PHASES: Final = 3


class Groups:
    """The groups of a dataflow graph: sets of nodes, each of which has one node whose value others read, its root.

    A group takes in another, with everything on the ways to it, where the other's root post-dominates its own, and the kinds allow it:

    * phase 0: what follows a product or convolution, as far as that is elementwise; and elementwise operators and broadcasts into what
      follows them, a reduction included, also past injective operators on other ways;
    * phase 1: the same once more, and injective operators into injective ones, with the tuples between them;
    * phase 2: operators that are injective at most into tuples that have become part of such groups.

    A group has at most `max_depth` nodes (`relay.FuseOps.max_depth`), as TVM counts them: constants and tuples too.
    """

    __slots__ = ("_anchored", "_flow", "_kinds", "_levels", "_limit", "_sizes", "_up")

    def __init__(self, flow: Dataflow, max_depth: int) -> None:
        count = len(flow.nodes)
        self._flow = flow
        self._limit = max_depth
        self._up = list(range(count))
        self._kinds: list[OpPattern] = list(flow.kinds)
        self._sizes = [1] * count
        self._anchored = [kind == _TAIL for kind in flow.kinds]
        self._levels = [0] * count
        """Steps of the longest way from each node to where nobody reads on."""

    def fuse(self) -> "Groups":
        """Runs the phases; without this each node is a group. Returns itself."""
        tree = PostDominators(self._flow)
        levels = self._levels
        for number in range(len(levels) - 1, -1, -1):
            levels[number] = max((levels[reader] + 1 for reader, _ in self._flow.readers[number]), default=0)
        for phase in range(PHASES):
            for number, above in enumerate(tree.parents):
                if above != NOTHING and self._kinds[number] != _OPAQUE:
                    self._try(phase, number, above, tree.kinds[number])
        return self

    def root(self, number: int) -> int:
        """The number of the root of a node's group."""
        up = self._up
        top = number
        while up[top] != top:
            top = up[top]
        while up[number] != top:
            up[number], number = top, up[number]
        return top

    def members(self) -> dict[int, list[int]]:
        """The groups: the numbers of their nodes, in order, by the number of the root."""
        found: dict[int, list[int]] = {}
        for number in range(len(self._up)):
            found.setdefault(self.root(number), []).append(number)
        return found

    def _try(self, phase: int, number: int, above: int, edge: OpPattern) -> None:
        """Fuses a node into its post-dominator, where the phase says so and the kinds agree."""
        kind = self._kinds[number]
        top = self.root(above)
        sink = self._kinds[top]
        if phase == 2:
            if kind <= _INJECTIVE and self._kinds[above] == _TUPLE and sink <= _INJECTIVE:
                self._commit(number, above, lambda between: between <= _INJECTIVE)
            return
        if self.root(number) == top or self._kinds[above] == _TUPLE:
            return
        if kind == _TAIL:
            if phase == 0 and edge == _ELEMWISE and sink <= _BROADCAST:
                self._commit(number, above, lambda between: between <= _BROADCAST)
        elif kind <= _BROADCAST:
            if edge <= _REDUCE and sink in _SINKS:
                self._commit(number, above, lambda between: between <= _INJECTIVE)
        elif kind in (_INJECTIVE, _TUPLE) and phase == 1 and sink <= _INJECTIVE:
            self._commit(number, above, lambda between: between <= _INJECTIVE)

    def _commit(self, number: int, above: int, allows: Callable[[OpPattern], bool]) -> None:
        """Makes a node and all on the ways to its post-dominator part of the group of that, where the groups on the ways are of a kind
        that is allowed, and that does not make too many."""
        room = self._limit - self._sizes[self.root(above)] - self._sizes[number]
        # All ways lead through the post-dominator, so the longest of them has as many nodes as the levels differ: too many are not walked.
        fits = self._levels[number] - self._levels[above] - 1 <= room
        between = self._between(number, above, allows, room) if room >= 0 and fits else None
        if between is None:
            return
        top = self.root(above)
        for part in (number, *between):
            self._merge(self.root(part), top)

    def _between(self, number: int, above: int, allows: Callable[[OpPattern], bool], room: int) -> Sequence[int] | None:
        """The nodes on the ways from a node to its post-dominator. None where one may not be fused, or they are too many."""
        found: dict[int, None] = {}
        stack = [number]
        while stack:
            for reader, _ in self._flow.readers[stack.pop()]:
                if reader == above or reader in found:
                    continue
                room -= self._sizes[reader]
                if room < 0 or not allows(self._kinds[self.root(reader)]):
                    return None
                found[reader] = None
                stack.append(reader)
        return list(found)

    def _merge(self, child: int, parent: int) -> None:
        """Makes one group part of another; both are given by their roots."""
        if child == parent:
            return
        self._sizes[parent] += self._sizes[child]
        self._up[child] = parent
        if self._anchored[child]:
            # A group has one product or convolution at most: the kinds that are allowed on the ways see to that.
            assert not self._anchored[parent]
            self._anchored[parent] = True
            self._kinds[parent] = combine(self._kinds[child], self._kinds[parent])
