"""Every rule of the library is checked as `passat rules check` does it: both sides have one value and one type on random instances.

With PASSAT_SOAK=1 in the environment, on many more.
"""

import os

import pytest

from passat.rules import library
from passat.rules.checking.check import check_rule
from passat.rules.checking.relations import circles, covered, enlarges
from passat.rules.checking.text import rule_lines
from passat.rules.checking.trying import tried
from passat.rules.rule import Rule, RuleSetMeta

INSTANCES = 2000 if os.environ.get("PASSAT_SOAK") == "1" else 20
RULES: list[Rule] = [rule for name in library.__all__ for rule in getattr(library, name)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_both_sides_have_one_value(rule: Rule) -> None:
    report = check_rule(rule, instances=INSTANCES).report
    assert report.verdict == "sound", "\n".join(rule_lines(report))
    assert report.compared >= INSTANCES


def test_no_rules_of_the_library_go_round_in_a_circle_or_are_superfluous_or_only_enlarge() -> None:
    checked = [tried(rule, 0, 6) for rule in RULES]
    assert circles(checked) == []
    assert list(covered(RULES)) == []
    assert [found.rule.name for found in checked if enlarges(found)] == []


def test_every_rule_set_of_the_library_is_public() -> None:
    modules = {name: value for name, value in vars(library).items() if isinstance(value, RuleSetMeta)}
    assert sorted(modules) == sorted(library.__all__)
    assert all(len(rules) for rules in modules.values())
    assert len({rule.name for rule in RULES}) == len(RULES)
