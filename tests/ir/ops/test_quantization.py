"""Quantized operators: values computed by hand, both roundings, scales per channel, and rejected operands. Compared with ONNX Runtime where
possible."""

import math
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.evaluate import EvaluateError, evaluate_call
from passat.ir.expr import Constant, const
from passat.ir.infer import infer_type
from passat.ir.infer_error import InferError
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.fixed_point import fixed_point_multiply
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType
from passat.relay import qnn
from tests.ir.ops.conftest import Nodes


def f32(*values: float) -> Array:
    return np.array(values if len(values) > 1 else values[0], np.float32)


def i32(*values: int) -> Array:
    return np.array(values if len(values) > 1 else values[0], np.int32)


def compute(name: str, *operands: Array, **attrs: AnyValue) -> Array:
    op = get_op(name)
    bound = op.bind_attrs(attrs)
    found = evaluate_call(op, list(map(Tensor.dense, operands)), bound, op.infer([type_of(x) for x in operands], bound))
    assert isinstance(found, Tensor)
    return found.numpy()


def type_of(x: Array) -> TensorType:
    return TensorType(x.shape, x.dtype.name)


def test_quantize_rounds_halves_away_from_zero_and_saturates() -> None:
    x = f32(-1000, -2.5, -1.5, -0.5, -0.25, 0.49999997, 0.5, 1.5, 2.5, np.inf)
    found = compute("qnn.quantize", x, f32(1), i32(10))
    np.testing.assert_array_equal(found, np.array([-128, 7, 8, 9, 10, 10, 11, 12, 13, 127], np.int8))


def test_scales_per_channel_go_along_their_axis() -> None:
    x = f32(1, 2, 3, 4, 5, 6).reshape(1, 2, 3)
    rows = compute("qnn.quantize", x, f32(1, 2), i32(0, 1), axis=1)
    np.testing.assert_array_equal(rows, np.array([[[1, 2, 3], [3, 4, 4]]], np.int8))  # 2.5 + 1 is 3.5, from 3
    columns = compute("qnn.dequantize", rows, f32(1, 2, 3), i32(0, 1, 2))
    np.testing.assert_array_equal(columns, f32(1, 2, 3, 3, 6, 6).reshape(1, 2, 3))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16"])
def test_quantize_and_dequantize_are_those_of_onnx_runtime_but_for_ties(nodes: Nodes, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x, scale, zero = rng.normal(0, 40, (3, 50)).astype(np.float32), f32(0.37, 1.1, 0.9), np.array([3, 0, 5], dtype)
    feeds = {"x0": x, "x1": scale, "x2": zero}
    expected = nodes.run(nodes.model("QuantizeLinear", 21, [x, scale, zero], axis=0), feeds)
    found = compute("qnn.quantize", x, scale, zero.astype(np.int32), axis=0, out_dtype=dtype)
    np.testing.assert_array_equal(found, expected)
    feeds["x0"] = found
    real = nodes.run(nodes.model("DequantizeLinear", 21, [found, scale, zero], axis=0), feeds)
    np.testing.assert_array_equal(compute("qnn.dequantize", found, scale, zero.astype(np.int32), axis=0), real)


@pytest.mark.parametrize("compute_dtype", ["int64", "float32", "float64"])
def test_requantize_rounds_halves_upward_or_away_from_zero(compute_dtype: str) -> None:
    x = np.arange(-32, 33, 8, dtype=np.int32)  # halves, at a factor of 1/16
    operands = (x, f32(1), i32(0), f32(16), i32(0))
    upward = compute("qnn.requantize", *operands, rounding="UPWARD", compute_dtype=compute_dtype)
    nearest = compute("qnn.requantize", *operands, rounding="TONEAREST", compute_dtype=compute_dtype)
    np.testing.assert_array_equal(upward, np.array([-2, -1, -1, 0, 0, 1, 1, 2, 2], np.int8))
    np.testing.assert_array_equal(nearest, np.array([-2, -2, -1, -1, 0, 1, 1, 2, 2], np.int8))


def test_a_configuration_supplies_missing_requantize_options() -> None:
    operands = (relay.var("x", shape=(3,), dtype="int32"), const(1.0), const(0), const(2.0), const(0))
    with qnn.requantize_config(rounding="TONEAREST", compute_dtype="float32"):
        assert qnn.current_requantize_config().rounding == "TONEAREST"
        inner, own = qnn.requantize(*operands), qnn.requantize(*operands, rounding="UPWARD")
    assert (inner.attrs.rounding, inner.attrs.compute_dtype, own.attrs.rounding) == ("TONEAREST", "float32", "UPWARD")
    assert qnn.requantize(*operands).attrs.rounding == "None"
    assert qnn.current_requantize_config().rounding == "UPWARD"


def test_requantize_shifts_by_zero_points_and_saturates() -> None:
    x = np.array([0, 10, 20, 255], np.uint8)
    found = compute("qnn.requantize", x, f32(0.5), i32(10), f32(0.25), i32(-5), out_dtype="int8")
    np.testing.assert_array_equal(found, np.array([-25, -5, 15, 127], np.int8))


def test_requantize_has_scales_per_channel_of_the_operand() -> None:
    x = i32(10, 20, 30, 40).reshape(2, 2)
    found = compute("qnn.requantize", x, f32(1, 0.5), i32(0, 10), f32(2), i32(1), axis=0, out_dtype="int32")
    np.testing.assert_array_equal(found, i32(6, 11, 6, 9).reshape(2, 2))  # 20 * 0.25 + 1, 30 * 0.25 = 7.5, which is rounded up


def test_a_fixed_point_factor_may_be_beyond_one() -> None:
    np.testing.assert_array_equal(fixed_point_multiply(i32(-3, 0, 1000), 5.25), i32(-16, 0, 5250))
    np.testing.assert_array_equal(fixed_point_multiply(i32(5, 7), 0.0), i32(0, 0))


SCALES = (i32(3), i32(7), f32(0.5), f32(0.25))


def test_dense_is_onnx_runtimes_product_of_integers(nodes: Nodes) -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.integers(0, 256, (4, 60), np.uint8), rng.integers(0, 256, (5, 60), np.uint8)
    zeros = [np.array(zero, np.uint8) for zero in (3, 7)]
    arrays = [data, np.ascontiguousarray(weight.T), *zeros]
    expected = nodes.run(nodes.model("MatMulInteger", 10, arrays), {f"x{i}": array for i, array in enumerate(arrays)})
    np.testing.assert_array_equal(compute("qnn.dense", data, weight, *SCALES), expected)
    batched = compute("qnn.batch_matmul", data[None], weight[None], *SCALES)
    np.testing.assert_array_equal(batched, expected[None])


def test_conv2d_is_onnx_runtimes_convolution_of_integers(nodes: Nodes) -> None:
    rng = np.random.default_rng(0)
    data, weight = rng.integers(0, 256, (1, 4, 6, 5), np.uint8), rng.integers(0, 256, (6, 2, 3, 3), np.uint8)
    arrays = [data, weight, *(np.array(zero, np.uint8) for zero in (3, 7))]
    attrs: dict[str, AnyValue] = {"pads": [1, 0, 1, 2], "strides": [2, 1], "group": 2}
    expected = nodes.run(nodes.model("ConvInteger", 10, arrays, **attrs), {f"x{i}": array for i, array in enumerate(arrays)})
    found = compute("qnn.conv2d", data, weight, *SCALES, padding=(1, 0, 1, 2), strides=(2, 1), groups=2)
    np.testing.assert_array_equal(found, expected)
    operands = (data.transpose(0, 2, 3, 1), weight.transpose(2, 3, 1, 0), *SCALES)
    layouts = {"data_layout": "NHWC", "kernel_layout": "HWIO"}
    last = compute("qnn.conv2d", *operands, padding=(1, 0, 1, 2), strides=(2, 1), groups=2, **layouts)
    np.testing.assert_array_equal(last, expected.transpose(0, 2, 3, 1))


def test_convolutions_have_zero_points_per_channel() -> None:
    data = np.full((1, 1, 1, 2), 5, np.uint8)
    weight = np.full((2, 1, 1, 1), 4, np.int8)
    found = compute("qnn.conv2d", data, weight, i32(2), i32(1, -1), f32(1), f32(1, 2))
    np.testing.assert_array_equal(found, i32(9, 9, 15, 15).reshape(1, 2, 1, 2))
    turned = compute("qnn.conv2d_transpose", data, weight.reshape(1, 2, 1, 1), i32(2), i32(1, -1), f32(1), f32(1, 2), strides=(1, 2))
    np.testing.assert_array_equal(turned, i32(9, 0, 9, 15, 0, 15).reshape(1, 2, 1, 3))


def test_sums_and_differences_rescale_their_operands() -> None:
    a, b = np.array([10, 20, 120], np.int8), np.array([1, -3, 100], np.int8)
    scales = (f32(0.5), i32(2), f32(1), i32(-1), f32(0.5), i32(4))  # 4, 9, 59 and 2, -2, 101
    np.testing.assert_array_equal(compute("qnn.add", a, b, *scales), np.array([16, 18, 127], np.int8))
    np.testing.assert_array_equal(compute("qnn.subtract", a, b, *scales), np.array([8, 26, -80], np.int8))
    np.testing.assert_array_equal(compute("qnn.mul", a, b, *scales), np.array([20, -32, 127], np.int8))


def test_operands_of_sums_may_have_scales_along_different_axes() -> None:
    a = np.array([[2, 4], [6, 8]], np.int8)
    scales = (f32(1, 2), i32(0), f32(1, 0.5), i32(0), f32(1), i32(0))
    found = compute("qnn.add", a, a, *scales, lhs_axis=0, rhs_axis=1)
    np.testing.assert_array_equal(found, np.array([[4, 6], [18, 20]], np.int8))
    np.testing.assert_array_equal(compute("qnn.mul", a, a, *scales, lhs_axis=0, rhs_axis=1), np.array([[4, 8], [72, 64]], np.int8))


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "log": np.log,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "erf": np.vectorize(math.erf),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_those_of_real_numbers_up_to_rounding(name: str) -> None:
    x = np.arange(1, 128, dtype=np.int8)
    found = compute(f"qnn.{name}", x, f32(0.05), i32(0), f32(0.1), i32(3))
    real = FUNCTIONS[name](x * np.float64(np.float32(0.05)))
    assert np.abs(found - np.clip(real / 0.1 + 3, -128, 127)).max() <= 0.5001


def test_leaky_relu_scales_values_below_the_zero_point() -> None:
    x = np.array([0, 50, 100, 150], np.uint8)
    np.testing.assert_array_equal(
        compute("qnn.leaky_relu", x, f32(1), i32(100), f32(1), i32(100), alpha=0.5), np.array([50, 75, 100, 150], np.uint8)
    )


def test_softmax_is_near_that_of_real_numbers() -> None:
    x = np.array([[-3, 0, 20, 90, 100]], np.int8)
    found = compute("qnn.softmax", x, f32(0.05), i32(0), f32(1 / 256), i32(-128))
    real = np.exp(x * 0.05) / np.exp(x * 0.05).sum()
    assert np.abs((found + 128.0) / 256 - real).max() < 0.02


def test_softmax_needs_a_scale_of_at_most_1() -> None:
    with pytest.raises(EvaluateError, match=r"scale of at most 1, not 1\.5"):
        compute("qnn.softmax", np.zeros((1, 2), np.int8), f32(1.5), i32(0), f32(1 / 256), i32(-128))


def test_a_mean_of_windows_is_rounded_toward_zero() -> None:
    x = np.array([[[[1, 2], [3, 5]]], [[[-1, -2], [-3, -5]]]], np.int8)
    found = compute("qnn.avg_pool2d", x, f32(1), i32(0), f32(1), i32(0), pool_size=(2, 2))
    np.testing.assert_array_equal(found.ravel(), np.array([2, -2], np.int8))


def test_concatenate_takes_each_part_to_the_scale_of_the_result() -> None:
    parts = [const(np.array([4, 8], np.int8)), const(np.array([10], np.int8))]
    joined = relay.qnn.concatenate(parts, [const(1.0), const(0.5)], [const(0), const(2)], const(2.0), const(1), axis=0)
    found = relay.create_executor().evaluate(relay.Function([], joined))().numpy()
    np.testing.assert_array_equal(found, np.array([3, 5, 3], np.int8))


@pytest.mark.parametrize(
    ("name", "types", "attrs", "message"),
    [
        ("qnn.quantize", "float64 float32 int32", {}, "the element type must be one of float32, not float64"),
        ("qnn.quantize", "float32 float32 int8", {}, "output_zero_point must have element type int32, not int8"),
        ("qnn.quantize", "float32 float32:5 int32", {}, "output_scale has 5 elements, but axis -1 of the data has 3"),
        ("qnn.quantize", "float32 float32 int32", {"out_dtype": "int64"}, "out_dtype must be one of int16, int32, int8, uint16, uint8"),
        ("qnn.dequantize", "float32 float32 int32", {}, "the element type must be one of"),
        ("qnn.requantize", "int8 float32 int32 float32:3 int32", {}, "output_scale must be a scalar, but has shape"),
        ("qnn.requantize", "int8 float32 int32 float32 int32", {"rounding": "DOWN"}, "rounding must be one of None, TONEAREST, UPWARD"),
        ("qnn.dense", "int8 int32 int32 int32 float32 float32", {}, "the element type of weight must be one of int8, uint8, not int32"),
        ("qnn.add", "int8 uint8 float32 int32 float32 int32 float32 int32", {}, "different element types"),
    ],
)
def test_meaningless_operands_are_rejected_in_a_sentence(name: str, types: str, attrs: dict[str, AnyValue], message: str) -> None:
    op = get_op(name)
    found = [text.partition(":") for text in types.split()]
    data = 2 if name in ("qnn.dense", "qnn.add") else 1
    given = [TensorType((2, 3) if i < data else (int(size),) if size else (), dtype) for i, (dtype, _, size) in enumerate(found)]
    with pytest.raises(OpTypeError, match=message):
        op.infer(given, op.bind_attrs(attrs))


def test_constant_folding_keeps_quantized_operators_unless_it_is_asked() -> None:
    weight = relay.qnn.dequantize(const(np.array([1, 2], np.int8)), const(0.5), const(0))
    module = relay.IRModule.from_expr(relay.Function([], weight))
    assert "qnn.dequantize" in str(relay.transform.FoldConstant()(module))
    folded = relay.transform.FoldConstant(fold_qnn=True)(module)["main"].body
    assert isinstance(folded, Constant)
    np.testing.assert_array_equal(folded.data.numpy(), f32(0.5, 1))


@pytest.mark.parametrize("output_size", [2, (3,), None])
def test_adaptive_pooling_divides_the_data_into_windows(output_size: AnyValue) -> None:
    x = relay.const(np.arange(7, dtype=np.float32).reshape(1, 1, 7))
    found = relay.create_executor().evaluate(relay.Function([], relay.nn.adaptive_avg_pool1d(x, output_size)))().numpy()
    expected = {2: [1.5, 4.5], (3,): [1, 3, 5], None: range(7)}[output_size]
    np.testing.assert_array_equal(found, np.array(expected, np.float32).reshape(1, 1, -1))
    with pytest.raises(InferError, match="must be 1 numbers of at least 1"):
        infer_type(relay.nn.adaptive_avg_pool1d(x, (0,)))


@pytest.mark.parametrize("rank", [2, 3])
def test_adaptive_pooling_of_several_axes_is_that_of_one_after_the_other(rank: int) -> None:
    x = np.random.default_rng(rank).normal(size=(2, 3, 5, 6, 4)[: rank + 2]).astype(np.float32)
    sizes = (2, 3, 2)[:rank]
    expected = x
    for axis, size in enumerate(sizes, 2):
        bounds = [(i * x.shape[axis] // size, -(-(i + 1) * x.shape[axis] // size)) for i in range(size)]
        parts = [expected.take(range(low, high), axis).mean(axis, keepdims=True) for low, high in bounds]
        expected = np.concatenate(parts, axis)
    np.testing.assert_allclose(compute(f"nn.adaptive_avg_pool{rank}d", x, output_size=sizes), expected, rtol=1e-5, atol=1e-6)
