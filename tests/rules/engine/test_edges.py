"""The edges of an e-graph: those of its nodes, and those that unions add."""

from passat.ir.expr import Expr
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.rules.engine.edges import Edges
from passat.rules.engine.graph import CALL, LEAF_SYMBOL, Graph, symbol
from tests.rules.building import ops, var

a, b = var("a", (2,)), var("b", (2,))
ADD, EXP, NEG = symbol(CALL, get_op("add"), 2), symbol(CALL, get_op("exp"), 1), symbol(CALL, get_op("negative"), 1)


def loaded(body: Expr) -> tuple[Graph, Edges]:
    graph = Graph()
    graph.load(infer_type(body))
    edges = Edges(graph)
    edges.extend()
    return graph, edges


def has(edges: Edges, *wanted: object) -> bool:
    return edges.allow(LEAF_SYMBOL, frozenset([wanted]))  # type: ignore[list-item]  # an edge, given as three arguments


def test_operators_and_their_operands() -> None:
    _, edges = loaded(ops.exp(ops.exp(a)) + b)
    assert has(edges, EXP, 0, EXP)
    assert has(edges, ADD, 0, EXP)
    assert has(edges, ADD, 1, LEAF_SYMBOL)
    assert has(edges, ADD, 1, EXP), "sums match in both orders"
    assert not has(edges, EXP, 0, ADD)
    assert not edges.allow(NEG, frozenset()), "no node has the root's symbol"


def test_a_union_puts_the_nodes_of_one_e_class_below_the_users_of_the_other() -> None:
    graph, edges = loaded(ops.exp(a) + ops.negative(b))
    exp, negative = (graph.symbols.index(head) for head in (EXP, NEG))
    leaf = graph.symbols.index(LEAF_SYMBOL)
    edges.unite(leaf, negative)
    graph.unite(leaf, negative)
    assert has(edges, EXP, 0, NEG)
    assert not has(edges, NEG, 0, EXP)
    made = graph.make(NEG, 0, (exp,))
    edges.extend()
    assert has(edges, NEG, 0, EXP)
    edges.unite(leaf, made)
    graph.unite(leaf, made)
    edges.unite(leaf, exp)
    graph.unite(leaf, exp)
    assert has(edges, EXP, 0, EXP)
    assert has(edges, ADD, 0, NEG)
