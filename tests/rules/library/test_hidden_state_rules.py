"""Rules on stacks of rows: each on a program that it rewrites, and on one that it does not."""

import numpy as np
import pytest

from passat.ir.expr import Expr, Function
from passat.ir.tensor import Tensor
from passat.rules.library import HiddenStates, Products, Views
from passat.rules.library.folding import ConstantFolding
from passat.rules.rule import EXPLORING, Rule, RuleSetMeta
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs
from tests.rules.running import assert_equal_in_value, operators, result_type, run, saturate

x = var("x", (6, 4))
cube = var("cube", (2, 3, 4))
named = var("named", ("batch", 3, 4))
unknown = var("unknown", ("?", 3, 4))
weight, bias = numbers((4, 5)), numbers((5,))
ids = ops.cast(var("flags", (2, 3), "bool"), dtype="int64")
gamma, beta = numbers((4,)), numbers((4,), seed=1)


def stack(a: Expr, *newshape: int) -> Expr:
    return ops.reshape(a, newshape=newshape or (2, 3, 4))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def other_rows() -> Expr:
    """A stack of rows other than those of the matrix."""
    return stack(x, 2, 4, 3)


def _rows() -> dict[str, Case]:
    other, row, column = var("partner", (2, 3, 4)), numbers((4,)), var("partner", (2, 3, 1))
    return {
        "HiddenStates.elementwise": case(ops.nn.gelu(stack(x)), ops.nn.gelu(other_rows()), "differ"),
        "HiddenStates.arithmetic[left, stack]": case(stack(x) * other, stack(x) * var("partner", (3, 4)), "the shapes differ"),
        "HiddenStates.arithmetic[right, stack]": case(other / stack(x), var("partner", (3, 4)) / stack(x), "the shapes differ"),
        "HiddenStates.arithmetic[left, row]": case(stack(x) - row, stack(x) - column, "is not a row of"),
        "HiddenStates.arithmetic[right, row]": case(row - stack(x), column - stack(x), "is not a row of"),
        "HiddenStates.reductions": case(
            ops.mean(stack(x), axis=(2,), keepdims=True), ops.mean(stack(x), axis=(1,), keepdims=True), "is not the last axis of"
        ),
    }


CASES: dict[str, Case] = {
    **_rows(),
    "HiddenStates.product": case(ops.nn.matmul(cube, weight), ops.nn.matmul(unknown, weight), "is not a stack of rows of known size"),
    "HiddenStates.normalized[nn.layer_norm]": case(
        ops.nn.layer_norm(stack(x), gamma, beta),
        ops.nn.layer_norm(stack(x), numbers((3, 4)), numbers((3, 4)), axis=1),
        "is not axis -1",
    ),
    "HiddenStates.normalized[nn.rms_norm]": case(
        ops.nn.rms_norm(stack(x), gamma, axis=2), ops.nn.rms_norm(stack(x), numbers((3, 4)), axis=1), "is not axis -1"
    ),
    "HiddenStates.normalized[nn.softmax]": case(ops.nn.softmax(stack(x)), ops.nn.softmax(stack(x), axis=1), "is not axis -1"),
    **{
        ("HiddenStates.parts[third]" if i == 2 else f"HiddenStates.parts[{which}]"): case(
            ops.split(stack(x), indices_or_sections=(1, 2), axis=2)[i],
            ops.split(stack(x), indices_or_sections=(1, 2), axis=1)[i],
            "is not the last axis of",
        )
        for i, which in enumerate(("first", "second", "third"))
    },
    "HiddenStates.rows_of_sum": case(
        ops.reshape(cube + var("other", (2, 3, 4)), newshape=(6, 4)),
        ops.reshape(cube + var("other", (3, 4)), newshape=(6, 4)),
        "the shapes differ",
    ),
    "HiddenStates.rows_of_norm[nn.layer_norm]": case(
        ops.reshape(ops.nn.layer_norm(cube, gamma, beta), newshape=(6, 4)),
        ops.reshape(ops.nn.layer_norm(cube, gamma, beta), newshape=(8, 3)),
        "differ",
    ),
    "HiddenStates.rows_of_norm[nn.rms_norm]": case(
        ops.reshape(ops.nn.rms_norm(cube, gamma), newshape=(6, 4)), ops.reshape(ops.nn.rms_norm(cube, gamma), newshape=(8, 3)), "differ"
    ),
    "HiddenStates.taken_rows": case(
        ops.reshape(ops.take(weight, ids, axis=0), newshape=(6, 5)),
        ops.reshape(ops.take(weight, ids, axis=0), newshape=(5, 6)),
        "differ",
    ),
}
TABLE = pairs(CASES, HiddenStates)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@pytest.mark.parametrize(("rules", "rule", "example"), TABLE, ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def three_layers(start: Expr) -> Function:
    hidden = ops.nn.gelu(ops.nn.matmul(start, weight) + bias)
    again = ops.nn.relu(ops.nn.matmul(hidden, numbers((5, 4))) + gamma)
    return func(ops.nn.matmul(again, weight) + bias)


BIASES = Products.only("bias").of_kind(EXPLORING)
LINEAR = ("nn.matmul", "nn.bias_add")
AS_MATRICES = ["reshape", *LINEAR, "nn.gelu", *LINEAR, "nn.relu", *LINEAR, "reshape"]


def test_reshapes_meet_and_vanish_between_products() -> None:
    outcome = saturate(three_layers(cube), HiddenStates, BIASES, Views, ConstantFolding)
    assert operators(outcome.function) == AS_MATRICES


def test_one_size_may_be_open() -> None:
    function = three_layers(named)
    outcome = saturate(function, HiddenStates, BIASES, Views, ConstantFolding)
    assert operators(outcome.function) == AS_MATRICES
    assert result_type(outcome.function) == result_type(function)
    assert_equal_in_value(function, outcome.function, exact=False)
    (found,) = run(outcome.function, [Tensor.dense(np.zeros((0, 3, 4)), "float32")])
    assert found.shape == (0, 3, 5)


def test_two_sizes_may_not_be_open() -> None:
    outcome = saturate(func(ops.nn.matmul(var("deep", ("batch", "sequence", 4)), weight)), HiddenStates)
    assert outcome.fired("HiddenStates.product") == 0
    assert any("no reshape certainly gives" in remark for remark in outcome.remarks)


def test_integers_and_single_products_stay() -> None:
    whole = func(ops.nn.matmul(var("i", (2, 3, 4), "int32"), numbers((4, 5), "int32")))
    assert saturate(whole, HiddenStates).fired("HiddenStates.product") == 0
    alone = func(ops.nn.matmul(cube, weight))
    assert saturate(alone, HiddenStates).function is alone  # two reshapes without an effect


def test_one_number_stays_one_number() -> None:
    outcome = saturate(func(ops.tanh(stack(x)) * splat(2.0, (1, 1, 1))), HiddenStates, ConstantFolding)
    assert outcome.fired("HiddenStates.arithmetic") > 0
