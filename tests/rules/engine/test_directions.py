"""The directions of rules: which programs they are expanded for."""

import random
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


def test_rules_are_expanded_as_far_as_symbols_need() -> None:
    """A rule that is new has the matchers without other symbols, in the order of all."""
    matchers = {rule: Directions(rule).matchers for rule in library()}
    symbols = sorted(set().union(*(each.symbols for found in matchers.values() for each in found)), key=lambda symbol: symbol.name)
    draw = random.Random(0)
    asked = 0
    for share in (0.9, 0.5, 0.7, 1.0, 0.2):
        some = frozenset(symbol for symbol in symbols if draw.random() < share)
        for rule, found in matchers.items():
            within = Directions(rule.named(rule.name)).within(some)
            assert [each.name for each in within] == [each.name for each in found if each.symbols <= some]
            asked += bool(within) and len(within) < len(found)
    assert asked > 100


@pytest.mark.parametrize("left_out", ["Twice.swap", "Twice.swap.back"])
def test_a_direction_can_be_left_out(left_out: str) -> None:
    class Twice(RuleSet):
        swap = (op.exp(op.negative(x)) >> 1 / op.exp(x)).inexact("rounds").and_back()

    assert [matcher.name for matcher in Directions(Twice.swap, frozenset([left_out])).matchers] == [
        name for name in ("Twice.swap", "Twice.swap.back") if name != left_out
    ]
