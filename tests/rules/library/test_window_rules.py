"""Paddings become part of windows, and convolutions of blocks in the batch dilated ones: each rule on a program where it holds and on one
where it does not, and the passes FoldExplicitPadding and FlattenAtrousConv, which run them."""

import math
from typing import Any as AnyValue

from passat.ir.expr import Expr
from passat.rules.library.windows import Windows
from passat.rules.passes.target import flatten_atrous_conv, fold_explicit_padding
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.passes.golden import becomes, stays

x, small = var("x", (1, 2, 5, 6)), var("q", (1, 2, 5, 6), "int8")
last = var("x", (1, 5, 6, 2))
LEAST = -3.4028235e38
LAST: dict[str, AnyValue] = {"data_layout": "NHWC", "kernel_layout": "HWIO"}


def padded(of: Expr = x, value: float = 0.0, width: tuple[int, int] = (1, 0), **attrs: AnyValue) -> Expr:
    return ops.nn.pad(of, pad_width=((0, 0), (0, 0), width, (0, 1)), pad_value=value, **attrs)  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def quantized(of: Expr, zero: int, **attrs: AnyValue) -> Expr:
    scale = splat(0.5)
    weight = numbers((3, 3, 2, 4) if attrs.get("data_layout") == "NHWC" else (4, 2, 3, 3), "int8")
    return ops.qnn.conv2d(of, weight, splat(zero, (), "int32"), splat(1, (), "int32"), scale, scale, **attrs)  # type: ignore[no-any-return]  # see above


def in_blocks(of: Expr, make: AnyValue, value: float = 0.0, crops: AnyValue = ((0, 1), (0, 0))) -> Expr:
    moved = ops.nn.space_to_batch_nd(of, block_shape=(2, 3), paddings=((2, 3), (3, 3)), pad_value=value)
    return ops.nn.batch_to_space_nd(make(moved), block_shape=(2, 3), crops=crops)  # type: ignore[no-any-return]  # see above


def plain(of: Expr) -> Expr:
    return ops.nn.conv2d(of, var("w", (3, 3, 2, 4)), **LAST)  # type: ignore[no-any-return]  # see above


def strided(of: Expr) -> Expr:
    return ops.nn.conv2d(of, var("w", (3, 3, 2, 4)), strides=(2, 1), **LAST)  # type: ignore[no-any-return]  # see above


def deep(size: int | str) -> Expr:
    whole = var("x", (1, 2, size, 5, 6))
    return ops.nn.pad(whole, pad_width=((0, 0), (0, 0), (1, 0), (0, 1), (0, 0)), pad_value=-math.inf)  # type: ignore[no-any-return]  # see above


def in_line(crops: tuple[int, int]) -> Expr:
    moved = ops.nn.space_to_batch_nd(var("x", (1, 4, 2)), block_shape=(2,), paddings=((2, 2),), pad_value=0.0)
    convolved = ops.nn.conv1d(moved, var("w", (3, 2, 4)), data_layout="NWC", kernel_layout="WIO")
    return ops.nn.batch_to_space_nd(convolved, block_shape=(2,), crops=(crops,))  # type: ignore[no-any-return]  # see above


WEIGHT = var("w", (4, 2, 3, 3))
CASES: dict[str, Case] = {
    "Windows.convolution": case(ops.nn.conv2d(padded(), WEIGHT, padding=(0, 2)), ops.nn.conv2d(padded(value=1.0), WEIGHT), "pads with 1.0"),
    "Windows.convolution[one]": case(
        ops.nn.conv1d(ops.nn.pad(var("x", (1, 2, 5)), pad_width=((0, 0), (0, 0), (1, 2))), var("w", (4, 2, 3))),
        ops.nn.conv1d(ops.nn.pad(var("x", (1, 2, 5)), pad_width=((0, 0), (0, 1), (1, 2))), var("w", (4, 3, 3))),
        "pads other axes of NCW than the spatial ones",
    ),
    "Windows.convolution[two]": case(
        ops.nn.conv2d(padded(), WEIGHT, groups=1), ops.nn.conv2d(padded(width=(2, -1)), WEIGHT), "((0, 0), (0, 0), (2, -1), (0, 1)) crops"
    ),
    "Windows.quantized": case(
        quantized(padded(small, 3.0), 3, padding=(1, 1)), quantized(padded(small), 3), "pads with 0.0, which is not the zero point"
    ),
    "Windows.mean": case(
        ops.nn.avg_pool2d(padded(), pool_size=(2, 3)),
        ops.nn.avg_pool2d(padded(), pool_size=(2, 3), padding=(0, 1)),
        "the mean leaves its own padding (0, 1) out",
    ),
    "Windows.mean[two]": case(
        ops.nn.avg_pool2d(padded(), pool_size=(2, 3), padding=(0, 1), count_include_pad=True),
        ops.nn.avg_pool2d(padded(), pool_size=(1, 3)),
        "pads by (1, 0, 0, 1), the window is (1, 3)",
    ),
    "Windows.maximum": case(
        ops.nn.max_pool2d(padded(value=-math.inf), pool_size=(3, 3), padding=(1, 1)),
        ops.nn.max_pool2d(padded(value=0.0), pool_size=(3, 3)),
        "pads with 0.0",
    ),
    "Windows.maximum[three]": case(
        ops.nn.max_pool3d(deep(5), pool_size=(2, 2, 2)), ops.nn.max_pool3d(deep("n"), pool_size=(2, 2, 2)), "may be empty"
    ),
    "Windows.maximum[two]": case(
        ops.nn.max_pool2d(padded(small, -128), pool_size=(2, 2)),
        ops.nn.max_pool2d(padded(value=-math.inf), pool_size=(2, 2), dilation=(2, 2)),
        "the window is dilated by (2, 2)",
    ),
    "Windows.finite_maximum": case(
        ops.nn.max_pool2d(padded(value=LEAST), pool_size=(2, 2)), ops.nn.max_pool2d(padded(value=-1.0), pool_size=(2, 2)), "pads with -1.0"
    ),
    "Windows.dilated_convolution": case(in_blocks(last, plain), in_blocks(last, strided), "the strides are (2, 1)"),
    "Windows.dilated_convolution[one]": case(in_line(crops=(1, 2)), in_line(crops=(2, 2)), "may leave nothing"),
    "Windows.dilated_convolution[two]": case(
        in_blocks(last, plain, crops=((2, 3), (1, 2))),
        in_blocks(last, plain, crops=((3, 0), (0, 0))),
        "crops ((3, 0), (0, 0)) of a padding",
    ),
    "Windows.dilated_quantized": case(
        in_blocks(var("q", (1, 5, 6, 2), "int8"), lambda of: quantized(of, 3, **LAST), 3.0),
        in_blocks(var("q", (1, 5, 6, 2), "int8"), lambda of: quantized(of, 3, **LAST)),
        "which is not the zero point",
    ),
}
TABLE = pairs(CASES, Windows)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


IMAGE = "%x: (1, 5, 5, 4), %w: (3, 3, 4, 1)"
DEPTHWISE = 'groups=4, data_layout="NHWC", kernel_layout="HWOI"'


def test_paddings_become_part_of_windows() -> None:
    """In the order of the spatial axes, also if a padding has another use; a padding of a mean is counted."""
    pads = "nn.pad(%x, pad_width=[[0, 0], [1, 2], [0, 3], [0, 0]])"
    becomes(
        fold_explicit_padding(),
        IMAGE,
        f"%0 = {pads}; (nn.conv2d(%0, %w, padding=[1, 1], {DEPTHWISE}), %0)",
        f"(nn.conv2d(%x, %w, padding=[2, 1, 3, 4], {DEPTHWISE}), {pads})",
    )
    becomes(
        fold_explicit_padding(),
        IMAGE,
        f'nn.avg_pool2d({pads}, pool_size=[4, 4], layout="NHWC")',
        'nn.avg_pool2d(%x, pool_size=[4, 4], padding=[1, 0, 2, 3], count_include_pad=True, layout="NHWC")',
    )


def test_windows_keep_other_paddings() -> None:
    ceiled = "nn.avg_pool2d(nn.pad(%x, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]]), pool_size=[2, 2], strides=[2, 2], ceil_mode=True)"
    stays(fold_explicit_padding(), "%x: (1, 2, 5, 5)", ceiled)
    edges = 'nn.conv2d(nn.pad(%x, pad_width=[[0, 0], [1, 1], [1, 1], [0, 0]], pad_mode="edge"), %w, '
    stays(fold_explicit_padding(), IMAGE, edges + DEPTHWISE + ")")
    stays(
        fold_explicit_padding(),
        IMAGE,
        f"nn.conv2d(nn.pad(%x, pad_width=[[0, 0], [1, 1], [1, 1], [0, 0]]), %w, {DEPTHWISE})",
        rules__math="exact",
    )


def test_convolutions_of_blocks_are_dilated_ones() -> None:
    """One behind another, and with a dilation and a padding of their own."""

    def blocks(of: str, inner: str, paddings: str, crops: str) -> str:
        moved = f"nn.space_to_batch_nd({of}, block_shape=[2, 2], paddings={paddings})"
        return f"nn.batch_to_space_nd(nn.conv2d({moved}, %w, {inner}{DEPTHWISE}), block_shape=[2, 2], crops={crops})"

    first = blocks("%x", "", "[[2, 3], [2, 3]]", "[[0, 1], [0, 1]]")
    becomes(
        flatten_atrous_conv(),
        IMAGE,
        blocks(first, "dilation=[3, 1], padding=[1, 0], ", "[[4, 5], [2, 3]]", "[[0, 1], [0, 1]]"),
        f"nn.conv2d(nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], {DEPTHWISE}), %w, "
        f"padding=[6, 2, 6, 2], dilation=[6, 2], {DEPTHWISE})",
    )
    stays(flatten_atrous_conv(), IMAGE, first.replace("%w", "%w", 1).replace("nn.conv2d(", "nn.conv2d(nn.relu(").replace("), %w", ")), %w"))
