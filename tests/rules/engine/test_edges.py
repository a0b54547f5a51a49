"""Which left sides an e-graph may match: those whose symbols, edges between symbols, and numbers it has, also after unions."""

from passat.ir.expr import Expr
from passat.ir.infer import infer_type
from passat.rules.engine.edges import Edges
from passat.rules.engine.graph import Graph
from passat.rules.engine.matching import Matcher
from passat.rules.pattern import Pattern, op, tensors
from passat.rules.rule import Rule
from tests.rules.building import ops, splat, var

a, b = var("a", (2,)), var("b", (2,))
x, y = tensors("x y")


def loaded(body: Expr) -> tuple[Graph, Edges]:
    graph = Graph()
    graph.load(infer_type(body))
    edges = Edges(graph)
    edges.extend()
    return graph, edges


def may_match(edges: Edges, left: Pattern) -> bool:
    rule = left >> x
    assert isinstance(rule, Rule)
    matchers = [Matcher(direction) for direction in rule.directions()]
    return any(edges.allow(matcher.root, variant) for matcher in matchers for variant in matcher.variants)


def unite(graph: Graph, edges: Edges, first: int, second: int) -> None:
    edges.unite(*sorted((graph.find(first), graph.find(second))))
    graph.unite(first, second)


def nodes_of(graph: Graph, name: str) -> list[int]:
    return [node for node, symbol in enumerate(graph.symbols) if symbol.op is not None and symbol.op.name == name]


def test_operators_and_their_operands() -> None:
    _, edges = loaded(ops.exp(ops.exp(a)) + b)
    assert may_match(edges, op.exp(op.exp(x)))
    assert may_match(edges, op.exp(x) + y)
    assert may_match(edges, y + op.exp(x)), "sums match in both orders"
    assert not may_match(edges, op.exp(x + y))
    assert not may_match(edges, op.negative(x)), "no node has the root's symbol"


def test_a_union_puts_the_nodes_of_one_e_class_below_the_users_of_the_other() -> None:
    graph, edges = loaded(ops.exp(a) + ops.negative(b))
    (exp,), (negative,) = nodes_of(graph, "exp"), nodes_of(graph, "negative")
    (leaf,) = graph.operands[exp]
    unite(graph, edges, leaf, negative)
    assert may_match(edges, op.exp(op.negative(x)))
    assert not may_match(edges, op.negative(op.exp(x)))
    made = graph.make(graph.symbols[negative], 0, (exp,))
    edges.extend()
    assert may_match(edges, op.negative(op.exp(x)))
    unite(graph, edges, made, leaf)
    unite(graph, edges, exp, leaf)
    assert may_match(edges, op.exp(op.exp(x)))
    assert may_match(edges, op.negative(x) + y)


def test_numbers_are_operands_where_the_left_side_has_them() -> None:
    graph, edges = loaded(a * splat(2.0) - splat(3.0))
    assert may_match(edges, 2.0 * x), "products match in both orders"
    assert may_match(edges, x * 2.0 - 3.0)
    assert not may_match(edges, x * 3.0)
    assert not may_match(edges, 3.0 - x)
    (product,) = nodes_of(graph, "multiply")
    graph.make(graph.symbols[product], 0, (product, graph.add_constant(splat(5.0).data)))
    edges.extend()
    assert may_match(edges, x * 5.0)
    assert not may_match(edges, 5.0 - x)
    (difference,) = nodes_of(graph, "subtract")
    three = graph.operands[difference][1]
    unite(graph, edges, three, graph.operands[product][0])
    assert may_match(edges, x * 3.0), "a union made an operand of the product constant"


def test_an_e_class_of_many_nodes() -> None:
    """The work for a union does not depend on the number of nodes; otherwise this would take minutes."""
    body: Expr = ops.negative(a)
    for i in range(30_000):
        body = ops.exp(body) if i % 2 else ops.tanh(body)
    graph, edges = loaded(body)
    first, *others = [*nodes_of(graph, "negative"), *nodes_of(graph, "exp")]
    for other in others:
        unite(graph, edges, first, other)
    assert len(graph.members[first]) == 15_001
    assert may_match(edges, op.tanh(op.negative(x)))
    assert not may_match(edges, op.exp(op.exp(x)))
    edges.unite(first, max(nodes_of(graph, "tanh")))
    assert may_match(edges, op.exp(op.exp(x)))
