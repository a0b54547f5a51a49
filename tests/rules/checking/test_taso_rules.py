"""The exchange rules of the TASO family: those that are wrong as published are rejected; with guards, all pass."""

from types import ModuleType
from typing import Any as AnyValue

import pytest

from passat.rules.checking.check_sets import check_rule
from passat.rules.checking.trying import tried
from passat.rules.rule import Rule
from tests.rules.checking import taso_guarded, taso_published
from tests.share import share


def rules_of(module: ModuleType) -> list[Rule]:
    return [rule for rules in module.SETS for rule in rules]


def sides_of(rules: list[Rule]) -> set[tuple[AnyValue, AnyValue]]:
    """The two sides of every rule that these stand for."""
    return {(one.lhs.key, one.rhs.key) for rule in rules if rule.name not in OURS for one in rule.directions()}


PUBLISHED, GUARDED = rules_of(taso_published), rules_of(taso_guarded)
RIGHT = {
    "Elementwise.add_associates",
    "Elementwise.multiply_associates",
    "Elementwise.multiply_distributes",
    "Elementwise.add_moves_scale",
    "Elementwise.transpose_of_relu",
    "Concatenations.of_relus",
    "Concatenations.of_transposed",
    "Products.transposes",
}
"""Rules that need no guard: broadcasting is harmless, or the type relations of the operators exclude the wrong cases."""


OURS = {"Exchanges.conv_enlarged"}
"""Rules that are not published in this form."""


def test_all_published_rules_are_there_with_guards() -> None:
    assert sides_of(GUARDED) == sides_of(PUBLISHED)
    assert len(sides_of(PUBLISHED)) == len(PUBLISHED) == 29
    assert not any(rule.guards for rule in PUBLISHED)


@pytest.mark.parametrize("rule", PUBLISHED, ids=lambda rule: rule.name)
def test_published_but_wrong_rules_are_rejected(rule: Rule) -> None:
    wanted = share(30, 200) if rule.name in RIGHT else 400  # concatenations need other sizes in two of three operands
    checked = tried(rule, 0, wanted, enough=1)
    assert bool(checked.wrong) == (rule.name not in RIGHT)
    assert checked.wrong or checked.report.compared >= wanted


@pytest.mark.parametrize("rule", GUARDED, ids=lambda rule: rule.name)
def test_with_guards_all_pass(rule: Rule) -> None:
    wanted = share(10, 200)
    checked = tried(rule, 0, wanted)
    assert [trial.reason for _, trial in checked.wrong] == []
    assert checked.report.compared >= wanted


def test_the_guard_is_found() -> None:
    report = check_rule(taso_published.Concatenations.split_second, instances=100, seed=0).report
    assert report.fixed_by == ".when(same_shape(x, y))"
    assert report.counterexample is not None
