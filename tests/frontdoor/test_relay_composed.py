"""Relay's functions that Passat composes of other operators agree with NumPy."""

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Expr, Function
from passat.ir.gradients.first_order import first_order_gradient
from passat.ir.tensor import Array
from passat.relay.testing import run_infer_type
from passat.runtime import create_executor

RANDOM = np.random.default_rng(5)


def _run(expr: Expr, *values: Array) -> list[Array]:
    found = create_executor().evaluate(Function(relay.analysis.free_vars(expr), expr))(*values)
    return [part.numpy() for part in found] if isinstance(expr, relay.Tuple) else [found.numpy()]


def _data(*shape: int) -> tuple[relay.Var, Array]:
    return relay.var("x", shape=shape), RANDOM.uniform(0.2, 1, shape).astype("float32")


@pytest.mark.parametrize(("axis", "exclude", "axes"), [(None, False, None), (1, False, 1), ((0, -1), False, (0, 2)), ((1,), True, (0, 2))])
@pytest.mark.parametrize("unbiased", [False, True])
@pytest.mark.parametrize("keepdims", [False, True])
def test_variances(axis: int | None, exclude: bool, axes: int | tuple[int, ...] | None, unbiased: bool, keepdims: bool) -> None:
    x, value = _data(2, 3, 4)
    wanted = value.var(axes, keepdims=keepdims, ddof=int(unbiased))
    arguments = (axis, keepdims, exclude, unbiased)
    np.testing.assert_allclose(_run(relay.variance(x, *arguments), value)[0], wanted, rtol=1e-5)
    np.testing.assert_allclose(_run(relay.std(x, *arguments), value)[0], np.sqrt(wanted), rtol=1e-5)
    mean, variance = _run(relay.mean_variance(x, *arguments), value)
    np.testing.assert_allclose(mean, value.mean(axes, keepdims=keepdims), rtol=1e-5)
    np.testing.assert_allclose(variance, wanted, rtol=1e-5)


def test_the_mean_and_the_deviation() -> None:
    x, value = _data(2, 3)
    mean, std = _run(relay.mean_std(x, axis=1), value)
    np.testing.assert_allclose(mean, value.mean(1), rtol=1e-5)
    np.testing.assert_allclose(std, value.std(1), rtol=1e-5)


def test_a_given_mean_is_used() -> None:
    x, value = _data(2, 3)
    given = relay.const(np.zeros((2, 1), "float32"))
    np.testing.assert_allclose(_run(relay.variance(x, axis=1, with_mean=given), value)[0], (value**2).mean(1), rtol=1e-5)


@pytest.mark.parametrize(("axis", "axes"), [(0, 0), ((0, -1), (0, 2)), (None, None), (1, 1)])
def test_unbiased_variances_of_sizes_that_are_known_when_they_are_computed(
    axis: int | tuple[int, ...] | None, axes: int | tuple[int, ...] | None
) -> None:
    x, value = relay.var("x", shape=(relay.Any(), 3, relay.Any())), _data(2, 3, 4)[1]
    np.testing.assert_allclose(_run(relay.variance(x, axis, unbiased=True), value)[0], value.var(axes, ddof=1), rtol=1e-5)
    np.testing.assert_allclose(_run(relay.std(x, axis, unbiased=True), value)[0], value.std(axes, ddof=1), rtol=1e-5)


def test_unbiased_variances_of_more_elements_than_float16_can_count() -> None:
    value = RANDOM.uniform(-1, 1, 70_000).astype("float16")
    found = _run(relay.variance(relay.var("x", shape=(relay.Any(),), dtype="float16"), unbiased=True), value)[0]
    np.testing.assert_allclose(found, value.astype("float64").var(ddof=1), rtol=1e-2)


def test_unbiased_variances_need_a_type_and_two_elements() -> None:
    with pytest.raises(ValueError, match="needs data of a known shape"):
        relay.variance(relay.var("x"), axis=0, unbiased=True)
    with pytest.raises(ValueError, match="needs two elements or more"):
        relay.variance(relay.var("x", shape=(1, 2)), axis=0, unbiased=True)


def test_cross_entropies() -> None:
    x, predicted = _data(2, 5)
    y, wanted = relay.var("y", shape=(2, 5)), RANDOM.uniform(0, 1, (2, 5)).astype("float32")
    expected = -(wanted * np.log(predicted)).sum(1).mean()
    np.testing.assert_allclose(_run(relay.nn.cross_entropy(x, y), predicted, wanted)[0], expected, rtol=1e-5)
    np.testing.assert_allclose(_run(relay.nn.cross_entropy_with_logits(x, y), np.log(predicted), wanted)[0], expected, rtol=1e-5)


def test_the_gradient_of_a_weight() -> None:
    """It is the gradient that differentiation finds."""
    x, w = relay.var("x", shape=(2, 4, 7, 6)), relay.var("w", shape=(6, 2, 3, 2))
    window = ((2, 1), (1, 0), (1, 2), 2, 6, (3, 2))
    call = run_infer_type(Function([x, w], relay.nn.conv2d(x, w, *window)))
    assert isinstance(call, Function)
    assert isinstance(call.ret_type, relay.TensorType)
    shape = call.ret_type.concrete_shape
    values = [RANDOM.uniform(-1, 1, part).astype("float32") for part in ((2, 4, 7, 6), (6, 2, 3, 2))]
    wanted = create_executor().evaluate(first_order_gradient(call))(*values)[1][1].numpy()
    grad = relay.var("grad", shape=shape)
    found = relay.nn.conv2d_backward_weight(grad, x, *window)
    run = create_executor().evaluate(Function([grad, x], found))
    np.testing.assert_allclose(run(np.ones(shape, "float32"), values[0]).numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_decimal_logarithms_and_conditions_of_numbers() -> None:
    x, value = _data(2, 3)
    np.testing.assert_allclose(_run(relay.log10(x), value)[0], np.log10(value), rtol=1e-5)
    condition = relay.const(np.array([0, 2, 0], "int32"))
    np.testing.assert_array_equal(_run(relay.where(condition, x, relay.const(0.0)), value)[0], np.where([0, 1, 0], value, 0))


def _called(param: relay.Var) -> Function:
    x = relay.var("x", shape=(2, 3))
    found = run_infer_type(Function([x], relay.Call(Function([param], relay.exp(param)), [x])))
    assert isinstance(found, Function)
    return found


def test_an_inferred_type_of_a_parameter_counts_as_declared() -> None:
    """Relay's InferType declares it, and the result of the function."""
    inferred, declared = _called(relay.var("p")), _called(relay.var("p", shape=(2, 3)))
    assert inferred.ret_type == declared.ret_type == relay.TensorType((2, 3))
    assert relay.structural_equal(inferred, declared)
    assert relay.structural_hash(inferred) == relay.structural_hash(declared)
