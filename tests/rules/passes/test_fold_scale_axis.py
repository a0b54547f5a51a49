"""FoldScaleAxis: moves scales to the products that absorb them."""

from collections.abc import Sequence

import pytest

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.passmgr import get_entry
from passat.rules.passes.algebra import backward_fold_scale_axis, fold_scale_axis, forward_fold_scale_axis
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.passes.golden import program, run
from tests.rules.running import apply, assert_equal_in_value, operators

x = var("x", (1, 4, 6, 6))
last = var("last", (1, 6, 6, 4))
scale, shift = numbers((4, 1, 1), seed=1), numbers((4, 1, 1), seed=2)
behind = numbers((5, 1, 1), seed=3)
weight = numbers((5, 4, 3, 3), seed=4)
negative = const([[[-1.0]], [[2.0]], [[3.0]], [[4.0]]])


def folded(body: Expr, expected: Sequence[str]) -> Function:
    """The function after the pass, checked to have the expected operators and unchanged values."""
    before = func(body)
    after = run(fold_scale_axis(), IRModule.from_expr(before))["main"]
    assert isinstance(after, Function)
    assert operators(after) == list(expected)
    assert_equal_in_value(before, after, exact=False)
    return after


def test_the_rules_of_both_directions() -> None:
    whole = fold_scale_axis()
    assert (whole.info.name, whole.info.opt_level) == ("FoldScaleAxis", 3)
    assert {*backward_fold_scale_axis().sets, *forward_fold_scale_axis().sets} == set(whole.sets)
    assert get_entry("FoldScaleAxis").make({}).info.name == "FoldScaleAxis"


FORWARD: dict[str, tuple[Expr, list[str]]] = {
    "convolution": (ops.nn.conv2d(x * scale, weight, padding=(1, 1)), ["nn.conv2d"]),
    "groups": (ops.nn.conv2d(x * scale, numbers((6, 2, 3, 3)), groups=2), ["nn.conv2d"]),
    "depthwise": (ops.nn.conv2d(x * scale, numbers((4, 1, 3, 3)), groups=4), ["nn.conv2d"]),
    "two of each": (ops.nn.conv2d(x * scale, numbers((8, 1, 3, 3)), groups=4), ["nn.conv2d"]),
    "channels last": (
        ops.nn.conv2d(last * numbers((4,), seed=1), numbers((3, 3, 4, 5)), data_layout="NHWC", kernel_layout="HWIO"),
        ["nn.conv2d"],
    ),
    "transposed": (ops.nn.conv2d_transpose(x * scale, numbers((4, 5, 3, 3))), ["nn.conv2d_transpose"]),
    "transposed in groups": (ops.nn.conv2d_transpose(x * scale, numbers((4, 5, 3, 3)), groups=2), ["nn.conv2d_transpose"]),
    "rectifier": (ops.nn.conv2d(ops.nn.relu(x * scale), weight), ["nn.relu", "nn.conv2d"]),
    "leaky rectifier": (ops.nn.conv2d(ops.nn.leaky_relu(x * scale, alpha=0.3), weight), ["nn.leaky_relu", "nn.conv2d"]),
    "sum": (ops.nn.conv2d(ops.nn.relu(x * scale + shift), weight), ["add", "nn.relu", "nn.conv2d"]),
    "pooling": (
        ops.nn.conv2d(ops.nn.max_pool2d(ops.nn.avg_pool2d(x * scale, pool_size=(2, 2)), pool_size=(2, 2)), weight),
        ["nn.avg_pool2d", "nn.max_pool2d", "nn.conv2d"],
    ),
    "padding": (ops.nn.conv2d(ops.nn.pad(x * scale, pad_width=((0, 0), (0, 0), (1, 1), (2, 0))), weight), ["nn.pad", "nn.conv2d"]),
    "transpose": (ops.nn.conv2d(ops.transpose(last * numbers((4,), seed=1), axes=(0, 3, 1, 2)), weight), ["transpose", "nn.conv2d"]),
    "classifier": (
        ops.nn.dense(ops.nn.batch_flatten(ops.nn.global_avg_pool2d(ops.nn.relu(x * scale))), numbers((3, 4))),
        ["nn.relu", "nn.global_avg_pool2d", "nn.batch_flatten", "nn.dense"],
    ),
    "matrix": (ops.nn.matmul(var("m", (2, 7, 4)) * numbers((4,), seed=1), numbers((4, 3))), ["nn.matmul"]),
    "transposed matrix": (
        ops.nn.matmul(var("m", (2, 4)) * numbers((4,), seed=1), numbers((3, 4)), transpose_b=True),
        ["nn.matmul"],
    ),
    "shift": (ops.nn.conv2d(x * scale + shift, weight), ["nn.conv2d", "nn.bias_add"]),
    "shift before a bias": (
        ops.nn.bias_add(ops.nn.dense(var("m", (2, 4)) + numbers((4,)), numbers((3, 4))), numbers((3,))),
        ["nn.dense", "nn.bias_add"],
    ),
}
BACKWARD: dict[str, tuple[Expr, list[str]]] = {
    "rectifier": (ops.nn.relu(ops.nn.conv2d(x, weight)) * behind, ["nn.conv2d", "nn.relu"]),
    "rectified bias": (
        ops.nn.relu(ops.nn.bias_add(ops.nn.conv2d(x, weight), numbers((5,)))) * behind,
        ["nn.conv2d", "nn.bias_add", "nn.relu"],
    ),
    "pooling": (ops.nn.max_pool2d(ops.nn.conv2d(x, weight), pool_size=(2, 2)) * behind, ["nn.conv2d", "nn.max_pool2d"]),
    "transpose": (
        ops.transpose(ops.nn.conv2d(x, weight), axes=(0, 2, 3, 1)) * numbers((5,), seed=3),
        ["nn.conv2d", "transpose"],
    ),
    "branches": (
        (ops.nn.conv2d(x, weight) + ops.nn.conv2d(x, numbers((5, 4, 3, 3), seed=7))) * behind,
        ["nn.conv2d", "nn.conv2d", "add"],
    ),
    "channels last": (
        ops.nn.bias_add(ops.nn.conv2d(last, numbers((5, 4, 3, 3)), data_layout="NHWC"), numbers((5,)), axis=3) * numbers((5,), seed=3),
        ["nn.conv2d", "nn.bias_add"],
    ),
    "transposed in groups": (
        ops.nn.conv2d_transpose(x, numbers((4, 3, 3, 3)), groups=2) * numbers((6, 1, 1), seed=3),
        ["nn.conv2d_transpose"],
    ),
    "transposed matrix": (
        ops.nn.matmul(var("m", (2, 4)), numbers((3, 4)), transpose_b=True) * numbers((3,), seed=1),
        ["nn.matmul"],
    ),
}
REJECTED: dict[str, tuple[Expr, str]] = {
    "a rectifier changes what a negative scale turns round": (ops.nn.conv2d(ops.nn.relu(x * negative), weight), "is zero, negative"),
    "what is not 0 would be scaled too": (
        ops.nn.conv2d(ops.nn.pad(x * scale, pad_width=((0, 0), (0, 0), (1, 1), (1, 1)), pad_value=1.0), weight),
        "pads with 1.0",
    ),
    "a scale of places is no scale of channels": (ops.nn.conv2d(x * numbers((6,)), weight), "varies along an axis other than 1"),
    "a window mixes positions that a scale distinguishes": (
        ops.nn.conv2d(ops.nn.max_pool2d(x * numbers((6,)), pool_size=(2, 2)), weight),
        "varies along an axis other than 1",
    ),
    "zeros that are padded would be shifted too": (ops.nn.conv2d(x + shift, weight, padding=(1, 1)), "pads by (1, 1)"),
    "nothing divides by zero": (ops.nn.conv2d(x * const([[[0.0]], [[1.0]], [[2.0]], [[3.0]]]) + shift, weight, padding=(1, 1)), "is 0"),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward(name: str) -> None:
    body, expected = FORWARD[name]
    folded(body, expected)


@pytest.mark.parametrize("name", BACKWARD)
def test_backward(name: str) -> None:
    body, expected = BACKWARD[name]
    folded(body, expected)


@pytest.mark.parametrize("name", REJECTED)
def test_rejected(name: str) -> None:
    body, reason = REJECTED[name]
    before = func(body)
    outcome = apply(forward_fold_scale_axis(), before)
    assert operators(outcome.function) == operators(before)
    assert any(reason in remark for remark in outcome.remarks), outcome.remarks


def test_a_scale_that_meets_no_product_stays() -> None:
    for pass_ in (backward_fold_scale_axis(), forward_fold_scale_axis()):
        before = func(ops.tanh(ops.nn.relu(x * scale)))
        assert apply(pass_, before).function.body is before.body


def test_a_scale_moves_to_the_smaller_tensor() -> None:
    after = apply(forward_fold_scale_axis(), func(ops.nn.max_pool2d(x * scale, pool_size=(3, 3), strides=(3, 3))))
    assert operators(after.function) == ["nn.max_pool2d", "multiply"]


def test_a_scale_that_is_used_twice_is_computed_once() -> None:
    scaled = x * scale
    before = func(tup(ops.nn.conv2d(scaled, weight), scaled))
    assert sorted(operators(apply(forward_fold_scale_axis(), before).function)) == ["multiply", "nn.conv2d"]


def test_weights_of_half_precision_do_not_overflow() -> None:
    data = var("h", (1, 4, 6, 6), "float16")
    before = func(ops.nn.conv2d(data * splat(300.0, (), "float16"), splat(300.0, (5, 4, 3, 3), "float16")))
    outcome = apply(forward_fold_scale_axis(), before)
    assert operators(outcome.function) == ["multiply", "nn.conv2d"]
    assert any("may reach 90000" in remark for remark in outcome.remarks)


def test_named_sizes_are_supported() -> None:
    data = var("x", ("batch", 4, "height", "width"))
    before = func(ops.nn.conv2d(ops.nn.relu(data * scale), weight))
    after = apply(forward_fold_scale_axis(), before).function
    assert operators(after) == ["nn.relu", "nn.conv2d"]
    assert_equal_in_value(before, after, exact=False, sizes={"batch": 2, "height": 4, "width": 5})


def test_a_program_in_text() -> None:
    module = program(
        "%x: (2, 3)",
        """
  %0 = multiply(%x, 2f);
  %1 = nn.dense(nn.relu(%0), full(1f, shape=[4, 3]));
  multiply(%1, 0.5f)
""",
    )
    after = run(fold_scale_axis(), module)["main"]
    assert operators(after) == ["nn.relu", "nn.dense"]


def test_a_long_way() -> None:
    body: Expr = x * scale
    for _ in range(5):
        body = ops.nn.leaky_relu(ops.abs(body))
    after = apply(forward_fold_scale_axis(), func(ops.nn.conv2d(body, weight))).function
    assert operators(after) == [*["abs", "nn.leaky_relu"] * 5, "nn.conv2d"]


def test_scales_between_many_rectifiers_have_few_forms() -> None:
    """Each scale moved to each rectifier, and what they became moved on: six links had 56,000 nodes."""
    made: Expr = var("x", (2, 8))
    for i in range(6):
        made = ops.nn.relu((made - numbers((8,), seed=i)) / numbers((8,), seed=10 + i))
    assert apply(fold_scale_axis(), func(made)).count("nodes") < 20_000
