"""The tree of post-dominators of a dataflow graph: for each node the nearest one that everything computed from it goes through."""

from passat.rules.fusion.dataflow import Dataflow
from passat.rules.fusion.patterns import OpPattern, combine

NOTHING = -1
"""What dominates a node whose value leaves the dataflow, or goes separate ways."""


class PostDominators:
    """`parents[i]` is the number of the nearest post-dominator of node `i`, or NOTHING; `kinds[i]` combines the kinds of all edges on the
    ways there.

    The common ancestor of the readers of a node is found by jump pointers (Myers 1983: each node also knows an ancestor further up, and the
    combined kinds on the way there), so that the tree of n nodes and m edges takes O((n + m) log n) steps whatever its depth.

    >>> from passat.ir.expr import Function, var
    >>> from passat.ir.infer import infer_type
    >>> x = var("x", shape=(2,))
    >>> y = -x
    >>> function = Function([x], (y + x) * y)
    >>> flow = Dataflow(infer_type(function))
    >>> tree = PostDominators(flow)
    >>> flow.nodes[tree.parents[flow.numbers[id(y)]]] is function.body
    True
    """

    __slots__ = ("_depths", "_far", "_far_kinds", "_near", "kinds", "parents")

    def __init__(self, flow: Dataflow) -> None:
        count = len(flow.nodes)
        # A node that all trees hang from stands behind the last one: whatever has no common ancestor meets there.
        self._near = [count] * (count + 1)
        self._far = [count] * (count + 1)
        self._far_kinds = [OpPattern.ELEMWISE] * (count + 1)
        self._depths = [0] * (count + 1)
        self.kinds = [OpPattern.OPAQUE] * (count + 1)
        for number in range(count - 1, -1, -1):
            readers = flow.readers[number]
            above, kind = count, OpPattern.OPAQUE
            if readers and not flow.outside[number]:
                above, kind = readers[0]
                for reader, edge in readers[1:]:
                    above, kind = self._common(above, reader, combine(kind, edge))
            self._hang(number, above, kind if above != count else OpPattern.OPAQUE)
        self.parents = [NOTHING if above == count else above for above in self._near[:count]]

    def _hang(self, number: int, above: int, kind: OpPattern) -> None:
        """Puts a node under its parent."""
        self._near[number], self.kinds[number] = above, kind
        self._depths[number] = self._depths[above] + 1
        far = self._far[above]
        if self._depths[above] - self._depths[far] == self._depths[far] - self._depths[self._far[far]]:
            self._far[number] = self._far[far]
            self._far_kinds[number] = combine(kind, combine(self._far_kinds[above], self._far_kinds[far]))
        else:
            self._far[number], self._far_kinds[number] = above, kind

    def _common(self, a: int, b: int, kind: OpPattern) -> tuple[int, OpPattern]:
        """The nearest common ancestor of two nodes, and `kind` combined with those of the edges from both to it."""
        depths, far = self._depths, self._far
        if depths[a] < depths[b]:
            a, b = b, a
        while depths[a] > depths[b]:
            a, kind = self._up(a, kind, jump=depths[far[a]] >= depths[b])
        while a != b:
            jump = far[a] != far[b]
            a, kind = self._up(a, kind, jump=jump)
            b, kind = self._up(b, kind, jump=jump)
        return a, kind

    def _up(self, node: int, kind: OpPattern, *, jump: bool) -> tuple[int, OpPattern]:
        if jump:
            return self._far[node], combine(kind, self._far_kinds[node])
        return self._near[node], combine(kind, self.kinds[node])
