"""Rules on masks around attention, layer scale and exporters' forms: each on a program that it rewrites, and on one that it does not."""

import numpy as np
import onnx
import pytest

from passat.ir.dtypes import to_numpy
from passat.ir.expr import Expr
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.rules.library import Arithmetic, ConstantFolding, DynamicViews, HiddenStates, Masks, TargetForms
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from passat.runner import Runner
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import operators, saturate

x = var("x", (4, 3))
heads = var("heads", (2, 4, 5, 3))
flags = var("flags", (2, 3), "bool")
weight, bias, scale = numbers((3, 5)), numbers((5,)), numbers((5,), seed=1)


def turned(a: Expr, batches: tuple[int, ...], back: tuple[int, ...], axes: tuple[int, ...] = (0, 2, 1)) -> Expr:
    return ops.reshape(ops.transpose(ops.reshape(a, newshape=batches), axes=axes), newshape=back)  # type: ignore[no-any-return]  # `ops`


def places(order: tuple[int, ...] = (0, 1, 2)) -> Expr:
    found = np.stack(np.meshgrid(np.arange(2), np.array(order), indexing="ij"), -1)
    return const(found.reshape(2, 1, 1, 3, 2), "int64")


def guarded(of: Expr, shape: tuple[int, ...] = ()) -> Expr:
    weights = ops.nn.softmax(of)
    return ops.where(ops.isnan(weights), splat(0.0, shape), weights)  # type: ignore[no-any-return]  # as above


def cut(of: Expr) -> Expr:
    """The same in one operator, as `Arithmetic.nan_guard` writes it."""
    return ops.nn.thresholded_relu(ops.nn.softmax(of), alpha=0.0)  # type: ignore[no-any-return]  # as above


def masked(low: float) -> Expr:
    return product + ops.where(var("kept", (5,), "bool"), splat(0.0), splat(low))  # type: ignore[no-any-return]  # as above


def zeroed(kind: str, of: Expr, axis: int = 1) -> Expr:
    """A softmax that is 0 in rows that are masked entirely, as exporters test for these."""
    weights, low, fields = ops.nn.softmax(of), splat(-INFINITY), {"axis": (axis,), "keepdims": True}
    if kind in ("all", "least"):
        equal = ops.equal(of, low)
        test = ops.all(equal, **fields) if kind == "all" else ops.cast(ops.min(ops.cast(equal, dtype="int64"), **fields), dtype="bool")
        return ops.where(test, splat(0.0), weights)  # type: ignore[no-any-return]  # as above
    other = ops.not_equal(of, low)
    test = ops.any(other, **fields) if kind == "any" else ops.cast(ops.max(ops.cast(other, dtype="int64"), **fields), dtype="bool")
    return ops.where(test, weights, splat(0.0))  # type: ignore[no-any-return]  # as above


INFINITY = float("inf")
product = ops.nn.matmul(x, weight)
masked_by_input = product + var("mask", (4, 5))
row_left = const([0.0, -INFINITY, 1.5, -INFINITY, 0.0])
CASES: dict[str, Case] = {
    "DynamicViews.batch_transpose": case(
        turned(heads, (8, 5, 3), (2, 4, 3, 5)), turned(heads, (8, 3, 5), (2, 4, 5, 3)), "do not only split and merge batch dimensions"
    ),
    "Masks.looked_up": case(ops.gather_nd(flags, places()), ops.gather_nd(flags, places((0, 2, 1))), "in a different order"),
    "Masks.taken": case(
        ops.take(x, const([0, 1, -1], "int64"), axis=1), ops.take(x, const([0, 2, 1], "int64"), axis=1), "in a different order"
    ),
    "Masks.and_true": case(
        ops.logical_and(splat(1, (4, 1, 1), "bool"), flags), ops.logical_and(const([True, False, True], "bool"), flags), "differ"
    ),
    "Masks.added_first": case(
        heads + var("bias", (1, 4, 5, 3)) + var("mask", (2, 1, 1, 3)),
        heads + var("whole", (2, 4, 5, 3)) + var("mask", (2, 1, 1, 3)),
        "is not smaller than",
    ),
    "Masks.where_broadcast": case(
        ops.where(ops.broadcast_to(flags, shape=(4, 2, 3)), splat(0.0), splat(-9.0)), ops.where(flags, splat(0.0), splat(-9.0)), ""
    ),
    "Masks.softmax_guard[nan, plain]": case(guarded(masked(-9.0)), guarded(masked(-INFINITY)), "the program itself has infinities"),
    "Masks.softmax_guard[nan, biased]": case(
        guarded(product + row_left), guarded(product + splat(-INFINITY, (5,))), "-infinity along the whole of axis -1"
    ),
    "Masks.softmax_guard[threshold, plain]": case(cut(masked(-9.0)), cut(masked(-INFINITY)), "the program itself has infinities"),
    "Masks.softmax_guard[threshold, biased]": case(
        cut(product + row_left), cut(product + splat(-INFINITY, (5,))), "-infinity along the whole of axis -1"
    ),
    **{
        f"Masks.softmax_guard[{kind}, {scores}]": case(zeroed(kind, of), zeroed(kind, of, axis=0), "the reduction is not over axis -1")
        for kind in ("all", "least", "any", "most")
        for scores, of in (("plain", masked_by_input), ("biased", product + row_left))
    },
    "HiddenStates.scaled[none]": case(ops.nn.matmul(x, weight) * scale, ops.nn.matmul(x, weight) * numbers((4, 1)), "is not a vector"),
    "HiddenStates.scaled[added]": case(
        (ops.nn.matmul(x, weight) + bias) * scale, (ops.nn.matmul(x, weight) + numbers((4, 5))) * scale, "is not a bias"
    ),
    "HiddenStates.scaled[biased]": case(
        ops.nn.bias_add(ops.nn.matmul(x, weight), bias, axis=1) * scale,
        ops.nn.bias_add(ops.nn.matmul(var("five", (5, 3)), weight), bias, axis=0) * scale,
        "axis 0 of Tensor",
    ),
    "TargetForms.global_pool": case(
        ops.mean(heads, axis=(2, 3), keepdims=True), ops.mean(heads, axis=(1, 2), keepdims=True), "is not every axis except"
    ),
}
TABLE = pairs(CASES, DynamicViews, Masks, HiddenStates, TargetForms)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_keys_with_other_batches_after_than_before() -> None:
    repeated = var("repeated", (2, 2, 2, 5, 3))
    function = func(turned(repeated, (8, 5, 3), (2, 4, 3, 5)))
    assert operators(saturate(function, DynamicViews).function) == ["reshape", "transpose"]


def test_batches_of_unknown_number() -> None:
    named = var("named", ("batch", 4, 5, 3))
    function = func(ops.reshape(ops.transpose(ops.reshape(named, newshape=(-1, 5, 3)), axes=(0, 2, 1)), newshape=(0, 4, 3, 5)))
    assert saturate(function, DynamicViews).fired("DynamicViews.batch_transpose") == 0  # no known size proves that they are the same


def test_the_guard_stays_if_values_may_be_nan() -> None:
    function = func(guarded(product))
    assert saturate(function, Masks).function is function
    assert operators(saturate(function, Masks, rules__math="finite").function) == ["nn.matmul", "nn.softmax"]


@pytest.mark.parametrize(
    ("scores", "dropped"),
    [
        (masked_by_input, True),
        (ops.where(var("kept", (4, 5), "bool"), product, splat(-1e9)), True),
        (ops.where(var("kept", (4, 5), "bool"), product, splat(-INFINITY)), False),
        (ops.reshape(ops.where(var("kept", (4, 5), "bool"), product, splat(-INFINITY)), newshape=(2, 10)), False),
        (ops.exp(ops.where(var("kept", (4, 5), "bool"), product, splat(-INFINITY))), True),
        (product + ops.where(const([True, False, True, False, False], "bool"), splat(0.0), splat(-INFINITY)), True),
    ],
    ids=["input", "finite", "infinite", "reshaped", "of exponentials", "constant"],
)
def test_the_guard_stays_only_if_a_mask_of_the_program_may_fill_a_row(scores: Expr, dropped: bool) -> None:
    """An input is assumed to be finite; a mask of -infinity that the program makes by a condition may fill a row."""
    outcome = saturate(func(guarded(scores)), ConstantFolding, Masks, rules__math="finite")
    assert ("isnan" not in operators(outcome.function)) == dropped, outcome.remarks


def test_the_guard_replaces_the_same_rows_in_one_operator() -> None:
    """On ONNX Runtime, too: rows with NaN or infinity, or of minus infinity alone, are 0."""
    values = np.random.default_rng(0).standard_normal((7, 33)).astype(np.float32)
    values[1], values[2, 3], values[3, 4], values[4, 32] = -INFINITY, np.nan, INFINITY, -INFINITY
    module = IRModule.from_expr(func(guarded(var("values", (7, 33)))))
    made = saturate(module["main"], Arithmetic)
    assert operators(made.function) == ["nn.softmax", "nn.thresholded_relu"]
    one, other = (Runner(to_onnx(IRModule.from_expr(function))).run({"values": values})[0] for function in (module["main"], made.function))
    assert one.tobytes() == other.tobytes()
    assert not one[1:4].any()


def test_a_mean_of_rows_is_not_a_pooling() -> None:
    function = func(ops.mean(var("rows", (2, 3, 4)), axis=(2,), keepdims=True))
    assert saturate(function, TargetForms).function is function


@pytest.mark.parametrize(("shape", "pooled"), [((0, 3, 4, 5), True), ((2, 0, 4, 5), False), ((2, 3, 0, 5), False), ((2, "c", 4, 5), False)])
def test_a_mean_of_a_possibly_empty_tensor_is_not_a_pooling(shape: tuple[int | str, ...], pooled: bool) -> None:
    """ONNX Runtime pools an empty batch, but rejects samples without channels and channels without elements."""
    function = saturate(func(ops.mean(var("images", shape), axis=(2, 3), keepdims=True)), TargetForms).function
    assert operators(function) == ["nn.global_avg_pool2d" if pooled else "mean"]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_mean_is_a_pooling_if_onnx_runtime_has_a_kernel(dtype: str) -> None:
    function = saturate(func(ops.mean(var("images", (2, 3, 4, 5), dtype), axis=(2, 3), keepdims=True)), TargetForms).function
    pools = onnx.helper.make_node("GlobalAveragePool", ["x"], ["y"])
    values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(to_numpy(dtype)), None) for name in "xy"]
    graph = onnx.helper.make_graph([pools], "pools", values[:1], values[1:])
    runs = set()
    for opset in (13, 22):
        try:
            Runner(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)], ir_version=8))
            runs.add(True)
        except Exception:  # ONNX Runtime has no exception class for what it rejects
            runs.add(False)
    assert runs == {operators(function) == ["nn.global_avg_pool2d"]}
