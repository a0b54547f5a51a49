"""Building expressions from a choice of nodes: unchanged parts are the same objects, and changed parts keep their origin and type."""

from passat.ir.expr import Call, Constant, Expr, Function, If, Span, Tuple, TupleGetItem
from passat.ir.infer import infer_type
from passat.ir.op import get_op
from passat.rules.engine.graph import Graph
from passat.rules.engine.rebuild import rebuild
from passat.rules.engine.symbols import CALL, GET_SYMBOL, TUPLE, symbol
from tests.rules.building import const, func, ops, tup, var
from tests.share import share

a, b = var("a"), var("b")


def as_it_is(graph: Graph) -> dict[int, int]:
    """The choice that gives the program as it was loaded."""
    return {node: node for node in range(len(graph))}


def loaded(body: Expr) -> tuple[Graph, int]:
    graph = Graph()
    return graph, graph.load(func(body).body)


def test_unchanged_parts_are_the_same_objects() -> None:
    for body in (a, ops.exp(a) + b, tup(a, b), ops.split(a, indices_or_sections=2)[1], const([1.0])):
        graph, root = loaded(body)
        assert rebuild(graph, as_it_is(graph), root) is body


def test_only_users_of_a_change_are_new() -> None:
    left, right = ops.exp(a), ops.sin(b)
    body = left + right
    graph, root = loaded(body)
    other = graph.make(symbol(CALL, get_op("cos"), 1), 0, (graph.ids[id(a)],))
    choice = as_it_is(graph)
    choice[graph.ids[id(left)]] = other
    made = rebuild(graph, choice, root)
    assert isinstance(made, Call)
    assert made is not body
    assert made.args[1] is right
    inner = made.args[0]
    assert isinstance(inner, Call)
    assert repr(inner.op) == "cos"
    assert made.checked_type == body.checked_type
    assert made.args[0].checked_type == left.checked_type


def test_new_nodes_inherit_the_origin_of_replaced_nodes() -> None:
    span = Span("node7", outputs=("out",))
    inner = ops.exp(a)
    body = Call(get_op("abs"), [inner], span=span)
    graph, root = loaded(body)
    other = graph.make(symbol(CALL, get_op("cos"), 1), 0, (graph.ids[id(a)],))
    made = rebuild(graph, {**as_it_is(graph), root: other}, root)
    assert made.span is span
    again = rebuild(graph, {**as_it_is(graph), graph.ids[id(inner)]: other}, root)
    assert again.span is span


def test_equal_nodes_are_merged() -> None:
    one, other = ops.exp(ops.abs(a)), ops.exp(ops.cos(a))
    graph, root = loaded(one + other)
    choice = as_it_is(graph)
    choice[graph.ids[id(other.args[0])]] = graph.ids[id(one.args[0])]
    made = rebuild(graph, choice, root)
    assert isinstance(made, Call)
    assert made.args[0] is made.args[1]


def test_every_kind_of_node() -> None:
    graph, _ = loaded(tup(a, b))
    constant = graph.add_constant(const([1.0, 2.0]).data)
    pair = graph.make(symbol(TUPLE, None, 2), 0, (constant, 0))
    choice = as_it_is(graph)
    made = rebuild(graph, choice, pair)
    assert isinstance(made, Tuple)
    assert isinstance(made.fields[0], Constant)
    assert made.fields[1] is a
    pieces = ops.split(a, indices_or_sections=2)
    graph, root = loaded(pieces[0])
    field = graph.make(GET_SYMBOL, 1, (graph.operands[root][0],))
    other = rebuild(graph, as_it_is(graph), field)
    assert isinstance(other, TupleGetItem)
    assert (other.index, other.tuple_value) == (1, pieces)


def test_leaves_may_be_replaced() -> None:
    body = ops.exp(a)
    graph, root = loaded(body)
    made = rebuild(graph, as_it_is(graph), root, {id(a): b})
    assert isinstance(made, Call)
    assert made.args[0] is b


def test_regions_get_their_new_operands_and_branches() -> None:
    c = var("c", (), "bool")
    guard = ops.logical_not(ops.logical_not(c))
    choice_, other = If(guard, a, b), If(guard, b, a)
    graph, root = loaded(choice_)
    assert rebuild(graph, as_it_is(graph), root) is choice_
    choice = as_it_is(graph)
    choice[graph.ids[id(guard)]] = graph.ids[id(c)]
    made = rebuild(graph, choice, root)
    assert isinstance(made, If)
    assert (made.cond, made.true_branch, made.false_branch) == (c, a, b)
    assert made.checked_type == choice_.checked_type
    infer_type(other)
    swapped = rebuild(graph, choice, root, {id(choice_): other})
    assert isinstance(swapped, If)
    assert (swapped.cond, swapped.true_branch) == (c, b)


def test_calls_of_functions_get_their_new_arguments() -> None:
    y = var("y")
    function = Function([y], ops.exp(y))
    argument = ops.negative(ops.negative(a))
    call = Call(function, [argument])
    graph, root = loaded(call)
    choice = as_it_is(graph)
    choice[graph.ids[id(argument)]] = graph.ids[id(a)]
    made = rebuild(graph, choice, root)
    assert isinstance(made, Call)
    assert (made.op, made.args) == (function, (a,))


def test_a_long_chain() -> None:
    body: Expr = a
    for _ in range(share(5_000, 50_000)):
        body = Call(get_op("exp"), [body])
    graph = Graph()
    root = graph.load(infer_type(body))
    assert rebuild(graph, as_it_is(graph), root) is body


def test_results_of_rules_have_origins() -> None:
    """In the replacement of `abs(exp(a))`, the inner `exp` has the origin of the old one, and the outer `cos` that of `abs`."""
    inner = Call(get_op("exp"), [a], span=Span("inner", outputs=("i",)))
    body = Call(get_op("abs"), [inner], span=Span("outer", outputs=("o",)))
    graph, root = loaded(body)
    exp = graph.make(symbol(CALL, get_op("exp"), 1), 0, (graph.ids[id(inner)],))
    cos = graph.make(symbol(CALL, get_op("cos"), 1), 0, (exp,))
    top = graph.make(symbol(CALL, get_op("sin"), 1), 0, (cos,))
    graph.unite(root, top)
    provenance = dict.fromkeys((exp, cos, top), ("Some.rule", root))
    order = [graph.ids[id(a)], graph.ids[id(inner)], exp, cos]  # operands come before their users
    made = rebuild(graph, {**{node: node for node in order}, root: top}, root, provenance=provenance)
    assert isinstance(made, Call)
    assert made.span == Span("outer", outputs=("o",))
    middle = made.args[0]
    assert isinstance(middle, Call)
    assert middle.span == Span("outer")
    assert middle.args[0].span == Span("inner")
