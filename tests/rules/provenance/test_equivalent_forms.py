"""The rules by which certificates prove the work of passes without rules: both sides have the same value and type on random instances."""

import pytest

from passat.rules.checking.check_sets import INSTANCES, check_rule
from passat.rules.checking.report import rule_lines
from passat.rules.checking.trying import triers
from passat.rules.library import rule_sets
from passat.rules.provenance.equivalent_forms import EquivalentForms
from passat.rules.provenance.moved_selections import MovedSelections
from passat.rules.provenance.stacked_rows import StackedRows
from passat.rules.rule import Rule
from tests.share import share

WANTED = share(2, INSTANCES)


@pytest.mark.parametrize("rule", [*EquivalentForms, *StackedRows, *MovedSelections], ids=lambda rule: rule.name)
def test_both_sides_have_one_value(rule: Rule) -> None:
    checked = check_rule(rule, instances=WANTED)
    assert checked.report.verdict == "sound", "\n".join(rule_lines(checked.report))
    assert checked.report.compared >= WANTED
    assert {trier.rule.name for trier, _ in checked.agreeing} == {trier.rule.name for trier in triers(rule)}


def test_no_pass_runs_them() -> None:
    assert {"EquivalentForms", "StackedRows", "MovedSelections"}.isdisjoint(rule_sets())
