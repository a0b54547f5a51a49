"""Convolutions that follow each other, are summed, or follow a normalization: each rule on a program that it rewrites, and on one that it
does not."""

from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.rules.library import ConstantFolding, ConvolutionChains
from passat.rules.rule import Rule
from tests.rules.building import func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_makes_nothing, check_rewrites, pairs
from tests.rules.running import operators, saturate

SIZE = 6


def data(dims: int, size: int = SIZE) -> Expr:
    return var("data", (1, 2, *(size,) * dims))


def weight(dims: int, size: int, outputs: int = 3, inputs: int = 2, seed: int = 0) -> Expr:
    return numbers((outputs, inputs, *(size,) * dims), seed=seed)


def conv(of: Expr, by: Expr, **attrs: AnyValue) -> Expr:
    dims = len(func(of).body.checked_type.shape) - 2  # type: ignore[attr-defined]  # tensors, all of them
    made: Expr = getattr(ops.nn, f"conv{dims}d")(of, by, **attrs)
    return made


def biased(of: Expr, channels: int = 3) -> Expr:
    made: Expr = ops.nn.bias_add(of, numbers((channels,), seed=5), axis=1)
    return made


def normalized(of: Expr) -> Expr:
    made: Expr = ops.nn.batch_norm(of, *(numbers((2,), seed=seed) for seed in range(4)))[0]
    return made


def cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for dims in (1, 2, 3):
        name, x = f"conv{dims}d", data(dims)
        first, mix, wide = conv(x, weight(dims, 3)), weight(dims, 1, 4, 3, 1), weight(dims, 2, 4, 3, 1)
        single = conv(x, weight(dims, 1))
        found[f"ConvolutionChains.meet[none, nn.{name}]"] = case(conv(single, mix), conv(first, mix), "the weight is Tensor[(3, 2, 3")
        found[f"ConvolutionChains.meet[biased, nn.{name}]"] = case(
            conv(biased(single), mix), conv(biased(single), mix, strides=2), "the strides 2"
        )
        found[f"ConvolutionChains.meet_larger[none, nn.{name}]"] = case(
            conv(first, mix), conv(first, wide), "the weight is Tensor[(4, 3, 2"
        )
        found[f"ConvolutionChains.meet_larger[biased, nn.{name}]"] = case(
            conv(biased(first), mix), conv(biased(single), mix), "the weight is Tensor[(3, 2, 1"
        )
        same = {"padding": (1,) * (2 * dims)}
        inner, uneven = conv(x, weight(dims, 3, 2), **same), conv(x, weight(dims, 3, 2), padding=(0,) * dims + (2,) * dims)
        for sign in ("add", "subtract"):
            join, label = getattr(ops, sign), f"nn.{name}, {sign}"
            found[f"ConvolutionChains.identity[itself, {label}]"] = case(join(inner, x), join(uneven, x), "the padding is")
            found[f"ConvolutionChains.identity[biased, {label}]"] = case(
                join(biased(inner, 2), x), join(biased(uneven, 2), x), "the padding is"
            )
            found[f"ConvolutionChains.identity[normalized, {label}]"] = case(
                join(biased(inner, 2), normalized(x)), join(biased(uneven, 2), normalized(x)), "the padding is"
            )
        if dims < 3:
            attrs = {"padding": (1,) * dims}
            found[f"ConvolutionChains.batch_norm[{'one' if dims == 1 else 'two'}]"] = case(
                conv(normalized(x), weight(dims, 3)), conv(normalized(x), weight(dims, 3), **attrs), "the padding is"
            )
    x, small = data(3), data(3, 3)
    first, other = ops.nn.conv3d(x, weight(3, 3)), ops.nn.conv3d(x, weight(3, 3, seed=1))
    broad = (ops.nn.conv3d(small, weight(3, 3)), ops.nn.conv3d(small, weight(3, 1, seed=1)))
    found["ConvolutionChains.sum[none]"] = case(first + other, broad[0] + broad[1], "the shapes differ")
    found["ConvolutionChains.sum[left]"] = case(biased(first) + other, biased(broad[0]) + broad[1], "the shapes differ")
    both = biased(broad[0]) + biased(broad[1])
    found["ConvolutionChains.sum[both]"] = case(biased(first) + biased(other), both, "the shapes differ")
    found["ConvolutionChains.difference"] = case(first - other, broad[0] - broad[1], "the shapes differ")
    x, centered, corner = data(2), (1, 1, 1, 1), (0, 0, 1, 1)
    large, inside = conv(x, weight(2, 3), padding=centered), conv(x, weight(2, 1, seed=1), padding=(0, 0, 0, 0))
    aside = conv(x, weight(2, 2, seed=1), padding=corner)
    found["ConvolutionChains.sum_of_kernels[none]"] = case(large + inside, large + aside, "the kernels are")
    found["ConvolutionChains.sum_of_kernels[left]"] = case(biased(large) + inside, biased(large) + aside, "the kernels are")
    found["ConvolutionChains.sum_of_kernels[small]"] = case(large + biased(inside), large + biased(aside), "the kernels are")
    found["ConvolutionChains.sum_of_kernels[both]"] = case(biased(large) + biased(inside), biased(large) + biased(aside), "the kernels are")
    return found


TABLE = pairs(cases(), ConvolutionChains)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_fires(rule: Rule, example: Case) -> None:
    check_rewrites(rule, example)


@pytest.mark.parametrize(("rule", "example"), [row[1:] for row in TABLE], ids=lambda value: value.name if isinstance(value, Rule) else "")
def test_it_rejects(rule: Rule, example: Case) -> None:
    check_makes_nothing(rule, example)


def rejected(body: Expr, rule: str, reason: str) -> None:
    outcome = saturate(func(body), ConvolutionChains, rules__math="finite")
    assert outcome.fired(rule) == 0
    assert any(remark.startswith(f"{rule} rejected") and reason in remark for remark in outcome.remarks), outcome.remarks


def test_groups_stay() -> None:
    """This includes as many groups as channels."""
    x = data(2)
    for groups, inputs in ((2, 1), (1, 2)):
        inner = conv(x, weight(2, 3, 2, inputs), groups=groups)
        outer = conv(inner, numbers((2, 3 - inputs if groups == 1 else 2, 1, 1)), groups=2 if groups == 1 else 1)
        rejected(outer, "ConvolutionChains.meet", "the convolution has 2 groups")


@pytest.mark.parametrize(("groups", "channels"), [(1, 4), (2, 4), (4, 4), (1, 200)])
def test_branches_of_one_tensor_become_one_convolution(groups: int, channels: int) -> None:
    """Blocks of MobileOne, RepVGG and FastViT: kernels of two sizes, and a batch normalization or the tensor itself. 200 channels make a
    weight of more than `rules.max_growth`."""
    x = var("data", (1, channels, SIZE, SIZE))
    attrs = {"groups": groups}

    def branch(size: int, seed: int) -> Expr:
        inner = conv(x, numbers((channels, channels // groups, size, size), seed=seed), padding=(size // 2,) * 4, **attrs)
        made: Expr = ops.nn.bias_add(inner, numbers((channels,), seed=seed), axis=1)
        return made

    normal = ops.nn.batch_norm(x, *(numbers((channels,), seed=seed) for seed in range(4)))[0]
    for body in (branch(1, 1) + branch(3, 2) + branch(3, 3) + normal, branch(3, 1) - normal, branch(3, 1) + branch(1, 2) + x):
        outcome = saturate(func(body), ConvolutionChains, ConstantFolding)
        assert operators(outcome.function.body) == ["nn.conv2d", "nn.bias_add"]


def test_weights_and_biases_that_would_overflow_stay_apart() -> None:
    x, same = data(2), {"padding": (1, 1, 1, 1)}

    def huge(*shape: int) -> Expr:
        return splat(3e38, shape)

    large, inside = conv(x, huge(2, 2, 3, 3), **same), conv(x, huge(2, 2, 1, 1))
    inner, other, ones = conv(x, weight(2, 3, 2), **same), conv(x, splat(2e38, (2, 2, 3, 3)), **same), splat(1.0, (2,))
    for body, rule in (
        (large + inside, "ConvolutionChains.sum_of_kernels"),
        (large + other, "ConvolutionChains.sum"),
        (large - other, "ConvolutionChains.difference"),
    ):
        rejected(body, rule, "the sum of the constants may reach")
    wide, far = (ops.nn.batch_norm(x, *vectors, ones, ones)[0] for vectors in ((huge(2), ones), (ones, huge(2))))
    for body in (biased(large, 2) + wide, ops.nn.bias_add(inner, huge(2), axis=1) + far):
        rejected(body, "ConvolutionChains.identity", "the weight or the bias may reach")


def test_a_dilated_kernel_is_padded_by_its_spread() -> None:
    x, attrs = data(2), {"dilation": (2, 2)}
    wide = conv(x, weight(2, 3), padding=(2, 2, 2, 2), **attrs)
    fits = wide + conv(x, weight(2, 1, seed=1), padding=(0, 0, 0, 0), **attrs)
    outcome = saturate(func(fits), ConvolutionChains, rules__math="finite")
    assert outcome.fired("ConvolutionChains.sum_of_kernels") > 0
    near = wide + conv(x, weight(2, 1, seed=1), padding=(0, 0, 0, 0))
    rejected(near, "ConvolutionChains.sum_of_kernels", "the attributes differ")


def test_other_layouts_stay() -> None:
    x = var("last", (1, SIZE, SIZE, 2))
    inner = ops.nn.conv2d(x, numbers((3, 2, 3, 3)), data_layout="NHWC")
    rejected(ops.nn.conv2d(inner, numbers((4, 3, 1, 1)), data_layout="NHWC"), "ConvolutionChains.meet", "the layouts NHWC and OIHW")
