"""The directions of rules: which programs they are expanded for."""

from collections.abc import Iterator

import pytest

from passat.rules import Rule, RuleSet, op, tensor
from passat.rules.engine.directions import Directions
from passat.rules.library import rule_sets
from passat.rules.multi_pattern import MultiRule
from passat.rules.rule import EAGER

x = tensor("x")


def library() -> Iterator[Rule]:
    for rules in rule_sets().values():
        yield from (rule for rule in rules if rule.kind != EAGER and not isinstance(rule, MultiRule))


def test_each_direction_has_the_symbols_that_the_rule_needs() -> None:
    needed = 0
    for rule in library():
        directions = Directions(rule)
        assert [matcher.name for matcher in directions.matchers if not directions.needs <= matcher.symbols] == []
        needed += bool(directions.needs)
    assert needed > 300


@pytest.mark.parametrize("left_out", ["Twice.swap", "Twice.swap.back"])
def test_a_direction_can_be_left_out(left_out: str) -> None:
    class Twice(RuleSet):
        swap = (op.exp(op.negative(x)) >> 1 / op.exp(x)).inexact("rounds").and_back()

    assert [matcher.name for matcher in Directions(Twice.swap, frozenset([left_out])).matchers] == [
        name for name in ("Twice.swap", "Twice.swap.back") if name != left_out
    ]
