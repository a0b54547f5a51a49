"""Shared by the tables of rules: for each rule a program on which it fires, and one on which it does not, with the reason."""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue
from typing import NamedTuple

import pytest

from passat.ir.expr import Expr, Function
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import EXACT, FINITE, Rule, without_operators
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func
from tests.rules.running import assert_equal_in_value, directions, in_case, result_type, rewritten, saturate


class Case(NamedTuple):
    """A program on which a rule fires, one on which it does not, and a part of the reason ("" if the rule does not even match)."""

    positive: Function
    negative: Function
    reason: str


def case(positive: Expr, negative: Expr, reason: str) -> Case:
    """A case made of two bodies."""
    return Case(func(positive), func(negative), reason)


def pairs(cases: Mapping[str, Case], *sets: RuleSetMeta) -> list[tuple[RuleSetMeta, Rule, Case]]:
    """The rules of sets that have cases, paired with them; a rule without cases is an error. (`test_every_rule_has_cases.py` tests that
    each rule has cases in one of the files.) A rule with holes may have several, such as `Set.rule[dense]` and `Set.rule[matmul]`: such a
    case is for the directions whose names begin with it."""
    names = {rule.name for rules in sets for rule in rules}
    found: dict[str, list[str]] = {}
    for key in cases:
        found.setdefault(without_operators(key), []).append(key)
    assert not found.keys() - names, f"no rule for {sorted(found.keys() - names)}"
    made = [
        (rules, rule if key == rule.name else rule.named(key), cases[key])
        for rules in sets
        for rule in rules
        for key in found.get(rule.name, ())
    ]
    assert not [rule.name for _, rule, _ in made if not in_case(rule)], "cases that belong to no direction"
    return made


def with_each(table: Sequence[tuple[RuleSetMeta, Rule, Case]]) -> pytest.MarkDecorator:
    """Runs a test of `rules`, `rule` and `example` on each row of a table, under the name of the rule."""
    return pytest.mark.parametrize(("rules", "rule", "example"), table, ids=lambda value: value.name if isinstance(value, Rule) else "")


def options(rules: RuleSetMeta, rule: Rule) -> dict[str, AnyValue]:
    """The settings that a rule needs to run, without its other directions and without the other rules of its set."""
    name, own = without_operators(rule.name), {direction.name for direction in in_case(rule)}
    others = [direction.name for each in rules if each.name == name for direction in directions(each) if direction.name not in own]
    return {"rules__disabled": [*(each.name for each in rules if each.name != name), *others]} | (
        {"rules__math": FINITE} if rule.math == FINITE else {}
    )


def check_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    """The rule fires on its first program. The result has the same value and type, with and without constant folding."""
    before = example.positive
    for folding in ((), (ConstantFolding,)):
        outcome = saturate(before, rules, *folding, **options(rules, rule))
        if not folding:
            assert outcome.fired(without_operators(rule.name)) > 0, outcome.remarks
        assert result_type(outcome.function) == result_type(before)
        exact = all(other.math == EXACT for other in rules if outcome.fired(other.name))
        assert_equal_in_value(before, outcome.function, exact=exact)
    if rule.math == FINITE:
        assert saturate(before, rules).fired(without_operators(rule.name)) == 0, "it fires although values may be infinite"


def check_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    """The rule does not fire on its second program, and gives the reason."""
    name = without_operators(rule.name)
    outcome = saturate(example.negative, rules, **options(rules, rule))
    assert outcome.fired(name) == 0
    if not example.reason:
        assert outcome.count(f"matched:{name}") == 0
    else:
        said = [remark for remark in outcome.remarks if remark.startswith(f"{name} rejected")]
        assert any(example.reason in remark for remark in said), outcome.remarks


def check_rewrites(rule: Rule, example: Case) -> None:
    """The rule, applied to the whole first program regardless of cost, gives other programs of the same value; for exploring rules."""
    made, reasons = rewritten(example.positive, rule)
    assert made, reasons
    exact = rule.math == EXACT
    for function in made:
        assert result_type(function) == result_type(example.positive)
        assert_equal_in_value(example.positive, function, exact=exact, special=exact)


def check_makes_nothing(rule: Rule, example: Case) -> None:
    """The rule, applied to the whole second program, gives nothing, and states the reason if it matched."""
    made, reasons = rewritten(example.negative, rule)
    assert not made
    assert any(example.reason in reason for reason in reasons) if example.reason else not reasons, reasons
