"""MergeProducts: products and what surrounds them are merged after other passes have made them neighbors."""

from collections.abc import Callable

import pytest
from onnx import parser

from passat.ir.expr import Expr
from passat.optimizer import optimize
from passat.rules.passes.algebra import merge_products
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.passes.golden import becomes, stays
from tests.rules.running import apply, assert_equal_in_value, operators

ROWS, WEIGHT, VECTOR = var("x", ("rows", 4)), numbers((4, 4)), numbers((4,), seed=1)


def product(of: Expr) -> Expr:
    made: Expr = ops.nn.bias_add(ops.nn.matmul(of, WEIGHT), VECTOR, axis=-1)
    return made


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(lambda x: product(product(x)), id="two products"),
        pytest.param(lambda x: product(x) * VECTOR, id="a scale behind"),
        pytest.param(lambda x: product(x * VECTOR), id="a scale before"),
        pytest.param(lambda x: product(x + VECTOR), id="a shift before"),
        pytest.param(lambda x: ops.nn.matmul(x, WEIGHT) + VECTOR, id="a bias"),
    ],
)
def test_neighbors_become_one_product(body: Callable[[Expr], Expr]) -> None:
    before = func(body(ROWS), ROWS)
    after = apply(merge_products(), before).function
    assert operators(after) == ["nn.matmul", "nn.bias_add"]
    assert_equal_in_value(before, after, exact=False, special=False, sizes={"rows": 3})


def test_a_product_that_others_read_stays() -> None:
    """Merging the two would not make the first one unnecessary."""
    first = product(ROWS)
    before = func(tup(first, product(ops.tanh(first))), ROWS)
    assert apply(merge_products(), before).function is before


def test_a_transposed_operand_of_a_product_of_matrices() -> None:
    # CollapseBatchDims puts products on matrices only after LinearAlgebra.
    becomes(merge_products(), "%x: (2, 4), %w: (3, 4)", "nn.matmul(%x, transpose(%w, axes=[1, 0]))", "nn.matmul(%x, %w, transpose_b=True)")
    stays(merge_products(), "%x: (2, 3, 4), %w: (3, 4)", "nn.matmul(%x, transpose(%w, axes=[1, 0]))")


def test_reshapes_that_have_become_neighbors() -> None:
    # CollapseBatchDims puts the sum before the windows of a Swin on rows, behind which a reshape follows another.
    pair = "reshape(reshape(%x, newshape=[2, 2, 6, 4]), newshape=[2, 2, 2, 3, 4])"
    becomes(merge_products(), "%x: (24, 4)", pair, "reshape(%x, newshape=[2, 2, 2, 3, 4])")
    becomes(merge_products(), "%x: (24, 4)", "reshape(%x, newshape=[24, 4])", "%x")
    stays(merge_products(), "%x: (24, 4)", "reshape(tanh(reshape(%x, newshape=[2, 12, 4])), newshape=[4, 6, 4])")


def test_products_without_weights_are_not_regrouped() -> None:
    """LinearAlgebra has done so, within limits of its own. Sixteen products of one tensor have more groupings than a stage may match."""
    rows = var("x", (2, 16, 16))
    made: Expr = rows
    for _ in range(8):
        made = ops.nn.matmul(ops.nn.matmul(made, ops.transpose(made, axes=(0, 2, 1))), made)
    before = func(made, rows)
    outcome = apply(merge_products(), before)
    assert outcome.function is before
    assert outcome.count("matched:MatmulAlgebra.regroup") == 0


MODEL = """<ir_version: 8, opset_import: ["": 17]> model (float[batch, 4000, 4] x) => (%s)
<float[4, 4] u = {0.5, 1, -1, 2, 0.25, 3, 1, -2, 1, 0.5, 2, 1, -1, 0.5, 1, 3}, float[4] b = {1, -0.5, 2, 0.25},
 int64 first = {0}, int64 last = {-1}, int64[1] ends = {-1}, int64[2] flat = {-1, 4}, int64[3] stack = {-1, 4000, 4}> {
    %s
}"""


@pytest.mark.parametrize(
    ("outputs", "nodes", "products"),
    [
        pytest.param(
            "float[batch, 4] y",
            "p = MatMul(x, u)  q = Add(p, b)  r = Tanh(q)  s = MatMul(r, u)  t = Add(s, b)  c = Gather<axis = 1>(t, first)"
            "d = MatMul(c, u)  y = Add(d, b)",
            2,
            id="a selection between products",
        ),
        pytest.param(
            "float[batch, 4] y",
            "p = MatMul(x, u)  q = Add(p, b)  r = Tanh(q)  s = MatMul(r, u)  t = Add(s, b)  c = Gather<axis = 1>(t, last)  y = Mul(c, b)",
            2,
            id="a selection before a scale",
        ),
        pytest.param(
            "float[batch, 4000, 4] y",
            "p = MatMul(x, u)  q = Add(p, b)  r = Tanh(q)  s = MatMul(r, u)  f = Reshape(s, flat)  g = Gemm<transB = 1>(f, u, b)"
            "h = Reshape(g, stack)  k = Tanh(h)  l = MatMul(k, u)  y = Add(l, b)",
            3,
            id="a reshape between products",
        ),
        pytest.param(
            "float[1, 4] y",
            "p = MatMul(x, u)  q = Add(p, b)  r = Tanh(q)  c = Gather<axis = 0>(r, first)  d = Tanh(c)  e = Gather<axis = 0>(d, ends)"
            "f = MatMul(e, u)  y = Add(f, b)",
            2,
            id="selections along two axes",
        ),
        pytest.param(
            "float[batch, 4] y, float[batch, 4000, 4] z",
            "p = MatMul(x, u)  q = Add(p, b)  s = MatMul(q, u)  t = Add(s, q)  z = Tanh(t)  c = Gather<axis = 1>(q, first)  y = Tanh(c)",
            2,
            id="a product that is whole until another one no longer reads it",
        ),
    ],
)
def test_a_second_run_finds_nothing(outputs: str, nodes: str, products: int) -> None:
    first = optimize(parser.parse_model(MODEL % (outputs, nodes)), verify=True)
    assert first.report.verification is not None
    assert first.report.verification.equal
    assert sum(node.op_type in ("Gemm", "MatMul") for node in first.model.graph.node) == products
    second = optimize(first.model)
    assert second.model.SerializeToString() == first.model.SerializeToString()
