"""Operands of commutative operators keep their order if a pass does not change the call."""

import pytest

from passat.passmgr import get_pass
from tests.rules.passes.golden import becomes

PASSES = (
    "CanonicalizeOps",
    "CombineParallelDense",
    "Explore",
    "FoldConstant",
    "FoldScaleAxis",
    "LinearAlgebra",
    "SimplifyExpr",
    "TargetForms",
)
PARAMS = "%x: (2, 2), %y: (2, 2)"


@pytest.mark.parametrize("name", PASSES)
def test_a_program_that_is_kept(name: str) -> None:
    calls = ("multiply(0f, %x)", "add(2f, %x)", "maximum(0f, %x)", "multiply(%y, %x)", "multiply(3f, nn.dense(%y, %x))")
    body = f"({', '.join(calls)})"
    becomes(get_pass(name), PARAMS, body, body)


@pytest.mark.parametrize("name", ["Explore", "LinearAlgebra", "SimplifyExpr"])
def test_calls_beside_one_that_changes(name: str) -> None:
    before = "add(multiply(%x, 1f), multiply(0f, %x)), add(multiply(0f, %y), nn.relu(nn.relu(%x)))"
    after = "add(%x, multiply(0f, %x)), add(multiply(0f, %y), nn.relu(%x))"
    becomes(get_pass(name), PARAMS, f"({before})", f"({after})", rules__math="exact")
