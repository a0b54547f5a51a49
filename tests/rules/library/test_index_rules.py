"""Rules on index arithmetic: each on a program that it rewrites, and on one that it does not."""

import pytest

from passat.ir.expr import Expr
from passat.rules.library.index_arithmetic import IndexCasts, IndexExtrema, IndexQuotients, IndexSums
from passat.rules.library.index_forms import IndexRemainders, IndexShortForms, IndexSolved
from passat.rules.library.index_logic import IndexComparisons, IndexLogic, IndexSelections
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, ops, splat, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs

i, j, k = (var(name, (), "int64") for name in "ijk")
u, v, t = (var(name, (), "int64") for name in "uvt")
p, q = (var(name, (), "bool") for name in "pq")
vector = var("vector", (3,), "int64")
flags = var("flags", (3,), "bool")
INDEX, SCALAR, TRUTH = "is not the type of an index", "is not the type of a scalar integer", "is not the type of a truth value"
ZERO = const(0, "int64")


def n(value: int) -> Expr:
    return const(value, "int64")


def within(x: Expr, low: int, high: int) -> Expr:
    return ops.clip(x, a_min=low, a_max=high)  # type: ignore[no-any-return]  # `ops`


def below(x: Expr) -> Expr:
    return ops.less(x, ZERO)  # type: ignore[no-any-return]  # as above


def zero(x: Expr) -> Expr:
    return ops.equal(x, ZERO)  # type: ignore[no-any-return]  # as above


def floor(x: Expr, y: Expr) -> Expr:
    return ops.floor_divide(x, y)  # type: ignore[no-any-return]  # as above


def trunc(x: Expr, y: Expr) -> Expr:
    return ops.divide(x, y)  # type: ignore[no-any-return]  # as above


def least(x: Expr, y: Expr) -> Expr:
    return ops.minimum(x, y)  # type: ignore[no-any-return]  # as above


def most(x: Expr, y: Expr) -> Expr:
    return ops.maximum(x, y)  # type: ignore[no-any-return]  # as above


def chosen(x: Expr, y: Expr = ZERO, of: Expr = p) -> Expr:
    return ops.where(of, x, y)  # type: ignore[no-any-return]  # as above


def neither(x: Expr) -> Expr:
    return ops.logical_not(x)  # type: ignore[no-any-return]  # as above


def both(x: Expr, y: Expr) -> Expr:
    return ops.logical_and(x, y)  # type: ignore[no-any-return]  # as above


def either(x: Expr, y: Expr) -> Expr:
    return ops.logical_or(x, y)  # type: ignore[no-any-return]  # as above


TRUE, FALSE = splat(1, (), "bool"), splat(0, (), "bool")
SIXTEEN = within(i, 0, 15)
CASES: dict[str, Case] = {
    # sums
    "IndexSums.sum": case((i + j) - i, vector + vector, SCALAR),
    "IndexSums.negative": case(ops.negative(i - j), ops.negative(vector), SCALAR),
    "IndexSums.floor_remainder": case(ops.floor_mod(i, n(7)), ops.floor_mod(vector, n(7)), INDEX),
    "IndexSums.remainder": case(ops.fmod(i, n(7)), ops.fmod(vector, n(7)), INDEX),
    "IndexSums.product_of_extrema": case(most(i, j) * least(j, i), most(i, j) * least(i, k), ""),
    "IndexCasts.narrow": case(
        ops.cast(ops.cast(SIXTEEN, dtype="int32"), dtype="int64"), ops.cast(ops.cast(i, dtype="int32"), dtype="int64"), "the bounds are"
    ),
    "IndexCasts.exact": case(
        ops.cast(ops.cast(SIXTEEN, dtype="float32"), dtype="int64"), ops.cast(ops.cast(i, dtype="float32"), dtype="int64"), "may leave"
    ),
    # quotients
    "IndexQuotients.floor": case(floor(i * n(12) + j + n(9), n(4)), floor(i, ZERO), "division by zero"),
    "IndexQuotients.truncated": case(trunc(i * n(12) + n(8), n(-4)), trunc(i, ZERO), "division by zero"),
    "IndexQuotients.of_extremum": case(floor(least(i, j), n(4)), floor(least(i, j), n(-4)), "not positive"),
    "IndexQuotients.of_extremum_negative": case(trunc(most(i, j), n(-4)), trunc(most(i, j), n(4)), "not negative"),
    # minima and maxima
    "IndexExtrema.minimum": case(least(i * n(3), n(9)), least(vector, n(9)), INDEX),
    "IndexExtrema.maximum": case(most(i, j), most(vector, j), INDEX),
    "IndexExtrema.nested": case(most(most(i, j), j + n(1)), most(most(vector, i), j), INDEX),
    "IndexExtrema.absorbed_minimum": case(least(most(j, i), i), least(most(j, i), k), ""),
    "IndexExtrema.absorbed_maximum": case(most(least(j, i), i), most(least(j, i), k), ""),
    "IndexExtrema.minimum_of_maxima": case(least(most(i, j), most(k, i)), least(most(i, j), most(k, u)), ""),
    "IndexExtrema.maximum_of_minima": case(most(least(i, j), least(k, i)), most(least(i, j), least(k, u)), ""),
    # comparisons
    "IndexComparisons.less": case(ops.less(i * n(4) + n(2), j * n(4)), ops.less(vector, j), INDEX),
    "IndexComparisons.greater": case(ops.greater(i, j), ops.greater(vector, j), INDEX),
    "IndexComparisons.less_equal": case(ops.less_equal(i, j), ops.less_equal(vector, j), INDEX),
    "IndexComparisons.greater_equal": case(ops.greater_equal(i, j), ops.greater_equal(vector, j), INDEX),
    "IndexComparisons.equal": case(zero(i * j), ops.equal(vector, j), INDEX),
    "IndexComparisons.not_equal": case(ops.not_equal(i, j), ops.not_equal(vector, j), INDEX),
    # logic
    "IndexLogic.complement": case(neither(ops.less(i, j)), neither(ops.less(vector, j)), INDEX),
    "IndexLogic.opposite": case(neither(FALSE), neither(splat(0, (3,), "bool")), TRUTH),
    "IndexLogic.both_false": case(both(p, FALSE), both(p, TRUE), "the constant is"),
    "IndexLogic.both_opposite": case(both(neither(p), p), both(neither(p), q), ""),
    "IndexLogic.either_true": case(either(p, TRUE), either(p, FALSE), "the constant is"),
    "IndexLogic.either_opposite": case(either(neither(p), p), either(neither(p), q), ""),
    "IndexLogic.both_below": case(both(below(i - n(1)), below(n(0) - i)), both(below(i), below(j)), "both may be negative"),
    "IndexLogic.either_below": case(either(below(i - n(1)), below(n(0) - i)), either(below(i), below(j)), "neither need be negative"),
    "IndexLogic.both_implied": case(both(below(i - n(1)), below(i)), both(below(i), below(j)), "the first may be larger"),
    "IndexLogic.either_implied": case(either(below(i - n(1)), below(i)), either(below(i), below(j)), "the first may be larger"),
    "IndexLogic.both_zero": case(both(zero(i - n(1)), zero(i)), both(zero(i), zero(j)), "both may be 0"),
    "IndexLogic.zero_and_not": case(both(zero(i - n(1)), neither(zero(i))), both(zero(i), neither(zero(j))), "both may be 0"),
    "IndexLogic.not_zero_or": case(either(neither(zero(i - n(1))), zero(i)), either(neither(zero(i)), zero(j)), "both may be 0"),
    # selections
    "IndexSelections.true": case(chosen(i, j, TRUE), chosen(i, j, FALSE), "the constant is"),
    "IndexSelections.false": case(chosen(i, j, FALSE), chosen(i, j, TRUE), "the constant is"),
    "IndexSelections.difference": case(chosen(i, j), chosen(i), "the term is 0"),
    "IndexSelections.terms": case(chosen(i * n(2) + j), chosen(vector), INDEX),
    "IndexSelections.extrema": case(least(chosen(i, j), chosen(k, u)), least(chosen(i, j), chosen(k, u, q)), ""),
    "IndexSelections.chosen": case(chosen(chosen(i, j, below(k)), u, below(k + n(1))), chosen(chosen(i, j, q), u), "it does not follow"),
    "IndexSelections.dropped": case(
        chosen(chosen(i, j, below(n(0) - k)), u, below(k)), chosen(chosen(i, j, q), u), "it does not contradict"
    ),
    # short forms
    "IndexRemainders.remainder": case(i - floor(i, n(3)) * n(3), i - floor(i, n(3)) * n(6), ""),
    "IndexRemainders.negated": case(trunc(i, n(3)) * n(3) - i, trunc(i, n(3)) * n(3) - j, ""),
    "IndexRemainders.shifted": case(i - floor(i + j, n(3)) * n(3), i - floor(k + j, n(3)) * n(3), ""),
    "IndexRemainders.shifted_back": case(i - floor(i - j, n(3)) * n(3), i - floor(j - i, n(3)) * n(3), ""),
    "IndexRemainders.shifted_negated": case(floor(i + j, n(3)) * n(3) - i, floor(k + j, n(3)) * n(3) - i, ""),
    "IndexRemainders.scaled": case(i * n(2) - floor(i, n(3)) * n(6), i * n(2) - floor(i, n(3)) * n(5), "is not 5"),
    "IndexShortForms.into_minimum": case(j + least(i, ZERO), j + least(i, n(1)), "the constant is"),
    "IndexShortForms.into_maximum": case(j - least(i, ZERO), j - least(i, n(1)), "the constant is"),
    "IndexShortForms.into_scaled_minimum": case(j + least(i, ZERO) * n(3), j + least(i, ZERO) * n(-3), "not positive"),
    "IndexShortForms.into_scaled_maximum": case(j - least(i, ZERO) * n(3), j - least(i, ZERO) * n(-3), "not positive"),
    "IndexShortForms.common_term": case(most(i + j, k + i), most(i + j, k + u), ""),
    "IndexShortForms.shifted_extremum": case(least(i, j) + n(3), least(vector, j) + n(3), INDEX),
    "IndexShortForms.selections": case(chosen(i) + chosen(j), chosen(i) + chosen(j, ZERO, q), ""),
    "IndexShortForms.into_selection": case(j + chosen(i), j + chosen(i, n(1)), "the constant is"),
    "IndexShortForms.into_selection_negated": case(j - chosen(i), j - chosen(i, n(1)), "the constant is"),
    "IndexShortForms.factor_one": case(i * j + i, i * j + k, ""),
    "IndexSolved.less": case(below(i - j), below(vector), INDEX),
    "IndexSolved.at_least": case(neither(below(i - j)), neither(below(vector)), INDEX),
    "IndexSolved.equal": case(zero(i - j), zero(vector), INDEX),
}
SETS = (
    *(IndexSums, IndexCasts, IndexQuotients, IndexExtrema, IndexComparisons, IndexLogic, IndexSelections),
    *(IndexRemainders, IndexShortForms, IndexSolved),
)
RULES = pairs(CASES, *SETS)


@pytest.mark.parametrize(("rules", "rule", "example"), RULES, ids=[rule.name for _, rule, _ in RULES])
def test_a_rule_rewrites_its_program(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), RULES, ids=[rule.name for _, rule, _ in RULES])
def test_a_rule_leaves_another_program(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


@pytest.mark.parametrize("name", ["chosen", "dropped"])
def test_selections_of_tensors_that_may_enlarge_the_result_stay(name: str) -> None:
    one, other = (var(f"{letter}s", ("?",), "int64") for letter in "xy")
    condition = below(k) if name == "chosen" else below(n(0) - k)
    outer = below(k + n(1)) if name == "chosen" else below(k)
    for inner in (chosen(i, one, condition), chosen(one, i, condition)):
        check_makes_nothing(
            getattr(IndexSelections, name), Case(func(chosen(inner, other, outer)), func(chosen(inner, other, outer)), INDEX)
        )
