"""The tree of post-dominators, compared with its definition."""

import networkx as nx
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.op_attributes import OpPattern
from passat.rules.passes.dataflow import NOTHING, Dataflow, PostDominators, combine
from passat.rules.passes.fuse_ops import Groups
from tests.rules.building import func, ops, tup, var
from tests.rules.program_strategies import programs
from tests.share import share


def ways(flow: Dataflow) -> "nx.DiGraph[int]":
    """The graph of edges to readers; values that leave the dataflow are read by a final node."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    behind = len(flow.nodes)
    graph.add_node(behind)
    for number, readers in enumerate(flow.readers):
        graph.add_edges_from((number, reader) for reader, _ in readers)
        if flow.outside[number] or not readers:
            graph.add_edge(number, behind)
    return graph


def check(function: Function) -> None:
    flow = Dataflow(function)
    tree = PostDominators(flow)
    graph = ways(flow)
    behind = len(flow.nodes)
    wanted = nx.immediate_dominators(graph.reverse(), behind)
    for number, parent in enumerate(tree.parents):
        expected = wanted[number]
        assert (parent if parent != NOTHING else behind) == expected
        if parent == NOTHING:
            continue
        between = (nx.descendants(graph, number) | {number}) & (nx.ancestors(graph, parent) | {parent})
        kinds = [edge for node in between - {parent} for reader, edge in flow.readers[node] if reader in between]
        kind = OpPattern.ELEMWISE
        for edge in kinds:
            kind = combine(kind, edge)
        assert tree.kinds[number] == kind


@settings(max_examples=share(35, 200))
@given(programs(stateful=True))
def test_programs(function: Function) -> None:
    check(function)


@settings(max_examples=share(18, 100))
@given(st.integers(0, 1 << 32), st.integers(2, 30))
def test_graphs_of_many_ways(seed: int, size: int) -> None:
    generator = np.random.default_rng(seed)
    pool: list[Expr] = [var("x", (2, 3)), var("y", (3,))]
    for _ in range(size):
        a, b = (pool[-1 - min(int(generator.geometric(0.4)) - 1, len(pool) - 1)] for _ in range(2))
        pool.append(ops.add(a, b) if generator.random() < 0.7 else ops.nn.softmax(a))
    check(func(tup(*pool[-2:]) if generator.random() < 0.3 else pool[-1]))


def test_a_value_with_two_paths_is_bound_at_their_join() -> None:
    x = var("x", (2, 3))
    y = ops.exp(x)
    left, right = ops.tanh(y), ops.transpose(y, axes=(0, 1))
    end = ops.add(left, right)
    function = func(ops.exp(end))
    flow = Dataflow(function)
    tree = PostDominators(flow)
    number = flow.numbers
    assert tree.parents[number[id(y)]] == number[id(end)]
    assert tree.kinds[number[id(y)]] == OpPattern.INJECTIVE
    assert tree.parents[number[id(function.body)]] == NOTHING


def test_a_far_post_dominator_is_not_walked_to() -> None:
    """Every value of a chain is also read at its end. Readers beyond the fusion limit are not visited, so the time is not quadratic."""
    made: Expr = var("x", (2,))
    found = []
    for _ in range(20_000):
        made = ops.exp(made)
        found.append(made)
    flow = Dataflow(func(ops.concatenate(tup(*found), axis=0)))
    sizes = sorted(map(len, Groups(flow, 256).fuse().members().values()))
    # The last ones, the tuple and the concatenation are one group; the others are not fused.
    assert sizes[-2:] == [1, 256]
