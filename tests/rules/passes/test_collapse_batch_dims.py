"""CollapseBatchDims: linear layers on stacks of rows become layers on matrices with biases."""

import numpy as np
import pytest

from passat.ir.expr import Expr, Function
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.rules.passes.collapse_batch_dims import CollapseBatchDims, collapse_batch_dims
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


LINEAR = ("nn.matmul", "nn.bias_add")
on_20 = layers(3).replace("%x", "%20")


def test_many_layers_work_on_matrices() -> None:
    found = run_pass(CollapseBatchDims(), program(SIGNATURE, layers(5)))["main"]
    assert isinstance(found, Function)
    linear = ["nn.matmul", "nn.bias_add", "nn.relu"]
    names = operators(found)
    assert names[:16] == ["reshape", *linear * 5]
    assert names[16] == "shape_of"
    assert names[-2:] == ["dyn.reshape", "nn.relu"]


@pytest.mark.parametrize("signature", ["%x: (2, 3, 4), %w: (4, 4), %c: (4)", "%x: (8, 1024, 256), %w: (256, 256), %c: (256)"])
def test_one_layer_stays(signature: str) -> None:
    """A large one, too: a Gemm takes as long as a product and a sum."""
    stays(CollapseBatchDims(), signature, layers(1))


def test_as_many_biases_as_views_work_on_matrices() -> None:
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", layers(2)))["main"]
    assert operators(found) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 2, "reshape", "nn.relu"]


@pytest.mark.parametrize(
    ("rows", "columns", "work"),
    [("16, 512", 64, "batches"), ("8, 512", 64, "matrices"), ("b, 512", 64, "batches"), ("b, s", 128, "batches"), ("b, s", 64, "matrices")],
)
def test_large_biases_stay(rows: str, columns: int, work: str) -> None:
    """A Gemm takes longer than a product and the sum after it. Unknown sizes count as 64."""
    layer = "add(nn.matmul(nn.relu(add(nn.matmul({x}, %u), %c)), %v), %d)"
    body = layer.replace("{x}", layer.replace("{x}", layer.replace("{x}", "%x")))
    wide = 4 * columns
    text = f"%x: ({rows}, {columns}), %u: ({columns}, {wide}), %c: ({wide}), %v: ({wide}, {columns}), %d: ({columns})"
    found = run_pass(CollapseBatchDims(), program(text, f"nn.relu({body})"))["main"]
    assert ("nn.bias_add" in operators(found)) == (work == "matrices")


@pytest.mark.parametrize("sizes", ["2, 3", "b, 3"])
def test_numbers_make_a_stack_with_one_open_size(sizes: str) -> None:
    found = run_pass(CollapseBatchDims(), program(f"%x: ({sizes}, 4), %w: (4, 4), %c: (4)", layers(3)))["main"]
    assert operators(found) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3, "reshape", "nn.relu"]


def test_axes_that_are_inserted_or_removed_beside_a_region_are_part_of_its_reshapes() -> None:
    """Otherwise a second run would merge them."""
    for view in ("expand_dims(%6, axis=1)", "squeeze(%6, axis=[1])"):
        body = f"%20 = expand_dims(%x, axis=1); {on_20.replace('; nn.relu', '; %6 = nn.relu')}; nn.softmax({view})"
        found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", body))["main"]
        assert operators(found) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3, "nn.relu", "reshape", "nn.softmax"]


def test_a_collapsed_region_may_be_the_input_of_another() -> None:
    """Otherwise a second run would collapse a product on a view of it."""
    body = f"{layers(3).rpartition(';')[0]}; nn.relu(reshape(nn.matmul(reshape(%5, newshape=[1, 1, 6, 4]), %w), newshape=[1, 6, 2, 2]))"
    found = run_pass(CollapseBatchDims(), program("%x: (1, 6, 4), %w: (4, 4), %c: (4)", body))["main"]
    assert operators(found) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3, "nn.matmul", "reshape", "nn.relu"]


def test_nested_functions_work_on_matrices() -> None:
    signature = "%x: (2, 3, 4), %w: (4, 4), %c: (4)"
    params = ", ".join(f"%{name}: Tensor[({sizes}), float32]" for name, sizes in (("x", "2, 3, 4"), ("w", "4, 4"), ("c", "4")))
    found = run_pass(CollapseBatchDims(), program(signature, f"%20 = fn ({params}) {{ {layers(3)} }}; %20(%x, %w, %c)"))["main"]
    (nested,) = [node for node in post_order(found) if isinstance(node, Function) and node is not found]
    assert operators(nested) == ["reshape", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3, "reshape", "nn.relu"]


def test_what_the_function_returns_is_not_reshaped() -> None:
    body = layers(6).rpartition(";")[0]
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", f"{body}; nn.matmul(%11, %w)"))["main"]
    assert operators(found)[-2:] == ["reshape", "nn.matmul"]
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", f"{body}; (%11, nn.softmax(%11))"))["main"]
    assert operators(found)[-3:] == ["reshape", "nn.relu", "nn.softmax"]


def test_residual_sums_alone_stay() -> None:
    """In a Gemm they take as long as after it."""
    signature = "%x: (2, 3, 4), %w: (4, 4), %v: (4, 4), %u: (4, 4)"
    stays(CollapseBatchDims(), signature, "%0 = add(%x, nn.matmul(%x, %w)); %1 = add(%0, nn.matmul(%0, %v)); add(%1, nn.matmul(%1, %u))")


def test_sums_of_integers_are_not_biases() -> None:
    stays(CollapseBatchDims(), "%x: (2, 3, 4) int32, %w: (4, 4) int32, %c: (4) int32", layers(6))


def test_results_with_other_users_are_unflattened_once() -> None:
    body = layers(6).rpartition(";")[0] + "; nn.batch_matmul(%11, transpose(%11, axes=[0, 2, 1]), transpose_b=False)"
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", body))["main"]
    assert operators(found).count("reshape") == 2


def test_nothing_changes_in_exact_mode() -> None:
    stays(CollapseBatchDims(), SIGNATURE, layers(8), rules__math="exact")


def test_sums_of_branches_separate_regions() -> None:
    """The first sum joins two stacks, so that a region with it would reshape three of them."""
    found = run_pass(
        CollapseBatchDims(),
        program(
            "%x: (2, 3, 4), %y: (2, 3, 4), %w: (4, 4), %c: (4)",
            "%0 = add(nn.matmul(%x, %w), %c); %5 = add(nn.matmul(%0, %w), %c); %1 = add(nn.matmul(nn.relu(%5), %w), %c); %2 = add(%1, %y);"
            "%3 = transpose(%2, axes=[0, 2, 1]); %4 = transpose(%3, axes=[0, 2, 1]); (%2, %4)",
        ),
    )["main"]
    assert operators(found)[:10] == ["reshape", *LINEAR, *LINEAR, "nn.relu", *LINEAR, "reshape", "add"]


def test_what_only_prepares_the_input_stays() -> None:
    found = run_pass(CollapseBatchDims(), program("%x: (b, 3, 4), %y: (b, 3, 4), %w: (4, 4), %c: (4)", f"%20 = exp(add(%x, %y)); {on_20}"))
    assert operators(found["main"])[:4] == ["add", "exp", "reshape", "nn.matmul"]


def test_what_only_shares_the_input_stays() -> None:
    """On matrices, its result would take a reshape, which a second run removed."""
    body = f"%20 = multiply(%x, sigmoid(%x)); {layers(3).replace('; nn.relu', '; %6 = nn.relu')}; (nn.softmax(%20, axis=1), nn.softmax(%6, axis=1))"
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", body))["main"]
    assert operators(found)[:4] == ["sigmoid", "multiply", "nn.softmax", "reshape"]
    assert operators(found)[-3:] == ["nn.relu", "reshape", "nn.softmax"]


@pytest.mark.parametrize("first", [True, False])
def test_a_matrix_that_the_program_makes_is_not_made_again(first: bool) -> None:
    region, matrix = layers(3).replace("; nn.relu", "; %6 = nn.relu"), "%20 = reshape(%x, newshape=[6, -1])"
    body = "; ".join([matrix, region] if first else [region, matrix])
    outputs = ("nn.softmax(%20)", "nn.softmax(%6)")
    text = f"{body}; ({', '.join(outputs if first else outputs[::-1])})"
    found = run_pass(CollapseBatchDims(), program("%x: (2, 3, 4), %w: (4, 4), %c: (4)", text))["main"]
    assert operators(found).count("reshape") == 2


def test_splits_of_rows_are_splits_of_a_matrix() -> None:
    signature = "%x: (2, 3, 4), %w: (4, 8), %c: (8)"
    body = "%0 = split(add(nn.matmul(%x, %w), %c), indices_or_sections=[4], axis=2)"
    whole = f"{body}; (reshape(%0.0, newshape=[6, 4]), reshape(%0.1, newshape=[6, 4]))"
    module = program(signature, whole)
    before, found = module["main"], run_pass(CollapseBatchDims(), module)["main"]
    assert operators(found) == ["reshape", *LINEAR, "split"]
    assert isinstance(before, Function)
    assert isinstance(found, Function)
    assert_equal_in_value(before, found, exact=False)
    stays(CollapseBatchDims(), signature, f"{body}; %0")  # the tuple itself is returned


def test_the_rows_of_a_sum_are_the_sum_of_rows() -> None:
    becomes(
        CollapseBatchDims(),
        "%x: (6, 4), %y: (6, 4)",
        "%0 = reshape(%x, newshape=[2, 3, 4]); %1 = reshape(%y, newshape=[2, 3, 4]); %2 = add(%0, %1); reshape(%2, newshape=[6, 4])",
        "add(%x, %y)",
    )


def test_a_single_product_stays() -> None:
    stays(CollapseBatchDims(), "%x: (2, 3, 4), %w: (4, 5)", "nn.matmul(%x, %w)")


@pytest.mark.parametrize(("sizes", "collapses"), [("b, s", False), ("b, 3", True)])
def test_computed_shapes_need_an_opset(sizes: str, collapses: bool) -> None:
    """ONNX reads parts of shapes from opset 15 on."""
    module = program(f"%x: ({sizes}, 4), %w: (4, 4), %c: (4)", layers(6))
    before = module["main"]
    assert isinstance(before, Function)
    assert (collapse_batch_dims(before, computed=False) is not before) == collapses


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
    after = collapse_batch_dims(before)
    names = operators(after)
    assert names.count("nn.bias_add") == 8
    assert names.count("dyn.reshape") == 7  # the heads of each product, and the result
    assert names.count("shape_of") <= 2  # of the whole input, and of all but its rows
    assert_equal_in_value(before, after, exact=False)


@pytest.mark.parametrize("sizes", [(0, 3), (2, 0), (0, 0)])
def test_there_may_be_no_rows(sizes: tuple[int, int]) -> None:
    after = collapse_batch_dims(network(2))
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
    after = collapse_batch_dims(before)
    assert operators(after) == ["reshape", "nn.matmul", *["nn.matmul", "nn.bias_add", "nn.relu"] * 3]
    assert_equal_in_value(before, after, exact=False)


def test_a_region_may_have_many_calls() -> None:
    """The calls that no product reaches were looked for in time quadratic in the calls: 20,000 of them took half a minute."""
    hidden: Expr = x
    for _ in range(5_000):
        hidden = ops.nn.relu(ops.nn.matmul(hidden, weight) + bias)
    after = collapse_batch_dims(func(hidden))
    assert operators(after).count("nn.bias_add") == 5_000
