"""ConvertLayout: programs before and after, networks, and rejected programs."""

import pickle
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat import relay
from passat.ir.expr import Call, Expr, Function, Tuple, Var
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.op import Op
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import tensor_type
from passat.passmgr import PassContext, Sequential, get_entry, parse_pipeline, pipeline_text
from passat.relay import qnn
from passat.rules.passes.layouts import LayoutPass, Layouts, convert_layout
from passat.rules.passes.simplify import fold_constant, simplify_inference
from passat.rules.pattern import RuleError
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.passes.golden import becomes, program, run, stays
from tests.rules.passes.greedy_layouts import greedy_transposes
from tests.rules.running import assert_equal_in_value, operators
from tests.share import share

LAST = {"nn.conv2d": ("NHWC", "default")}
FIRST = {"nn.conv2d": ("NCHW", "default")}
IN_NHWC = 'data_layout="NHWC", kernel_layout="HWIO"'
IMAGE, WEIGHT = "%x: (1, 4, 6, 6)", "%w: (4, 4, 3, 3)"


def pipeline(layouts: Layouts) -> Sequential:
    """The pass and its requirements."""
    return Sequential([convert_layout({op: list(given) for op, given in layouts.items()})])


def converts(layouts: Layouts, signature: str, before: str, after: str, **sizes: int) -> None:
    """Asserts that a program is converted to another one, and that their values are equal."""
    becomes(pipeline(layouts), signature, before, after)
    module = program(signature, before)
    with PassContext(opt_level=3):
        found = pipeline(layouts)(module)["main"]
    one = module["main"]
    assert isinstance(one, Function)
    assert isinstance(found, Function)
    assert_equal_in_value(one, Function(one.params, _renamed(found, one)), exact=False, sizes=sizes, rounds=1)


def _renamed(function: Function, like: Function) -> Expr:
    """The body over the parameters of another function."""
    from passat.ir.bind import bind

    bound: Expr = bind(function.body, dict(zip(function.params, like.params, strict=True)))
    return bound


def converted(function: Function, layouts: Layouts | None = None, **config: object) -> Function:
    """A function after the pass, checked to have convolutions in the expected layout and unchanged values."""
    wanted = layouts or LAST
    with PassContext(opt_level=3, config={key.replace("__", "."): value for key, value in config.items()}) as context:
        after = pipeline(wanted)(IRModule.from_expr(function))["main"]
    assert isinstance(after, Function)
    assert not [remark for remark in context.statistics.remarks.get("ConvertLayout", {}) if "not in" in remark]
    for node in post_order(after.body):
        if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name in wanted:
            assert node.attrs.get("data_layout", node.attrs.get("layout")) == wanted[node.op.name][0]
    return after


def transposes(function: Function) -> int:
    """The number of transposes in a program."""
    return operators(function).count("transpose")


# ---- one operator and another


def test_nothing_to_convert() -> None:
    body = f"nn.relu(nn.conv2d(%x, %w, padding=[1, 1], {IN_NHWC}))"
    stays(pipeline(LAST), "%x: (1, 6, 6, 4), %w: (3, 3, 4, 4)", body)
    stays(pipeline(FIRST), f"{IMAGE}, {WEIGHT}", "nn.relu(nn.conv2d(%x, %w))")
    stays(pipeline({}), f"{IMAGE}, {WEIGHT}", "nn.relu(nn.conv2d(%x, %w))")
    stays(pipeline(LAST), IMAGE, "transpose(nn.relu(transpose(%x, axes=[0, 2, 3, 1])), axes=[0, 3, 1, 2])")


def test_a_convolution_to_nchw() -> None:
    converts(
        FIRST,
        "%x: (1, 6, 6, 4), %w: (3, 3, 4, 4)",
        f"nn.relu(nn.conv2d(%x, %w, padding=[1, 1], {IN_NHWC}))",
        """
  %0 = transpose(%x, axes=[0, 3, 1, 2]);
  %1 = transpose(%w, axes=[3, 2, 0, 1]);
  %2 = nn.conv2d(%0, %1, padding=[1, 1]);
  transpose(nn.relu(%2), axes=[0, 2, 3, 1])
""",
    )


def test_a_convolution_to_nhwc() -> None:
    converts(
        LAST,
        f"{IMAGE}, {WEIGHT}",
        "nn.relu(nn.conv2d(%x, %w, padding=[1, 1]))",
        f"""
  %0 = transpose(%x, axes=[0, 2, 3, 1]);
  %1 = transpose(%w, axes=[2, 3, 1, 0]);
  %2 = nn.conv2d(%0, %1, padding=[1, 1], {IN_NHWC});
  transpose(nn.relu(%2), axes=[0, 3, 1, 2])
""",
    )


@pytest.mark.parametrize(("kernel", "axes"), [("OHWI", "0, 2, 3, 1"), ("HWOI", "2, 3, 0, 1"), ("OIHW", ""), ("HWIO", "2, 3, 1, 0")])
def test_the_kernel_layout_may_be_named(kernel: str, axes: str) -> None:
    weight = f"transpose(%w, axes=[{axes}])" if axes else "%w"
    converts(
        {"nn.conv2d": ("NHWC", kernel)},
        f"{IMAGE}, {WEIGHT}",
        "nn.conv2d(%x, %w)",
        f"""
  %0 = nn.conv2d(transpose(%x, axes=[0, 2, 3, 1]), {weight}, data_layout="NHWC", kernel_layout="{kernel}");
  transpose(%0, axes=[0, 3, 1, 2])
""",
    )


def test_only_the_kernel() -> None:
    converts(
        {"nn.conv2d": ("NCHW", "HWIO")},
        f"{IMAGE}, {WEIGHT}",
        "nn.conv2d(%x, %w)",
        'nn.conv2d(%x, transpose(%w, axes=[2, 3, 1, 0]), kernel_layout="HWIO")',
    )


def test_depthwise() -> None:
    converts(
        LAST,
        f"{IMAGE}, %w: (4, 1, 3, 3)",
        "nn.conv2d(%x, %w, groups=4)",
        """
  %0 = transpose(%x, axes=[0, 2, 3, 1]);
  %1 = transpose(%w, axes=[2, 3, 0, 1]);
  %2 = nn.conv2d(%0, %1, groups=4, data_layout="NHWC", kernel_layout="HWOI");
  transpose(%2, axes=[0, 3, 1, 2])
""",
    )


def test_groups() -> None:
    converts(
        LAST,
        f"{IMAGE}, %w: (6, 2, 3, 3)",
        "nn.conv2d(%x, %w, groups=2)",
        f"""
  %0 = transpose(%x, axes=[0, 2, 3, 1]);
  %1 = transpose(%w, axes=[2, 3, 1, 0]);
  %2 = nn.conv2d(%0, %1, groups=2, {IN_NHWC});
  transpose(%2, axes=[0, 3, 1, 2])
""",
    )


def test_one_and_three_dimensions() -> None:
    converts(
        {"nn.conv1d": ("NWC",), "nn.conv3d": ("NDHWC",)},
        "%x: (1, 4, 6), %w: (3, 4, 2), %y: (1, 2, 3, 4, 5), %v: (3, 2, 1, 2, 2)",
        "(nn.conv1d(%x, %w), nn.conv3d(%y, %v))",
        """
  %0 = nn.conv1d(transpose(%x, axes=[0, 2, 1]), transpose(%w, axes=[2, 1, 0]), data_layout="NWC", kernel_layout="WIO");
  %1 = transpose(%y, axes=[0, 2, 3, 4, 1]);
  %2 = nn.conv3d(%1, transpose(%v, axes=[2, 3, 4, 1, 0]), data_layout="NDHWC", kernel_layout="DHWIO");
  (transpose(%0, axes=[0, 2, 1]), transpose(%2, axes=[0, 4, 1, 2, 3]))
""",
    )


def test_a_transposed_convolution() -> None:
    converts(
        {"nn.conv2d_transpose": ("NCHW", "IOHW")},
        "%x: (1, 6, 6, 4), %w: (3, 3, 4, 5)",
        f"nn.relu(nn.conv2d_transpose(%x, %w, padding=[1, 1], {IN_NHWC}))",
        """
  %0 = transpose(%x, axes=[0, 3, 1, 2]);
  %1 = transpose(%w, axes=[2, 3, 0, 1]);
  %2 = nn.conv2d_transpose(%0, %1, padding=[1, 1]);
  transpose(nn.relu(%2), axes=[0, 2, 3, 1])
""",
    )


# ---- between operators

CONVOLVED = f"%0 = nn.conv2d(%x, %w, padding=[1, 1], {IN_NHWC});"
TURNED = """
  %0 = transpose(%x, axes=[0, 3, 1, 2]);
  %1 = transpose(%w, axes=[3, 2, 0, 1]);
  %2 = nn.conv2d(%0, %1, padding=[1, 1]);
"""
NHWC = "%x: (1, 6, 6, 4), %w: (3, 3, 4, 4)"


def test_bias_and_pooling() -> None:
    tail = """
  %1 = nn.relu(nn.bias_add(%0, %b, axis=3));
  %2 = cast(nn.max_pool2d(%1, pool_size=[2, 2], strides=[2, 2], layout="NHWC"), dtype="int32");
  nn.batch_flatten(%2)
"""
    converts(
        FIRST,
        "%x: (1, 32, 32, 16), %w: (3, 3, 16, 16), %b: (16)",
        CONVOLVED + tail,
        TURNED
        + """
  %3 = nn.relu(add(%2, reshape(%b, newshape=[1, 16, 1, 1])));
  %4 = cast(nn.max_pool2d(%3, pool_size=[2, 2], strides=[2, 2]), dtype="int32");
  nn.batch_flatten(transpose(%4, axes=[0, 2, 3, 1]))
""",
    )


def test_a_pooling_whose_layout_is_asked_for_too() -> None:
    converts(
        {**FIRST, "nn.max_pool2d": ("NHWC",)},
        f"{NHWC}, %b: (4)",
        CONVOLVED + '%1 = nn.relu(nn.bias_add(%0, %b, axis=3)); nn.max_pool2d(%1, pool_size=[2, 2], layout="NHWC")',
        TURNED
        + """
  %3 = nn.relu(add(transpose(%2, axes=[0, 2, 3, 1]), %b));
  nn.max_pool2d(%3, pool_size=[2, 2], layout="NHWC")
""",
    )


def test_a_constant_bias_stays_with_its_convolution() -> None:
    x = var("x", (1, 6, 6, 4))
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    after = converted(func(ops.nn.bias_add(ops.nn.conv2d(x, numbers((3, 3, 4, 5)), **layouts), numbers((5,)), axis=3)), FIRST)
    assert operators(after) == ["transpose", "nn.conv2d", "nn.bias_add", "transpose"]


def test_two_paths() -> None:
    converts(
        FIRST,
        f"{NHWC}, %v: (3, 3, 4, 4)",
        CONVOLVED + f"%1 = nn.relu(%0); (nn.conv2d(%1, %v, {IN_NHWC}), nn.batch_flatten(%1))",
        TURNED
        + """
  %3 = nn.relu(%2);
  %4 = nn.conv2d(%3, transpose(%v, axes=[3, 2, 0, 1]));
  (transpose(%4, axes=[0, 2, 3, 1]), nn.batch_flatten(transpose(%3, axes=[0, 2, 3, 1])))
""",
    )


def test_batch_normalization() -> None:
    converts(
        LAST,
        f"{IMAGE}, {WEIGHT}, %v: (4, 4, 1, 1), %g: (4), %b: (4), %m: (4), %s: (4)",
        "%0 = nn.batch_norm(nn.conv2d(%x, %w), %g, %b, %m, exp(%s)); nn.conv2d(nn.relu(%0.0), %v)",
        f"""
  %0 = nn.conv2d(transpose(%x, axes=[0, 2, 3, 1]), transpose(%w, axes=[2, 3, 1, 0]), {IN_NHWC});
  %1 = nn.batch_norm(%0, %g, %b, %m, exp(%s), axis=3);
  %2 = nn.conv2d(nn.relu(%1.0), transpose(%v, axes=[2, 3, 1, 0]), {IN_NHWC});
  transpose(%2, axes=[0, 3, 1, 2])
""",
    )


def test_a_residual_sum() -> None:
    converts(
        LAST,
        f"{IMAGE}, {WEIGHT}, %v: (4, 4, 3, 3)",
        """
  %0 = nn.relu(nn.conv2d(%x, %w, padding=[1, 1]));
  nn.relu(add(nn.conv2d(%0, %v, padding=[1, 1]), %0))
""",
        f"""
  %0 = transpose(%x, axes=[0, 2, 3, 1]);
  %1 = transpose(%w, axes=[2, 3, 1, 0]);
  %2 = nn.relu(nn.conv2d(%0, %1, padding=[1, 1], {IN_NHWC}));
  %3 = nn.conv2d(%2, transpose(%v, axes=[2, 3, 1, 0]), padding=[1, 1], {IN_NHWC});
  transpose(nn.relu(add(%3, %2)), axes=[0, 3, 1, 2])
""",
    )


def test_quantized_convolutions_and_what_follows_them() -> None:
    def network(layout: str, kernel_layout: str) -> relay.Function:
        x, w = relay.var("x", shape=(1, 6, 6, 4), dtype="int8"), relay.var("w", shape=(3, 3, 4, 4), dtype="int8")
        zero, scale, scales = relay.const(1), relay.const(0.5), relay.const(np.full(4, 0.25, np.float32))
        attrs: dict[str, AnyValue] = {"channels": 4, "kernel_size": (3, 3), "data_layout": layout, "kernel_layout": kernel_layout}
        product = qnn.conv2d(x, w, zero, zero, scale, scales, **attrs)
        rescaled = qnn.requantize(product, scales, zero, scale, zero, axis=3)
        both = qnn.add(rescaled, relay.clip(rescaled, 0, 9), scale, zero, scale, zero, scale, zero)
        return relay.Function([x, w], qnn.concatenate([both, rescaled], [scale, scale], [zero, zero], scale, zero, axis=3))

    before = IRModule.from_expr(network("NHWC", "HWIO"))
    after = run(convert_layout({"qnn.conv2d": ["NCHW", "default"]}), before)
    assert [call.attrs.data_layout for call in calls_of(after, "qnn.conv2d")] == ["NCHW"]
    assert [call.attrs.axis for call in calls_of(after, "qnn.requantize")] == [1]
    assert operators(after["main"]).count("transpose") == 3  # those of the data, the weight and the result
    rng = np.random.default_rng(0)
    args = [rng.integers(-20, 20, shape).astype(np.int8) for shape in ((1, 6, 6, 4), (3, 3, 4, 4))]
    expected, found = (relay.create_executor().evaluate(module["main"])(*args).numpy() for module in (before, after))
    np.testing.assert_array_equal(found, expected)


def test_a_quantized_pooling() -> None:
    x, scale, zero = relay.var("x", shape=(1, 6, 6, 4), dtype="int8"), relay.const(0.5), relay.const(1)
    pooled = qnn.avg_pool2d(x, scale, zero, scale, zero, (2, 2), (1, 1), (0, 0), (1, 1))
    after = run(convert_layout({"qnn.avg_pool2d": ["NCHW"]}), IRModule.from_expr(relay.Function([x], pooled)))
    assert operators(after["main"]) == ["transpose", "qnn.avg_pool2d", "transpose"]
    assert [call.attrs.layout for call in calls_of(after, "qnn.avg_pool2d")] == ["NCHW"]
    with pytest.raises(RuleError, match="has no kernel, and therefore no kernel layout 'OIHW'"):
        convert_layout({"qnn.avg_pool2d": ["NCHW", "OIHW"]})


def test_a_concatenation() -> None:
    converts(
        FIRST,
        f"{NHWC}, %v: (3, 3, 4, 4)",
        CONVOLVED + f"%1 = nn.conv2d(%0, %v, padding=[1, 1], {IN_NHWC}); concatenate((%0, %1), axis=3)",
        TURNED
        + """
  %3 = nn.conv2d(%2, transpose(%v, axes=[3, 2, 0, 1]), padding=[1, 1]);
  transpose(concatenate((%2, %3), axis=1), axes=[0, 2, 3, 1])
""",
    )


BETWEEN = {
    "scalars": ("add(multiply(%0, 2f), 1f)", "add(multiply(%2, 2f), 1f)"),
    "a broadcast row": ("add(%0, %r)", "add(%2, reshape(%r, newshape=[1, 4, 1, 1]))"),
    "on the right": ("subtract(%r, %0)", "subtract(reshape(%r, newshape=[1, 4, 1, 1]), %2)"),
    "pad": ("nn.pad(%0, pad_width=[[0, 0], [1, 1], [2, 0], [0, 0]])", "nn.pad(%2, pad_width=[[0, 0], [0, 0], [1, 1], [2, 0]])"),
    "slice": (
        "strided_slice(%0, begin=[0, 1], end=[1, 5])",
        "strided_slice(%2, begin=[0, 1], end=[1, 5], strides=[1, 1], axes=[0, 2])",
    ),
    "mean, kept": ("add(%0, mean(%0, axis=[3], keepdims=True))", "add(%2, mean(%2, axis=[1], keepdims=True))"),
    "softmax": ("nn.softmax(%0, axis=-1)", "nn.softmax(%2, axis=1)"),
    "bounds": ("clip(%0, a_min=0f, a_max=6f)", "clip(%2, a_min=0f, a_max=6f)"),
    "normalization": ("nn.instance_norm(%0, %r, %r, axis=3)", "nn.instance_norm(%2, %r, %r)"),
    "groups": ("nn.group_norm(%0, %r, %r, num_groups=2, axis=3)", "nn.group_norm(%2, %r, %r, num_groups=2)"),
    "rectifier": ("nn.prelu(%0, %r)", "nn.prelu(%2, reshape(%r, newshape=[1, 4, 1, 1]))"),
    "neighbors": ("nn.lrn(%0, axis=3)", "nn.lrn(%2)"),
    "mean pooling": (
        'nn.avg_pool2d(%0, pool_size=[3, 3], strides=[1, 1], padding=[1, 1], layout="NHWC")',
        "nn.avg_pool2d(%2, pool_size=[3, 3], strides=[1, 1], padding=[1, 1])",
    ),
    "split": (
        "%1 = split(%0, indices_or_sections=2, axis=3); concatenate((%1.1, %1.0), axis=3)",
        "%3 = split(%2, indices_or_sections=2, axis=1); concatenate((%3.1, %3.0), axis=1)",
    ),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_operators_that_transposes_pass(name: str) -> None:
    before, after = BETWEEN[name]
    *first, last = before.split(";")
    *then, end = after.split(";")
    converts(
        FIRST,
        f"{NHWC}, %v: (1, 1, 4, 2), %r: (4)",
        CONVOLVED + "".join(f"{part};" for part in first) + f"%8 = {last}; nn.conv2d(%8, %v, {IN_NHWC})",
        TURNED + "".join(f"{part};" for part in then) + f"%8 = {end};"
        "transpose(nn.conv2d(%8, transpose(%v, axes=[3, 2, 0, 1])), axes=[0, 2, 3, 1])",
    )


REDUCED = {
    "mean": ("mean(%0, axis=[1, 2])", "mean(%2, axis=[2, 3])"),
    "sum": ("sum(%0, axis=[3], exclude=True)", "sum(%2, axis=[0, 2, 3])"),
    "global pooling": (
        'nn.batch_flatten(nn.global_avg_pool2d(%0, layout="NHWC"))',
        "reshape(nn.global_avg_pool2d(%2), newshape=[1, 4])",
    ),
    "argmax": ("argmax(%0, axis=3)", "argmax(%2, axis=1)"),
}


@pytest.mark.parametrize("name", REDUCED)
def test_operators_that_stop_transposes(name: str) -> None:
    before, after = REDUCED[name]
    converts(FIRST, NHWC, CONVOLVED + before, TURNED + after)


def test_dimensions_that_are_not_known() -> None:
    signature = "%x: (n, 4, h, w), %w: (4, 4, 3, 3)"
    before = "nn.relu(add(nn.conv2d(nn.relu(nn.conv2d(%x, %w, padding=[1, 1])), %w, padding=[1, 1]), %x))"
    module = program(signature, before)
    function = module["main"]
    assert isinstance(function, Function)
    after = converted(function)
    assert operators(after).count("transpose") == 3  # those of the data, the weight, and the result
    assert_equal_in_value(function, after, exact=False, sizes={"n": 2, "h": 5, "w": 6})
    unknown = program("%x: (?, 4, ?, ?), %w: (4, 4, 3, 3)", before)["main"]
    assert isinstance(unknown, Function)
    assert operators(converted(unknown)).count("transpose") == 3


SCOPES = {
    "branches": ("if (%c) { nn.conv2d(nn.conv2d(%x, %w), %w) } else { nn.conv2d(nn.relu(%x), %w, strides=[3, 3]) }", 6),
    "lets": ("let %y = nn.conv2d(%x, %w); let %z = nn.relu(%y); nn.conv2d(%z, %w)", 3),
    "a function": ("let %f = fn (%y: Tensor[(1, 4, 6, 6), float32]) { nn.relu(nn.conv2d(%y, %w)) }; %f(nn.relu(%x))", 3),
}


@pytest.mark.parametrize("name", SCOPES)
def test_scopes(name: str) -> None:
    body, count = SCOPES[name]
    before = program(f"%c: () bool, {IMAGE}, {WEIGHT}", body)["main"]
    assert isinstance(before, Function)
    after = converted(before)
    assert transposes(after) == count
    assert_equal_in_value(before, after, exact=False, rounds=1)


# ---- networks


def block(x: Expr, channels: int, seed: int, stride: int = 1) -> Expr:
    """A residual block: two convolutions with normalizations, and a third one on the shortcut if the block halves the image."""
    size = channels // stride
    y = normalized(ops.nn.conv2d(x, numbers((channels, size, 3, 3), seed=seed), strides=stride, padding=(1, 1)), channels, seed)
    y = normalized(ops.nn.conv2d(ops.nn.relu(y), numbers((channels, channels, 3, 3), seed=seed + 1), padding=(1, 1)), channels, seed + 1)
    shortcut = x if stride == 1 else normalized(ops.nn.conv2d(x, numbers((channels, size, 1, 1), seed=seed), strides=2), channels, seed)
    made: Expr = ops.nn.relu(y + shortcut)
    return made


def normalized(x: Expr, channels: int, seed: int) -> Expr:
    made: Expr = ops.nn.batch_norm(x, *(numbers((channels,), seed=seed + i) for i in range(4)))[0]
    return made


def resnet(*, classes: bool) -> Function:
    """Eight residual blocks after a stem, with or without a classifier."""
    x = ops.nn.relu(normalized(ops.nn.conv2d(var("x", (1, 3, 64, 64)), numbers((2, 3, 7, 7)), strides=2, padding=(3, 3)), 2, 50))
    x = ops.nn.max_pool2d(x, pool_size=(3, 3), strides=(2, 2), padding=(1, 1))
    for stage in range(4):
        x = block(block(x, 2 << stage, 10 * stage, 2 if stage else 1), 2 << stage, 10 * stage + 5)
    return func(ops.nn.dense(ops.nn.batch_flatten(ops.nn.global_avg_pool2d(x)), numbers((5, 16))) if classes else x)


def test_a_residual_network_has_two_transposes() -> None:
    before = resnet(classes=False)
    after = converted(before)
    assert transposes(after) == 2
    assert sorted(operators(after)) == sorted([*operators(before), "transpose", "transpose"])
    assert_equal_in_value(before, after, exact=False, rounds=1)


def test_a_classifier_has_one() -> None:
    before = resnet(classes=True)
    after = converted(before)
    assert transposes(after) == 1
    again = converted(after, FIRST)
    assert transposes(again) == 0
    assert_equal_in_value(before, again, exact=False, rounds=1)


def test_channels_are_shuffled_in_either_layout() -> None:
    x: Expr = var("x", (1, 6, 8, 8))
    for seed in range(3):
        y = ops.nn.conv2d(x, numbers((6, 3, 1, 1), seed=seed), groups=2)
        groups = ops.transpose(ops.reshape(y, newshape=(1, 2, 3, 8, 8)), axes=(0, 2, 1, 3, 4))
        x = ops.nn.relu(ops.reshape(groups, newshape=(1, 6, 8, 8)))
    before = func(x)
    after = converted(before)
    assert transposes(after) == transposes(before) + 1  # the transpose of the result is merged with the last shuffle
    assert_equal_in_value(before, after, exact=False, rounds=1)


def test_patches_that_become_rows_need_one_transpose_less() -> None:
    rows = ops.reshape(ops.nn.conv2d(var("x", (1, 3, 16, 16)), numbers((8, 3, 4, 4)), strides=4), newshape=(1, 8, 16))
    before = func(ops.nn.softmax(ops.transpose(rows, axes=(0, 2, 1)), axis=-1))
    after = converted(before)
    assert operators(after) == ["transpose", "nn.conv2d", "reshape", "nn.softmax"]
    assert_equal_in_value(before, after, exact=False, rounds=1)


def dense_block(x: Expr, layers: int) -> Expr:
    """Layers each of which reads the results of all earlier layers."""
    parts = [x]
    for i in range(layers):
        size = 4 + 2 * i
        joined = ops.concatenate(tup(*parts), axis=1) if len(parts) > 1 else x
        parts.append(ops.nn.relu(ops.nn.conv2d(normalized(joined, size, i), numbers((2, size, 3, 3), seed=i), padding=(1, 1))))
    made: Expr = ops.concatenate(tup(*parts), axis=1)
    return made


def test_a_densely_connected_network_has_two() -> None:
    before = func(dense_block(var("x", (1, 4, 8, 8)), 12))
    after = converted(before)
    assert transposes(after) == 2
    assert_equal_in_value(before, after, exact=False, rounds=1)


def test_saturation_finds_fewer_transposes_than_a_walk() -> None:
    # The operators before and after the network support NCHW only. The walk puts the concatenation into NHWC, because its first operand is.
    image = ops.nn.depth_to_space(var("x", (1, 16, 4, 4)), block_size=2)
    others = [ops.nn.depth_to_space(var(f"y{i}", (1, 16, 4, 4)), block_size=2) for i in range(2)]
    y = ops.nn.relu(ops.nn.conv2d(image, numbers((4, 4, 3, 3)), padding=(1, 1)) + image)
    y = ops.nn.conv2d(y, numbers((4, 4, 3, 3), seed=1), padding=(1, 1))
    before = func(ops.nn.space_to_depth(ops.concatenate(tup(y, *others), axis=1), block_size=2))
    after = converted(before)
    assert (greedy_transposes(before), transposes(after)) == (4, 2)
    assert_equal_in_value(before, after, exact=False, rounds=1)


def test_transposes_that_were_there_cancel() -> None:
    """Networks with channels last, exported to an operator set that supports only channels first."""
    x = var("x", (1, 8, 8, 4))
    for seed in range(3):
        y = ops.nn.conv2d(ops.transpose(x, axes=(0, 3, 1, 2)), numbers((4, 4, 3, 3), seed=seed), padding=(1, 1))
        x = ops.nn.relu(ops.transpose(y, axes=(0, 2, 3, 1)) + numbers((4,), seed=seed))
    before = func(x)
    assert (transposes(before), transposes(converted(before, FIRST))) == (6, 2)


@st.composite
def networks(draw: st.DrawFn) -> Function:
    """Small networks of convolutions and the operators between them, with shortcuts."""
    values: list[tuple[Expr, tuple[int, int]]] = [(var("x", (1, 4, 6, 6)), (4, 6))]
    for seed in range(draw(st.integers(1, 6))):
        x, (channels, size) = values[draw(st.integers(max(0, len(values) - 2), len(values) - 1))]
        kind = draw(st.sampled_from(["conv", "conv", "depthwise", "relu", "scale", "norm", "pool", "add", "concat", "pad", "where"]))
        alike = [other for other, shape in values if shape == (channels, size)]
        flat = [(other, shape[0]) for other, shape in values if shape[1] == size]
        if kind == "conv":
            made, shape = ops.nn.conv2d(x, numbers((2, channels, 3, 3), seed=seed), padding=(1, 1)), (2, size)
        elif kind == "depthwise":
            made, shape = ops.nn.conv2d(x, numbers((channels, 1, 3, 3), seed=seed), padding=(1, 1), groups=channels), (channels, size)
        elif kind == "relu":
            made, shape = ops.nn.relu(x), (channels, size)
        elif kind == "scale":
            made, shape = x * numbers((channels, 1, 1), seed=seed), (channels, size)
        elif kind == "norm":
            made, shape = normalized(x, channels, seed), (channels, size)
        elif kind == "pool":
            made, shape = ops.nn.max_pool2d(x, pool_size=(3, 3), padding=(1, 1)), (channels, size)
        elif kind == "add":
            made, shape = x + draw(st.sampled_from(alike)), (channels, size)
        elif kind == "concat":
            other, more = draw(st.sampled_from(flat))
            made, shape = ops.concatenate(tup(x, other), axis=1), (channels + more, size)
        elif kind == "pad":
            made, shape = ops.nn.pad(x, pad_width=((0, 0), (0, 0), (1, 0), (1, 0))), (channels, size + 1)
        else:
            chosen = draw(st.sampled_from(alike))
            made, shape = ops.where(ops.greater(x, chosen), x, ops.nn.relu(chosen)), (channels, size)
        values.append((made, shape))
    return func(tup(*[value for value, _ in values[-2:]]))


@settings(max_examples=share(8, 40))
@given(networks(), st.sampled_from(["NHWC", "HWNC"]))
def test_values_are_unchanged(before: Function, layout: str) -> None:
    after = converted(before, {"nn.conv2d": (layout,)})
    assert_equal_in_value(before, after, exact=False, rounds=1)
    again = converted(after, FIRST)
    assert transposes(again) == 0
    assert_equal_in_value(before, again, exact=False, rounds=1)


@pytest.mark.parametrize("name", ["squeezenet", "resnet50"])
def test_a_published_network_there_and_back(name: str) -> None:
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    model = onnx.load(folder / f"light_{name}.onnx")
    with PassContext(opt_level=3):
        before = Sequential([fold_constant(), simplify_inference()])(from_onnx(model))
        there = pipeline(LAST)(before)
        back = pipeline(FIRST)(there)
    assert len({call.attrs.data_layout for call in calls_of(there, "nn.conv2d")} | {"NHWC"}) == 1
    data = [call for call in calls_of(there, "transpose") if any(isinstance(part, Var) for part in post_order(call))]
    assert len(data) == 1  # the one of the image; the others are of weights that are not written into the file
    assert Counter(operators(back["main"])) == Counter(operators(before["main"]))
    feed = {"data_0" if name == "squeezenet" else "gpu_0/data_0": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}
    expected, *found = (run_model(each, feed) for each in (model, to_onnx(there), to_onnx(back)))
    for result in found:
        np.testing.assert_allclose(result, expected, rtol=1e-3, atol=1e-6)


def calls_of(module: IRModule, name: str) -> list[Call]:
    """The calls of an operator."""
    nodes = post_order(module["main"])
    return [node for node in nodes if isinstance(node, Call) and isinstance(node.op, Op) and node.op.name == name]


def run_model(model: onnx.ModelProto, feed: dict[str, Array]) -> Array:
    """The only result of a model on ONNX Runtime."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    result: Array = session.run(None, feed)[0]
    return result


@settings(max_examples=share(2, 4))
@given(st.lists(networks(), min_size=20, max_size=20))
def test_a_walk_has_more_transposes_on_the_whole(several: list[Function]) -> None:
    # Extraction is not exact: among some thousand networks, a few had one more than the walk.
    found = sum(transposes(converted(before, rules__cost="nodes")) for before in several)
    assert found <= sum(map(greedy_transposes, several))


# ---- the pass


def test_the_pass() -> None:
    made = get_entry("ConvertLayout").make({"desired_layouts": {"nn.conv2d": ["NHWC", "default"]}})
    assert (made.info.name, made.info.opt_level) == ("ConvertLayout", 3)
    assert {"InferType", "CanonicalizeOps"} <= set(made.info.required)
    assert relay.transform.ConvertLayout({"nn.conv2d": ["NHWC", "default"]}).info.name == "ConvertLayout"


def test_the_pass_as_text() -> None:
    text = "ConvertLayout{desired_layouts={nn.conv2d=[NHWC, default],nn.max_pool2d=[NHWC]}}"
    made = parse_pipeline(text)
    assert pipeline_text(made) == text
    other = pickle.loads(pickle.dumps(made))
    assert pipeline_text(other) == text
    before = program(f"{IMAGE}, {WEIGHT}", "nn.conv2d(%x, %w)")
    assert str(run(other, before)) == str(run(made, before))
    assert isinstance(made.members[0], LayoutPass)


@pytest.mark.parametrize(
    ("layouts", "message"),
    [
        ({"nn.dense": ("NC",)}, "nn.dense has no layouts"),
        ({"nn.conv2d": ("NCHW4d",)}, "'NCHW4d' is not a layout"),
        ({"nn.conv2d": ("NCDW4c",)}, "the layout 'NCDW' is not a permutation of the letters NCHW"),
        ({"nn.conv1d": ("NCW4c",)}, "nn.conv1d has no layouts with blocks, such as NCW4c; those that have are nn.conv2d"),
        ({"nn.conv2d": ()}, "give a list of the data layout and, if there is a weight, the weight layout"),
        ({"nn.conv2d": ("NHWC", "HWIO", "NHWC")}, "give a list of the data layout and, if there is a weight, the weight layout"),
        ({"nn.max_pool2d": ("NHWC", "HWIO")}, "nn.max_pool2d has no kernel"),
    ],
)
def test_rejected_nodes(layouts: Layouts, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        pipeline(layouts)


def test_large_constants_are_transposed_once() -> None:
    """A constant that is transposed there and back stays the same object."""
    x: Expr = ops.transpose(var("x", (2, 64, 32)), axes=(0, 2, 1))
    for seed in range(3):
        x = ops.nn.gelu(ops.nn.conv1d(x, numbers((32, 32, 1), seed=seed))) + numbers((2, 32, 64), seed=seed)
    before = func(ops.transpose(x, axes=(0, 2, 1)))
    with PassContext(opt_level=3) as context:
        after = pipeline({"nn.conv1d": ("NWC",)})(IRModule.from_expr(before))["main"]
    assert transposes(after) == 0
    assert not [remark for remark in context.statistics.remarks["ConvertLayout"] if "limit" in remark]
    assert context.statistics.counters["ConvertLayout"]["nodes"] < 300


def test_operators_without_the_layout_are_reported() -> None:
    module = program(f"{IMAGE}, {WEIGHT}", "nn.relu(nn.conv2d(%x, %w))")
    with PassContext(opt_level=3, config={"rules.disabled": ["ChannelsLast.convolution[nn.conv2d]"]}) as context:
        after = pipeline(LAST)(module)["main"]
    assert operators(after) == ["nn.conv2d", "nn.relu"]
    assert "calls of nn.conv2d that are not in NHWC, default: 1" in context.statistics.remarks["ConvertLayout"]


@pytest.mark.parametrize("cost", ["nodes", "roofline"])
def test_under_any_cost_model(cost: str) -> None:
    assert transposes(converted(resnet(classes=False), rules__cost=cost)) == 2


def test_nothing_to_do_is_reported() -> None:
    for layouts, said in (
        (LAST, "there is no call of nn.conv2d: nothing was changed"),
        ({}, "neither the pass nor the target requests layouts"),
    ):
        with PassContext(opt_level=3) as context:
            pipeline(layouts)(program(IMAGE, "nn.relu(%x)"))
        assert any(said in remark for remark in context.statistics.remarks["ConvertLayout"])


def shapes(function: Function) -> Sequence[object]:
    """The shape of the result of a function."""
    return tensor_type(function.body.checked_type).shape


def test_results_keep_their_layout() -> None:
    before = resnet(classes=False)
    assert shapes(converted(before)) == shapes(before)


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        ("nn.instance_norm({}, %v, %v, axis=3)", ()),
        ("nn.group_norm({}, %v, %v, num_groups=2, axis=3)", ()),
        ("nn.l2_normalize({}, eps=0.001, axis=[3, 1])", ()),
        ("nn.lrn({}, axis=3)", ()),
        ("nn.batch_norm({}, %v, %v, %v, abs(%v), axis=3)", (0,)),
        ("split({}, indices_or_sections=2, axis=-1)", (0, 1)),
        ("topk({}, k=2, axis=1)", (0, 1)),
    ],
)
def test_transposes_follow_operators_along_an_axis(call: str, fields: Sequence[int]) -> None:
    body = call.format(f"nn.conv2d(%x, %w, {IN_NHWC})")
    body = f"%0 = {body}; ({', '.join(f'%0.{i}' for i in fields)},)" if fields else f"nn.relu({body})"
    before = program("%x: (1, 6, 6, 4), %w: (3, 3, 4, 4), %v: (4,)", body)["main"]
    assert isinstance(before, Function)
    for math in ("reassociate", "exact"):
        after = converted(before, FIRST, rules__math=math)
        assert_equal_in_value(before, Function(before.params, _renamed(after, before)), exact=False, rounds=1)
        sums = math == "exact" and any(name in call for name in ("instance_norm", "group_norm", "l2_normalize"))
        if not sums:
            results = after.body.fields if isinstance(after.body, Tuple) else [after.body]
            assert [node.op.name for node in results if isinstance(node, Call) and isinstance(node.op, Op)] == ["transpose"] * len(results)


BLOCKS = {"nn.conv2d": ("NCHW4c", "OIHW4i4o")}


def test_blocks_stay_until_an_operator_needs_whole_axes() -> None:
    before = """
  %0 = nn.conv2d(%x, %w, padding=[1]);
  %1 = nn.max_pool2d(nn.relu(subtract(%0, %b)), pool_size=[2, 2]);
  %2 = concatenate((nn.conv2d(%1, %w, padding=[1]), %1), axis=1);
  nn.lrn(nn.pad(%2, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]))
"""
    after = """
  %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c");
  %1 = layout_transform(%w, src_layout="OIHW", dst_layout="OIHW4i4o");
  %2 = nn.contrib_conv2d_nchwc(%0, %1, padding=[1], data_layout="NCHW4c", kernel_layout="OIHW4i4o");
  %3 = layout_transform(expand_dims(%b, axis=0), src_layout="NCHW", dst_layout="NCHW4c");
  %4 = nn.contrib_max_pool2d_nchwc(nn.relu(subtract(%2, %3)), pool_size=[2, 2], layout="NCHW4c");
  %5 = nn.contrib_conv2d_nchwc(%4, %1, padding=[1], data_layout="NCHW4c", kernel_layout="OIHW4i4o");
  %6 = nn.pad(concatenate((%5, %4), axis=1), pad_width=[[0, 0], [0, 0], [1, 1], [1, 1], [0, 0]]);
  nn.lrn(layout_transform(%6, src_layout="NCHW4c", dst_layout="NCHW"))
"""
    converts(BLOCKS, "%x: (1, 8, 8, 8), %w: (8, 8, 3, 3), %b: (8, 1, 1)", before, after)


@pytest.mark.parametrize("call", ["add({}, {})", "multiply({}, {})", "maximum({}, {})"])
@pytest.mark.parametrize("first", [True, False])
def test_operands_of_what_commutes_stay_in_their_order(call: str, first: bool) -> None:
    def of(data: str, scale: str) -> str:
        return call.format(*((data, scale) if first else (scale, data)))

    after = f"""
  %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW4c");
  %1 = layout_transform(%w, src_layout="OIHW", dst_layout="OIHW4i4o");
  %2 = nn.contrib_conv2d_nchwc(%0, %1, data_layout="NCHW4c", kernel_layout="OIHW4i4o");
  %3 = layout_transform(expand_dims(%b, axis=0), src_layout="NCHW", dst_layout="NCHW4c");
  layout_transform({of("%2", "%3")}, src_layout="NCHW4c", dst_layout="NCHW")
"""
    converts(BLOCKS, "%x: (1, 8, 8, 8), %w: (8, 8, 3, 3), %b: (8, 1, 1)", of("nn.conv2d(%x, %w)", "%b"), after)


def test_calls_that_blocks_do_not_divide_are_reported() -> None:
    module = program("%x: (1, 6, 8, 8), %w: (8, 6, 3, 3)", "nn.relu(nn.conv2d(%x, %w))")
    with PassContext(opt_level=3) as context:
        after = pipeline(BLOCKS)(module)["main"]
    assert operators(after) == ["nn.conv2d", "nn.relu"]
    assert "calls of nn.conv2d that are not in NCHW4c, OIHW4i4o: 1" in context.statistics.remarks["ConvertLayout"]


def test_blocks_for_one_operator_and_another_order_for_another() -> None:
    module = program("%x: (1, 8, 8, 8), %w: (8, 8, 3, 3)", "nn.global_avg_pool2d(nn.lrn(nn.conv2d(%x, %w)))")
    with PassContext(opt_level=3):
        after = pipeline({**BLOCKS, "nn.global_avg_pool2d": ("NHWC",)})(module)["main"]
    assert Counter(operators(after)) == {
        "layout_transform": 3,
        "nn.contrib_conv2d_nchwc": 1,
        "nn.lrn": 1,
        "transpose": 2,
        "nn.global_avg_pool2d": 1,
    }


def test_a_pass_to_blocks_is_pickled() -> None:
    module = program("%x: (1, 8, 8, 8), %w: (8, 8, 3, 3)", "nn.relu(nn.conv2d(%x, %w))")
    again = pickle.loads(pickle.dumps(pipeline(BLOCKS)))
    with PassContext(opt_level=3):
        assert "nn.contrib_conv2d_nchwc" in operators(again(module)["main"])
