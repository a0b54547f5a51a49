"""Products and convolutions that are merged: each rule on a program that it rewrites, and on one that it does not."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import pytest

from passat.ir.expr import Expr
from passat.rules.library import Parallel
from passat.rules.rule import EXACT, Rule
from passat.rules.rule_set import RuleSetMeta
from tests.rules.building import func, numbers, ops, tup, var
from tests.rules.library.cases import Case, case, check_rejects, options, pairs, with_each
from tests.rules.running import assert_equal_in_value, result_type, saturate

COUNTS = (4, 2, 5)
image, last = var("image", (1, 3, 8, 8)), var("last", (1, 8, 8, 3))
rows, deep, hidden, stack = var("rows", (4, 6)), var("deep", (3, 4, 6)), var("hidden", (2, 5, 8)), var("stack", (2, 4, 6))
Branch = Callable[[int], Expr]


def branches(of: Branch) -> Expr:
    return tup(*map(of, COUNTS))


def convolution(layout: str) -> Branch:
    of = image if layout == "nchw" else last
    return lambda count: ops.nn.conv2d(of, numbers((count, 3, 3, 3), seed=count), data_layout=layout.upper())


def shift(size: tuple[int, ...], times: bool = False) -> Branch:
    """A convolution with a shift or a scale of that shape; size 0 stands for the number of channels."""

    def make(count: int) -> Expr:
        column = numbers(tuple(each or count for each in size), seed=count)
        of = convolution("nchw")(count)
        return of * column if times else of + column

    return make


def convolution_cases() -> dict[str, Case]:
    """Cases for each kind of tail. If none of the rule's own guards can fail, the second program is in the layout of another rule."""
    found: dict[str, Case] = {}
    axes = {"nchw": 1, "nhwc": -1}
    for layout, other in (("nchw", "nhwc"), ("nhwc", "nchw")):
        here, there = ((convolution(each), channel_biased(each, axes[each])) for each in (layout, other))
        tails = {"plain, none": (here[0], there[0]), "plain, biased": (here[1], there[1])}
        tails |= {tail.replace("plain", "relu"): (relus(good), relus(bad)) for tail, (good, bad) in tails.items()}
        for tail, (good, bad) in tails.items():
            found[f"Parallel.convolutions[{tail}, {layout}]"] = case(
                branches(good), branches(bad), f"the layouts are {other.upper()} and OIHW"
            )
    reason = "varies along an axis other than the channels"
    good, bad = shift((0, 1, 1)), shift((6,))
    found["Parallel.convolutions_per_channel[shifted]"] = case(branches(good), branches(bad), reason)
    found["Parallel.convolutions_per_channel[shifted_relu]"] = case(branches(relus(good)), branches(relus(bad)), reason)
    good, bad = shift((0, 1, 1), times=True), shift((6,), times=True)
    found["Parallel.convolutions_per_channel[scaled]"] = case(branches(good), branches(bad), reason)
    found["Parallel.convolutions_per_channel[scaled_relu]"] = case(branches(relus(good)), branches(relus(bad)), reason)
    return found


def channel_biased(layout: str, axis: int) -> Branch:
    of = convolution(layout)
    return lambda count: ops.nn.bias_add(of(count), numbers((count,), seed=count), axis=axis)


def product(kind: str) -> Branch:
    if kind == "dense":
        return lambda count: ops.nn.dense(rows, numbers((count, 6), seed=count))
    return lambda count: ops.nn.matmul(rows, numbers((6, count), seed=count))


def stacks(count: int) -> Expr:
    made: Expr = ops.nn.matmul(rows, numbers((2, 6, count), seed=count))
    return made


def biased(of: Branch, axis: int) -> Branch:
    return lambda count: ops.nn.bias_add(of(count), numbers((4 if axis == 0 else count,), seed=count), axis=axis)


def shifted(of: Branch, column: bool = False) -> Branch:
    return lambda count: of(count) + numbers((4, 1) if column else (count,), seed=count)


def relus(of: Branch) -> Branch:
    return lambda count: ops.nn.relu(of(count))


def product_cases() -> dict[str, Case]:
    """Weights that are stacks are not merged, nor are biases that are not rows. (Weights of dense layers are matrices.)"""
    found: dict[str, Case] = {}
    for kind in ("dense", "matmul"):
        of = product(kind)
        other = (product("matmul"), "") if kind == "dense" else (stacks, "the rank of the tensor is 3")
        tails: dict[str, tuple[Branch, Branch, str]] = {
            "plain": (of, *other),
            "biased": (biased(of, -1), biased(of, 0), "is not axis -1"),
            "shifted": (shifted(of), shifted(of, column=True), "is not a bias for"),
        }
        for tail, (good, bad, reason) in tails.items():
            found[f"Parallel.products[plain, {tail}, {kind}]"] = case(branches(good), branches(bad), reason)
            found[f"Parallel.products[relu, {tail}, {kind}]"] = case(branches(relus(good)), branches(relus(bad)), reason)
    return found


def heads(bias: bool = False, axes: tuple[int, ...] | None = None, view: tuple[int, ...] = (2, 5, 2, 4), along: int = -1) -> Branch:
    """A projection to two heads of four."""

    def make(seed: int) -> Expr:
        made = ops.nn.matmul(hidden, numbers((8, 8), seed=seed))
        if bias:
            made = ops.nn.bias_add(made, numbers((8,), seed=seed + 10), axis=along)
        made = ops.reshape(made, newshape=view)
        whole: Expr = made if axes is None else ops.transpose(made, axes=axes)
        return whole

    return make


MOVED, INNER = (0, 2, 1, 3), (0, 1, 3, 2)
FLAT = (2, 20, 2)


def batches(turned: bool, bias: Sequence[int] | None = None) -> Branch:
    """A product of stacks of matrices and an addend: a vector, or a tensor with leading axes of size 1."""

    def branch(count: int) -> Expr:
        shape = (2, count, 6) if turned else (2, 6, count)
        made: Expr = ops.nn.batch_matmul(stack, numbers(shape, seed=count), transpose_b=turned)
        return made if bias is None else made + numbers((*bias, count), seed=count + 9)

    return branch


def batch_cases() -> dict[str, Case]:
    """Cases of Parallel."""
    made = {}
    for name, turned in (("plain", False), ("turned", True)):
        rejected = branches(batches(not turned)), f"transpose_b is {not turned}, not {turned}"
        made[f"Parallel.batches[none, {name}]"] = case(branches(batches(turned)), *rejected)
        made[f"Parallel.batches[shifted, {name}]"] = case(
            branches(batches(turned, ())), branches(batches(turned, (4,))), "is not a bias for"
        )
    return made


CASES: dict[str, Case] = {
    **convolution_cases(),
    **product_cases(),
    **batch_cases(),
    "Parallel.heads[plain, none]": case(branches(heads()), branches(heads(view=FLAT)), "is not split into heads"),
    "Parallel.heads[moved, none]": case(branches(heads(axes=MOVED)), branches(heads(axes=INNER)), "does not move the heads to axis 1"),
    "Parallel.heads[plain, biased]": case(branches(heads(bias=True)), branches(heads(bias=True, view=FLAT)), "is not split into heads"),
    "Parallel.heads[moved, biased]": case(
        branches(heads(bias=True, axes=MOVED)), branches(heads(bias=True, axes=INNER)), "does not move the heads to axis 1"
    ),
    "Parallel.stacks": case(
        tup(*(ops.nn.dense(rows, numbers((4, 6), seed=seed)) for seed in range(6))),
        tup(*(ops.nn.dense(deep, numbers((4, 6), seed=seed)) for seed in range(6))),
        "the rank of the tensor is 3",
    ),
}
TABLE = pairs(CASES, Parallel)


@with_each(TABLE)
def test_it_fires(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    outcome = saturate(example.positive, rules, rules__cost="nodes", **options(rules, rule))
    assert outcome.fired(rule.name) == len(example.positive.body.fields), outcome.remarks  # type: ignore[attr-defined]  # a tuple of branches
    assert result_type(outcome.function) == result_type(example.positive)
    assert_equal_in_value(example.positive, outcome.function, exact=rule.math == EXACT, special=False)


@with_each(TABLE)
def test_it_rejects(rules: RuleSetMeta, rule: Rule, example: Case) -> None:
    check_rejects(rules, rule, example)


@pytest.mark.parametrize("name", ["groups", "dilation", "strides"])
def test_branches_with_different_attributes_are_not_merged(name: str) -> None:
    others: dict[str, AnyValue] = {"groups": 3, "dilation": (2, 2), "strides": (2, 2)}
    inputs = 1 if name == "groups" else 3
    odd = ops.nn.conv2d(image, numbers((3, inputs, 3, 3)), **{name: others[name]})
    function = func(tup(ops.nn.conv2d(image, numbers((4, 3, 3, 3))), odd))
    assert saturate(function, Parallel, rules__cost="nodes").function is function


def test_heads_of_unknown_number_stay() -> None:
    projections = [ops.reshape(ops.nn.matmul(hidden, var(f"w{i}", (8, "n"))), newshape=(2, 5, -1, 4)) for i in range(3)]
    outcome = saturate(func(tup(*projections)), Parallel, rules__cost="nodes")
    assert outcome.fired("Parallel.heads") == 0
    assert any("are unknown" in remark or "is not static" in remark for remark in outcome.remarks), outcome.remarks
