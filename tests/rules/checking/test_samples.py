"""The strategies of guards produce values that satisfy them, so that rules are tested on matching instances."""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.op import Op
from passat.ir.tensor import Array
from passat.rules.checking.check_sets import check_rule
from passat.rules.checking.sampler import Sampler
from passat.rules.checking.trying import tried, triers
from passat.rules.guards import Reject, Term, computed, guard, same_shape
from passat.rules.holes import operator
from passat.rules.pattern import RuleError, attributes, constants, op, tensors
from passat.rules.samples import Sample, Samples, strategy_for

x, y = tensors("x y")
(c,) = constants("c")
(p,) = attributes("p")


def _is_reversal(c: Term) -> bool | str:
    value = c.value().numpy()
    return (value.ndim == 2 and np.array_equal(value, np.eye(len(value))[::-1])) or "the constant reverses nothing"


@guard
def luckily(c: Term) -> bool | str:
    """The constant reverses."""
    return _is_reversal(c)


@guard
def knowingly(c: Term) -> bool | str:
    """The constant reverses."""
    return _is_reversal(c)


@strategy_for(knowingly)
def _a_reversal(sampler: Sampler, c: Sample) -> Samples:
    def flipped(sampler: Sampler, shape: tuple[int, ...]) -> Array:
        return np.eye(shape[0])[::-1]

    size = sampler.full()
    return [Sample(shape=(size, size), elements=flipped)]


def test_a_strategy_finds_instances_that_chance_misses() -> None:
    """The product with a reversal matrix reverses a vector, and leaves a vector of one element unchanged."""
    rule = ((x @ c) >> x).finite("infinity times 0 is NaN").named("Mine.reversed")
    assert not tried(rule.when(luckily(c)), 0, 60).wrong
    report = check_rule(rule.when(knowingly(c)), instances=60).report
    assert report.verdict == "rejected"
    assert report.counterexample is not None
    assert "c: constant Tensor[(2, 2), float32] = [[0, 1], [1, 0]]" in report.counterexample.lines


def test_a_computed_attribute_has_a_strategy_too() -> None:
    @computed
    def own_axis(axis: int, parts: tuple[Term, ...]) -> int:
        if [part.type.shape for part in parts] != [(3,), (5,)]:
            raise Reject("the sizes are others")
        return axis

    @strategy_for(own_axis)
    def three_and_five(sampler: Sampler, axis: Sample, parts: Sequence[Sample]) -> Samples:
        return [None, [Sample((3,)), Sample((5,))]]

    rule = op.concatenate((x, y), axis=p) >> op.concatenate((x, y), axis=own_axis(p, (x, y)))
    assert tried(rule.named("Mine.joined"), 0, 20).report.compared == 20


def test_operators_that_a_guard_excludes_are_given_up_early() -> None:
    @guard
    def is_exponential(of: Op) -> bool | str:
        return of.name == "exp" or f"{of.name} is not exp"

    f = operator("f", elementwise=True, arity=1)
    rule = (op.negative(op.negative(f(x))) >> f(x)).when(is_exponential(f)).named("Mine.exponential")
    report = tried(rule, 0, 10).report
    assert report.compared == 10
    assert report.drawn < 60 * len(triers(rule))


def test_errors_of_a_strategy_are_reported() -> None:
    @guard
    def seldom(x: Term) -> bool | str:
        return "never"

    @strategy_for(seldom)
    def broken(sampler: Sampler, x: Sample) -> Samples:
        raise KeyError("size")

    with pytest.raises(RuleError, match="raised KeyError: 'size'"):
        tried((op.nn.relu(x) >> x).when(seldom(x)).named("Mine.seldom"), 0, 60)


def test_constants_that_conditions_want_infinite_may_be_so() -> None:
    """A rule for finite values is compared even if its own guard requires -infinity."""

    @guard
    def is_least(c: Term) -> bool | str:
        return bool(np.all(np.isneginf(c.value().numpy()))) or "not minus infinity"

    strategy_for(is_least)(lambda sampler, c: [Sample(elements=(float("-inf"),))])
    rule = (op.maximum(x, c) >> x).when(is_least(c), same_shape(x, op.maximum(x, c))).finite("the value is NaN").named("Mine.least")
    report = check_rule(rule, instances=40).report
    assert (report.verdict, report.compared) == ("sound", 40)


@pytest.mark.parametrize("wrong", [same_shape(x, x), len, lambda x: True, "is_float"], ids=repr)
def test_only_a_guard_has_a_strategy(wrong: AnyValue) -> None:
    with pytest.raises(RuleError, match="strategy_for takes functions that @guard or @computed decorates, not "):
        strategy_for(wrong)(lambda sampler, x: [])


def test_a_guard_has_one_strategy() -> None:
    with pytest.raises(RuleError, match="the guard same_shape has a strategy; a guard has one"):
        strategy_for(same_shape)(lambda sampler, x, y: [])


def test_the_library_does_not_import_the_checker() -> None:
    said = "import sys, passat.rules.library as library; library.rule_sets(); print([m for m in sys.modules if m.startswith('passat.rules.checking')])"
    found = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
