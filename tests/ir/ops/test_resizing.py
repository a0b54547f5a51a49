"""Resized images: values are those of ONNX Runtime, in both layouts, and invalid attributes are rejected."""

from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.expr import Call, Expr, Function, var
from passat.ir.infer import InferError, infer_type
from passat.ir.onnx import from_onnx
from passat.ir.op import call_op
from passat.ir.ops.resizing import COORDINATES
from passat.ir.shape import SymDim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType
from passat.relay import transform
from passat.relay.testing import run_opt_pass
from tests.ir.ops.conftest import Nodes

IMAGE = np.random.default_rng(3).uniform(-1, 1, (2, 3, 5, 4)).astype("float32")
ROI = (0.1, -0.2, 0.8, 1.3)


def _resized(size: tuple[int, ...] = (7, 9), **attrs: AnyValue) -> Expr:
    return infer_type(call_op("image.resize2d", var("x", shape=IMAGE.shape), size=size, **attrs))


@pytest.mark.parametrize("opset", [11, 13, 19])
@pytest.mark.parametrize("mode", COORDINATES)
@pytest.mark.parametrize("method", ["nearest_neighbor", "linear", "cubic"])
@pytest.mark.parametrize("size", [(7, 9), (3, 2), (1, 1)])
def test_values_are_those_of_onnx_runtime(nodes: Nodes, method: str, mode: str, size: tuple[int, int], opset: int) -> None:
    roi = {"roi": ROI, "extrapolation_value": -3.0} if mode == "tf_crop_and_resize" else {}
    expr = _resized(size, method=method, coordinate_transformation_mode=mode, rounding_method="round_prefer_floor", **roi)
    feeds = {"x": IMAGE}
    expected = nodes.run(nodes.write(expr, opset), feeds)
    np.testing.assert_allclose(nodes.evaluate(expr, feeds), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rounding", ["", "round", "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_roundings(nodes: Nodes, rounding: str) -> None:
    expr = _resized((10, 6), method="nearest_neighbor", coordinate_transformation_mode="half_pixel", rounding_method=rounding)
    np.testing.assert_array_equal(nodes.evaluate(expr, {"x": IMAGE}), nodes.run(nodes.write(expr, 18), {"x": IMAGE}))


def test_cubic_weights(nodes: Nodes) -> None:
    expr = _resized(method="cubic", cubic_alpha=-0.75, cubic_exclude=True)
    np.testing.assert_allclose(nodes.evaluate(expr, {"x": IMAGE}), nodes.run(nodes.write(expr, 18), {"x": IMAGE}), rtol=1e-4, atol=1e-5)


def test_a_batch_of_unknown_size_is_written(nodes: Nodes) -> None:
    x = var("x", shape=(relay.Any(), 3, 5, 4))
    expr = infer_type(call_op("image.resize2d", x, size=(7, 9)))
    np.testing.assert_allclose(nodes.evaluate(expr, {"x": IMAGE}), nodes.run(nodes.write(expr, 18), {"x": IMAGE}), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("before", "size", "written"),
    [
        ((5, 4), (10, 9), ["Resize"]),
        ((7, 4), (31, 9), ["Shape", "Slice", "Concat", "Resize"]),  # 31 / 7 of 7 is less than 31 in float32
    ],
)
def test_a_named_batch_is_known_when_the_node_is_read_again(
    nodes: Nodes, before: tuple[int, int], size: tuple[int, int], written: list[str]
) -> None:
    """Otherwise its result is priced with a size that is assumed, and the whole model may be rejected as not cheaper."""
    x = var("x", TensorType((SymDim.named("n"), 3, *before), "float32"))
    image = np.random.default_rng(3).uniform(-1, 1, (2, 3, *before)).astype("float32")
    expr = infer_type(relay.nn.relu(call_op("image.resize2d", x, size=size)))
    model = nodes.write(expr, 18)
    assert [node.op_type for node in model.graph.node] == [*written, "Relu"]
    del model.graph.value_info[:]
    read = from_onnx(model)["main"].body
    assert isinstance(read, Call)
    assert isinstance(read.args[0], Call)
    assert str(read.args[0].op) == "image.resize2d"
    assert read.checked_type == TensorType((SymDim.named("n"), 3, *size), "float32")
    np.testing.assert_allclose(nodes.evaluate(expr, {"x": image}), nodes.run(model, {"x": image}), rtol=1e-4, atol=1e-5)


def test_channels_may_be_last(nodes: Nodes) -> None:
    x = var("x", shape=(2, 5, 4, 3))
    last = infer_type(relay.image.resize2d(x, (7, 9), layout="NHWC"))
    found = nodes.evaluate(last, {"x": IMAGE.transpose(0, 2, 3, 1)})
    np.testing.assert_array_equal(found.transpose(0, 3, 1, 2), nodes.evaluate(_resized(), {"x": IMAGE}))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_functions_of_relay(rank: int) -> None:
    x = var("x", shape=(1, 2, *(4,) * rank))
    found = infer_type(getattr(relay.image, f"resize{rank}d")(x, 8))
    assert found.checked_type == relay.TensorType((1, 2, *(8,) * rank))


def test_layouts_are_converted() -> None:
    x = var("x", shape=(1, 2, 4, 4))
    found = run_opt_pass(Function([x], relay.image.resize2d(x, (8, 8))), transform.ConvertLayout({"image.resize2d": ["NHWC"]}))
    assert 'layout="NHWC"' in found.astext()


@pytest.mark.parametrize(
    ("attrs", "message"),
    [
        ({"size": (7,)}, "must be 2 numbers of at least 1"),
        ({"size": (0, 1)}, "must be 2 numbers of at least 1"),
        ({"method": "area"}, "method must be one of"),
        ({"coordinate_transformation_mode": "other"}, "coordinate_transformation_mode must be one of"),
        ({"rounding_method": "up"}, "rounding_method must be one of"),
        ({"coordinate_transformation_mode": "tf_crop_and_resize", "roi": (0.0, 1.0)}, "roi must have a begin and an end"),
    ],
)
def test_invalid_attributes(attrs: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(InferError, match=message):
        _resized(**attrs)


def test_integers_have_nearest_elements_only() -> None:
    x = var("x", shape=(1, 1, 2, 2), dtype="int8")
    infer_type(call_op("image.resize2d", x, size=(4, 4), method="nearest_neighbor"))
    with pytest.raises(InferError, match="cast the data"):
        infer_type(call_op("image.resize2d", x, size=(4, 4)))


def _scales(*numbers: float) -> Tensor:
    return Tensor.dense(np.array(numbers, np.float32))


_SIZES = Tensor.dense(np.array([2, 3, 10, 6], np.int64))


@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("coordinates", ["half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"])
@pytest.mark.parametrize("rest", [(None, _scales(1, 1, 2, 1.5)), (None, None, _SIZES)], ids=["scales", "sizes"])
def test_nodes_are_read(nodes: Nodes, mode: str, coordinates: str, rest: tuple[Tensor | None, ...]) -> None:
    """With the values of ONNX Runtime, whether the node has scales or sizes."""
    attrs = {"mode": mode, "coordinate_transformation_mode": coordinates}
    expr = nodes.read("Resize", 18, [IMAGE, *rest], **attrs)
    assert isinstance(expr, Call)
    assert str(expr.op) == "image.resize2d"
    arrays = [IMAGE, *(None if part is None else part.numpy() for part in rest)]
    expected = nodes.run(
        nodes.model("Resize", 18, arrays, **attrs), {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
    )
    np.testing.assert_allclose(nodes.evaluate(expr, {"x0": IMAGE}), expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(nodes.run(nodes.write(expr, 18), {"x0": IMAGE}), expected)


def test_axes_and_regions_are_read(nodes: Nodes) -> None:
    expr = nodes.read("Resize", 18, [IMAGE, None, None, Tensor.dense(np.array([6, 10], np.int64))], axes=[3, 2])
    assert isinstance(expr, Call)
    assert expr.attrs.size == (10, 6)
    crop = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 1.5}
    region = _scales(0, 0, 0.1, 0.2, 1, 1, 0.9, 1.1)
    cropped = nodes.read("Resize", 18, [IMAGE, region, None, _SIZES], **crop)
    assert isinstance(cropped, Call)
    assert (cropped.attrs.roi, cropped.attrs.extrapolation_value) == ((0.1, 0.2, 0.9, 1.1), 1.5)


@pytest.mark.parametrize(
    ("rest", "attrs"),
    [
        ((None, _scales(1, 1, 0.7, 0.7)), {"mode": "linear"}),  # coordinates come from 0.7, not from the sizes
        ((None, _scales(1, 2, 1, 1)), {"mode": "nearest"}),
        ((None, None, TensorType((4,), "int64")), {"mode": "nearest"}),
        ((None, None, _SIZES), {"mode": "linear", "antialias": 1}),
        ((None, None, _SIZES), {"keep_aspect_ratio_policy": "not_larger"}),
        ((_scales(0, 0, 0, 0, 1, 0.5, 1, 1), None, _SIZES), {"coordinate_transformation_mode": "tf_crop_and_resize"}),
    ],
)
def test_nodes_that_stay_opaque(nodes: Nodes, rest: tuple[Tensor | TensorType | None, ...], attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("Resize", 18, [IMAGE, *rest], **attrs) is None
