"""Exact rules on selections: both sides are equal bit for bit on ONNX Runtime, including signed zeros."""

import numpy as np
import pytest

from passat.rules.rule import EXACT
from passat.runner import Runner
from tests.fuzz.judge import bits_differ
from tests.fuzz.rule_models import exported, feed_of, instance, rules

# Rules about index expressions match integers, which have one 0.
CHOICES = [name for name, rule in rules().items() if rule.math == EXACT and "where(" in repr(rule) and not name.startswith("Index")]
ZEROS = (-1.0, -0.0, 0.0, 1.0)


@pytest.mark.parametrize("name", CHOICES)
def test_signed_zeros_stay(name: str) -> None:
    random = np.random.default_rng(0)
    for _ in range(6):
        trial = instance(rules()[name], random)
        assert trial is not None
        sides = [exported(trial, 20), exported(trial, 20, right=True)]
        feed = feed_of(sides[0], trial.case)
        assert feed is not None
        feed = {
            key: random.choice(ZEROS, size=value.shape).astype(value.dtype) if value.dtype.kind == "f" else value
            for key, value in feed.items()
        }
        try:
            expected = Runner(sides[0], threads=1).run(feed)
        except Exception:  # ONNX Runtime has no exception class for what it rejects, such as a Where of int8
            continue
        assert bits_differ(expected, Runner(sides[1], threads=1).run(feed)) == ""
