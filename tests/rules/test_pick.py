"""The next best programs of a pass (`rules.pick`): which ones they are, that they have the same values, and invalid picks."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any as AnyValue

import pytest
from hypothesis import given, settings
from onnx import ModelProto, TensorProto, helper, save
from typer.testing import CliRunner

from passat import optimize
from passat.cli.app import app
from passat.ir.attrs import Attrs
from passat.ir.equality import structural_equal
from passat.ir.expr import Function, If
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.types import Type
from passat.passmgr import PassContext, Sequential
from passat.rules.library import ScaleAxis
from passat.rules.library.folding import ConstantFolding
from passat.rules.passes.simplify import FOLDING, SIMPLIFY
from passat.rules.pattern import op, tensors
from passat.rules.rule_pass import rule_pass
from passat.rules.rule_set import RuleSet, RuleSetMeta
from tests.rules.building import const, func, ops, tup, var
from tests.rules.program_strategies import programs
from tests.rules.running import assert_equal_in_value, operators, result_type, saturate
from tests.share import share

x, y = tensors("x y")
a, b = var("a"), var("b")


class Doubles(RuleSet):
    """Three ways to double."""

    product = (op.add(x, x) >> op.multiply(x, 2.0)).exploring()
    division = (op.add(x, x) >> op.divide(x, 0.5)).exploring()


class Quarters(RuleSet):
    """Two ways to take half of a half."""

    once = op.multiply(op.multiply(x, 0.5), 0.5) >> op.multiply(x, 0.25)


class Forgetful(RuleSet):
    """Unsound, but values are not compared here."""

    first = (op.tan(x + y) >> op.exp(x)).exploring()
    both = (op.tan(x + y) >> op.sin(y + x)).exploring()


class Prices:
    """Prices by operator; others cost 1."""

    def __init__(self, **prices: float) -> None:
        self.prices = prices

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        return self.prices.get(op.name, 1.0)


PRICES = Prices(add=3.0, multiply=1.0, divide=5.0)


def picked(function: Function, rank: int, *sets: RuleSetMeta, **config: AnyValue) -> Function:
    return saturate(function, *sets, rules__pick={"Tried": rank}, **config).function


def model(*kinds: str) -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 4]) for name in ("x", "y")]
    names = ["x", *(f"v{i}" for i in range(len(kinds) - 1)), "y"]
    nodes = [helper.make_node(kind, [names[i]], [names[i + 1]]) for i, kind in enumerate(kinds)]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


# ---- which program is extracted


def test_the_programs_come_in_the_order_of_their_cost() -> None:
    function = func(ops.exp(ops.add(a, a)))
    found = [operators(picked(function, rank, Doubles, rules__cost=PRICES)) for rank in range(5)]
    assert found == [[first, "exp"] for first in ("multiply", "add", "divide", "divide", "divide")]


def test_a_single_program_is_extracted() -> None:
    function = func(ops.multiply(ops.multiply(a, const(0.5)), const(0.5)))
    assert all(structural_equal(picked(function, rank, Doubles), function) for rank in range(3))


def test_only_the_named_pass_uses_its_rank() -> None:
    mod = IRModule.from_expr(func(ops.multiply(ops.multiply(ops.add(a, a), const(0.5)), const(0.5))))
    with PassContext(config={"rules.pick": {"Doubles": 1}, "rules.cost": PRICES, "rules.joint": False}):
        made = Sequential([rule_pass(Doubles), rule_pass(Quarters, ConstantFolding)])(mod)["main"]
    assert operators(made) == ["add", "multiply"]


@pytest.mark.parametrize("name", ["Doubles", "Quarters", "stage 1"])
def test_passes_in_one_e_graph_go_on_together(name: str) -> None:
    mod = IRModule.from_expr(func(ops.exp(ops.add(a, a))))
    with PassContext(config={"rules.pick": {name: 1}, "rules.cost": PRICES, "rules.joint": True}):
        made = Sequential([rule_pass(Doubles), rule_pass(Quarters)])(mod)["main"]
    assert operators(made) == ["add", "exp"]


def test_alternatives_are_counted() -> None:
    outcome = saturate(func(ops.exp(ops.add(ops.add(a, a), ops.add(a, a)))), Doubles)
    assert outcome.count("alternatives") == 2
    assert saturate(func(ops.exp(a)), Doubles).count("alternatives") == 0
    assert (outcome.count("changed"), saturate(func(ops.exp(a)), Doubles).count("changed")) == (1, 0)


def test_the_same_program_comes_each_time() -> None:
    function = func(ops.add(ops.add(ops.add(a, a), ops.add(b, b)), ops.add(ops.add(a, b), ops.add(a, b))))
    for rank in range(6):
        first, second = (picked(function, rank, Doubles) for _ in range(2))
        assert structural_equal(first, second)


# ---- the result is a program


@settings(max_examples=share(10, 60), derandomize=True)
@given(programs())
def test_each_has_the_same_values(function: Function) -> None:
    best = saturate(function, *SIMPLIFY, *FOLDING).function
    for rank in (1, 3):
        made = saturate(function, *SIMPLIFY, ScaleAxis, *FOLDING, rules__pick={"Tried": rank}).function
        assert result_type(made) == result_type(best)
        assert_equal_in_value(function, made, exact=False, rounds=2)


@settings(max_examples=share(8, 40), derandomize=True)
@given(programs(stateful=True))
def test_stateful_calls_stay(function: Function) -> None:
    made = picked(function, 2, *SIMPLIFY, Doubles)
    assert operators(made).count("nn.dropout") == operators(function).count("nn.dropout")


def test_a_program_that_loses_a_stateful_call_is_passed_over() -> None:
    noise = ops.nn.dropout(b)[0]
    function = func(ops.tan(a + noise), a, b)
    prices = Prices(sin=1.0, exp=1.5, tan=9.0, **{"nn.dropout": 0.001, "add": 0.001})
    found = [saturate(function, Forgetful, rules__pick={"Tried": rank}, rules__cost=prices) for rank in range(3)]
    assert [operators(outcome.function)[-1] for outcome in found] == ["sin", "tan", "tan"]
    assert all(not outcome.remarks for outcome in found)


def test_branches_have_programs_of_their_own() -> None:
    c = var("c", (), "bool")
    function = func(tup(If(c, ops.exp(ops.add(a, a)), a), ops.sin(ops.add(a, a))))
    made = [picked(function, rank, Doubles, rules__cost=PRICES) for rank in range(3)]
    assert [operators(one).count("divide") for one in made] == [0, 0, 2]
    for one in made:
        assert_equal_in_value(function, one, exact=False)


def layers(count: int) -> Function:
    value = a
    for _ in range(count):
        value = ops.tanh(ops.exp(ops.sin(ops.add(value, value))))
    return func(value)


def test_each_region_uses_the_rank() -> None:
    function = layers(60)
    made = [saturate(function, Doubles, rules__pick={"Tried": rank}, rules__cost=PRICES, rules__region_nodes=20) for rank in range(2)]
    regions = int(made[1].count("regions"))
    assert regions > 1
    assert [operators(outcome.function).count("add") for outcome in made] == [0, regions]
    assert_equal_in_value(function, made[1].function, exact=False, rounds=1)


# ---- invalid picks


@pytest.mark.parametrize(
    ("pick", "said"),
    [
        ({"SimplifyExpr": -1}, r"^expect config rules.pick to be at least 0 but get -1 of 'SimplifyExpr'"),
        (
            {"SimplifyExpr": "second"},
            r"^expect config rules.pick to have type dict\[str, int\]: the value of 'SimplifyExpr': expected int, got 'second'",
        ),
        ({"SimplifyExpr": True}, r"^expect config rules.pick to have type dict\[str, int\]"),
        ({1: 1}, r"^expect config rules.pick to have type dict\[str, int\]"),
        ("SimplifyExpr", r"^expect config rules.pick to have type dict\[str, int\] but get 'SimplifyExpr'"),
        (1, r"^expect config rules.pick to have type dict\[str, int\] but get int"),
    ],
)
def test_bad_picks(pick: object, said: str) -> None:
    with pytest.raises(AttributeError, match=said):
        PassContext(config={"rules.pick": pick})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (
            "SimplifyExp",
            "config rules.pick names 'SimplifyExp', which is neither in this pipeline nor registered; did you mean SimplifyExpr?",
        ),
        ("Nothing like it", "config rules.pick names 'Nothing like it', which is neither in this pipeline nor registered"),
        ("DeadCodeElimination", "config rules.pick names DeadCodeElimination, which has no e-graph"),
    ],
)
def test_an_unknown_pass(name: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(AttributeError) as caught:
        optimize(model("Neg", "Exp"), config={"rules.pick": {name: 1}})
    assert str(caught.value) == said
    path = tmp_path / "model.onnx"
    save(model("Neg", "Exp"), path)
    done = CliRunner().invoke(app, ["optimize", str(path), "-o", str(tmp_path / "out.onnx"), "--config", f'rules.pick={{"{name}": 1}}'])
    assert done.exit_code == 2
    assert said in done.output
    assert not (tmp_path / "out.onnx").exists()


def test_a_pass_of_another_pipeline_may_be_named() -> None:
    done = optimize(model("Neg", "Neg", "Exp"), passes="SimplifyExpr", config={"rules.pick": {"FoldBatchNorm": 1}})
    assert [node.op_type for node in done.model.graph.node] == ["Exp"]


def test_results_more_expensive_than_the_input_are_discarded() -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [4, 4])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [4, 4])
    graph = helper.make_graph([helper.make_node("Add", ["x", "x"], ["y"])], "g", [value], [result])
    doubled = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    done = [
        optimize(doubled, passes="Doubles", rules=[Doubles], cost=PRICES, config={"rules.pick": {"Doubles": rank}}) for rank in range(3)
    ]
    assert [[node.op_type for node in one.model.graph.node if node.op_type != "Constant"] for one in done] == [["Mul"], ["Add"], ["Add"]]
    assert done[2].report.kept == "the result is not cheaper: 1 node, estimated 5 Prices, against 1 and 3 Prices"
