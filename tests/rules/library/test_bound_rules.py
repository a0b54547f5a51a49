"""Rules on the ranges of elements: each on a program where it holds, and on one where it does not."""

import numpy as np
import pytest

from passat.ir.tensor import Tensor
from passat.rules.library import Arithmetic, Bounds
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import const, func, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import operators, optimise, run

x, y = var("x"), var("y")
pooled = ops.nn.max_pool2d(ops.clip(var("image", (1, 2, 4, 4)), a_min=0.0, a_max=6.0), pool_size=(2, 2), strides=(2, 2))
CASES = {
    "Bounds.rectified": case(
        ops.nn.relu(ops.exp(x)), ops.nn.relu(ops.tanh(x)), "elements may have a minus sign: they lie in [-1.03125, 1.03125]"
    ),
    "Bounds.rectified_zeros": case(
        ops.abs(ops.sum(ops.nn.relu(x), axis=1)), ops.abs(ops.sum(x, axis=1)), "elements may be negative: they lie in [-inf, inf] or NaN"
    ),
    "Bounds.clipped": case(
        ops.clip(pooled, a_min=0.0, a_max=6.0),
        ops.clip(pooled, a_min=0.0, a_max=5.0),
        "elements lie in [-0, 6] or NaN, and are clipped to [0, 5]",
    ),
    "Bounds.won": case(
        ops.maximum(ops.exp(x), splat(-1.0)), ops.maximum(ops.exp(x), splat(1.0)), "elements lie in [0, inf] or NaN and [1, 1]"
    ),
    "Bounds.compared": case(
        ops.less(ops.exp(x), splat(0.0)), ops.less(ops.exp(x), splat(2.0)), "elements lie in [0, inf] or NaN and [2, 2]"
    ),
    "Bounds.extremum_of_both": case(ops.maximum(ops.tanh(x), ops.tanh(y)), ops.maximum(ops.cos(x), ops.cos(y)), ""),
    "Bounds.extremum_of_all": case(ops.max(ops.tanh(x), axis=1), ops.max(ops.tanh(var("x", (2, "n"))), axis=1), "may be empty"),
}
TABLE = pairs(CASES, Bounds)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


@pytest.mark.parametrize(
    ("compare", "bound", "decided"),
    # What is NaN is not less than anything, nor equal, nor greater; so that only what never holds is decided.
    [("less", 0.0, True), ("greater_equal", 0.0, False), ("equal", -1.0, True), ("not_equal", -1.0, True), ("greater", -1.0, False)],
)
def test_comparisons_with_what_may_be_nan(compare: str, bound: float, decided: bool) -> None:
    found = optimise(func(getattr(ops, compare)(ops.exp(x), splat(bound))), Bounds).function
    assert (operators(found) == []) is decided


def test_sizes_are_never_negative() -> None:
    size = ops.shape_of(var("x", ("n", 3)))
    zero = const([0, 0], "int64")
    assert operators(optimise(func(ops.maximum(size, zero)), Bounds).function) == ["shape_of"]
    assert operators(optimise(func(ops.less(size, zero)), Bounds).function) == []
    assert operators(optimise(func(ops.greater(size, zero)), Bounds).function) == ["shape_of", "greater"]


def test_integers_that_may_wrap_around_have_any_sign() -> None:
    small = ops.cast(var("x", dtype="uint8"), dtype="int8")
    assert operators(optimise(func(ops.abs(small)), Bounds).function) == ["cast", "abs"]
    wide = ops.cast(var("x", dtype="uint8"), dtype="int16")
    assert operators(optimise(func(ops.abs(wide)), Bounds).function) == ["cast"]
    squared = ops.multiply(wide, wide)
    assert operators(optimise(func(ops.abs(squared)), Bounds).function) == ["cast", "multiply", "abs"]


def test_bounds_and_traits_meet() -> None:
    body = ops.nn.relu(ops.cosh(ops.negative(x)))
    assert operators(optimise(func(body), Bounds, Arithmetic).function) == ["cosh"]


def test_zeros_keep_their_signs_under_exact_mathematics() -> None:
    body = ops.abs(ops.nn.relu(x))
    assert operators(optimise(func(body), Bounds).function) == ["nn.relu"]
    kept = optimise(func(body), Bounds, rules__math="exact").function
    assert operators(kept) == ["nn.relu", "abs"]
    zeros = [Tensor.dense(np.full((2, 3), -0.0, np.float32))]
    assert not np.signbit(run(kept, zeros)[0]).any()
