"""CollapseBatchRegions: regions on stacks of rows become regions on matrices."""

import numpy as np
import pytest

from passat.ir.expr import Function
from passat.ir.tensor import Tensor
from passat.rules.passes.collapse_batch_regions import CollapseBatchRegions, collapse_batch_regions
from tests.rules.building import const, func, numbers, ops, tup, var
from tests.rules.passes.golden import becomes, program, stays
from tests.rules.passes.golden import run as run_pass
from tests.rules.running import assert_equal_in_value, operators, run

SIGNATURE = "%x: (b, s, 4), %w: (4, 4), %c: (4)"


def layers(count: int) -> str:
    """Linear layers, each followed by ReLU."""
    lines, last = [], "%x"
    for i in range(count):
        lines += [f"%{2 * i} = add(nn.matmul({last}, %w), %c)", f"%{2 * i + 1} = nn.relu(%{2 * i})"]
        last = f"%{2 * i + 1}"
    return "; ".join([*lines, f"nn.relu({last})"])


def test_many_layers_work_on_matrices() -> None:
    found = run_pass(CollapseBatchRegions(), program(SIGNATURE, layers(5)))["main"]
    assert isinstance(found, Function)
    linear = ["nn.matmul", "nn.bias_add", "nn.relu"]
    names = operators(found)
    assert names[:16] == ["reshape", *linear * 5]
    assert names[16] == "shape_of"
    assert names[-2:] == ["dyn.reshape", "nn.relu"]


def test_few_layers_stay() -> None:
    stays(CollapseBatchRegions(), SIGNATURE, layers(4))
    stays(CollapseBatchRegions(), "%x: (b, 3, 4), %w: (4, 4), %c: (4)", layers(2))


@pytest.mark.parametrize("sizes", ["2, 3", "b, 3"])
def test_numbers_make_a_stack_with_one_open_size(sizes: str) -> None:
    found = run_pass(CollapseBatchRegions(), program(f"%x: ({sizes}, 4), %w: (4, 4), %c: (4)", layers(3)))["main"]
    assert operators(found) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3, "reshape", "nn.relu"]


def test_what_the_function_returns_is_not_reshaped() -> None:
    body = layers(6).rpartition(";")[0]
    found = run_pass(CollapseBatchRegions(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", f"{body}; nn.matmul(%11, %w)"))["main"]
    assert operators(found)[-2:] == ["reshape", "nn.matmul"]
    found = run_pass(CollapseBatchRegions(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", f"{body}; (%11, nn.softmax(%11))"))["main"]
    assert operators(found)[-3:] == ["reshape", "nn.relu", "nn.softmax"]


def test_products_take_in_residuals() -> None:
    signature, reshaped = "%x: (2, 3, 4), %w: (4, 4), %v: (4, 4), %u: (4, 4)", "reshape(%x, newshape=[-1, 4])"
    becomes(
        CollapseBatchRegions(),
        signature,
        "%0 = add(%x, nn.matmul(%x, %w)); %1 = add(%0, nn.matmul(%0, %v)); add(%1, nn.matmul(%1, %u))",
        f"%0 = {reshaped}; %1 = add(%0, nn.matmul(%0, %w)); %2 = add(%1, nn.matmul(%1, %v));"
        "%3 = add(%2, nn.matmul(%2, %u)); reshape(%3, newshape=[2, 3, 4])",
    )
    stays(CollapseBatchRegions(), signature, "%0 = add(%x, nn.matmul(%x, %w)); add(%0, nn.matmul(%0, %v))")


def test_sums_of_integers_are_not_biases() -> None:
    stays(CollapseBatchRegions(), "%x: (2, 3, 4) int32, %w: (4, 4) int32, %c: (4) int32", layers(6))


def test_results_with_other_users_are_unflattened_once() -> None:
    body = layers(6).rpartition(";")[0] + "; nn.batch_matmul(%11, transpose(%11, axes=[0, 2, 1]), transpose_b=False)"
    found = run_pass(CollapseBatchRegions(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", body))["main"]
    assert operators(found).count("reshape") == 2


def test_nothing_changes_in_exact_mode() -> None:
    stays(CollapseBatchRegions(), SIGNATURE, layers(8), rules__math="exact")


x = var("x", ("batch", "sequence", 4))
weight, bias, gamma, beta = numbers((4, 4)), numbers((4,)), numbers((4,), seed=1), numbers((4,), seed=2)


def network(blocks: int) -> Function:
    """Blocks of attention without scores: heads are split and merged; sums, norms and parts of other shapes."""
    hidden = x
    for _ in range(blocks):
        parts = [ops.reshape(ops.nn.matmul(hidden, weight) + bias, newshape=(0, 0, 2, 2)) for _ in range(3)]
        heads = ops.transpose(parts[0] * parts[1] - parts[2], axes=(0, 2, 1, 3))
        together = ops.reshape(ops.transpose(ops.tanh(heads), axes=(0, 2, 1, 3)), newshape=(0, 0, 4))
        hidden = ops.nn.layer_norm(ops.nn.matmul(together, weight) + bias + hidden, gamma, beta, axis=2)
        scale = ops.mean(hidden * hidden, axis=(2,), keepdims=True)
        hidden = hidden / ops.sqrt(scale + ops.exp(scale))
    return func(hidden)


def test_values_are_the_same() -> None:
    before = network(2)
    after = collapse_batch_regions(before)
    names = operators(after)
    assert names.count("nn.bias_add") == 8
    assert names.count("dyn.reshape") == 7  # the heads of each product, and the result
    assert names.count("shape_of") <= 2  # of the whole input, and of all but its rows
    assert_equal_in_value(before, after, exact=False)


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (0, 0)])
def test_there_may_be_no_rows(sizes: tuple[int, int]) -> None:
    after = collapse_batch_regions(network(2))
    (found,) = run(after, [Tensor.dense(np.zeros((*sizes, 4)), "float32")])
    assert found.shape == (*sizes, 4)


def test_matrices_stay_matrices() -> None:
    rows = var("rows", ("batch", "sequence", 6))
    first = ops.nn.matmul(ops.reshape(rows, newshape=(-1, 6)), numbers((6, 4)))
    shape = ops.concatenate(tup(ops.shape_of(rows, end=2), const([4], "int64")), axis=0)
    hidden = ops.dyn.reshape(first, shape)
    for _ in range(3):
        hidden = ops.nn.relu(ops.nn.matmul(hidden, weight) + bias)
    before = func(ops.reshape(hidden, newshape=(-1, 4)))
    after = collapse_batch_regions(before)
    assert operators(after) == ["reshape", "nn.matmul", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3]
    assert_equal_in_value(before, after, exact=False)
