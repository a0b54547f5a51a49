"""Deferred constants: products of weights are computed for the extracted program, not for every candidate."""

from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.attrs import EMPTY_ATTRS
from passat.ir.evaluate import Value, evaluate_call
from passat.ir.expr import Constant, Expr, Function
from passat.ir.folding import folded_value
from passat.ir.op import Op, get_op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from passat.rules.engine.deferred import deferred
from passat.rules.passes.algebra import linear_algebra
from passat.rules.passes.simplify import fold_constant
from tests.rules.building import const, func, ops, var
from tests.rules.running import apply, assert_equal_in_value, operators

WIDTH = 128
"""The product of two such matrices takes four million operations."""


def weight(seed: int) -> Expr:
    return const(np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)).astype("float32") / WIDTH**0.5)


def constants(function: Function) -> list[Tensor]:
    return [node.data for node in post_order(function) if isinstance(node, Constant)]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The shapes of the products, of matrices and of elements, that were computed."""
    computed: list[tuple[int, ...]] = []

    def counting(op: Op, *rest: AnyValue) -> Value:
        result = folded_value(op, *rest)
        if op.name in ("nn.matmul", "multiply"):
            assert isinstance(result, Tensor)
            computed.append(result.shape)
        return result

    monkeypatch.setattr("passat.rules.engine.deferred.folded_value", counting)
    return computed


def test_candidates_are_not_computed(products: list[tuple[int, ...]]) -> None:
    """Every order of a chain of six weights is a candidate; the result has one weight, computed by five products."""
    chain: Expr = var("x", (64, WIDTH))
    for seed in range(6):
        chain = ops.nn.matmul(chain, weight(seed))
    outcome = apply(linear_algebra(), func(chain))
    assert operators(outcome.function) == ["nn.matmul"]
    assert products == []
    (data,) = constants(outcome.function)
    assert data.numpy().shape == (WIDTH, WIDTH)
    assert products == [(WIDTH, WIDTH)] * 5
    assert_equal_in_value(func(chain), outcome.function, exact=False)


def test_a_deferred_constant_has_the_value_of_the_call() -> None:
    a, b = (Tensor.dense(np.random.default_rng(seed).normal(size=(WIDTH, WIDTH)).astype("float32")) for seed in (1, 2))
    outcome = apply(fold_constant(), func(ops.nn.matmul(const(a.numpy()), const(b.numpy()))))
    (data,) = constants(outcome.function)
    product = folded_value(get_op("nn.matmul"), [a, b], get_op("nn.matmul").bind_attrs({}), TensorType((WIDTH, WIDTH)))
    assert isinstance(product, Tensor)
    assert data.numpy().tobytes() == product.numpy().tobytes()


def test_scaled_weights_are_computed_when_they_are_read(products: list[tuple[int, ...]]) -> None:
    """Only those of a megabyte and more; the bound of their elements does not compute them either."""
    scale = const(np.float32(-3))
    for side, when in ((512, []), (511, [(511, 511)])):
        products.clear()
        weights = np.random.default_rng(side).normal(size=(side, side)).astype("float32")
        outcome = apply(fold_constant(), func(const(weights) * scale))
        (data,) = constants(outcome.function)
        assert np.abs(weights * np.float32(3)).max() <= data.largest() < float("inf")
        assert products == when
        assert data.numpy().tobytes() == (weights * np.float32(-3)).tobytes()
        assert products == [(side, side)]


def test_small_folds_are_not_deferred(products: list[tuple[int, ...]]) -> None:
    small = const(np.ones((2, 2), "float32"))
    apply(fold_constant(), func(ops.nn.matmul(small, const(np.eye(2, dtype="float32")))))
    assert products == [(2, 2)]


def test_chains_of_any_length_are_computed_without_recursion() -> None:
    negative, type_ = get_op("negative"), TensorType((2,), "float32")
    value = Tensor.dense(np.array([1, -2], "float32"))
    for _ in range(5001):
        value = deferred(evaluate_call, negative, [value], EMPTY_ATTRS, type_)
    assert value.numpy().tolist() == [-1, 2]


def test_shared_parts_of_chains_are_computed_once() -> None:
    computed: list[object] = []

    def evaluate(op: AnyValue, values: AnyValue, attrs: AnyValue, type_: AnyValue) -> Value:
        computed.append(op)
        return evaluate_call(op, values, attrs, type_)

    type_ = TensorType((2,), "float32")
    shared = deferred(evaluate, get_op("exp"), [Tensor.dense(np.zeros(2, "float32"))], EMPTY_ATTRS, type_)
    both = deferred(evaluate, get_op("add"), [shared, shared], EMPTY_ATTRS, type_)
    assert both.numpy().tolist() == [2, 2]
    assert both.numpy() is both.numpy()
    assert len(computed) == 2


def test_the_largest_element_is_bounded_without_computing_it(products: list[tuple[int, ...]]) -> None:
    outcome = apply(linear_algebra(), func(ops.nn.matmul(ops.nn.matmul(var("x", (64, WIDTH)), weight(0)), weight(1))))
    (data,) = constants(outcome.function)
    bound = data.largest()
    assert products == []
    assert np.abs(data.numpy()).max() <= bound < float("inf")
