"""Saturation: what rounds find, statistics and provenance, matches that are decided again, and nodes that become constants."""

import itertools

import pytest

from passat.ir.expr import Expr
from passat.ir.tensor import Tensor
from passat.rules.engine.directions import Directions, Stage
from passat.rules.engine.eager import Eager
from passat.rules.engine.graph import Graph
from passat.rules.engine.limits import SATURATED, Limits, StopReason
from passat.rules.engine.report import RuleStatistics, Saturation
from passat.rules.engine.saturate import Saturator
from passat.rules.engine.symbols import CONST
from passat.rules.engine.trace import Steps
from passat.rules.guards import Reject, Term, guard, has_rank, is_all, is_constant
from passat.rules.library.folding import ConstantFolding, DynamicToStatic
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import Rule
from tests.rules.building import const, func, ops, splat, tup, var

x, y, z = tensors("x y z")
c, d = constants("c d")
p, q = attributes("p q")
a, b = var("a"), var("b")

NEGATE = (op.negative(op.negative(x)) >> x).named("R.negate")
COMMUTE = (x + y >> y + x).exploring().named("R.commute")


def saturate(body: Expr, *rules: Rule, fold: bool = False, limits: Limits | None = None) -> Saturator:
    graph = Graph(Eager(ConstantFolding if fold else ()))
    graph.load(func(body).body)
    found = Saturator(graph, [Stage(tuple(map(Directions, rules)))], limits or Limits())
    found.run()
    return found


def heads(saturator: Saturator, cls: int) -> list[str]:
    """The operators of the nodes of an e-class."""
    nodes = saturator.graph.members.get(saturator.graph.find(cls), [cls])
    return sorted(str(saturator.graph.symbols[node].op or saturator.graph.symbols[node].kind) for node in nodes)


def test_a_program_without_matches_needs_no_round() -> None:
    found = saturate(ops.exp(a), NEGATE)
    assert (found.result.rounds, found.result.unions, found.result.stopped) == (0, 0, SATURATED)
    assert found.graph.members == {}


def test_classes_of_several_nodes_have_members() -> None:
    found = saturate(ops.exp(ops.negative(ops.negative(a))), NEGATE)
    assert heads(found, 0) == ["leaf", "negative"]
    assert found.result.unions == 1
    assert found.result.rules["R.negate"].matches == 1


def test_a_round_matches_the_results_of_the_previous_one() -> None:
    deep: Expr = a
    for _ in range(8):
        deep = ops.negative(deep)
    found = saturate(deep, NEGATE)
    assert found.graph.find(found.graph.ids[id(deep)]) == 0
    rule = ((x + y) - y >> x).named("R.less")
    wrapped = (op.abs(x) >> (op.abs(x) + x) - x).exploring().named("R.more")
    found = saturate(ops.abs(a), wrapped, rule, limits=Limits(rounds=3))
    assert found.result.rules["R.less"].matches >= 1


def test_provenance_of_new_nodes() -> None:
    found = saturate(a + b, COMMUTE)
    (new,) = found.provenance
    assert found.provenance[new] == ("R.commute", 2)
    assert found.graph.find(new) == 2


def test_a_match_is_decided_once() -> None:
    found = saturate(a + b, COMMUTE)
    statistics = found.result.rules["R.commute"]
    assert statistics.matches == 2  # a + b, and then b + a
    assert statistics.unions == 1


def test_rules_meet_in_one_class() -> None:
    rule = ((x * y) + (x * z) >> x * (y + z)).named("R.factor")
    body = a * b + ops.exp(b) * a
    assert saturate(body, rule).result.unions > 0  # the factors may be in any order
    commute = (x * y >> y * x).exploring().named("R.swap")
    found = saturate(body, rule, commute)
    assert "multiply" in heads(found, found.graph.ids[id(body)])


def test_congruence_unites_users_of_equal_parts() -> None:
    one, other = ops.exp(ops.negative(ops.negative(a))), ops.exp(a)
    seen = (op.exp(x) >> op.sin(x)).when(has_rank(x, 9)).named("R.sees_exp")  # congruence is kept for operators that some rule matches
    found = saturate(tup(one, other), NEGATE, seen)
    assert found.graph.find(found.graph.ids[id(one)]) == found.graph.find(found.graph.ids[id(other)])


def test_rejections_are_counted_with_their_reasons() -> None:
    rule = (op.exp(x) >> x).when(is_constant(x)).named("R.exp")
    found = saturate(tup(ops.exp(a), ops.exp(b)), rule)
    statistics = found.result.rules["R.exp"]
    assert (statistics.matches, statistics.rejected, statistics.unions) == (2, 2, 0)
    assert statistics.reasons == {"is_constant(x): is not a constant": 2}


def test_only_the_first_reasons_are_kept() -> None:
    statistics = RuleStatistics()
    for i in range(20):
        statistics.reject(Reject(f"reason {i % 10}"))
    assert statistics.rejected == 20
    assert statistics.reasons == {f"reason {i}": 2 for i in range(5)}


def test_the_statistics_of_a_saturation() -> None:
    result = Saturation()
    result.of("A.b").unions += 3
    result.of("A.c").unions += 1
    assert result.unions == 4
    assert result.of("A.b") is result.rules["A.b"]


def test_a_rejected_match_is_decided_again_when_its_classes_learn_something() -> None:
    """The operand becomes a constant only by another rule; then the rule is applied."""
    known = (op.nn.dropout(x)[0] >> op.copy(x)).when(is_constant(x)).named("R.known")
    clear = (op.abs(x) * c >> c).named("R.clear")
    body = ops.nn.dropout(ops.abs(a) * splat(0.0, (2, 3)))[0]
    found = saturate(body, known, clear, fold=True)
    statistics = found.result.rules["R.known"]
    assert statistics.rejected == 1
    assert statistics.unions >= 1
    assert saturate(body, known, fold=True).result.rules["R.known"].unions == 0


@pytest.mark.parametrize("limits", [Limits(rounds=1), Limits(unions=1)], ids=str)
def test_users_of_new_constants_are_folded_at_limits(limits: Limits) -> None:
    clear = (op.abs(x) * c >> c).named("R.clear")
    body = ops.exp(ops.abs(a) * splat(0.0, (2, 3)))
    found = saturate(tup(body, ops.abs(b) * splat(2.0, (2, 3))), clear, fold=True, limits=limits)
    assert found.result.stopped.reason in (StopReason.ROUNDS, StopReason.UNIONS)
    assert heads(found, found.graph.ids[id(body)]) == ["const", "exp"]


def test_a_constant_that_a_rule_finds_may_widen_a_tensor() -> None:
    """The types lack the size 4 that the constant turns out to have, and the tensor may turn out to have size 1."""
    clear = (op.abs(x) * c >> c).named("R.clear")
    unit = (x + c >> x).when(is_all(c, 0)).named("R.unit")
    size = ops.abs(var("k", (1,), "int64")) * const([4], "int64")
    body = ops.exp(var("v", ("?",))) + ops.dyn.full(splat(0.0), size)
    graph = Graph(Eager((*ConstantFolding, *DynamicToStatic)))
    graph.load(func(body).body)
    found = Saturator(graph, [Stage((Directions(clear), Directions(unit)))], Limits())
    found.run()
    assert heads(found, graph.ids[id(body)]) == ["add"]
    assert found.result.rules["R.unit"].rejected == 1


def test_users_of_new_constants_are_folded() -> None:
    clear = (op.abs(x) * c >> c).named("R.clear")
    inner = ops.abs(a) * splat(0.0, (2, 3))
    body = ops.exp(inner) + splat(1.0)
    found = saturate(body, clear, fold=True)
    root = found.graph.find(found.graph.ids[id(body)])
    value = found.graph.constants[root]
    assert isinstance(value, Tensor)
    assert value.uniform() == 2.0
    assert any(found.graph.symbols[node].kind == CONST for node in found.graph.members[root])
    without = saturate(body, clear)
    assert without.graph.find(without.graph.ids[id(body)]) not in without.graph.constants


def test_immediately_matched_nodes_still_match_from_above() -> None:
    """`halve` matches the call that `merge` creates, and retires it; `above` still has to match that call below another one."""
    merge = op.exp(op.negative(x)) >> op.tanh(x)
    halve = op.tanh(x) >> op.sigmoid(x)
    above = op.abs(op.tanh(x)) >> op.nn.relu(x)
    body = ops.abs(ops.exp(ops.negative(a)))
    found = saturate(body, merge.named("R.merge"), halve.named("R.halve"), above.named("R.above"))
    assert found.result.rules["R.halve"].unions == 1
    assert found.result.rules["R.above"].unions == 1


def test_a_call_that_a_rule_replaces_by_itself_still_matches() -> None:
    """Once exp(a) equals abs(exp(a)), `drop` makes -exp(a) from itself, which retired it. Three iterations later, `last` did not match
    it. A transpose of a value that equals a transpose of itself, which moves nothing, was retired like this."""
    same = (op.exp(x) >> op.abs(op.exp(x))).exploring().named("R.same")
    drop = (op.negative(op.abs(x)) >> op.negative(x)).named("R.drop")
    last = (op.negative(op.sigmoid(x)) >> op.tanh(x)).exploring().named("R.last")
    forms = (op.exp, op.tan, op.sin, op.cos, op.sigmoid)
    steps = [(of(x) >> to(x)).exploring().named(f"R.step{i}") for i, (of, to) in enumerate(itertools.pairwise(forms))]
    found = saturate(ops.negative(ops.exp(a)), same, drop, last, *steps)
    assert found.result.rules["R.last"].unions == 1


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_rounds_are_counted(limit: int) -> None:
    deep: Expr = a
    for i in range(12):
        deep = deep + var(f"v{i}")
    associate = ((x + y) + z >> x + (y + z)).exploring().named("R.associate")
    found = saturate(deep, associate, COMMUTE, limits=Limits(rounds=limit))
    assert found.result.rounds == limit
    assert found.result.stopped == (StopReason.ROUNDS, f"more than {limit}")


def test_two_saturations_of_one_program_are_equal() -> None:
    body = (a + b) + (ops.exp(a) + b)
    associate = ((x + y) + z >> x + (y + z)).exploring().named("R.associate")
    first, second = (saturate(body, associate, COMMUTE, limits=Limits(rounds=6)) for _ in range(2))
    assert first.graph.members == second.graph.members
    assert first.graph.operands == second.graph.operands
    assert first.provenance == second.provenance


def test_rules_on_constants_match_folded_ones() -> None:
    add_add = ((x + c) + d >> x + (c + d)).named("R.add_add")
    body = ((a + splat(1.0)) + splat(2.0)) + splat(3.0)
    found = saturate(body, add_add, fold=True)
    values = [value.uniform() for value in found.graph.tensors]
    assert 6.0 in values


def chain(length: int) -> Expr:
    """A product with constants that round differently in each order."""
    body: Expr = a
    for i in range(length):
        body = body * splat(1.0 + i / 1000)
    return body


def test_the_links_of_a_chain_are_merged_from_its_start_on() -> None:
    merge = ((x * c) * d >> x * (c * d)).named("R.merge")
    body = chain(40)
    found = saturate(body, merge, fold=True)
    assert found.result.rules["R.merge"].matches == 39
    assert len(found.graph) < 4 * 40
    root = found.graph.members[found.graph.find(found.graph.ids[id(body)])]
    assert [0 in found.graph.operands[node] for node in root] == [False, True]
    deep: Expr = a
    for _ in range(40):
        deep = ops.strided_slice(deep, begin=(0,), end=(9,), axes=(0,))
    slices = (op.strided_slice(op.strided_slice(x, attrs=p), attrs=q) >> op.strided_slice(x, attrs=p)).named("R.slices")
    assert saturate(deep, slices).result.rules["R.slices"].matches == 39


def test_a_chain_of_two_rules_is_merged_in_a_few_rounds() -> None:
    rules = [
        ((x * c) / d >> x * (c / d)).named("R.multiply_divide"),
        ((x / c) * d >> x * (d / c)).named("R.divide_multiply"),
        ((x * c) * d >> x * (c * d)).named("R.multiply_multiply"),
    ]
    body: Expr = a
    for i in range(40):
        body = (body / splat(1.0 + i / 1000)) * splat(1.0 + i / 700)
    found = saturate(body, *rules, fold=True)
    assert found.result.rounds <= 4
    assert len(found.graph) < 10 * 80


def test_a_match_stays_if_the_rule_rejects_what_replaced_its_operand() -> None:
    """The first two constants are merged; the rule rejects the result beside the third, but not the second constant beside it."""

    @guard
    def is_small(c: Term, d: Term) -> bool:
        return float(c.value().uniform() or 0) * float(d.value().uniform() or 0) < 20

    merge = ((x * c) * d >> x * (c * d)).when(is_small(c, d)).named("R.merge")
    body = ((a * splat(3.0)) * splat(2.0)) * splat(5.0)
    found = saturate(body, merge, fold=True)
    assert {6.0, 10.0} <= {value.uniform() for value in found.graph.tensors}
    assert found.result.rules["R.merge"].unions == 2


def test_traces_have_the_nodes_of_merged_links() -> None:
    graph = Graph(Eager(ConstantFolding))
    graph.load(func(chain(4)).body)
    steps = Steps()
    merge = ((x * c) * d >> x * (c * d)).named("R.merge")
    Saturator(graph, [Stage((Directions(merge),))], Limits(), steps=steps).run()
    assert [len(step.matched[0].nodes) for step in steps.applications if step.rule == "R.merge"] == [2, 2, 2]


def test_forms_that_differ_in_the_rounding_of_constants_are_made_once() -> None:
    merge = ((x * c) * d >> x * (c * d)).exploring().named("R.merge")
    body = chain(8)
    found = saturate(body, merge, fold=True)
    assert len(found.graph.members[found.graph.find(found.graph.ids[id(body)])]) == 8  # one for each part of the chain that ends here
    assert sum(map(len, found.graph.members.values())) == sum(range(2, 9))
