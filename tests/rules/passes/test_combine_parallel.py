"""CombineParallelConv2D, CombineParallelDense and CombineParallelBatchMatmul: merged calls, numbers of branches, and branches that are not
merged."""

from collections.abc import Sequence
from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.passmgr import PassContext
from passat.rules.multi_pattern import MultiRule, each, joined, parts
from passat.rules.passes.algebra import combine_parallel_batch_matmul, combine_parallel_conv2d, combine_parallel_dense
from passat.rules.pattern import RuleError, tensors
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.running import Outcome, apply, assert_equal_in_value, operators, result_type

image = var("image", (1, 3, 8, 8))
rows = var("rows", (4, 6))
hidden = var("hidden", (2, 5, 8))
stack = var("stack", (2, 4, 6))
CHEAP = {"rules__cost": "nodes"}


def kernel(outputs: int, size: int = 3, inputs: int = 3, seed: int = 0) -> Expr:
    return numbers((outputs, inputs, size, size), seed=seed)


def check(pass_: AnyValue, branches: Sequence[Expr], left: Sequence[str]) -> Outcome:
    """Checks the remaining operators, and that values and types are kept."""
    function = func(tup(*branches))
    outcome = apply(pass_, function, **CHEAP)
    assert sorted(operators(outcome.function)) == sorted(left)
    assert result_type(outcome.function) == result_type(function)
    assert_equal_in_value(function, outcome.function, exact=False, special=False)
    return outcome


def test_convolutions_are_merged() -> None:
    branches = [ops.nn.conv2d(image, kernel(count, seed=count)) for count in (4, 2, 5)]
    check(combine_parallel_conv2d(), branches, ["nn.conv2d", "split"])


@pytest.mark.parametrize(("least", "together"), [(2, True), (3, True), (4, False)])
def test_it_takes_so_many_branches(least: int, together: bool) -> None:
    branches = [ops.exp(ops.nn.conv2d(image, kernel(count, seed=count))) for count in (4, 2, 5)]
    left = ["nn.conv2d", "split", *["exp"] * 3] if together else ["nn.conv2d", "exp"] * 3
    outcome = check(combine_parallel_conv2d(min_num_branches=least), branches, left)
    if not together:
        assert any("the group has 3 calls, fewer than 4" in remark for remark in outcome.remarks)


def biased(count: int) -> Expr:
    made: Expr = ops.nn.bias_add(ops.nn.conv2d(image, kernel(count, seed=count)), numbers((count,), seed=count), axis=1)
    return made


def test_the_tails_are_taken_along() -> None:
    check(combine_parallel_conv2d(), [ops.nn.relu(biased(count)) for count in (4, 2, 5)], ["nn.conv2d", "nn.bias_add", "nn.relu", "split"])
    scaled = [ops.nn.conv2d(image, kernel(count, seed=count)) * numbers((1, count, 1, 1), seed=count) for count in (4, 2, 5)]
    check(combine_parallel_conv2d(), scaled, ["nn.conv2d", "multiply", "split"])


def test_only_common_consumers_are_merged() -> None:
    branches = [ops.nn.relu(biased(4)), ops.tanh(biased(2)), ops.sigmoid(biased(5))]
    check(combine_parallel_conv2d(), branches, ["nn.conv2d", "nn.bias_add", "split", "nn.relu", "tanh", "sigmoid"])


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda: ops.nn.conv2d(image, kernel(4), strides=(2, 2)), id="strides"),
        pytest.param(lambda: ops.nn.conv2d(image, kernel(4, 1)), id="kernel"),
        pytest.param(lambda: ops.nn.conv2d(image, kernel(3, inputs=1), groups=3), id="groups"),
        pytest.param(lambda: ops.nn.conv2d(var("other", (1, 3, 8, 8)), kernel(4)), id="data"),
        pytest.param(lambda: ops.nn.conv2d(image, kernel(4), padding=(1, 1)), id="padding"),
    ],
)
def test_different_calls_are_not_merged(other: AnyValue) -> None:
    branches = [ops.nn.conv2d(image, kernel(count, seed=count)) for count in (4, 2)]
    check(combine_parallel_conv2d(), [*branches, other()], ["nn.conv2d"] * 3)


def test_kernels_of_two_sizes_are_two_groups() -> None:
    branches = [ops.exp(ops.nn.conv2d(image, kernel(2, size, seed=i))) for size in (1, 3) for i in range(3)]
    check(combine_parallel_conv2d(), branches, [*["nn.conv2d", "split"] * 2, *["exp"] * 6])


def test_dense_layers_are_merged() -> None:
    branches = [ops.nn.dense(rows, numbers((count, 6), seed=count)) for count in (4, 2, 5)]
    check(combine_parallel_dense(), branches, ["nn.dense", "split"])
    shifted = [ops.nn.relu(each_ + numbers((count,), seed=count)) for each_, count in zip(branches, (4, 2, 5), strict=True)]
    check(combine_parallel_dense(), shifted, ["nn.dense", "add", "nn.relu", "split"])


def test_dense_layers_of_one_shape_become_a_stack() -> None:
    branches = [ops.nn.dense(rows, numbers((4, 6), seed=seed)) for seed in range(3)]
    outcome = check(combine_parallel_dense(to_batch=True), branches, ["nn.dense"] * 3)  # by the number of calls, which does not decrease
    assert outcome.fired("Parallel.stacks") == 3
    many = [ops.nn.dense(rows, numbers((4, 6), seed=seed)) for seed in range(6)]
    check(combine_parallel_dense(to_batch=True), many, ["expand_dims", "nn.batch_matmul", "reshape", "split"])
    unlike = [ops.nn.dense(rows, numbers((count, 6), seed=count)) for count in (4, 4, 2)]
    check(combine_parallel_dense(to_batch=True), unlike, ["nn.dense"] * 3)


def test_stacks_of_matrices_are_merged() -> None:
    branches = [ops.nn.batch_matmul(stack, numbers((2, count, 6), seed=count)) for count in (4, 2, 5)]
    check(combine_parallel_batch_matmul(), branches, ["nn.batch_matmul", "split"])


def projection(seed: int, axes: tuple[int, ...] = (0, 2, 1, 3)) -> Expr:
    made: Expr = ops.transpose(ops.reshape(ops.nn.matmul(hidden, numbers((8, 8), seed=seed)), newshape=(2, 5, 2, 4)), axes=axes)
    return made


def test_projections_to_heads_are_merged() -> None:
    check(combine_parallel_dense(), [projection(seed) for seed in range(3)], ["nn.matmul", "reshape", "transpose", "split"])


def test_keys_that_are_transposed_otherwise_are_taken_along_up_to_there() -> None:
    branches = [projection(0), projection(1, (0, 2, 3, 1)), projection(2)]
    check(combine_parallel_dense(), branches, ["nn.matmul", "reshape", "split", *["transpose"] * 3])


def test_projections_with_biases_are_merged() -> None:
    branches = [
        ops.transpose(
            ops.reshape(ops.nn.matmul(hidden, numbers((8, 8), seed=i)) + numbers((8,), seed=i), newshape=(2, 5, 2, 4)), axes=(0, 2, 1, 3)
        )
        for i in range(3)
    ]
    check(combine_parallel_dense(), branches, ["nn.matmul", "add", "split", *["reshape", "transpose"] * 3])


def test_it_is_for_the_highest_level() -> None:
    assert {made().info.opt_level for made in (combine_parallel_conv2d, combine_parallel_dense, combine_parallel_batch_matmul)} == {4}
    assert combine_parallel_conv2d().info.name == "CombineParallelConv2D"
    with PassContext(opt_level=3):
        function = func(tup(*(ops.nn.conv2d(image, kernel(2, seed=seed)) for seed in range(3))))
        assert operators(function) == ["nn.conv2d"] * 3


def test_a_rule_declares_its_number_of_calls() -> None:
    x, w = tensors("x w")
    rule = each(x @ w, sharing=x) >> parts(x @ joined(w, axis=-1), axis=-1)
    assert isinstance(rule, MultiRule)
    assert rule.branches(3).left.at_least == 3
    assert repr(rule.branches(3)) == "each((x @ w), sharing=x, at_least=3) -> parts((x @ joined(w, axis=-1)), axis=-1)"
    with pytest.raises(RuleError, match="at least 2 calls, not 1"):
        rule.branches(1)
