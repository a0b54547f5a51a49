"""Random models keep their values: at the sizes that they were made for, at others, and in any version of the operators.

The normal run makes a few hundred, PASSAT_SOAK=1 ten thousand. A failure is repeated by its seed alone.
"""

import os
from typing import Any

import numpy as np
import onnx
import pytest

import passat
from passat.compare import difference
from passat.ir.onnx import check
from passat.report import MismatchError
from passat.verify import Runner
from tests.corpus.random_models import Maker
from tests.corpus.random_values import N

SOAK = bool(os.environ.get("PASSAT_SOAK"))
SHARES = 20
SEEDS = 500 if SOAK else 15
"""Models of each share."""


def problem(seed: int, opset: int) -> str:
    """What is wrong with the optimised form of the model of a seed, or nothing."""
    maker = Maker(seed, opset=opset, symbolic=seed % 3 != 0)
    model = maker.model(6 + seed % 25)
    onnx.checker.check_model(model)
    before = model.SerializeToString()
    result = passat.optimize(model, verify=False)
    assert model.SerializeToString() == before
    check(result.model)
    again = passat.optimize(result.model, verify=False).report
    if again.node_count_after > result.report.node_count_after:
        return f"a second run makes {again.node_count_after} nodes of {result.report.node_count_after}"
    original, optimised = Runner(model, threads=1), Runner(result.model, threads=1)
    for size in (N, 1, 2, 12):
        feed = sized(maker, size, seed)
        try:
            want = original.run(feed)
        except Exception:  # made for sizes of N, some do not run on others
            continue
        got = optimised.run(feed)
        for i, (a, b) in enumerate(zip(want, got, strict=True)):
            found = difference(a, b, coarsest="float32")
            if found.reason:
                return judged(model, f"at n = {size} output {i} {found.reason}")
    return ""


def judged(model: onnx.ModelProto, reason: str) -> str:
    """What verification has to say, which knows how sensitive to rounding a model is: floors and comparisons may jump."""
    try:
        passat.optimize(model)
    except MismatchError as error:
        return f"{reason}; {error}"
    return "" if "rounding" in reason or "elements differ" in reason else reason


def sized(maker: Maker, size: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    feed: dict[str, Any] = {}
    for value in maker.inputs:
        shape = tuple(size if dim == N else dim for dim in value.shape)
        feed[value.name] = random.integers(-3, 3, shape) if value.dtype == "int64" else random.normal(size=shape).astype(value.dtype)
    return feed


@pytest.mark.parametrize("share", range(SHARES))
def test_random_models(share: int) -> None:
    opset = (18, 18, 17, 21, 22)[share % 5]
    found = {seed: problem(seed, opset) for seed in range(share * 10_000, share * 10_000 + SEEDS)}
    assert {seed: text for seed, text in found.items() if text} == {}
