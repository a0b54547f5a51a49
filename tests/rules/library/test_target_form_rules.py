"""Rules that produce ONNX Runtime's own operators: each on a program on which it fires, and on one on which it does not."""

import itertools

import numpy as np
import pytest

from passat.ir.expr import Expr
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.rules.library import ContribForms
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from passat.runner import Runner
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs
from tests.rules.running import operators, saturate

x, y = var("x", (2, 3, 4)), var("y", (2, 4, 5))
t, u = var("t", (2, 4, 3)), var("u", (2, 5, 4))
bias, rows = numbers((4,)), numbers((3, 4))
LAST, FIRST = (0, 2, 1), (1, 0, 2)
FLAGS = {"transpose_a": False, "transpose_b": False}
fused = ops.contrib.fused_matmul
HUGE = splat(1e30)

CASES: dict[str, Case] = {
    "ContribForms.bias_gelu[bias_gelu]": case(ops.nn.gelu(x + bias), ops.nn.gelu(x + rows), "is not a bias for"),
    "ContribForms.bias_gelu[fast_gelu]": case(
        ops.nn.gelu(x + bias, approximate="tanh"), ops.nn.gelu(x + rows, approximate="tanh"), "is not a bias for"
    ),
    "ContribForms.quick_gelu": case(ops.nn.swish(x, alpha=1.5), ops.nn.swish(var("h", (3,), "float64")), "float64"),
    "ContribForms.scaled_product[product]": case(
        ops.nn.matmul(x, y) * splat(0.5), ops.nn.matmul(x, y) * numbers((5,)), "is not a single number"
    ),
    "ContribForms.scaled_product[quotient]": case(
        ops.nn.matmul(x, y) / splat(8.0), ops.nn.matmul(x, y) / splat(0.0), "has no inverse in range"
    ),
    "ContribForms.transposed_product[left]": case(
        ops.nn.matmul(ops.transpose(t, axes=LAST), y),
        ops.nn.matmul(ops.transpose(var("v", (3, 2, 4)), axes=FIRST), y),
        "does not swap the last two dimensions",
    ),
    "ContribForms.transposed_product[right]": case(
        ops.nn.matmul(x, ops.transpose(u, axes=LAST)),
        ops.nn.matmul(x, ops.transpose(var("v", (4, 2, 5)), axes=FIRST)),
        "does not swap the last two dimensions",
    ),
    "ContribForms.scaled_product[left]": case(
        ops.nn.matmul(x * splat(2.0), y), ops.nn.matmul(x * numbers((4,)), y), "is not a single number"
    ),
    "ContribForms.scaled_product[right]": case(
        ops.nn.matmul(x, y * splat(2.0)), ops.nn.matmul(x, y * numbers((5,))), "is not a single number"
    ),
    "ContribForms.scaled_again[left]": case(
        fused(x * splat(2.0), y, alpha=2.0, **FLAGS), fused(x * numbers((4,)), y, alpha=2.0, **FLAGS), "is not a single number"
    ),
    "ContribForms.scaled_again[right]": case(
        fused(x, y * splat(2.0), alpha=2.0, **FLAGS), fused(x, y * HUGE, alpha=1e20, **FLAGS), "is out of range"
    ),
    "ContribForms.scaled_again[product]": case(
        fused(x, y, alpha=2.0, **FLAGS) * splat(3.0), fused(x, y, alpha=1e20, **FLAGS) * HUGE, "is out of range"
    ),
    "ContribForms.transposed_again[left]": case(
        fused(ops.transpose(t, axes=LAST), y, alpha=2.0, **FLAGS),
        fused(ops.transpose(var("v", (3, 2, 4)), axes=FIRST), y, alpha=2.0, **FLAGS),
        "does not swap the last two dimensions",
    ),
    "ContribForms.transposed_again[right]": case(
        fused(x, ops.transpose(u, axes=LAST), alpha=2.0, **FLAGS),
        fused(x, ops.transpose(var("v", (4, 2, 5)), axes=FIRST), alpha=2.0, **FLAGS),
        "does not swap the last two dimensions",
    ),
}
PAIRS = pairs(CASES, ContribForms)


@pytest.mark.parametrize(("rules", "rule", "example"), PAIRS, ids=[rule.name for _, rule, _ in PAIRS])
def test_rule_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), PAIRS, ids=[rule.name for _, rule, _ in PAIRS])
def test_rule_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


EMPTY, NOTHING = var("e", (2, 4, 0)), var("n", (2, 0, 5))


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(ops.nn.matmul(EMPTY, NOTHING) * splat(0.5), id="scaled"),
        pytest.param(ops.nn.matmul(EMPTY, NOTHING) / splat(8.0), id="divided"),
        pytest.param(ops.nn.matmul(EMPTY * splat(2.0), NOTHING), id="scaled left"),
        pytest.param(ops.nn.matmul(EMPTY, NOTHING * splat(2.0)), id="scaled right"),
        pytest.param(ops.nn.matmul(ops.transpose(NOTHING, axes=(0, 2, 1)), NOTHING), id="left"),
        pytest.param(ops.nn.matmul(EMPTY, ops.transpose(EMPTY, axes=(0, 2, 1))), id="right"),
        pytest.param(ops.nn.matmul(var("k", (2, 4, "n")), var("v", (2, "n", 5))) * splat(0.5), id="of any size"),
    ],
)
def test_sums_of_nothing_stay_products(body: Expr) -> None:
    """ONNX Runtime's FusedMatMul leaves results undefined where MatMul returns 0."""
    outcome = saturate(func(body), ContribForms)
    assert "contrib.fused_matmul" not in operators(outcome.function.body)
    assert any("may be empty" in remark for remark in outcome.remarks)


BATCHES = ((), (0,), (1,), (2,))


@pytest.mark.parametrize("name", ["left", "right"])
def test_turned_products_of_empty_batches_run(name: str) -> None:
    """For any sizes of 0 or 1: if ONNX Runtime computes the product of transposed operands, it computes the rewritten one with the same
    result."""
    fired = 0.0
    for left, right, rows, columns in itertools.product(BATCHES, BATCHES, (0, 2), (0, 2)):
        if not (left if name == "left" else right) or {*left, *right} == {0, 2}:
            continue
        shapes = ((*left, 3, rows), (*right, 3, columns)) if name == "left" else ((*left, rows, 3), (*right, columns, 3))
        a, b = var("a", shapes[0]), var("b", shapes[1])
        product = ops.nn.matmul(ops.transpose(a, axes=LAST), b) if name == "left" else ops.nn.matmul(a, ops.transpose(b, axes=LAST))
        outcome = saturate(func(product), ContribForms)
        fired += outcome.fired("ContribForms.transposed_product")
        feed = {operand: np.ones(shape, np.float32) for operand, shape in zip("ab", shapes, strict=True)}
        try:
            (expected,) = Runner(to_onnx(IRModule({"main": func(product)}))).run(feed)
        except Exception:  # ONNX Runtime has no exception class for what it rejects
            continue
        np.testing.assert_array_equal(Runner(to_onnx(IRModule({"main": outcome.function}))).run(feed)[0], expected)
    assert fired > 10
