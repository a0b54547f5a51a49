"""Rules on clips: each on a program where it holds, and on one where it does not."""

from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.tensor import Tensor
from passat.rules.library import Casts, Clips
from passat.rules.rule import Rule, RuleSetMeta
from tests.rules.building import func, ops, var
from tests.rules.library.cases import Case, case, check_fires, check_refuses, pairs
from tests.rules.running import assert_equal_in_value, operators, optimise, run

x, count = var("x"), var("count", (2, 3), "int32")
far = ops.clip(count, a_min=0, a_max=300)
CASES = {
    "Clips.nothing": case(ops.clip(count), ops.clip(count, a_min=0), "clips int32 to 0"),
    "Clips.nothing_finite": case(ops.clip(x), ops.clip(x, a_max=6.0), "clips float32 to"),
    "Clips.chain": case(
        ops.clip(ops.clip(x, a_min=0.1, a_max=6.0), a_max=3.0), ops.clip(ops.clip(x, a_min=2.0, a_max=1.0), a_max=3.0), "hold nothing"
    ),
    "Clips.of_relu": case(ops.clip(ops.nn.relu(x), a_max=6.0), ops.clip(ops.nn.relu(x), a_max=-6.0), "the upper bound -6.0 is below 0"),
    "Clips.cast": case(
        ops.cast(ops.cast(ops.clip(count, a_min=0, a_max=255), dtype="uint8"), dtype="int64"),
        ops.cast(ops.cast(far, dtype="uint8"), dtype="int64"),
        "uint8 does not hold 0 ... 300",
    ),
}
TABLE = pairs(CASES, Clips)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    if rule.math != "finite":
        check_fires(rules, rule, example)
    else:
        outcome = optimise(example.positive, rules, rules__math="finite")
        assert outcome.fired(rule.name) == 1
        assert_equal_in_value(example.positive, outcome.function, exact=True, special=False)
        assert optimise(example.positive, rules).fired(rule.name) == 0


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_refuses(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_refuses(rules, rule, example)


bounds = st.one_of(st.none(), st.integers(-20, 20).map(lambda eighths: eighths / 8))


@settings(deadline=None, max_examples=40)
@given(bounds, bounds, bounds, bounds)
def test_two_clips_are_one(low: AnyValue, high: AnyValue, then_low: AnyValue, then_high: AnyValue) -> None:
    before = func(ops.clip(ops.clip(x, a_min=low, a_max=high), a_min=then_low, a_max=then_high))
    after = optimise(before, Clips).function
    hollow = any(None not in pair and pair[0] > pair[1] for pair in ((low, high), (then_low, then_high)))
    kept = 1 + hollow
    assert operators(after) == ["clip"] * kept
    feed = [Tensor.dense(np.linspace(-3, 3, 6, dtype=np.float32).reshape(2, 3))]
    assert np.array_equal(run(after, feed)[0], run(before, feed)[0])


def test_a_bound_stays_as_it_was_written() -> None:
    merged = optimise(func(ops.clip(ops.clip(x, a_min=0.1, a_max=6.0), a_max=0.7)), Clips).function.body
    assert dict(merged.attrs) == {"a_min": 0.1, "a_max": 0.7}  # type: ignore[attr-defined]  # a call


def test_a_clip_to_bytes_needs_no_bytes() -> None:
    body = ops.cast(ops.cast(ops.clip(count, a_min=0, a_max=255), dtype="uint8"), dtype="int32")
    assert operators(optimise(func(body), Clips, Casts).function) == ["clip"]


def test_fractions_are_cut_off_by_a_cast() -> None:
    body = ops.cast(ops.cast(ops.clip(x, a_min=0.0, a_max=255.0), dtype="uint8"), dtype="float32")
    assert optimise(func(body), Clips).fired("Clips.cast") == 0
