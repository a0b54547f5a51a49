"""Matches that rules reject, with the reasons: integers and booleans for rules on floats, unknown dimensions that rules need, attributes at
their limits. Each pass, and the default pipeline, leaves these programs unchanged."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import pytest

from passat.ir.expr import Function
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.passmgr import Pass, PassContext
from passat.rules.passes import default_pipeline
from passat.rules.passes.algebra import backward_fold_scale_axis, explore, fold_scale_axis, forward_fold_scale_axis, linear_algebra
from passat.rules.passes.simplify import fold_batch_norm, simplify_expr, simplify_inference
from passat.rules.passes.target import raise_attention, raise_operators, target_forms
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.running import assert_equal_in_value, operators

PASSES: Final[dict[str, Callable[[], Pass]]] = {
    "SimplifyExpr": simplify_expr,
    "FoldBatchNorm": fold_batch_norm,
    "FoldScaleAxis": fold_scale_axis,
    "LinearAlgebra": linear_algebra,
    "Explore": explore,
    "RaiseOps": raise_operators,
    "default": default_pipeline,
}


def remarks(pass_: Pass, module: IRModule, **config: AnyValue) -> list[str]:
    """The remarks of a pass, or of the passes of a pipeline, about a program."""
    with PassContext(opt_level=4, config={key.replace("__", "."): value for key, value in config.items()}) as context:
        pass_(module)
    return [remark for said in context.statistics.remarks.values() for remark in said]


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("body", ["subtract(%x, %x)", "divide(%x, %x)", "subtract(add(%x, %y), %x)", "add(subtract(%x, %y), %y)"])
def test_programs_that_differ_on_nonfinite_values_are_kept(name: str, dtype: str, body: str) -> None:
    """inf - inf, inf / inf and 0 / 0 are NaN."""
    module = program(f"%x: (2, 3) {dtype}, %y: (2, 3) {dtype}", body)
    after = run(PASSES[name](), module)["main"]
    assert sorted(operators(after)) == sorted(operators(module["main"]))
    assert isinstance(after, Function)
    assert_equal_in_value(module["main"], after, exact=True, special=True)


@pytest.mark.parametrize("name", PASSES)
def test_a_product_with_zero_is_kept(name: str) -> None:
    """inf * 0 and NaN * 0 are NaN; -1 * 0 is -0."""
    stays(PASSES[name](), "%x: (2, 3)", "multiply(%x, 0f)")
    stays(PASSES[name](), "%x: (2, 3)", "multiply(%x, -0f)")


@pytest.mark.parametrize("name", PASSES)
@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint8"])
@pytest.mark.parametrize(
    "body",
    [
        pytest.param("multiply(divide(%x, %c), %c)", id="a quotient times its divisor"),
        pytest.param("divide(multiply(%x, %c), %c)", id="a product by its factor"),
        pytest.param("divide(%x, %y)", id="a quotient"),
        pytest.param("add(divide(%x, %c), divide(%y, %c))", id="quotients by one number"),
        pytest.param("divide(%y, divide(%x, %c))", id="by a quotient"),
    ],
)
def test_integers_do_not_divide_back(name: str, dtype: str, body: str) -> None:
    three = f'cast(3, dtype="{dtype}")'
    stays(PASSES[name](), f"%x: (2, 3) {dtype}, %y: (2, 3) {dtype}, %c: () {dtype}", body)
    if name == "default":
        folded = run(PASSES[name](), program(f"%x: (2, 3) {dtype}, %y: (2, 3) {dtype}", body.replace("%c", three)))["main"]
        assert [op for op in operators(folded) if op != "cast"] == operators(
            program(f"%x: (2, 3) {dtype}, %y: (2, 3) {dtype}, %c: () {dtype}", body)["main"]
        )


@pytest.mark.parametrize(
    ("pass_", "signature", "body", "reason"),
    [
        (simplify_expr, "%x: (2, 3) int32", "multiply(divide(%x, 3), 3)", "int32, not floating-point numbers"),
        (simplify_expr, "%x: (2, 3) int8, %y: (2, 3) int8", "divide(negative(%x), negative(%y))", "int8, not floating-point numbers"),
        (simplify_expr, "%x: (2, 3) int32", "power(%x, -1)", "int32, not floating-point numbers"),
        (linear_algebra, "%x: (2, 3) int64", "subtract(%x, %x)", "int64, not floating-point numbers"),
        (linear_algebra, "%x: (2, 3) bool, %y: (2, 3) bool", "logical_not(logical_and(%x, %y))", ""),
        (linear_algebra, "%x: (2, 3), %y: (2, 3)", "logical_not(less(%x, %y))", "float32, not integers"),  # for NaN neither holds
        (linear_algebra, "%x: (2, 3) int32", 'multiply(cast(%x, dtype="float32"), 0.5f)', "int32, not bool"),
        (raise_operators, "%x: (4, 3) int32", '%0 = exp(cast(%x, dtype="float64")); divide(1f64, sqrt(%0))', ""),
        (
            simplify_expr,
            "%x: (6, 4) int32",
            'add(nn.matmul(%x, full(2, shape=[4, 4], dtype="int32")), full(3, shape=[4], dtype="int32"))',
            "is not a floating-point matrix",
        ),
    ],
)
def test_types_that_a_rule_is_not_for(pass_: Callable[[], Pass], signature: str, body: str, reason: str) -> None:
    module = program(signature, body)
    said = remarks(pass_(), module, rules__math="finite")
    assert not reason or any(reason in remark for remark in said), said


@pytest.mark.parametrize(
    ("pass_", "signature", "body", "reason"),
    [
        (simplify_expr, "%x: (?, 3)", "full_like(%x, 3f)", "is not static"),
        (simplify_expr, "%x: (?, 3)", "ones_like(%x)", "is not static"),
        (simplify_expr, "%x: (?, 3), %y: (3)", "add(%x, zeros_like(%x))", "unknown dimension"),
        (simplify_expr, "%x: (3), %y: (?, 3)", "broadcast_to_like(%x, %y)", "is not static"),
        (
            raise_attention,
            "%q: (?, 2, 5, 4), %k: (?, 2, 4, 5), %v: (?, 2, 5, 4)",
            "nn.matmul(nn.softmax(nn.matmul(%q, %k)), %v)",
            "are not attention heads with known sizes",
        ),
        (
            lambda: simplify_inference(unpack=True),
            "%x: (?, 4, 3), %g: (4), %b: (4)",
            "nn.group_norm(%x, %g, %b, num_groups=2)",
            "may be empty",
        ),
        (linear_algebra, "%x: (?, 3)", "multiply(%x, 0f)", "is not static"),
        (linear_algebra, "%x: (?, 1)", "sum(broadcast_to(%x, shape=[4, 3]), axis=[0], keepdims=True)", "does not consist of copies"),
    ],
)
def test_dimensions_that_a_rule_has_to_know(pass_: Callable[[], Pass], signature: str, body: str, reason: str) -> None:
    module = program(signature, body)
    config: dict[str, AnyValue] = {"rules__math": "finite", "rules__opset": 23}
    said = remarks(pass_(), module, **config)
    assert any(reason in remark for remark in said), said
    left = operators(run(pass_(), module, **config)["main"])
    assert left == [name for name in operators(module["main"]) if name != "full" or name in left]


LIMITS: Final[dict[str, tuple[Callable[[], Pass], str, str, list[str] | None]]] = {
    "a dilated kernel with as many groups as channels": (
        forward_fold_scale_axis,
        "%x: (1, 4, 9, 9)",
        "nn.conv2d(multiply(%x, full(2f, shape=[4, 1, 1])), full(3f, shape=[4, 1, 3, 3]), groups=4, dilation=[2, 3])",
        ["nn.conv2d"],
    ),
    "a shift before a padded convolution": (
        forward_fold_scale_axis,
        "%x: (1, 4, 9, 9)",
        "nn.conv2d(add(%x, full(2f, shape=[4, 1, 1])), full(3f, shape=[4, 4, 3, 3]), padding=[0, 0, 0, 1])",
        ["add", "nn.conv2d"],
    ),
    "a scale past a pooling that counts its padding": (
        backward_fold_scale_axis,
        "%x: (1, 4, 9, 9)",
        "multiply(nn.avg_pool2d(nn.conv2d(%x, full(3f, shape=[2, 4, 1, 1])), pool_size=[2, 2], strides=[2, 2], padding=[1, 1, 1, 1], "
        "ceil_mode=True, count_include_pad=True), full(2f, shape=[2, 1, 1]))",
        ["nn.conv2d", "nn.avg_pool2d"],
    ),
    "a scale past the greatest, from the end": (
        backward_fold_scale_axis,
        "%x: (4, 3)",
        "multiply(max(nn.dense(%x, full(3f, shape=[2, 3])), axis=[-2], keepdims=True), full(2f, shape=[2]))",
        None,
    ),
    "axes from the end": (linear_algebra, "%x: (2, 3, 4)", "sum(sum(%x, axis=[-1]), axis=[-1])", ["sum"]),
    "all axes but these": (linear_algebra, "%x: (2, 3, 4)", "sum(sum(%x, axis=[-1], exclude=True), axis=[-1])", ["sum"]),
    "transposes from the end": (simplify_expr, "%x: (2, 3, 4)", "transpose(transpose(%x, axes=[-1, 0, 1]), axes=[-2, -1, 0])", []),
    "a transpose without axes": (simplify_expr, "%x: (2, 3, 4)", "transpose(transpose(%x))", []),
    "a transpose of a number": (simplify_expr, "%x: ()", "transpose(%x, axes=[])", []),
    "nothing that is squeezed": (simplify_expr, "%x: (2, 3)", "squeeze(%x, axis=[])", []),
    "slices from the end": (
        simplify_expr,
        "%x: (7, 3)",
        "strided_slice(strided_slice(%x, begin=[-5], end=[7], strides=[1], axes=[-2]), begin=[1], end=[-1], strides=[1], axes=[0])",
        ["strided_slice"],
    ),
    "a slice backwards": (
        simplify_expr,
        "%x: (7, 3)",
        "strided_slice(strided_slice(%x, begin=[6], end=[-8], strides=[-1], axes=[0]), begin=[6], end=[-8], strides=[-1], axes=[0])",
        None,
    ),
    "a softmax from the end": (linear_algebra, "%x: (2, 3, 4)", "log(nn.softmax(%x, axis=-3))", ["nn.log_softmax"]),
    "a clip without ends": (simplify_expr, "%x: (2, 3)", "clip(%x)", None),
    "empty tensors": (linear_algebra, "%x: (0, 3)", "max(transpose(%x), axis=[0])", None),
}


@pytest.mark.parametrize("name", LIMITS)
def test_attributes_at_their_limits(name: str) -> None:
    pass_, signature, body, left = LIMITS[name]
    module = program(signature, body)
    after = run(pass_(), module)["main"]
    assert isinstance(after, Function)
    assert left is None or operators(after) == left
    assert_equal_in_value(module["main"], after, exact=False, special=False)
    whole = run(default_pipeline(), module)["main"]
    assert isinstance(whole, Function)
    assert_equal_in_value(module["main"], whole, exact=False, special=False)


def test_a_sum_over_no_axes_is_rejected_where_it_is_typed() -> None:
    """In ONNX the sum is over all axes or over none, depending on another attribute; the reader of models decides which."""
    with pytest.raises(InferError, match=r"axis=\(\) leaves no axis to reduce"):
        run(linear_algebra(), program("%x: (2, 3)", "sum(%x, axis=[])"))


def test_pools_over_sizes_that_are_not_known() -> None:
    """The mean of nothing is NaN, and the result of a pooling of nothing depends on the kernel."""
    stays(target_forms(), "%x: (?, 4, ?, ?)", "mean(%x, axis=[-2, -1], keepdims=True)")
    becomes(target_forms(), "%x: (1, 4, 5, 6)", "mean(%x, axis=[-2, -1], keepdims=True)", "nn.global_avg_pool2d(%x)")
    stays(target_forms(), "%x: (1, 4, 5, 6)", "mean(%x, axis=[-3, -1], keepdims=True)")
