"""RaiseOps: recovers normalizations from the forms of exporters, with any order and constants."""

import pytest

from passat.rules.passes.target import raise_operators
from tests.rules.passes.golden import folds, program, run, stays

ROWS = "%x: (2, 3, 4)"
SCALE, SHIFT = "full(2f, shape=[4])", "full(3f, shape=[4])"
LAYER_NORM = f"nn.layer_norm(%x, copy({SCALE}), copy({SHIFT}), epsilon=0.001f64)"
CENTRED = "%0 = subtract(%x, mean(%x, axis=[-1], keepdims=True));\n"


def layer_norm(root: str) -> str:
    """A layer normalization: this quotient of `%0`, with variance and epsilon in `%1`."""
    return CENTRED + f"%1 = add(mean(multiply(%0, %0), axis=[-1], keepdims=True), 0.001f);\nadd(multiply({root}, {SCALE}), {SHIFT})"


@pytest.mark.parametrize(
    "root",
    [
        "divide(%0, sqrt(%1))",
        "multiply(%0, rsqrt(%1))",
        "multiply(rsqrt(%1), %0)",
        "multiply(%0, reciprocal(sqrt(%1)))",
        "multiply(%0, divide(1f, sqrt(%1)))",
        "divide(%0, power(%1, 0.5f))",
    ],
)
def test_layer_normalizations(root: str) -> None:
    folds(raise_operators(), ROWS, layer_norm(root), LAYER_NORM, rules__math="finite")


def test_a_square_may_be_a_power() -> None:
    before = layer_norm("divide(%0, sqrt(%1))").replace("multiply(%0, %0)", "power(%0, 2f)")
    folds(raise_operators(), ROWS, before, LAYER_NORM)


@pytest.mark.parametrize("root", ["divide(%x, sqrt(%0))", "multiply(%x, rsqrt(%0))"])
def test_root_mean_squares(root: str) -> None:
    before = f"%0 = add(mean(multiply(%x, %x), axis=[-1], keepdims=True), 0.001f);\nmultiply({root}, {SCALE})"
    folds(raise_operators(), ROWS, before, f"nn.rms_norm(%x, copy({SCALE}), epsilon=0.001f64)")


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(layer_norm("divide(%0, sqrt(%1))").replace("axis=[-1]", "axis=[1]"), id="an axis other than that of the scale"),
        pytest.param(layer_norm("divide(%x, sqrt(%1))"), id="not centered"),
        pytest.param(layer_norm("divide(%0, sqrt(%1))").replace("multiply(%0, %0)", "multiply(%0, %x)"), id="no square"),
        pytest.param(layer_norm("multiply(%0, sqrt(%1))"), id="a root that multiplies"),
    ],
)
def test_lookalikes_stay(body: str) -> None:
    made = str(run(raise_operators(), program(ROWS, body), rules__math="finite"))
    assert "nn.layer_norm" not in made


def test_integers_and_exactness() -> None:
    folds(raise_operators(), ROWS, layer_norm("divide(%0, sqrt(%1))"), layer_norm("divide(%0, sqrt(%1))"), rules__math="exact")
    stays(raise_operators(), "%x: (2, 3) int32", "subtract(%x, max(%x, axis=[-1], keepdims=True))")


def test_groups_stay_instances() -> None:
    laid = "nn.instance_norm(reshape(%x, newshape=[2, 3, -1]), full(1f, shape=[3]), full(0f, shape=[3]))"
    body = f"add(multiply(reshape({laid}, newshape=[2, 6, 5, 4]), full(2f, shape=[6, 1, 1])), full(3f, shape=[6, 1, 1]))"
    made = str(run(raise_operators(), program("%x: (2, 6, 5, 4)", body)))
    assert "nn.instance_norm" in made
    assert "nn.group_norm" not in made
