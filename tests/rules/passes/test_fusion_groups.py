"""Fusion groups, compared with a literal implementation of the phases: it merges sets of nodes one by one, without limits on the work."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.infer import InferError, infer_type
from passat.ir.op_attributes import OpPattern
from passat.rules.passes.dataflow import NOTHING, Dataflow, PostDominators
from passat.rules.passes.fuse_ops import Groups
from tests.rules.building import func, ops, tup, var
from tests.rules.program_strategies import programs
from tests.share import share

INJECTIVE, TAIL, TUPLE, OPAQUE = OpPattern.INJECTIVE, OpPattern.OUT_ELEMWISE_FUSABLE, OpPattern.TUPLE, OpPattern.OPAQUE


class Slow:
    """Merges groups exactly as the phases are specified. `kind` and `size` are those of a node's group when it was last merged into."""

    def __init__(self, flow: Dataflow, limit: int) -> None:
        self.flow, self.limit = flow, limit
        self.tree = PostDominators(flow)
        self.ways: nx.DiGraph[int] = nx.DiGraph()
        self.ways.add_nodes_from(range(len(flow.nodes)))
        self.ways.add_edges_from((number, reader) for number, readers in enumerate(flow.readers) for reader, _ in readers)
        self.root = list(range(len(flow.nodes)))
        self.kind = list(flow.kinds)
        self.size = [1] * len(flow.nodes)
        for phase in range(3):
            for number, above in enumerate(self.tree.parents):
                if above != NOTHING and self.kind[number] != OPAQUE and self.may(phase, number, above):
                    for part in (number, *self.between(number, above)):
                        self.join(self.root[part], self.root[above])

    def between(self, number: int, above: int) -> list[int]:
        return sorted(nx.descendants(self.ways, number) & nx.ancestors(self.ways, above))  # type: ignore[arg-type]  # the stubs of networkx

    def may(self, phase: int, number: int, above: int) -> bool:
        between = self.between(number, above)
        kinds = [self.kind[self.root[part]] for part in between]
        kind, sink, edge = self.kind[number], self.kind[self.root[above]], self.tree.kinds[number]
        if self.size[self.root[above]] + sum(self.size[part] for part in (number, *between)) > self.limit:
            return False
        if phase == 2:
            return kind <= INJECTIVE and self.kind[above] == TUPLE and all(part <= INJECTIVE for part in (*kinds, sink))
        if self.root[number] == self.root[above] or self.kind[above] == TUPLE:
            return False
        if kind == TAIL:
            elementwise = all(part <= OpPattern.BROADCAST for part in (*kinds, sink))
            return phase == 0 and edge == OpPattern.ELEMWISE and elementwise
        injective = all(part <= INJECTIVE for part in kinds)
        if kind <= OpPattern.BROADCAST:
            return edge <= OpPattern.COMM_REDUCE and sink <= TAIL and injective
        return kind != OpPattern.COMM_REDUCE and phase == 1 and injective and sink <= INJECTIVE

    def join(self, child: int, parent: int) -> None:
        if child == parent:
            return
        self.size[parent] += self.size[child]
        anchored = any(self.flow.kinds[node] == TAIL for node, root in enumerate(self.root) if root == child)
        self.root = [parent if root == child else root for root in self.root]
        if anchored:
            self.kind[parent] = max(self.kind[parent], self.kind[child])


def check(function: Function) -> None:
    flow = Dataflow(function)
    for limit in (1, 2, 3, 5, 8, 256):
        groups = Groups(flow, limit).fuse()
        assert [groups.root(number) for number in range(len(flow.nodes))] == Slow(flow, limit).root, limit


@settings(max_examples=share(18, 100))
@given(programs(stateful=True))
def test_programs(function: Function) -> None:
    check(function)


def mixed(seed: int, size: int) -> Function:
    """A program with all kinds of operators on square matrices, whose values have several readers."""
    generator = np.random.default_rng(seed)
    pool: list[Expr] = [var("x", (4, 4)), var("y", (4,))]
    for _ in range(size):
        a, b = (pool[-1 - min(int(generator.geometric(0.35)) - 1, len(pool) - 1)] for _ in range(2))
        makers = (
            lambda a=a, b=b: ops.add(a, b),
            lambda a=a, b=b: ops.multiply(a, b),
            lambda a=a: ops.exp(a),
            lambda a=a: ops.transpose(a),
            lambda a=a: ops.nn.softmax(a),
            lambda a=a, b=b: ops.nn.matmul(a, b),
            lambda a=a: ops.sum(a, axis=(0,), keepdims=True),
            lambda a=a, b=b: ops.strided_slice(ops.concatenate(tup(a, a, b), axis=0), begin=(0,), end=(4,)),
        )
        try:
            pool.append(infer_type(makers[int(generator.integers(len(makers)))]()))
        except InferError:
            continue
    return func(tup(*pool[-2:]) if generator.random() < 0.3 else pool[-1])


@settings(max_examples=share(25, 150))
@given(st.integers(0, 1 << 32), st.integers(2, 16))
def test_all_kinds_of_operators(seed: int, size: int) -> None:
    check(mixed(seed, size))


@pytest.mark.parametrize(("limit", "sizes"), [(256, [256, 256, 88]), (600, [600])])
def test_the_first_nodes_of_a_chain_are_taken(limit: int, sizes: list[int]) -> None:
    made: Expr = var("x", (2,))
    for _ in range(600):
        made = ops.exp(made)
    members = Groups(Dataflow(func(made)), limit).fuse().members()
    assert [len(nodes) for nodes in members.values() if len(nodes) > 1] == sizes
