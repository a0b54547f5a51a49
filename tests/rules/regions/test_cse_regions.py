"""CSE across regions: common subexpressions of several regions are eliminated."""

import pytest

from passat.ir.expr import Expr, Function, Tuple
from passat.ir.infer import infer_type
from passat.ir.module import IRModule
from passat.passmgr import PassContext, Sequential
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.pattern import op, tensor
from passat.rules.regions import regions
from passat.rules.rule_pass import rule_pass
from passat.rules.rule_set import RuleSet
from tests.rules.building import func, numbers, ops, var
from tests.rules.running import Outcome, assert_equal_in_value, operators, saturate


class Plain(RuleSet):
    """Removes double negations."""

    twice = op.negative(op.negative(tensor("x"))) >> tensor("x")


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(regions, "LEAST", 3)
    monkeypatch.setattr(regions, "WINDOW", 20)


def twins() -> Function:
    """Six layers, twice: both copies have the same weights as separate constants."""
    a = var("a", (2, 4))
    results: list[Expr] = []
    for _ in range(2):
        value: Expr = a
        for seed in range(6):
            scaled = ops.multiply(ops.negative(ops.negative(value)), numbers((2, 4), seed=seed))
            value = ops.add(ops.exp(scaled), scaled)
        results.append(value)
    return func(Tuple(results))


def run(nodes: int, *, merge: bool = True) -> Outcome:
    return saturate(twins(), Plain, merge=merge, rules__region_nodes=nodes)


def test_equal_layers_of_different_regions_are_merged() -> None:
    whole, cut, apart = run(1 << 30), run(0), run(0, merge=False)
    assert whole.count("regions") == 0
    assert cut.count("regions") == apart.count("regions") >= 12
    assert operators(whole.function) == operators(cut.function) == ["multiply", "exp", "add"] * 6
    assert len(operators(apart.function)) == 2 * 3 * 6
    assert program_cost(cut.function, ROOFLINE) == program_cost(whole.function, ROOFLINE)
    assert cut.count("merged") == 3 * 6


def test_merged_regions_have_the_values_of_the_input() -> None:
    function = twins()
    assert_equal_in_value(function, saturate(function, Plain, merge=True, rules__region_nodes=0).function, exact=True)


def test_cse_alone_does_not_cut_regions() -> None:
    outcome = saturate(twins(), merge=True, rules__region_nodes=0)
    assert outcome.count("regions") == 0
    assert len(operators(outcome.function)) == 5 * 6


def test_joint_groups_with_cse_are_cut() -> None:
    mod = IRModule.from_expr(infer_type(twins()))
    pipeline = Sequential([rule_pass(Plain), rule_pass(name="Merge", merge=True)])
    with PassContext(opt_level=3, config={"rules.joint": True, "rules.region_nodes": 0}) as ctx:
        made = pipeline(mod)["main"]
    assert ctx.statistics.counters["stage 1"]["regions"] >= 12
    assert operators(made) == ["multiply", "exp", "add"] * 6
