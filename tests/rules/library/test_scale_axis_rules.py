"""Rules that move scales, and products that absorb them: each on a program that it rewrites, and on one that it does not."""

from typing import Any as AnyValue

from passat.ir.expr import Expr
from passat.ir.shape import ANY
from passat.rules.library import BackwardScaleAxis, ConstantFolding, Constants, Factoring, ForwardScaleAxis, ScaleAxis
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import const, func, numbers, ops, splat, var
from tests.rules.library.cases import Case, case, check_fires, check_rejects, pairs, with_each
from tests.rules.running import rewritten, saturate

x, y, thin = var("x", (2, 4)), var("y", (2, 4)), var("thin", (1, 4))
row, bias = numbers((4,), seed=1), numbers((4,), seed=2)
negative, zero = splat(-2.0, (4,)), const([0.0, 1.0, 2.0, 3.0])


def places(dims: int, channels: int = 4, *, last: bool = False) -> Expr:
    sizes = (6, 5, 4)[:dims]
    return var("image", (1, *sizes, channels) if last else (1, channels, *sizes))


def column(dims: int, size: int = 4, seed: int = 1) -> Expr:
    return numbers((size, *(1,) * dims), seed=seed)


def forward_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    conv, turned = ops.nn.conv2d, ops.nn.conv1d_transpose
    image, along = places(2), column(2)
    whole, grouped = numbers((5, 4, 2, 2)), numbers((6, 2, 2, 2))
    found["ForwardScaleAxis.scaled[convolution]"] = case(
        conv(image * along, whole), conv(image * along, grouped, groups=2), "the convolution has 2 groups"
    )
    found["ForwardScaleAxis.scaled[grouped]"] = case(
        conv(image * along, grouped, groups=2), conv(image * along, whole), "the convolution has one group, or the constant has one element"
    )
    found["ForwardScaleAxis.shifted[convolution]"] = case(conv(image + along, whole), conv(image + along, whole, padding=1), "pads by 1")
    line, other = places(1), numbers((4, 5, 2))
    found["ForwardScaleAxis.scaled[transposed]"] = case(
        turned(line * column(1), other), turned(line * splat(1.0, (4, 1)), other), "the constant is 1"
    )
    matrix, across = numbers((4, 3)), numbers((3, 4))
    sides = numbers((2, 1))
    for name, of, attrs in (
        ("dense", ops.nn.dense, {}),
        ("matmul", ops.nn.matmul, {}),
        ("matmul_transposed", ops.nn.matmul, {"transpose_b": True}),
    ):
        weight, reason = matrix if name == "matmul" else across, "varies along an axis other than 1"
        found[f"ForwardScaleAxis.scaled[{name}]"] = case(of(x * row, weight, **attrs), of(x * sides, weight, **attrs), reason)
        found[f"ForwardScaleAxis.shifted[{name}]"] = case(of(x + row, weight, **attrs), of(x + sides, weight, **attrs), reason)
    return found


def backward_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name, suffix, dims, shape in (("convolution", "", 2, (5, 4, 2, 2)), ("transposed", "_transpose", 3, (4, 5, 2, 2, 2))):
        layout = "N" + "DHW"[3 - dims :] + "C"
        product = getattr(ops.nn, f"conv{dims}d{suffix}")(places(dims, last=True), numbers(shape), data_layout=layout)
        five, ones = numbers((5,), seed=3), splat(1.0, (5,))
        found[f"BackwardScaleAxis.scaled[none, {name}]"] = case(product * five, product * ones, "the constant is 1")
        biased = ops.nn.bias_add(product, numbers((5,)), axis=-1)
        found[f"BackwardScaleAxis.scaled[biased, {name}]"] = case(biased * five, biased * ones, "the constant is 1")
    weight, six, three = numbers((4, 3, 2)), column(1, 6), column(1, 3)
    grouped, single = ops.nn.conv1d_transpose(places(1), weight, groups=2), ops.nn.conv1d_transpose(places(1), weight)
    found["BackwardScaleAxis.scaled[none, grouped]"] = case(
        grouped * six, single * three, "the convolution has one group, or the constant has one element"
    )
    found["BackwardScaleAxis.scaled[biased, grouped]"] = case(
        ops.nn.bias_add(grouped, numbers((6,))) * six,
        ops.nn.bias_add(single, numbers((3,))) * three,
        "the convolution has one group, or the constant has one element",
    )
    product, three = ops.nn.matmul(x, numbers((3, 4)), transpose_b=True), numbers((3,), seed=4)
    found["BackwardScaleAxis.scaled[none, matmul_transposed]"] = case(
        product * three, product * numbers((2, 1)), "varies along an axis other than 1"
    )
    biased = ops.nn.bias_add(product, numbers((3,)))
    found["BackwardScaleAxis.scaled[biased, matmul_transposed]"] = case(
        biased * three, biased * numbers((2, 1)), "varies along an axis other than 1"
    )
    return found


def unary(name: str) -> AnyValue:
    functions = {
        "relu": ops.nn.relu,
        "abs": ops.abs,
        "leaky_relu": lambda of: ops.nn.leaky_relu(of, alpha=0.3),
        "prelu": lambda of: ops.nn.prelu(of, numbers((4,))),
    }
    return functions[name]


def movement_cases() -> dict[str, Case]:
    found: dict[str, Case] = {}
    for name in ("relu", "abs", "leaky_relu", "prelu"):
        function = unary(name)
        kind = "prelu" if name == "prelu" else f"rectifier, {'abs' if name == 'abs' else f'nn.{name}'}"
        found[f"BackwardScaleAxis.hoist_past_windows[{kind}]"] = case(function(x) * row, function(x) * negative, "is zero, negative")
        found[f"ForwardScaleAxis.sink_past_windows[{kind}]"] = case(function(x * row), function(x * negative), "is zero, negative")
    image, along, narrow, reason = places(2), column(2), numbers((5,)), "varies along an axis other than 1"
    for name, pool in (("max_pool", ops.nn.global_max_pool2d), ("avg_pool", ops.nn.global_avg_pool2d)):
        found[f"BackwardScaleAxis.hoist_past_windows[{name}]"] = case(pool(image) * along, pool(image) * numbers((3, 1, 1, 1)), reason)
        found[f"ForwardScaleAxis.sink_past_windows[{name}]"] = case(pool(image * along), pool(image * narrow), reason)
    width = ((0, 0), (1, 1))
    pad, side = ops.nn.pad, numbers((2, 1))
    found["BackwardScaleAxis.hoist_past_windows[pad]"] = case(
        pad(x, pad_width=width) * side, pad(x, pad_width=width, pad_value=1.0) * side, "pads with 1.0"
    )
    found["ForwardScaleAxis.sink_past_windows[pad]"] = case(
        pad(x * side, pad_width=width), pad(x * row, pad_width=width), "varies along an axis that is padded"
    )
    found["BackwardScaleAxis.hoist_past_transpose"] = case(
        ops.transpose(x, axes=(1, 0)) * numbers((2,)), ops.transpose(thin, axes=(1, 0)) * numbers((2,)), "the types differ"
    )
    found["ForwardScaleAxis.sink_past_transpose"] = case(
        ops.transpose(x * row, axes=(1, 0)), ops.transpose(thin * numbers((2, 4)), axes=(1, 0)), "the types differ"
    )
    cube = var("cube", (2, 3, 4))
    found["ForwardScaleAxis.sink_past_flatten"] = case(
        ops.nn.batch_flatten(cube * numbers((3, 1))), ops.nn.batch_flatten(cube * numbers((2, 1, 1))), "varies along axis 0"
    )
    biased = ops.nn.bias_add(x, bias)
    found["BackwardScaleAxis.hoist_past_bias"] = case(biased * row, biased * numbers((2, 1)), "varies along an axis other than 1")
    found["ForwardScaleAxis.sink_past_bias"] = case(
        ops.nn.bias_add(x * row, bias), ops.nn.bias_add(x * zero, bias), "an element of the constant is 0"
    )
    found["ForwardScaleAxis.sink_past_sum"] = case(x * row - bias, x * zero - bias, "an element of the constant is 0")
    found["BackwardScaleAxis.hoist_past_sum"] = case((x + y) * row, (x + thin) * row, "the types differ")
    found["BackwardScaleAxis.hoist_past_broadcast"] = case((x + thin) * row, (x + y) * row, "is not broadcast")
    return found


square = var("square", (4, 4))
CASES = {
    **forward_cases(),
    **backward_cases(),
    **movement_cases(),
    "ScaleAxis.biases": case(
        ops.nn.bias_add(ops.nn.bias_add(square, row), bias, axis=-1), ops.nn.bias_add(ops.nn.bias_add(square, row), bias, axis=0), "differ"
    ),
}
TABLE = pairs(CASES, ForwardScaleAxis, BackwardScaleAxis, ScaleAxis)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_fires(rules, rule, example)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


def test_a_scale_does_not_sink_past_a_flatten_of_the_batch() -> None:
    """The batch has an unknown size, so that the types of both sides would agree."""
    (rule,) = (rule for rule in ForwardScaleAxis if rule.own_name == "sink_past_flatten")
    assert rewritten(func(ops.nn.batch_flatten(var("u", (ANY, 2)) * splat(2.0), axis=0)), rule) == ([], ["axis is 0, not 1"])
    assert len(rewritten(func(ops.nn.batch_flatten(var("u", (ANY, 2)) * splat(2.0))), rule)[0]) == 1


def test_a_scale_passes_a_sum_of_two_but_not_a_residual_stream() -> None:
    """Each block of a MetaFormer scales the stream. Passing all blocks before took 66,000 applications in a model of twelve."""
    short = saturate(func(((x + y) * row + x) * bias), BackwardScaleAxis, ConstantFolding)
    assert short.fired("BackwardScaleAxis.hoist_past_sum") > 0
    stream: Expr = x
    for block in range(12):
        scales = (numbers((4,), seed=2 * block), numbers((4,), seed=2 * block + 1))
        stream = stream * scales[0] + ops.nn.matmul(ops.tanh(stream), numbers((4, 4), seed=block)) * scales[1]
    outcome = saturate(func(stream), BackwardScaleAxis, ConstantFolding, Constants, Factoring)
    assert outcome.fired("BackwardScaleAxis.hoist_past_sum") < 30
    assert any("an operand is a sum of sums" in remark for remark in outcome.remarks)
