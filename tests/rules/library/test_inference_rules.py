"""What inference does not need: each rule on a program where it holds, and on one where it does not."""

import pytest

from passat.rules.library import Inference
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import func, ops, tup, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import operators, optimise

x = var("x")
CASES = {"Inference.dropout": case(ops.nn.dropout(x)[0] * x, ops.nn.dropout(x)[1] * x, "the field is 1, not 0")}
TABLE = pairs(CASES, Inference)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


def test_every_dropout_goes() -> None:
    body = x
    for rate in (0.1, 0.1, 0.5):
        body = ops.nn.relu(ops.nn.dropout(body, rate=rate)[0])
    assert operators(optimise(func(body), Inference).function) == ["nn.relu"] * 3


def test_a_mask_that_is_used_keeps_its_dropout() -> None:
    both = ops.nn.dropout(x)
    outcome = optimise(func(tup(both[0], both[1])), Inference)
    assert operators(outcome.function) == ["nn.dropout"]
