"""A list of identities of algebra: one exploring pass turns each program into the smaller one, with the same values.

Where infinities occur, finite results stay the same and non-finite results stay non-finite. With `math` "finite" this does not hold: x + y
- x is NaN if x is infinite, and y is not.
"""

import functools
from collections.abc import Callable
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np
import pytest

from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.ir.tensor import Tensor
from passat.ir.types import tensor_type
from passat.passmgr import PassContext
from passat.pipelines import build_pipeline
from passat.rules.checking.case import difference
from passat.rules.checking.sampler import ENDLESS, draw_array
from passat.rules.cost import ROOFLINE, program_cost
from passat.rules.passes.algebra import explore
from passat.rules.rule import MIXED
from tests.rules.building import const, func, numbers, ops, splat, tup, var
from tests.rules.running import apply, assert_equal_in_value, operators, result_type, run, sized

x, y, z = var("x", (4, 3)), var("y", (4, 3)), var("z", (4, 3))
row = var("row", (8, 4))
image = var("image", (1, 2, 6, 6))
stack = var("stack", (2, 3, 4))
mask = var("mask", (4, 3), "bool")


def mm(a: Expr, b: Expr, **attrs: bool) -> AnyValue:
    return ops.nn.matmul(a, b, **attrs)


def w(*shape: int, seed: int = 0) -> AnyValue:
    return numbers(shape, seed=seed)


def softmax(a: Expr) -> AnyValue:
    return ops.nn.softmax(a)


def turn(a: Expr, *axes: int) -> AnyValue:
    return ops.transpose(a, axes=axes or None)


def view(a: Expr, *newshape: int) -> AnyValue:
    return ops.reshape(a, newshape=newshape)


def cut(a: Expr, begin: int, end: int, axis: int = 0) -> AnyValue:
    return ops.strided_slice(a, begin=(begin,), end=(end,), strides=(1,), axes=(axis,))


def split(a: Expr, sections: int, axis: int) -> AnyValue:
    return ops.split(a, indices_or_sections=sections, axis=axis)


def join(*parts: Expr, axis: int = 0) -> AnyValue:
    return ops.concatenate(tup(*parts), axis=axis)


def conv(a: Expr, weight: Expr, **attrs: AnyValue) -> AnyValue:
    return ops.nn.conv2d(a, weight, **attrs)


def norm(a: Expr, channels: int) -> AnyValue:
    return ops.nn.batch_norm(a, *(w(channels, seed=i) for i in range(4)))[0]


class Identity(NamedTuple):
    """A program, and the operators of its result in any order, with the `rules.math` level that it needs."""

    program: Callable[[], Expr]
    left: list[str]
    math: str = "reassociate"


FINITE = "finite"
sigmoid = ops.sigmoid
columns = var("columns", (3, 8))
thirds, halves = split(x, 3, 1), split(join(x, y), 2, 0)


def _shared_sum() -> Expr:
    return tup(ops.exp(x + y), ops.tanh(y + x))


def _shared_group() -> Expr:
    return tup(ops.exp((x + y) + z), ops.tanh(x + (z + y)))


def _repeated_heads() -> Expr:
    queries, keys = var("q", (1, 4, 16, 8)), var("k", (1, 2, 64, 8))
    wide = ops.broadcast_to(ops.expand_dims(keys, axis=2), shape=(1, 2, 2, 64, 8))
    return ops.nn.relu(mm(queries, turn(view(wide, 1, 4, 64, 8), 0, 1, 3, 2)))  # type: ignore[no-any-return]  # the calls of `ops` have no static type


def _cache() -> Expr:
    """The scores of one new query of each head, with a cache of keys of unknown length that groups of heads share."""
    queries, keys = var("q", ("batch", 4, 1, 8)), var("k", ("batch", 2, "length", 8))
    wide = ops.broadcast_to(ops.expand_dims(keys, axis=2), shape=(1, 2, 2, 1, 8))
    sizes = [ops.shape_of(keys, start=0, end=1), const([4], "int64"), ops.shape_of(keys, start=2, end=3), const([8], "int64")]
    heads = ops.dyn.reshape(wide, ops.concatenate(tup(*sizes)))
    return ops.nn.relu(mm(queries * splat(0.3), turn(heads, 0, 1, 3, 2) * splat(0.3)))  # type: ignore[no-any-return]  # as above


def _attention(scale: Callable[[Expr], Expr]) -> Expr:
    hidden = var("hidden", (2, 5, 8))

    def heads(seed: int, *axes: int) -> Expr:
        return turn(view(mm(hidden, w(8, 8, seed=seed)) + w(8, seed=seed), 2, 5, 2, 4), *axes)  # type: ignore[no-any-return]  # as above

    return scale(mm(heads(1, 0, 2, 1, 3), heads(2, 0, 2, 3, 1)))


BIASED = ["nn.matmul", "nn.bias_add"]
ATTENTION = ["nn.matmul", "add", "reshape", "transpose"] * 2 + ["nn.matmul"]
LIST: dict[str, Identity] = {
    "a LoRA adapter": Identity(lambda: mm(x, w(3, 8)) + mm(mm(x, w(3, 1, seed=1)), w(1, 8, seed=2)), ["nn.matmul"]),
    "a scaled LoRA adapter": Identity(lambda: mm(x, w(3, 8)) + mm(mm(x, w(3, 1, seed=1)), w(1, 8, seed=2)) * splat(0.5), ["nn.matmul"]),
    "a LoRA adapter beside a bias": Identity(
        lambda: ops.nn.bias_add(mm(x, w(3, 8)), w(8), axis=-1) + mm(mm(x, w(3, 1, seed=1)), w(1, 8, seed=2)), BIASED
    ),
    "a chain of weights": Identity(lambda: mm(mm(mm(row, w(4, 4)), w(4, 4, seed=1)), w(4, 4, seed=2)), ["nn.matmul"]),
    "a chain of dense layers": Identity(lambda: ops.nn.dense(ops.nn.dense(row, w(4, 4)), w(4, 4, seed=1)), ["nn.matmul"]),
    "a chain of affine maps": Identity(
        lambda: mm(mm(mm(row, w(4, 4)) + w(4), w(4, 4, seed=1)) + w(4, seed=1), w(4, 4, seed=2)) + w(4, seed=2), BIASED
    ),
    "a chain of products by cost": Identity(
        lambda: mm(mm(var("a", (64, 2)), var("b", (2, 64))), var("c", (64, 2))), ["nn.matmul", "nn.matmul"]
    ),
    "sums of products": Identity(lambda: mm(x, w(3, 8)) + mm(x, w(3, 8, seed=1)), ["nn.matmul"]),
    "differences of products": Identity(lambda: mm(x, w(3, 8)) - mm(x, w(3, 8, seed=1)), ["nn.matmul"]),
    "a common factor of products": Identity(lambda: mm(x, columns) + mm(y, columns), ["add", "nn.matmul"]),
    "a product followed by an affine map": Identity(lambda: (mm(x, w(3, 8)) + w(8)) * w(8, seed=1) + w(8, seed=2), BIASED),
    "a product after an affine map": Identity(lambda: mm(x * w(3) + w(3, seed=1), w(3, 8)), BIASED),
    "a normalization after a 1x1 convolution": Identity(lambda: norm(conv(image, w(4, 2, 1, 1)), 4), ["nn.bias_add", "nn.conv2d"]),
    "a normalization before a 1x1 convolution": Identity(lambda: conv(norm(image, 2), w(4, 2, 1, 1)), ["nn.bias_add", "nn.conv2d"]),
    "a convolution of a convolution": Identity(
        lambda: conv(conv(image, w(3, 2, 3, 3), padding=(1, 1)), w(2, 3, 1, 1, seed=1)), ["nn.conv2d"]
    ),
    "a convolution and a convolution": Identity(lambda: conv(image, w(3, 2, 3, 3)) + conv(image, w(3, 2, 3, 3, seed=1)), ["nn.conv2d"]),
    "convolutions with kernels of two sizes": Identity(
        lambda: conv(image, w(3, 2, 3, 3), padding=(1, 1, 1, 1)) + conv(image, w(3, 2, 1, 1, seed=1), padding=(0, 0, 0, 0)),
        ["nn.conv2d"],
    ),
    "constants in a sum": Identity(lambda: ((x + splat(2.0)) + y) + splat(3.0), ["add", "add"]),
    "constants in a product": Identity(lambda: ((x * splat(2.0)) * y) * splat(3.0), ["multiply", "multiply"]),
    "constants on both sides of a sum": Identity(lambda: (x + splat(2.0)) + (y + splat(3.0)), ["add", "add"]),
    "a constant less a shifted one": Identity(lambda: splat(5.0) - (x + splat(2.0)), ["subtract"]),
    "common parts modulo commutativity": Identity(_shared_sum, ["add", "exp", "tanh"]),
    "common parts modulo associativity": Identity(_shared_group, ["add", "add", "exp", "tanh"]),
    "double negation": Identity(lambda: ops.negative(ops.negative(x)) + y, ["add"]),
    "distribution": Identity(lambda: x * y + x * z, ["add", "multiply"]),
    "distribution over a difference": Identity(lambda: x * y - z * x, ["subtract", "multiply"]),
    "distribution of a divisor": Identity(lambda: x / ops.exp(z) + y / ops.exp(z), ["add", "divide", "exp"]),
    "a sum less a part": Identity(lambda: (x + ops.exp(y)) - x, ["exp"], FINITE),
    "exponentials": Identity(lambda: ops.exp(x) * ops.exp(y), ["add", "exp"]),
    "the logarithm of a softmax": Identity(lambda: ops.log(softmax(x)), ["nn.log_softmax"]),
    "a slice of a slice": Identity(lambda: cut(cut(row, 2, 8), 1, 3), ["strided_slice"]),
    "a slice of a concatenation": Identity(lambda: sigmoid(cut(join(x, y, z), 4, 8)), ["sigmoid"]),
    "a concatenation of slices": Identity(lambda: sigmoid(join(cut(row, 0, 3), cut(row, 3, 8))), ["sigmoid"]),
    "a concatenation of splits": Identity(lambda: sigmoid(join(thirds[0], thirds[1], thirds[2], axis=1)), ["sigmoid"]),
    "a split of a concatenation": Identity(lambda: ops.exp(halves[0]) + ops.tanh(halves[1]), ["exp", "tanh", "add"]),
    "a concatenation of concatenations": Identity(lambda: join(join(x, y), z), ["concatenate"]),
    "a gather of a gather": Identity(
        lambda: ops.take(ops.take(row, const([5, 1, 3], "int64"), axis=0), const([2, 0], "int64"), axis=0), ["take"]
    ),
    "reshapes round an elementwise operator": Identity(lambda: view(sigmoid(view(x, 12)), 4, 3), ["sigmoid"]),
    "reshapes round a binary operator": Identity(lambda: view(view(x, 12) + view(y, 12), 4, 3), ["add"]),
    "transposes round a unary operator": Identity(lambda: turn(ops.tanh(turn(x))), ["tanh"]),
    "transposes round a binary operator": Identity(lambda: turn(turn(x) * turn(y)), ["multiply"]),
    "transposes round a sum with a constant": Identity(lambda: turn(turn(x) + w(4)), ["add"]),
    "transposes round a product": Identity(lambda: turn(mm(turn(x, 1, 0), turn(var("v", (8, 4)), 1, 0)), 1, 0), ["nn.matmul"]),
    "transposes round a softmax": Identity(lambda: turn(softmax(turn(x))), ["nn.softmax"]),
    "a softmax shift": Identity(lambda: softmax(x + w(4, 1)), ["nn.softmax"]),
    "a softmax of what its maximum was taken off": Identity(lambda: softmax(x - ops.max(x, axis=(1,), keepdims=True)), ["nn.softmax"]),
    "a reduction of a reduction": Identity(lambda: ops.sum(ops.sum(stack, axis=(1,)), axis=(1,)), ["sum"]),
    "a mean of a mean": Identity(lambda: ops.mean(ops.mean(stack, axis=(2,), keepdims=True), axis=(1,), keepdims=True), ["mean"]),
    "a reduction of a transpose": Identity(lambda: ops.sum(turn(stack, 0, 2, 1), axis=(1,)), ["sum"]),
    "a reduction of a reshape": Identity(lambda: ops.max(view(stack, 6, 4)), ["max"]),
    "a reduction of copies": Identity(lambda: ops.max(ops.broadcast_to(var("v", (4, 1)), shape=(4, 3)), axis=(1,), keepdims=True), []),
    "mask arithmetic": Identity(lambda: x + (splat(1.0) - ops.cast(mask, dtype="float32")) * splat(-1e4), ["where", "add"]),
    "arithmetic on a choice": Identity(lambda: ops.where(mask, splat(1.0), splat(0.0)) * splat(5.0) + splat(1.0), ["where"]),
    "a choice by a negation": Identity(lambda: ops.where(ops.logical_not(mask), x, y), ["where"]),
    "repeated heads": Identity(_repeated_heads, ["reshape", "transpose", "nn.matmul", "reshape", "nn.relu"]),
    "repeated and scaled heads of a cache": Identity(_cache, ["multiply", "reshape", "transpose", "nn.matmul", "reshape", "nn.relu"]),
    "the scale of attention": Identity(lambda: _attention(lambda scores: scores * splat(0.3)), ATTENTION),
    "the divisor of attention": Identity(lambda: _attention(lambda scores: scores / splat(1.7)), ATTENTION),
}


@functools.cache
def explored(name: str) -> tuple[Function, Function]:
    """A program, and its result."""
    function = func(LIST[name].program())
    return function, apply(explore(), function, rules__math=LIST[name].math).function


@pytest.mark.parametrize("name", LIST)
def test_it_becomes_the_smaller_one(name: str) -> None:
    identity = LIST[name]
    function, made = explored(name)
    assert sorted(each for each in operators(made) if each != "expand_dims") == sorted(identity.left)
    assert program_cost(made.body, ROOFLINE) < program_cost(function.body, ROOFLINE)
    assert result_type(made) == result_type(function)
    assert_equal_in_value(function, made, exact=False, special=False)


@pytest.mark.parametrize("name", LIST)
def test_the_default_pipeline_finds_it_too(name: str) -> None:
    function, found = explored(name)
    with PassContext(3, config={"rules.math": LIST[name].math}):
        made = build_pipeline()(IRModule({"main": function}))["main"]
    assert program_cost(made.body, ROOFLINE) <= program_cost(found.body, ROOFLINE) * (1 + 1e-9)
    assert_equal_in_value(function, made, exact=False, special=False)


@pytest.mark.parametrize("name", [name for name, identity in LIST.items() if identity.math != FINITE])
def test_infinities_may_change_and_numbers_stay(name: str) -> None:
    function, made = explored(name)
    generator = np.random.default_rng(0)
    for _ in range(8):
        types = [tensor_type(param.checked_type, param.name_hint) for param in function.params]
        feeds = [Tensor.dense(draw_array(generator, sized(type_, {}), type_.dtype, ENDLESS)) for type_ in types]
        expected = run(function, feeds)
        assert difference(run(made, feeds), expected, [1e-3] * len(expected), nonfinite=MIXED) is None


def test_only_rules_that_drop_infinities_assume_finite_values() -> None:
    assert len(LIST) == 58
    assert [name for name, identity in LIST.items() if identity.math == FINITE] == ["a sum less a part"]


@pytest.mark.parametrize("name", [name for name, identity in LIST.items() if identity.math == FINITE])
def test_rules_for_finite_values_declare_it(name: str) -> None:
    function = func(LIST[name].program())
    made, best = apply(explore(), function).function, apply(explore(), function, rules__math=FINITE).function
    assert program_cost(made.body, ROOFLINE) > program_cost(best.body, ROOFLINE)
    assert_equal_in_value(function, made, exact=False, special=False)
