"""The passes of the library under Relay's names: levels, requirements, effects, and the default pipeline."""

import pytest

from passat.ir.expr import Constant, Let, Var
from passat.ir.module import IRModule
from passat.passmgr import Pass, PassContext, get_entry, parse_pipeline, pipeline_text
from passat.rules.passes import default_pipeline
from passat.rules.passes.simplify import (
    DeadCodeElimination,
    dynamic_to_static,
    eliminate_common_subexpr,
    fold_batch_norm,
    fold_constant,
    simplify_expr,
    simplify_inference,
    simplify_tuple_get,
)
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.running import apply, assert_equal_in_value, operators

x = var("x")


@pytest.mark.parametrize(
    ("made", "name", "level", "required"),
    [
        (fold_constant(), "FoldConstant", 2, ["InferType"]),
        (simplify_tuple_get(), "SimplifyTupleGet", 1, ["InferType"]),
        (simplify_inference(), "SimplifyInference", 0, ["InferType"]),
        (dynamic_to_static(), "DynamicToStatic", 2, ["InferType"]),
        (simplify_expr(), "SimplifyExpr", 0, ["InferType"]),
        (fold_batch_norm(), "FoldBatchNorm", 2, ["InferType"]),
        (eliminate_common_subexpr(), "EliminateCommonSubexpr", 3, ["InferType"]),
        (DeadCodeElimination(), "DeadCodeElimination", 1, []),
    ],
    ids=lambda value: value.info.name if isinstance(value, Pass) else "",
)
def test_names_levels_and_requirements(made: Pass, name: str, level: int, required: list[str]) -> None:
    assert (made.info.name, made.info.opt_level, list(made.info.required)) == (name, level, required)
    assert made.__doc__
    assert get_entry(name).name.endswith(name)
    assert pipeline_text(parse_pipeline(name)) == name


LEVELS = [
    ("ReadOpaque", 0),
    ("SimplifyInference", 0),
    ("FoldConstant", 2),
    ("DynamicToStatic", 2),
    ("FoldBatchNorm", 2),
    ("SimplifyExpr", 0),
    ("SimplifyShapes", 2),
    ("HoistSelections", 3),
    ("SlicesToSplit", 2),
    ("EliminateCommonSubexpr", 3),
    ("FoldScaleAxis", 3),
    ("LinearAlgebra", 3),
    ("RaiseOps", 3),
    ("RaiseAttention", 3),
    ("Explore", 4),
    ("CombineParallelConv2D", 4),
    ("CombineParallelDense", 4),
    ("CombineParallelBatchMatmul", 4),
    ("HoistSelections", 3),
    ("CollapseBatchDims", 3),
    ("MergeProducts", 3),
    ("ContribOperators", 3),
    ("TargetForms", 3),
    ("AvoidSkipLayerNorm", 3),
    ("DeadCodeElimination", 1),
    ("UnfoldConstant", 2),
]


def test_the_default_pipeline() -> None:
    assert [(member.info.name, member.info.opt_level) for member in default_pipeline().members] == LEVELS


@pytest.mark.parametrize("level", range(5))
def test_passes_of_each_level(level: int) -> None:
    context = PassContext(opt_level=level)
    run = [member.info.name for member in default_pipeline().members if context.pass_enabled(member.info)]
    assert run == [name for name, least in LEVELS if least <= level]


def test_simplify_tuple_get() -> None:
    from passat.ir.expr import TupleGetItem

    function = func(TupleGetItem(tup(x, ops.exp(x)), 1))
    outcome = apply(simplify_tuple_get(), function)
    assert operators(outcome.function) == ["exp"]
    assert outcome.fired("TupleProjection.field") == 1
    pieces = func(ops.split(x, indices_or_sections=2)[0])
    assert apply(simplify_tuple_get(), pieces).function is pieces


def test_eliminate_common_subexpr() -> None:
    function = func(ops.exp(x) + ops.exp(x))
    assert operators(apply(eliminate_common_subexpr(), function).function) == ["exp", "add"]
    fields = func(tup(ops.split(x, indices_or_sections=2)[0], ops.split(x, indices_or_sections=2)[0]))
    assert operators(apply(eliminate_common_subexpr(), fields).function) == ["split"]
    constants = func(x * numbers((2, 3)) + x * numbers((2, 3)))
    assert operators(apply(eliminate_common_subexpr(), constants).function) == ["multiply", "add"]
    other = func(ops.sum(x, axis=(0,)) + ops.sum(x, axis=(0,), keepdims=False))
    assert operators(apply(eliminate_common_subexpr(), other).function) == ["sum", "add"]


def test_equal_expressions_that_are_two_stay_two() -> None:
    for body in (
        ops.nn.dropout(x)[0] + ops.nn.dropout(x)[0],
        ops.sum(x, axis=(0,)) + ops.sum(x, axis=(1,), keepdims=True),
        x * splat(0.0) + x * splat(-0.0),
    ):
        function = func(body)
        assert apply(eliminate_common_subexpr(), function).function is function


def test_dead_code_elimination() -> None:
    u = Var("u")
    function = func(Let(u, ops.exp(x), x), x)
    after = DeadCodeElimination()(IRModule.from_expr(function))["main"]
    assert after.body is x


def test_simplify_inference_takes_nothing_but_dropout() -> None:
    normal = ops.nn.batch_norm(var("image", (1, 3, 2, 2)), *(numbers((3,), seed=i) for i in range(4)))[0]
    assert operators(apply(simplify_inference(), func(ops.nn.dropout(normal)[0])).function) == ["nn.batch_norm"]


def test_fold_batch_norm() -> None:
    image = var("image", (1, 2, 5, 5))
    conv = ops.nn.bias_add(ops.nn.conv2d(image, numbers((3, 2, 3, 3))), numbers((3,)))
    function = func(ops.nn.relu(ops.nn.batch_norm(conv, *(numbers((3,), seed=i) for i in range(4)))[0]))
    after = apply(fold_batch_norm(), function).function
    assert operators(after) == ["nn.conv2d", "nn.bias_add", "nn.relu"]
    assert_equal_in_value(function, after, exact=False)
    assert apply(fold_batch_norm(), function, rules__math="exact").function is function


def test_simplify_expr() -> None:
    body = ops.transpose(ops.transpose(ops.reshape(x + splat(0.0), newshape=(3, 2)), axes=(1, 0)), axes=(1, 0)) * splat(1.0)
    function = func(ops.cast(ops.copy(ops.reshape(body, newshape=(6,))), dtype="float32"))
    after = apply(simplify_expr(), function).function
    assert operators(after) == ["reshape"]
    assert_equal_in_value(function, after, exact=False)


def test_the_default_pipeline_on_a_small_network() -> None:
    image = var("image", ("batch", 2, 5, 5))
    conv = ops.nn.conv2d(image, numbers((3, 2, 3, 3)))
    normal = ops.nn.batch_norm(conv, *(numbers((3,), seed=i) for i in range(4)))[0]
    dropped = ops.nn.dropout(ops.nn.relu(ops.nn.relu(normal)))[0]
    shape = ops.shape_of(dropped, dtype="int64")
    batch = ops.expand_dims(ops.take(shape, const(0, "int64"), axis=0), axis=0)
    flat = ops.dyn.reshape(dropped, ops.concatenate(tup(batch, const([-1], "int64"))))
    function = func(ops.nn.matmul(flat, numbers((27, 4))) + numbers((4,)))
    with PassContext(opt_level=3):
        after = default_pipeline()(IRModule.from_expr(function))["main"]
    assert operators(after) == ["nn.conv2d", "nn.bias_add", "nn.relu", "reshape", "nn.matmul", "nn.bias_add"]
    assert_equal_in_value(function, after, exact=False, sizes={"batch": 2})
    with PassContext(opt_level=3):
        module = IRModule.from_expr(after)
        assert default_pipeline()(module) is module


def test_calls_on_constants_become_constants() -> None:
    function = func(tup(splat(1.0) + splat(2.0), x))
    with PassContext(opt_level=3):
        after = default_pipeline()(IRModule.from_expr(function))["main"]
    assert isinstance(after.body.fields[0], Constant)  # type: ignore[attr-defined]  # a tuple
