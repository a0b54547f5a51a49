"""Rules on powers, roots and squares: each on a program where it holds, and on one where it does not."""

from collections.abc import Callable

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Doubles, Powers, Sums
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import assert_equal_in_value, operators, optimise

x, y, narrow = var("x"), var("y"), var("narrow", (3,))
base = ops.exp(x)
wide = splat(1.0, (2, 3))
c, d = numbers((3,), seed=1), numbers((3,), seed=2)
huge = splat(3e38, (3,))


def power(value: float) -> Case:
    return case(
        ops.power(base, splat(value)), ops.power(base, splat(value + 1)), f"the elements of the constant are {value + 1}, not {value:g}"
    )


def binomials(a: Expr, b: Expr, plus: Callable[[Expr, Expr], Expr]) -> dict[tuple[str, str], Expr]:
    two = splat(2.0)
    return {
        ("outside", "between"): ops.add(plus(a * a, (a * b) * two), b * b),
        ("inside", "between"): ops.add(plus(a * a, (a * two) * b), b * b),
        ("outside", "last"): plus(a * a + b * b, (a * b) * two),
        ("inside", "last"): plus(a * a + b * b, (a * two) * b),
    }


def binomial_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for sign, plus in (("sum", ops.add), ("difference", ops.subtract)):
        fitting, others = binomials(x, y, plus), binomials(x, narrow, plus)
        found |= {
            f"Powers.binomial[{order}, {sign}, {two}]": case(fitting[two, order], others[two, order], "the types differ")
            for two, order in fitting
        }
    return found


CASES = {
    "Powers.square": power(2.0),
    "Powers.root": power(0.5),
    "Powers.inverse": power(-1.0),
    "Powers.inverse_root": power(-0.5),
    "Powers.reciprocal_of_inverse_root": case(ops.reciprocal(ops.rsqrt(base)), ops.reciprocal(ops.exp(base)), ""),
    "Powers.divide_inverse_root": case(y / ops.rsqrt(base), ops.rsqrt(base) / y, ""),
    "Doubles.twice": case(x + x, x + y, ""),
    "Sums.switch_add_multiply": case((x + c) * d, (x + huge) * d, "multiply of the constants leaves the range"),
    **binomial_cases(),
}
TABLE = pairs(CASES, Powers, Doubles, Sums)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    if rule.math != "finite":
        check_fires(rules, rule, example)
    else:
        outcome = optimise(example.positive, rules, rules__math="finite")
        assert outcome.fired(rule.name) > 0, outcome.remarks
        assert_equal_in_value(example.positive, outcome.function, exact=False)
        assert optimise(example.positive, rules).fired(rule.name) == 0


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    outcome = optimise(example.negative, rules, rules__math="finite")
    assert outcome.fired(rule.name) == 0
    if rule.math != "finite":
        check_refuses(rules, rule, example)
    elif example.reason:
        assert any(remark.startswith(f"{rule.name} refused") and example.reason in remark for remark in outcome.remarks), outcome.remarks


def test_an_exponent_that_enlarges_its_base_stays() -> None:
    outcome = optimise(func(ops.power(narrow, splat(2.0, (2, 3)))), Powers)
    assert operators(outcome.function) == ["power"]
    assert any("the types differ" in remark for remark in outcome.remarks)


def test_integers_have_squares_but_no_roots() -> None:
    count = var("count", (64, 64), "int64")
    before = func(ops.power(count, splat(2, (), "int64")))
    outcome = optimise(before, Powers)
    assert outcome.fired("Powers.square") == 1
    assert_equal_in_value(before, outcome.function, exact=True, special=False)
    outcome = optimise(func(ops.power(count, const(-1, "int64"))), Powers)
    assert any("not floating-point" in remark for remark in outcome.remarks)


def test_a_sum_of_integers_is_doubled_exactly() -> None:
    count = var("count", (64, 64), "int8")
    before = func(count + count)
    after = optimise(before, Doubles, rules__math="exact").function
    assert operators(after) == ["multiply"]
    assert_equal_in_value(before, after, exact=True, special=True)


def test_squares_become_one_unless_rounding_has_to_stay() -> None:
    function = func(x * x + (x * y) * splat(2.0) + y * y)
    assert optimise(function, Powers).count("fired:Powers.binomial") == 1
    assert optimise(function, Powers, rules__math="exact").count("fired:Powers.binomial") == 0
