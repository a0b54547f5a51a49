"""Operands that broadcast along a size that is 1 but unknown, arrays of few numbers, and integers that wrap around are among the instances."""

import numpy as np
import pytest

from passat.rules.checking.check_sets import check_rule
from passat.rules.checking.relations import circles
from passat.rules.checking.report import RuleReport
from passat.rules.checking.sampler import EXTREME, draw_array
from passat.rules.guards import is_all, is_constant, same_type
from passat.rules.pattern import attribute, constant, op, tensors
from passat.rules.rule import Rule
from tests.rules.building import const, ops

x, y, z = tensors("x y z")
c = constant("c")
a = attribute("a")

WIDENED = (y - (y - x) >> x).finite("infinity - infinity is NaN")
"""Wrong where x and y have unknown sizes, and that of x turns out to be 1."""

NEVER_WIDENED = {
    "sum": (x + c >> x).when(is_all(c, 0)).inexact("-0.0 + 0.0 is 0.0"),
    "number": x * 1 >> x,
    "power": (op.power(x, c) >> x).when(is_all(c, 1)).inexact("rounds"),
    "where": (op.where(c, x, y) >> x).when(is_all(c, 1), is_constant(y)),
    "broadcast": op.broadcast_to(x, attrs=a) >> x,
}
"""Rules that would be wrong if matches whose left side has a size that the right side does not know were not rejected."""


def checked(rule: Rule, instances: int) -> RuleReport:
    return check_rule(rule.named("Mine.rule"), instances=instances).report


def test_a_tensor_may_turn_out_smaller_than_the_result() -> None:
    report = checked(WIDENED, 200)
    assert report.verdict == "rejected"
    assert report.counterexample is not None
    assert report.counterexample.reason.startswith("the type is ")


def test_the_fix_says_that_the_shapes_are_equal() -> None:
    """`is_not_empty` would reject unknown sizes as well, but no counterexample is empty."""
    assert checked(WIDENED, 200).fixed_by == ".when(same_shape(y, x))"


def test_with_the_guard_the_rule_is_sound() -> None:
    report = checked(WIDENED.when(same_type(x, y)), 60)
    assert (report.verdict, report.compared) == ("sound", 60)


@pytest.mark.parametrize("name", NEVER_WIDENED)
def test_constants_never_widen_a_result(name: str) -> None:
    report = checked(NEVER_WIDENED[name], 60)
    assert (report.verdict, report.compared) == ("sound", 60)


def test_instances_are_well_typed_for_the_sizes_that_they_have() -> None:
    """The kernel of batch normalization broadcasts one channel to two, but the operator does not."""
    normalized = op.nn.batch_norm(x, *tensors("gamma beta mean var"), attrs=a)[0]
    report = checked((op.negative(op.negative(normalized)) >> normalized).exploring(), 60)
    assert report.verdict == "sound"


def test_all_elements_of_an_array_may_be_one_special_value() -> None:
    generator = np.random.default_rng(0)
    arrays = [draw_array(generator, (2, 3), "float32", EXTREME) for _ in range(400)]
    assert any(np.all((array == 0) & np.signbit(array)) for array in arrays)
    assert any(np.all(np.isposinf(array)) for array in arrays)


def test_integers_of_inexact_rules_wrap_around() -> None:
    rule = (op.divide(x * c, c) >> x).when(is_all(c, 2), same_type(x, op.divide(x * c, c))).inexact("rounds", nonfinite="mixed")
    report = checked(rule, 200)
    assert report.verdict == "rejected"


def test_no_circle_is_looked_for_where_a_computed_constant_has_another_size() -> None:
    """Types do not know the size of `arange`, so that they agree."""
    count = ops.arange(const(0.0), const(4.0), const(1.0))
    program = ops.logical_and(ops.greater_equal(count, const(0.0)), const([True, False], "bool"))
    assert circles([((op.negative(op.negative(x)) >> x).named("Mine.rule"), [program])], {}) == []
