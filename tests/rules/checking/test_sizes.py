"""Comparisons that random instances seldom satisfy are satisfied by plan."""

import pytest

from passat.rules.checking.check_sets import check_rule
from passat.rules.guards import Guard
from passat.rules.pattern import attributes, op, tensors
from passat.rules.rule import Rule

x, y = tensors("x y")
a, b = attributes("a b")


def is_found(rule: Rule) -> bool:
    """True if instances are found, of any number of draws."""
    report = check_rule(rule.named("Own.rule"), instances=20).report
    assert report.verdict in ("sound", "rejected")
    return report.verdict == "sound" and report.compared == 20


@pytest.mark.parametrize(
    "asked",
    [
        (x.shape[0] > 64,),
        (x.shape[0] >= 64.5,),
        (x.shape[-1] >= 70,),
        (x.shape[-1] % 16 == 0, x.shape[-1] > 0),
        (x.shape[0] * 3 == 99,),
        (x.shape[0] // 8 == 5,),
        (x.shape[1] - 20 > 2,),
        (30 - x.shape[0] < 2,),
        (2 + x.shape[0] == 37,),
        (x.ndim == 5,),
        (x.ndim == 3, x.shape[1] > 30),
        (x.shape[1] > 30, x.ndim == 3),
        (x.shape[0] * x.shape[1] > 100,),
        (x.shape[0] * x.shape[1] * x.shape[2] == 120,),
        (x.shape[0] + x.shape[1] > 40,),
        (x.shape[0] - x.shape[1] >= 30,),
        (x.shape[0] // x.shape[1] == 7,),
        (x.shape[0] % x.shape[1] == 9,),
        (x.shape[0] == 19, x.shape[1] > x.shape[0] + 20),
        (x.shape == (7, 9),),
        (x.dtype == "uint16", x.shape[0] == 23),
        (op.abs(x).shape[0] == 41,),
    ],
    ids=repr,
)
def test_sizes_and_ranks_are_planned(asked: tuple[Guard, ...]) -> None:
    assert is_found((op.abs(op.abs(x)) >> op.abs(x)).when(*asked))


@pytest.mark.parametrize("asked", [(x.shape[0] == 33, y.shape[0] == x.shape[0]), ((x + y).shape[0] == 33, x.ndim == 1)], ids=repr)
def test_sizes_of_several_terms_are_planned(asked: tuple[Guard, ...]) -> None:
    assert is_found((op.abs(op.abs(x + y)) >> op.abs(x + y)).when(*asked))


@pytest.mark.parametrize("asked", [(a == 17.5, b < a - 40), (a * 2 == 35, b > a), (a - 3 >= 70, b == 0.5)], ids=repr)
def test_attributes_are_planned(asked: tuple[Guard, ...]) -> None:
    inner = op.nn.leaky_relu(x, alpha=a)
    assert is_found((op.abs(op.abs(op.nn.leaky_relu(inner, alpha=b))) >> op.abs(op.nn.leaky_relu(inner, alpha=b))).when(*asked))


@pytest.mark.parametrize("asked", [x.shape[0] == 2.5, x.ndim == -1, x.dtype == 3, x.shape[0] < 0, x.shape > 3, a == x.dtype], ids=repr)
def test_a_comparison_that_never_holds_is_reported(asked: Guard) -> None:
    rule = op.abs(op.nn.leaky_relu(x, alpha=a)) >> op.abs(op.abs(op.nn.leaky_relu(x, alpha=a)))
    report = check_rule(rule.when(asked).named("Own.never"), instances=10).report
    assert [finding.kind for finding in report.findings] == ["never holds"]
    assert f"the guard {asked!r} held in none of " in report.findings[0].text
