"""Biases as they are run: what extraction takes them to cost is what the program that comes of it costs."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Expr, Function
from passat.ir.infer import infer_type
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.engine.engine import Engine
from passat.rules.engine.matching import Matcher
from passat.rules.engine.report import EngineReport
from passat.rules.library import BiasSums, Factoring, Products, ScaleAxis, Sums
from passat.rules.passes import fold_batch_norm, linear_algebra
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.running import apply, assert_equal_in_value, operators

RULES = [rule for rules in (ScaleAxis, BiasSums, Factoring, Products, Sums) for rule in rules if not rule.back]


@st.composite
def programs(draw: st.DrawFn) -> Function:
    """Products, biases, sums and what reads them, shared at random."""
    values: list[Expr] = [var("x", (4, 4))]
    for seed in range(draw(st.integers(2, 12))):
        one, other = (values[draw(st.integers(0, len(values) - 1))] for _ in range(2))
        kind = draw(st.sampled_from(["product", "bias", "shift", "number", "sum", "times", "relu"]))
        if kind == "product":
            values.append(ops.nn.dense(one, numbers((4, 4), seed=seed)))
        elif kind == "bias":
            values.append(ops.nn.bias_add(one, numbers((4,), seed=seed), axis=-1))
        elif kind == "relu":
            values.append(ops.nn.relu(one))
        else:
            shift = {"shift": numbers((4,), seed=seed), "number": splat(3.0)}
            values.append(one * other if kind == "times" else one + shift.get(kind, other))
    return func(values[-1] * values[draw(st.integers(0, len(values) - 1))])


@settings(deadline=None, max_examples=40)
@given(programs())
def test_extraction_and_the_program_agree_on_what_it_costs(function: Function) -> None:
    infer_type(function)
    report = EngineReport()
    made = infer_type(Engine([Matcher(rule) for rule in RULES]).run(function, report))
    assert isinstance(made, Function)
    assert not report.failures
    if report.cost_after:
        assert report.cost_after == pytest.approx(program_cost(made.body, ROOFLINE), abs=1e-7)
    assert program_cost(made.body, ROOFLINE) <= program_cost(function.body, ROOFLINE) + 1e-7


def hard_swish(weight: Expr) -> Expr:
    biased = ops.nn.bias_add(weight, numbers((3,)), axis=1)
    made: Expr = (biased * ops.clip(biased + splat(3.0), a_min=0.0, a_max=6.0)) / splat(6.0)
    return made


def test_a_bias_that_something_else_reads_stays_one() -> None:
    """HardSwish as exporters write it: with the 3 in a second bias, neither would go into the convolution."""
    function = func(hard_swish(ops.nn.conv2d(var("x", (1, 2, 5, 5)), numbers((3, 2, 3, 3)))))
    for pass_ in (fold_batch_norm(), linear_algebra()):
        made = apply(pass_, function).function
        assert operators(made.body).count("nn.bias_add") == 1
        assert_equal_in_value(function, made, exact=False)
