"""Products with heads that groups of queries share: each rule on programs that it rewrites and on ones that it does not, and whole models."""

from typing import Any as AnyValue

import numpy as np
import onnxruntime as ort
import pytest
from onnx import ModelProto, parser

from passat.ir.expr import Expr, Var
from passat.ir.types import TensorType
from passat.optimizer import optimize
from passat.rules.library import GroupedHeads
from passat.rules.rule import Rule
from tests.rules.building import const, ops, tup, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs

Shape = tuple[str | int, ...]


def turned(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(0, 1, 3, 2))
    return made


def wide(of: Var, length: int) -> Expr:
    """Each head several times, four in all, along an axis of its own."""
    assert isinstance(of.type_annotation, TensorType)
    count = of.type_annotation.shape[1]
    assert isinstance(count, int)
    made: Expr = ops.broadcast_to(ops.expand_dims(of, axis=2), shape=(1, count, 4 // count, length, 8))
    return made


def repeated(shape: Shape) -> Expr:
    """The heads of a variable, each several times, one copy after the other."""
    length = shape[2] if isinstance(shape[2], int) else 1
    made: Expr = ops.reshape(wide(var("k", shape), length), newshape=(0, 4, -1, 8))
    return made


def cached(shape: Shape) -> Expr:
    """The same by a computed shape."""
    heads = var("k", shape)
    sizes = [ops.shape_of(heads, start=0, end=1), const([4], "int64"), ops.shape_of(heads, start=2, end=3), const([8], "int64")]
    made: Expr = ops.dyn.reshape(wide(heads, 1), ops.concatenate(tup(*sizes)))
    return made


def tiled() -> Expr:
    """Heads that are repeated as a whole, one copy after the other, not within each group."""
    copies = ops.broadcast_to(ops.expand_dims(var("k", (1, 2, 6, 8)), axis=1), shape=(1, 2, 2, 6, 8))
    made: Expr = ops.reshape(copies, newshape=(1, 4, 6, 8))
    return made


def scores(queries: Shape, keys: Expr) -> Expr:
    made: Expr = ops.nn.matmul(var("q", queries), turned(keys))
    return made


def sums(weights: Shape, values: Expr) -> Expr:
    made: Expr = ops.nn.matmul(var("s", weights), values)
    return made


def merged(of: Expr, heads: int = 4) -> Expr:
    """The view that merges the axes of heads and groups."""
    made: Expr = ops.squeeze(ops.reshape(of, newshape=(0, heads, 1, 0, 0)), axis=(2,))
    return made


def heads_back(of: Expr) -> Expr:
    made: Expr = ops.transpose(of, axes=(0, 2, 1, 3))
    return made


stack = var("x", ("b", 2, 2, "n", "m"))
mask, masks = var("m", ("b", 1, "n", "m")), var("m", ("b", 4, "n", "m"))
NEW, SUMS = ("b", 4, "new", 8), ("b", 4, "new", "old")
OLD, ALL, ONE = ("b", 2, "old", 8), ("b", 2, "new", 8), ("b", 1, "old", 8)
SEVERAL = "has several heads"
CASES: dict[str, Case] = {
    "GroupedHeads.repeated[keys, static, joined]": case(
        scores((1, 4, 5, 8), repeated((1, 2, 6, 8))), scores((1, 4, 5, 8), tiled()), "with repeated heads"
    ),
    "GroupedHeads.repeated[values, static, joined]": case(
        sums((1, 4, 5, 6), repeated((1, 2, 6, 8))), sums((1, 4, 5, 6), tiled()), "with repeated heads"
    ),
    "GroupedHeads.repeated[keys, computed, joined]": case(scores(("b", 4, 5, 8), cached(OLD)), scores(NEW, cached(OLD)), "may be empty"),
    "GroupedHeads.repeated[values, computed, joined]": case(sums(("b", 4, 5, "old"), cached(OLD)), sums(SUMS, cached(OLD)), "may be empty"),
    "GroupedHeads.repeated[keys, static, stacked]": case(
        scores((1, 4, "new", 8), repeated((1, 2, "old", 8))), scores((1, 4, 5, 8), repeated((1, 2, "old", 8))), "which can be joined"
    ),
    "GroupedHeads.repeated[values, static, stacked]": case(
        sums((1, 4, "new", "old"), repeated((1, 2, "old", 8))), sums((1, 4, 5, "old"), repeated((1, 2, "old", 8))), "which can be joined"
    ),
    "GroupedHeads.repeated[keys, computed, stacked]": case(scores(NEW, cached(OLD)), scores(NEW, cached(ALL)), "copies cost little"),
    "GroupedHeads.repeated[values, computed, stacked]": case(
        sums(SUMS, cached(OLD)), sums(("b", 4, "new", "new"), cached(ALL)), "copies cost little"
    ),
    "GroupedHeads.repeated[keys, static, single]": case(scores(NEW, repeated(ONE)), scores(NEW, repeated(OLD)), SEVERAL),
    "GroupedHeads.repeated[keys, computed, single]": case(scores(NEW, cached(ONE)), scores(NEW, cached(OLD)), SEVERAL),
    "GroupedHeads.repeated[values, static, single]": case(sums(SUMS, repeated(ONE)), sums(SUMS, repeated(OLD)), SEVERAL),
    "GroupedHeads.repeated[values, computed, single]": case(sums(SUMS, cached(ONE)), sums(SUMS, cached(OLD)), SEVERAL),
    "GroupedHeads.merged[softmax]": case(ops.nn.softmax(merged(stack)), ops.nn.softmax(merged(stack), axis=2), "is not axis -1"),
    "GroupedHeads.merged[masked]": case(
        ops.nn.softmax(merged(stack) + mask), ops.nn.softmax(merged(stack) + masks), "is not one mask for all heads"
    ),
    "GroupedHeads.merged[transpose]": case(
        heads_back(merged(var("x", ("b", 2, 2, "n", 8)))),
        heads_back(ops.squeeze(ops.reshape(var("x", (3, 2, 2, 6, 8)), newshape=(3, 4, 1, 8, 6)), axis=(2,))),
        "with merged heads",
    ),
}
TABLE = pairs(CASES, GroupedHeads)
each = pytest.mark.parametrize(
    ("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else ""
)


@each
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@each
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


DECODER = """<ir_version: 8, opset_import: ["": 17]> model
(float[batch, new, 64] x, float[batch, 2, past, 16] k, float[batch, 2, past, 16] v, float[batch, 1, new, past] mask, float[64, 64] w)
=> (float[batch, new, 64] y)
<int64[4] split = {0, 0, 4, 16}, int64[5] copies = {1, 1, 2, 1, 1}, int64[4] all = {0, 4, -1, 16}, int64[3] rows = {0, 0, 64},
 int64[1] two = {2}> {
    p = MatMul(x, w)  n = Relu(p)  q = Reshape(n, split)  t = Transpose<perm = [0, 2, 1, 3]>(q)
    k1 = Unsqueeze(k, two)  k2 = Expand(k1, copies)  k3 = Reshape(k2, all)  k4 = Transpose<perm = [0, 1, 3, 2]>(k3)
    s = MatMul(t, k4)  b = Add(s, mask)  a = Softmax<axis = -1>(b)
    v1 = Unsqueeze(v, two)  v2 = Expand(v1, copies)  v3 = Reshape(v2, all)
    o = MatMul(a, v3)  h = Transpose<perm = [0, 2, 1, 3]>(o)  y = Reshape(h, rows)
}"""


def run(model: ModelProto, batch: int, new: int, past: int) -> AnyValue:
    draw = np.random.default_rng(0).normal
    shapes = {"x": (batch, new, 64), "k": (batch, 2, past, 16), "v": (batch, 2, past, 16), "mask": (batch, 1, new, past), "w": (64, 64)}
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, {name: draw(size=shape).astype("float32") for name, shape in shapes.items()})[0]


@pytest.mark.parametrize("opset", [13, 14, 17, 21])
def test_a_decoder_of_any_number_of_new_tokens_shares_the_heads_of_its_cache(opset: int) -> None:
    """The copies of shared heads stayed, since the rows of a group, joined to one matrix, have a computed shape. Opset 14 cannot even read
    one size of a shape."""
    model = parser.parse_model(DECODER.replace('"": 17', f'"": {opset}'))
    result = optimize(model)
    assert result.report.verification is not None
    assert result.report.verification.equal
    kinds = [node.op_type for node in result.model.graph.node]
    assert not {"Expand", "Shape"} & set(kinds)
    assert len(kinds) < len(model.graph.node)
    assert optimize(result.model).model.SerializeToString() == result.model.SerializeToString()
    for sizes in ((2, 3, 4), (1, 1, 7), (2, 0, 4)):
        np.testing.assert_allclose(run(result.model, *sizes), run(model, *sizes), rtol=1e-4, atol=1e-5)
    assert run(result.model, 0, 3, 4).shape == (0, 3, 64)  # ONNX Runtime rejects -1 there
