"""Traces, reports, why-not and certificates agree about rules of every kind."""

import functools
from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import pytest
from hypothesis import HealthCheck, given, settings

from passat.ir.expr import Call, Expr, Function, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.traverse import post_order
from passat.passmgr import Pass, PassContext
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.passes import default_pipeline
from passat.rules.passes.algebra import linear_algebra
from passat.rules.rule import EAGER, EXPLORING, LOWERING, MULTI_PATTERN, REDUCING, Rule, without_operators
from passat.rules.rule_pass import RulePass
from passat.rules.rule_set import RuleSetMeta
from passat.rules.why_not import Inquiry, Kind
from tests.rules.building import const, func, ops, tup, var
from tests.rules.library.cases import Case, options
from tests.rules.library.test_algebra_list import LIST
from tests.rules.library.test_every_rule_has_cases import FILES, module, tables_of
from tests.rules.program_strategies import programs
from tests.rules.provenance.proving import Written, named, written
from tests.rules.running import apply
from tests.share import share

x, y, z = var("x", (4, 3)), var("y", (4, 3)), var("z", (4, 3))


@functools.cache
def cases() -> list[tuple[RuleSetMeta, Rule, Case]]:
    """Every rule of the library once, with a program on which it fires."""
    rows = [row for name in FILES for table in tables_of(module(name)) for row in table]
    return list({without_operators(row[1].name): row for row in rows}.values())


def share_of(kind: str, least: int) -> Sequence[tuple[RuleSetMeta, Rule, Case]]:
    """A fixed sample of the rules of a kind."""
    rows = [row for row in cases() if row[1].kind == kind]
    return rows[:: max(1, len(rows) // share(least, len(rows)))]


def stateful_calls(function: Function) -> list[Call]:
    """The calls of stateful operators, operands first."""
    return [node for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful]


def check_agreement(found: Written, sets: Sequence[RuleSetMeta], function: Function, pass_: Pass, config: dict[str, AnyValue]) -> set[str]:
    """Checks that all agree about each rule that fired. Returns the rules that led to the result."""
    led = set(map(without_operators, found.node_traces.rules()))
    expressions = [expr for expr in post_order(found.main) if found.node_traces.changed(expr)]
    fields = range(len(found.main.body.fields) if isinstance(found.main.body, Tuple) else 1)
    node_traces = [*map(found.node_traces.of, expressions), *(found.node_traces.of_result(found.main.body, place) for place in fields)]
    explained = {without_operators(step.rule) for node_trace in node_traces for step in node_trace.events}
    if found.main.body is not found.before["main"].body:
        assert led <= explained
        assert led <= set(map(without_operators, found.certificate["rules"]))
        if not any("uncovered" in part for part in found.certificate["steps"]):
            assert found.check(*sets).complete
    fired = dict.fromkeys(application.rule for run in found.node_traces.runs for application in run.applications)
    with PassContext(3, config=config):
        inquiry = Inquiry(IRModule.from_expr(function), pipeline=pass_)
        taken = {without_operators(name) for name in fired if inquiry.answer(name).verdict is Kind.TAKEN}
    assert taken == led
    return led


@pytest.mark.parametrize("kind", [REDUCING, EXPLORING, MULTI_PATTERN, LOWERING, EAGER])
def test_of_rules_of_each_kind_all_say_the_same(kind: str) -> None:
    helped = 0
    for rules, rule, example in share_of(kind, 8):
        infer_type(example.positive)
        for number, call in enumerate(stateful_calls(example.positive)):  # which have names in every file
            named(call, f"call{number}")
        config = {"rules.cost": "nodes", **{key.replace("__", "."): value for key, value in options(rules, rule).items()}}
        pass_ = RulePass([rules], name="Tried")
        found = written(example.positive, [pass_], **config)
        helped += without_operators(rule.name) in check_agreement(found, [rules], example.positive, pass_, config)
    assert helped or kind == EAGER  # these leave no choice


JOINED: dict[str, tuple[Callable[[], tuple[Expr, ...]], set[str]]] = {
    "swapped": (lambda: (ops.exp(x + y), ops.tanh(y + x)), {"Reassociate.commuted"}),
    "results": (lambda: (x + y, y + x), {"Reassociate.commuted"}),
    "below a call that both have": (lambda: (ops.exp(ops.tanh(x * y)), ops.abs(ops.tanh(y * x))), {"Reassociate.commuted"}),
    "grouped": (lambda: (ops.exp((x + y) + z), ops.tanh(x + (z + y))), {"Reassociate.grouped"}),
    "two at once": (
        lambda: (ops.exp((x + y) + z), ops.tanh(x + (z + y)), ops.exp(x * y), ops.abs(y * x)),
        {"Reassociate.grouped", "Reassociate.commuted"},
    ),
    "with what is made first": (lambda: (ops.exp(x) * ops.exp(y), ops.exp(x + y)), {"Factoring.product_of_exps"}),
}


@pytest.mark.parametrize("name", JOINED)
def test_of_rules_that_join_all_say_the_same(name: str) -> None:
    make, expected = JOINED[name]
    function = infer_type(func(tup(*make())))
    assert isinstance(function, Function)
    pass_ = linear_algebra()
    found = written(function, [pass_])
    assert check_agreement(found, pass_.sets, function, pass_, {"rules.cost": "nodes"}) == expected


@pytest.mark.parametrize("name", list(LIST)[:: 57 // share(10, 57)])
def test_excluding_untaken_rules_does_not_change_the_cost(name: str) -> None:
    function = func(LIST[name].program())
    found = written(function, [linear_algebra()], **{"rules.math": LIST[name].math, "rules.cost": "roofline"})
    led = set(map(without_operators, found.node_traces.rules()))
    fired = {without_operators(application.rule) for run in found.node_traces.runs for application in run.applications}
    for rule in sorted(fired - led):
        other = apply(linear_algebra(), function, rules__math=LIST[name].math, rules__disabled=[rule])
        assert program_cost(other.function.body, ROOFLINE) <= program_cost(found.main.body, ROOFLINE) * (1 + 1e-9), rule


def test_of_eager_rules_on_operands_that_are_constant_later() -> None:
    """The shape of the product is known before the product, which is one of zeros."""
    product = var("x", (0, 3), "int64") * const((0, 0, 0), "int64")
    flat = ops.nn.batch_flatten(product, axis=2)
    function = infer_type(func(tup(ops.abs(product), flat, ops.dyn.reshape(flat, ops.shape_of(flat)))))
    assert isinstance(function, Function)
    assert written(function, [default_pipeline()], **{"rules.cost": "nodes", "rules.joint": True}).check().complete


@settings(max_examples=share(5, 300), derandomize=True, suppress_health_check=list(HealthCheck))
@given(programs())
def test_of_the_default_pipeline_all_say_the_same(function: Function) -> None:
    config = {"rules.cost": "nodes", "rules.joint": True}
    check_agreement(written(function, [default_pipeline()], **config), (), function, default_pipeline(), config)


def test_joining_rules_add_nothing_to_the_e_graph_where_sums_have_no_common_parts() -> None:
    function = func(tup(ops.exp(x + y), ops.tanh(y + x), ops.exp((x * y) * z)))
    found = written(function, [RulePass(linear_algebra().sets[-2:], name="Joining")])
    (run,) = found.node_traces.runs
    assert run.applications
    assert not any(application.made for application in run.applications)
    assert len(run.graph) == run.initial
