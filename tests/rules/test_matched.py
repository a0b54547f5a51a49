"""The part of a program that a rule was applied to, as two executable functions."""

from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import pytest

import passat
from passat import relay
from passat.ir.expr import Call, Constant, Expr, Function
from passat.ir.onnx import load
from passat.ir.text.printer import pretty_print
from passat.ir.traverse import post_order
from passat.passmgr import PassContext
from passat.pipelines import build_pipeline
from passat.rules import RuleSet, attribute, constant, each, joined, op, parts, rule_pass, tensors
from passat.rules.engine.grouping import Grouper
from passat.rules.engine.symbols import Symbol
from passat.rules.engine.trace import Application, Run, Trace
from passat.rules.matched import Matched, matched_part
from passat.rules.substitution import same_type

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
x, y, z = tensors("x y z")
w = tensors("w")[0]
c = constant("c")
a = attribute("a")
F = relay.var("f", shape=(2, 3))
G = relay.var("g", shape=(2, 3))


def applied(rules: type[RuleSet], body: Expr, *params: relay.Var) -> list[tuple[Run, Application]]:
    trace = Trace()
    with PassContext(config={"rules.trace": trace}):
        rule_pass(rules, opt_level=0)(passat.IRModule.from_expr(Function(params, body)))
    return [(run, application) for run in trace.runs for application in run.applications]


def part(rules: type[RuleSet], body: Expr, *params: relay.Var, **options: bool) -> Matched:
    run, application = applied(rules, body, *params)[0]
    found = matched_part(run, application, **options)
    assert found is not None
    return found


def body_of(function: Function) -> str:
    return "".join(pretty_print(function).split("\n")[1:-1]).strip()


def value(function: Function, *inputs: AnyValue) -> AnyValue:
    return relay.create_executor("debug", mod=passat.IRModule.from_expr(function)).evaluate()(*inputs).numpy()


def test_both_sides_are_functions_of_the_holes() -> None:
    class Signs(RuleSet):
        difference = op.negative(x - y) >> y - x

    found = part(Signs, relay.exp(relay.negative(relay.exp(F) - G)), F, G)
    assert [param.name_hint for param in found.before.params] == [param.name_hint for param in found.after.params] == ["x", "y"]
    p, q = np.ones((2, 3), np.float32), np.full((2, 3), 5, np.float32)
    np.testing.assert_array_equal(value(found.before, p, q), value(found.after, p, q))
    assert len(found.nodes) == 2


def test_operands_stand_as_they_were_matched() -> None:
    class Scaled(RuleSet):
        one = op.exp(x) * c + y >> y

    found = part(Scaled, relay.add(G, relay.multiply(relay.const(2.0), relay.exp(F))), F, G)
    before = found.before.body
    assert isinstance(before, Call)
    first, second = before.args
    assert first is found.before.params[[param.name_hint for param in found.before.params].index("y")]
    assert isinstance(second, Call)
    assert isinstance(second.args[0], Constant)
    assert found.after.body is first


def test_a_hole_that_occurs_twice_is_one_parameter() -> None:
    class Twice(RuleSet):
        double = op.exp(x) + op.exp(x) >> op.exp(x) * 2.0

    found = part(Twice, relay.exp(F) + relay.exp(F), F)
    assert len(found.before.params) == 1
    p = np.ones((2, 3), np.float32)
    np.testing.assert_allclose(value(found.before, p), value(found.after, p))


def test_constants_are_kept_or_become_parameters() -> None:
    class Drop(RuleSet):
        first = op.add(x, y) >> x

    body = F + relay.const(np.arange(3, dtype=np.float32))
    kept, open_ = part(Drop, body, F), part(Drop, body, F, constants=False)
    assert len(kept.before.params) == 1
    assert any(isinstance(node, Constant) for node in post_order(kept.before))
    assert len(open_.before.params) == 2

    class Scale(RuleSet):
        drop = x * c >> x

    asked = part(Scale, F * relay.const(3.0), F, constants=False)
    assert len(asked.before.params) == 1


def test_attributes_and_fields() -> None:
    class Fields(RuleSet):
        first = op.transpose(op.transpose(x, attrs=a), attrs=a) >> op.negative(op.transpose(x, attrs=a))

    square = relay.var("square", shape=(3, 3))
    found = part(Fields, relay.transpose(relay.transpose(square, axes=[1, 0]), axes=[1, 0]), square)
    assert "axes=[1, 0]" in pretty_print(found.before)
    assert body_of(found.after).count("transpose") == 1

    class Splits(RuleSet):
        zeroth = op.split(x, attrs=a)[0] >> op.strided_slice(x, begin=(0,), end=(1,), strides=(1,), axes=(0,))

    split = part(Splits, relay.split(F, 2)[0], F)
    p = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(value(split.before, p), value(split.after, p))


def test_a_rule_with_several_roots_makes_a_tuple() -> None:
    class Products(RuleSet):
        matmul = (each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)).inexact("in blocks")

    weights = [relay.const(np.full((3, 4), i + 1, np.float32)) for i in range(3)]
    heads = relay.Tuple([relay.nn.relu(relay.nn.matmul(F, weight)) for weight in weights])
    found = part(Products, heads, F)
    p = np.arange(6, dtype=np.float32).reshape(2, 3)
    run = relay.create_executor("debug", mod=passat.IRModule.from_expr(found.before)).evaluate()(p)
    made = relay.create_executor("debug", mod=passat.IRModule.from_expr(found.after)).evaluate()(p)
    assert len(run) == len(made) == 3
    for one, other in zip(run, made, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_a_tuple_bound_to_a_hole_becomes_parameters() -> None:
    class Joins(RuleSet):
        twice = op.negative(op.concatenate(x, attrs=a)) >> op.concatenate(x, attrs=a)

    found = part(Joins, relay.negative(relay.concatenate(relay.split(F, 3, axis=1).astuple(), axis=1)), F)
    assert [param.name_hint for param in found.before.params] == ["x0", "x1", "x2"]


@pytest.mark.parametrize("count", [1, 4])
def test_every_application_of_a_chain(count: int) -> None:
    class Twice(RuleSet):
        negative = op.negative(op.negative(x)) >> x

    body: Expr = F
    for _ in range(2 * count):
        body = relay.negative(body)
    for run, application in applied(Twice, body, F):
        found = matched_part(run, application)
        assert found is not None
        assert body_of(found.after) == "%x"
        assert body_of(found.before).count("negative") == 2


@pytest.mark.parametrize(("model", "count"), [("bert_tiny", 40), ("resnet_tiny", 20)])
def test_every_application_of_the_library_to_a_model(model: str, count: int) -> None:
    trace = Trace()
    with PassContext(3, config={"rules.trace": trace}):
        build_pipeline()(load(EXAMPLES / f"{model}.onnx"))
    total = 0
    for run in trace.runs:
        for application in run.applications:
            total += 1
            found = matched_part(run, application)
            assert found is not None
            assert len(found.before.params) == len(found.after.params)
            assert same_type(found.before.body.checked_type, found.after.body.checked_type)
            assert run.graph.symbols[found.nodes[0]] is root_of(application)
    assert total >= count


def root_of(application: Application) -> Symbol:
    matcher = application.matcher
    return matcher.matcher.root if isinstance(matcher, Grouper) else matcher.root
