"""What may be left out where nothing can follow from the unions of the first round: results are the same."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr
from passat.ir.op import get_op
from passat.rules.engine import saturate as saturate_module
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import CALL, Graph, symbol
from passat.rules.engine.limits import Limits
from passat.rules.engine.matching import Matcher
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.settled import settled
from passat.rules.engine.stage import Stage
from passat.rules.library.folding import ConstantFolding
from passat.rules.pattern import constants, op, tensors
from passat.rules.rule import Rule
from tests.rules.building import func, ops, splat, tup, var
from tests.share import share

x, y = tensors("x y")
c, d = constants("c d")
a, b = var("a"), var("b")

SQUARE = (op.power(x, 2.0) >> x * x).named("R.square")
RULES = (
    SQUARE,
    (op.negative(op.negative(x)) >> x).named("R.negate"),
    (op.exp(x) * op.exp(y) >> op.exp(x + y)).inexact("rounds once").named("R.exp"),
    (x - y >> x + op.negative(y)).named("R.subtract"),
    (x + x >> x * 2.0).named("R.double"),
    (x * c * d >> x * (c * d)).inexact("multiplies in another order").named("R.constants"),
    (op.sqrt(x * x) >> op.abs(x)).finite("no x * x overflows").named("R.root"),
    (x * y >> y * x).exploring().named("R.commute"),
    (op.log(x * y) >> op.log(x) + op.log(y)).finite("x and y are positive").exploring().named("R.log"),
)


def prepared(body: Expr, rules: list[Rule], *, limits: Limits | None = None) -> Saturator:
    graph = Graph(Eager(ConstantFolding))
    graph.load(func(body).body)
    return Saturator(graph, [Stage.of([Matcher(rule) for rule in rules])], limits or Limits(rounds=6))


def outcome(saturator: Saturator) -> object:
    """All that a run has come to, but for the time it took."""
    result, graph = saturator.result, saturator.graph
    rules = {name: (each.matches, each.refused, each.unions, each.reasons) for name, each in result.rules.items()}
    rounds = [(each.nodes, each.classes, each.matches, each.unions) for each in result.history]
    classes = [graph.find(node) for node in range(len(graph))]
    return rules, rounds, result.rounds, result.stopped, classes, saturator.members, saturator.provenance, graph.constants.keys()


def test_a_value_that_becomes_known_is_not_the_end() -> None:
    graph = Graph(Eager(ConstantFolding))
    graph.load(func(ops.exp(ops.negative(a))).body)
    initial, one = len(graph), graph.add_constant(splat(1.0, (2, 3)).data)
    assert settled(graph, [(1, one)], initial, []) is None


def test_a_node_upon_one_that_joins_another_class_is_not_the_end() -> None:
    graph = Graph()
    graph.load(func(ops.exp(a)).body)
    initial = len(graph)
    negative, absolute = (symbol(CALL, get_op(name), 1) for name in ("negative", "abs"))
    below = graph.make(negative, 0, (0,))
    graph.make(absolute, 0, (below,))
    assert settled(graph, [(1, below)], initial, []) is None


def test_the_last_round_that_is_allowed_is_not_passed_over() -> None:
    saturator = prepared(ops.exp(ops.power(a, splat(2.0))), [SQUARE], limits=Limits(rounds=1))
    assert saturator.run().stopped == "rounds: more than 1"


def programs() -> st.SearchStrategy[Expr]:
    leaves: st.SearchStrategy[Expr] = st.sampled_from([a, b, splat(2.0), splat(0.5)])
    unary = st.sampled_from([ops.exp, ops.negative, ops.sqrt, ops.abs, ops.log])
    binary = st.sampled_from([ops.add, ops.multiply, ops.subtract, ops.power])
    return st.recursive(
        leaves,
        lambda below: st.one_of(st.builds(lambda f, p: f(p), unary, below), st.builds(lambda f, p, q: f(p, q), binary, below, below)),
    )


@settings(deadline=None, max_examples=share(50, 150))
@given(st.lists(programs(), min_size=1, max_size=3), st.lists(st.sampled_from(RULES), min_size=1, max_size=4, unique_by=id))
def test_egglog_would_have_said_nothing(bodies: list[Expr], rules: list[Rule]) -> None:
    found, asked = (prepared(tup(*bodies), rules) for _ in range(2))
    found.run()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saturate_module, "settled", lambda *_: None)
        asked.run()
    assert outcome(found) == outcome(asked)
