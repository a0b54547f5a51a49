"""FakeQuantizationToInteger: which regions are computed in integers, in which types, and which regions stay, and why."""

from collections.abc import Iterator
from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.affine_type import AffineTypes, TensorAffineType
from passat.ir.expr import Call, Constant, Expr, Function, Var, const
from passat.ir.op import Op, get_op
from passat.ir.tensor import Array
from passat.ir.traverse import post_order
from passat.ir.types import tensor_type
from passat.passmgr import PassContext
from passat.relay import qnn
from passat.relay.op import register_fake_quantization_to_integer
from passat.rules.passes.fake_quantization import FakeQuantizationError
from passat.transform import Sequential

NAME = "FakeQuantizationToInteger"


def x_of(shape: tuple[int, ...], dtype: str = "int8", name: str = "x") -> Var:
    return relay.var(name, shape=shape, dtype=dtype)


def real(x: Expr, scale: AnyValue = 0.5, zero_point: AnyValue = 0, axis: int = -1) -> Call:
    return qnn.dequantize(x, relay.const(scale), relay.const(zero_point), axis=axis)


def integers(x: Expr, scale: float = 0.5, zero_point: int = 0, out_dtype: str = "int8") -> Call:
    return qnn.quantize(x, relay.const(scale), relay.const(zero_point), out_dtype=out_dtype)


def converted(body: Expr, **options: AnyValue) -> Function:
    module = relay.IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    function = Sequential([relay.transform.FakeQuantizationToInteger(**options)])(module)["main"]
    assert isinstance(function, Function)
    return function


def ops_of(function: Function) -> list[str]:
    """The operators of a program, operands first."""
    return [node.op.name for node in post_order(function) if isinstance(node, Call) and isinstance(node.op, Op)]


def end_of(function: Function) -> Call:
    assert isinstance(function.body, Call)
    return function.body


def value_of(expr: Expr) -> list[float]:
    assert isinstance(expr, Constant)
    return [float(value) for value in expr.data.numpy().ravel()]


def values(function: Expr, *args: Array) -> Array:
    return np.asarray(relay.create_executor().evaluate(function)(*args).numpy())


def agree(body: Expr, operators: list[str], within: int = 0, **options: AnyValue) -> None:
    """Compares a region with its integer form: operators and values."""
    made = converted(body, hard_fail=True, **options)
    assert ops_of(made) == operators
    agree_in_value(body, made, within)


def agree_in_value(body: Expr, made: Function, within: int) -> None:
    rng = np.random.default_rng(0)
    types = [tensor_type(x.checked_type) for x in made.params]
    args = [rng.integers(-60, 60, type_.concrete_shape).astype(type_.dtype) for type_ in types]
    real_ones = values(Function(relay.analysis.free_vars(body), body), *args)
    assert np.abs(values(made, *args).astype(int) - real_ones.astype(int)).max() <= within


def test_products_and_their_biases_are_computed_in_integers() -> None:
    bias = real(x_of((5,), "int32", "b"), 0.125)
    product = relay.nn.dense(real(x_of((4, 8))), real(x_of((5, 8), name="w"), 0.25))
    agree(integers(relay.nn.relu(relay.nn.bias_add(product, bias)), 4.0), ["qnn.dense", "nn.bias_add", "maximum", "qnn.requantize"], 1)


def test_a_convolution_has_scales_per_channel_along_its_channels() -> None:
    weight = real(x_of((3, 2, 1, 1), name="w"), [0.1, 0.2, 0.3], [0, 0, 0], axis=0)
    made = converted(integers(relay.nn.conv2d(real(x_of((1, 2, 4, 4))), weight), 3.0), hard_fail=True)
    assert ops_of(made) == ["qnn.conv2d", "qnn.requantize"]
    assert end_of(made).attrs.axis == 1
    assert value_of(end_of(made).args[1]) == pytest.approx([0.05, 0.1, 0.15])


def test_moved_elements_keep_their_integers() -> None:
    moved = relay.reshape(relay.transpose(relay.strided_slice(real(x_of((4, 6)), 2.0), [0, 0], [2, 6]), [1, 0]), [-1])
    agree(integers(moved, 2.0), ["strided_slice", "transpose", "reshape"])


def test_a_quantize_with_another_scale_requantizes() -> None:
    agree(integers(relay.transpose(real(x_of((4, 6)), 2.0, 3), [1, 0]), 4.0, 1, "uint8"), ["transpose", "qnn.requantize"], 1)


def test_sums_take_the_scale_of_the_result() -> None:
    both = relay.add(real(x_of((4,)), 0.5), real(x_of((4,), name="y"), 0.25, 3))
    agree(integers(both, 1.0, 2), ["qnn.add"], 1)
    agree(integers(relay.multiply(real(x_of((4,)), 0.5), const(2.0)), 1.0), ["qnn.quantize", "qnn.mul"], 1)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("value", [0.0, -30.0, 0.01])
@pytest.mark.parametrize("operator", [relay.add, relay.subtract, relay.multiply, relay.maximum])
def test_constants_have_a_scale_of_their_own(operator: AnyValue, value: float, dtype: str) -> None:
    body = integers(operator(const(value), real(x_of((20,), dtype), 0.125, 3)), 0.25, 30, dtype)
    made = converted(body, hard_fail=True)
    assert "qnn.dequantize" not in ops_of(made)
    agree_in_value(body, made, 1)


def test_divisions_by_a_constant_become_products() -> None:
    agree(integers(relay.divide(real(x_of((4,)), 0.5), const(4.0)), 1.0), ["qnn.quantize", "qnn.mul"], 1)


def test_one_tensor_may_be_dequantized_in_two_ways() -> None:
    x = x_of((4,))
    agree(integers(relay.add(real(x, 0.5), real(x, 2.0)), 2.0), ["copy", "qnn.add"], 1)


def test_bounds_become_the_nearest_integers() -> None:
    agree(integers(relay.clip(real(x_of((9,)), 2.0, 5), -7.0, 21.0), 2.0, 5), ["clip"], 1)
    per_channel = real(x_of((2, 9)), [1.0, 2.0], [0, 5], axis=0)
    made = converted(integers(relay.clip(per_channel, 0.0, 6.0)), hard_fail=True)
    assert ops_of(made) == ["maximum", "minimum", "qnn.requantize"]


def test_a_mean_of_windows_takes_the_scale_of_the_result_only_at_the_end() -> None:
    x = real(x_of((1, 1, 4, 4)), 2.0)
    last = end_of(converted(integers(relay.nn.avg_pool2d(x, (2, 2)), 0.5)))
    assert [value_of(last.args[i]) for i in (1, 3)] == [[2.0], [0.5]]
    before = converted(integers(relay.nn.relu(relay.nn.avg_pool2d(x, (2, 2))), 0.5))
    assert ops_of(before) == ["qnn.avg_pool2d", "maximum", "qnn.requantize"]


def test_axes_of_scales_follow_a_transpose_and_nothing_else() -> None:
    per_channel = real(x_of((2, 3)), [0.5, 1.0], [0, 0], axis=0)
    assert end_of(converted(integers(relay.transpose(per_channel, [1, 0])))).attrs.axis == 1
    with pytest.raises(FakeQuantizationError, match="reshape does not keep scales per channel in their places"):
        converted(integers(relay.reshape(per_channel, [6])), hard_fail=True)


def test_a_region_is_converted_as_a_whole_or_not_at_all() -> None:
    body = integers(relay.cos(relay.nn.relu(real(x_of((4,))))))
    module = relay.IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    with PassContext() as ctx:
        made = Sequential([relay.transform.FakeQuantizationToInteger()])(module)
    assert relay.structural_equal(made["main"].body, body, map_free_vars=True)
    assert any("cos has no conversion to integers" in text for text in ctx.statistics.remarks[NAME])
    with pytest.raises(FakeQuantizationError, match="cos has no conversion to integers"):
        converted(body, hard_fail=True)


def test_a_region_needs_quantize_and_dequantize() -> None:
    for body in (relay.nn.relu(real(x_of((4,)))), integers(relay.nn.relu(x_of((4,), "float32"))), integers(const(np.ones(3, np.float32)))):
        assert ops_of(converted(body, hard_fail=True)) == ops_of(Function([], body))


def test_single_operators_are_converted_on_request() -> None:
    product = relay.nn.batch_matmul(real(x_of((1, 4, 2)), 2.0), real(x_of((1, 4, 2), name="y"), 6.0))
    made = converted(relay.cos(product), use_qat=True)
    assert ops_of(made) == ["qnn.batch_matmul", "qnn.dequantize", "cos"]
    (real_product,) = end_of(made).args
    assert isinstance(real_product, Call)
    assert value_of(real_product.args[1]) == [12.0]
    assert ops_of(converted(relay.cos(product))) == ["qnn.dequantize", "qnn.dequantize", "nn.batch_matmul", "cos"]


def test_an_approximation_has_to_be_named() -> None:
    body = integers(relay.nn.softmax(real(x_of((2, 5)), 0.125)), 1 / 256, -128)
    assert "nn.softmax" in ops_of(converted(body))
    assert ops_of(converted(body, optional_qnn_ops=["nn.softmax"])) == ["qnn.softmax"]


@pytest.fixture
def cosine() -> Iterator[None]:
    def convert(call: Call, types: AffineTypes) -> tuple[Expr, TensorAffineType]:
        found = types[call.args[0]]
        assert isinstance(found, TensorAffineType)
        return relay.copy(call.args[0]), found

    register_fake_quantization_to_integer("cos", convert)
    yield
    get_op("cos").reset_attr("FTVMFakeQuantizationToInteger")


@pytest.mark.usefixtures("cosine")
def test_users_register_conversions() -> None:
    assert ops_of(converted(integers(relay.cos(real(x_of((4,))))))) == ["copy"]


def test_an_error_of_a_conversion_keeps_the_region() -> None:
    get_op("sin").set_attr("FTVMFakeQuantizationToInteger", lambda call, types: (call, "float32"))
    try:
        body = integers(relay.sin(real(x_of((4,)))))
        assert "sin" in ops_of(converted(body))
        with pytest.raises(FakeQuantizationError, match="the conversion of sin returned Call and str, not an expression"):
            converted(body, hard_fail=True)
    finally:
        get_op("sin").reset_attr("FTVMFakeQuantizationToInteger")


def test_a_function_of_sums_of_32_bits_keeps_the_region() -> None:
    body = integers(relay.tanh(relay.nn.dense(real(x_of((4, 8))), real(x_of((5, 8), name="w")))))
    assert "nn.dense" in ops_of(converted(body))
    with pytest.raises(FakeQuantizationError, match=r"qnn\.tanh.*the element type must be one of int16, int8, uint16, uint8, not int32"):
        converted(body, hard_fail=True)


def test_operators_in_regions_are_counted() -> None:
    x = real(x_of((4, 8)))
    body = relay.sigmoid(real(integers(relay.nn.dense(relay.nn.relu(x), real(x_of((5, 8), name="w"))))))
    module = relay.IRModule.from_expr(Function(relay.analysis.free_vars(body), body))
    assert relay.analysis.list_fake_quantized_op_freqs(module) == {"nn.relu": 1, "nn.dense": 1}
