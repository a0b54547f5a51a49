"""The rules, and the application, that make a result bad: found in few runs, with fakes instead of models."""

import math
from collections.abc import Callable, Collection, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.rule_search import first_application, smallest_set
from tests.share import share

RULES = [f"Set.r{i}" for i in range(128)]


class Asked:
    """Counts the calls of a predicate on sets of rules."""

    def __init__(self, bad: Callable[[Collection[str]], bool | None]) -> None:
        self.bad = bad
        self.sets: list[frozenset[str]] = []

    def __call__(self, rules: Sequence[str]) -> bool | None:
        self.sets.append(frozenset(rules))
        return self.bad(frozenset(rules))


def needs(*guilty: str) -> Asked:
    return Asked(lambda rules: set(guilty) <= set(rules))


@pytest.mark.parametrize("guilty", [0, 1, 63, 64, 126, 127])
def test_one_rule_among_many_takes_a_logarithmic_number_of_questions(guilty: int) -> None:
    asked = needs(RULES[guilty])
    assert smallest_set(RULES, asked) == [RULES[guilty]]
    assert len(asked.sets) <= math.log2(len(RULES)) + 1


def test_no_check_runs_twice() -> None:
    asked = needs(RULES[5], RULES[90], RULES[91])
    assert smallest_set(RULES, asked) == [RULES[5], RULES[90], RULES[91]]
    assert len(set(asked.sets)) == len(asked.sets)
    assert frozenset() not in asked.sets
    assert frozenset(RULES) not in asked.sets


def test_the_only_rule_is_not_asked_about() -> None:
    asked = needs("Set.alone")
    assert smallest_set(["Set.alone"], asked) == ["Set.alone"]
    assert not asked.sets


@given(st.sets(st.integers(0, 127), min_size=1, max_size=6))
@settings(max_examples=share(35, 200))
def test_rules_that_come_together(numbers: set[int]) -> None:
    guilty = [RULES[number] for number in sorted(numbers)]
    asked = needs(*guilty)
    assert smallest_set(RULES, asked) == guilty
    assert len(asked.sets) <= len(guilty) * (math.log2(len(RULES)) + 3)


@given(st.lists(st.sets(st.integers(0, 15), min_size=1, max_size=4), min_size=1, max_size=4), st.sets(st.integers(0, 15), max_size=3))
@settings(max_examples=share(52, 300))
def test_the_found_set_is_minimal(causes: list[set[int]], hiding: set[int]) -> None:
    """Several causes, and rules that hide the effects of others unless all rules run: the predicate is not monotone."""
    rules = RULES[:16]

    def bad(chosen: Collection[str]) -> bool:
        numbers = {rules.index(rule) for rule in chosen}
        return len(numbers) == 16 or (any(cause <= numbers for cause in causes) and not numbers & hiding)

    found = smallest_set(rules, Asked(bad))
    assert bad(found)
    assert len(found) == 1 or not any(bad([other for other in found if other != rule]) for rule in found)


def test_undecidable_rules_are_kept() -> None:
    asked = Asked(lambda rules: None if 0 < len(rules) < 4 else len(rules) >= 4)
    assert smallest_set(RULES[:4], asked) == RULES[:4]


@pytest.mark.parametrize("bad", [1, 2, 500, 999, 1000])
def test_the_first_application_takes_a_logarithmic_number_of_questions(bad: int) -> None:
    asked: list[int] = []

    def ask(number: int) -> bool:
        asked.append(number)
        return number >= bad

    assert first_application(1000, ask) == (bad - 1, bad)
    assert len(asked) <= 12
    asked.clear()
    assert first_application(None, ask) == (bad - 1, bad)
    assert len(asked) <= 22


@given(st.lists(st.booleans(), min_size=1, max_size=200))
@settings(max_examples=share(35, 200))
def test_alternating_results_give_one_transition(answers: list[bool]) -> None:
    states = [False, *answers, True]
    found = first_application(len(states) - 1, states.__getitem__)
    assert found is not None
    low, high = found
    assert high == low + 1
    assert (states[low], states[high]) == (False, True)


def test_bad_before_any_application() -> None:
    assert first_application(7, lambda _: True) is None
    assert first_application(None, lambda _: True) is None


def test_undecidable_applications_are_reported_as_a_range() -> None:
    assert first_application(100, lambda number: None if 40 <= number < 44 else number >= 44) == (39, 44)
    assert first_application(None, lambda number: None if 40 <= number < 44 else number >= 44) == (39, 44)
