"""Layouts with blocks: their changes, and the convolution in them."""

from typing import Any as AnyValue

import numpy as np
import onnxruntime
import pytest

from passat import relay
from passat.ir.expr import Function
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.ir.op import OpTypeError
from passat.ir.ops.blocked_layouts import joined, parts_of, split, split_shape, without_blocks
from passat.ir.ops.windows import axes_of
from passat.relay.testing import run_infer_type


@pytest.mark.parametrize(
    ("layout", "shape"), [("NCHW4c", (1, 2, 3, 5, 4)), ("OIHW4i2o", (3, 2, 3, 5, 4, 2)), ("OHWI4i2o2i", (3, 3, 5, 2, 4, 2, 2))]
)
def test_splitting_and_joining_axes_are_inverse(layout: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape)
    assert np.array_equal(split(joined(array, layout), layout), array)


@pytest.mark.parametrize("target", ["OIHW4i2o", "OHWI4i2o2i", "HWIO", "OIHW8i", "OHWI2i2o4i"])
@pytest.mark.parametrize("source", ["OIHW", "OHWI4i2o2i", "OIHW4i2o"])
def test_layout_transform_computes_what_the_layouts_say(source: str, target: str) -> None:
    whole = np.arange(8 * 16 * 2 * 3, dtype=np.float32).reshape(8, 16, 2, 3)

    def stored(layout: str) -> np.ndarray:
        order = [letter for letter in layout if letter.isupper()]
        return split(whole.transpose(["OIHW".index(letter) for letter in order]), layout)

    x = relay.var("x", shape=stored(source).shape)
    found = relay.create_executor().evaluate(relay.Function([x], relay.layout_transform(x, source, target)))(stored(source)).numpy()
    assert np.array_equal(found, stored(target))


@pytest.mark.parametrize("layout", ["NCHW4", "NCHWc", "NCHW4d", "NCCHW", "n4c"])
def test_other_words_are_no_layouts(layout: str) -> None:
    with pytest.raises(OpTypeError, match="is not a layout"):
        parts_of(layout)


def test_blocks_divide_their_axis() -> None:
    with pytest.raises(OpTypeError, match="6 elements along C cannot be divided into blocks of 4"):
        split_shape((1, 6, 2, 2), "NCHW4c")


@pytest.mark.parametrize("kernel_layout", ["OIHW", "OIHW4i", "OIHW4i8o", "HWIO2i"])
@pytest.mark.parametrize("data_layout", ["NCHW4c", "NHWC2c"])
def test_a_convolution_of_blocks_is_that_of_whole_axes(data_layout: str, kernel_layout: str) -> None:
    x, w = relay.var("x", shape=(2, 8, 5, 6)), relay.var("w", shape=(16, 8, 3, 3))
    attrs: dict[str, AnyValue] = {"channels": 16, "kernel_size": (3, 3), "padding": (1, 0), "strides": (2, 1)}
    data, weight = relay.layout_transform(x, "NCHW", data_layout), relay.layout_transform(w, "OIHW", kernel_layout)
    blocked = relay.nn.conv2d(data, weight, **attrs, data_layout=data_layout, kernel_layout=kernel_layout)
    whole = relay.Function([x, w], relay.nn.conv2d(x, w, **attrs))
    again = relay.Function([x, w], relay.layout_transform(blocked, data_layout, "NCHW"))
    inputs = [np.random.default_rng(1).standard_normal(shape).astype(np.float32) for shape in [(2, 8, 5, 6), (16, 8, 3, 3)]]
    found, wanted = (relay.create_executor().evaluate(function)(*inputs).numpy() for function in (again, whole))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_a_convolution_of_blocks_over_three_dimensions() -> None:
    """In the executor and in ONNX."""
    x, w = relay.var("x", shape=(2, 2, 3, 5, 4, 2)), relay.var("w")
    made = relay.nn.conv3d(x, w, channels=6, kernel_size=(2, 3, 1), padding=(1, 0, 0), data_layout="NCDHW2c", kernel_layout="OIDHW4i3o")
    function = relay.Function([x, w], made)
    shapes = [(2, 2, 3, 5, 4, 2), (2, 1, 2, 3, 1, 4, 3)]
    data, weight = (np.random.default_rng(3).standard_normal(shape).astype(np.float32) for shape in shapes)
    a, b = relay.var("a", shape=(2, 4, 3, 5, 4)), relay.var("b", shape=(6, 4, 2, 3, 1))
    whole = relay.Function([a, b], relay.nn.conv3d(a, b, padding=(1, 0, 0)))
    joined_operands = (joined(data, "NCDHW2c"), joined(weight, "OIDHW4i3o"))
    wanted = split(relay.create_executor().evaluate(whole)(*joined_operands).numpy(), "NCDHW2c")
    np.testing.assert_allclose(relay.create_executor().evaluate(function)(data, weight).numpy(), wanted, rtol=1e-5, atol=1e-5)
    session = onnxruntime.InferenceSession(to_onnx(IRModule.from_expr(function)).SerializeToString())
    (found,) = session.run(None, dict(zip([each.name for each in session.get_inputs()], (data, weight), strict=True)))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["max", "avg"])
@pytest.mark.parametrize("layout", ["NCHW4c", "NHWC2c"])
def test_a_pooling_of_blocks_is_that_of_whole_axes(kind: str, layout: str) -> None:
    x = relay.var("x", shape=(2, 8, 5, 6))
    windowed, everywhere = getattr(relay.nn, f"{kind}_pool2d"), getattr(relay.nn, f"global_{kind}_pool2d")

    def pooled(layout: str) -> Function:
        inner = windowed(relay.layout_transform(x, "NCHW", layout), pool_size=(2, 3), strides=(1, 2), padding=(0, 1), layout=layout)
        fields = [relay.layout_transform(field, layout, "NCHW") for field in (inner, everywhere(inner, layout=layout))]
        return relay.Function([x], relay.Tuple(fields))

    data = np.random.default_rng(1).standard_normal((2, 8, 5, 6)).astype(np.float32)
    found, wanted = (relay.create_executor().evaluate(pooled(each))(data) for each in (layout, "NCHW"))
    for ours, theirs in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6, atol=1e-6)


def test_operators_on_blocks_are_written_to_onnx() -> None:
    x, w = relay.var("x", shape=(2, 8, 5, 6)), relay.var("w", shape=(4, 8, 3, 3))
    data, weight = relay.layout_transform(x, "NCHW", "NCHW4c"), relay.layout_transform(w, "OIHW", "OIHW2i2o")
    made = relay.nn.conv2d(data, weight, data_layout="NCHW4c", kernel_layout="OIHW2i2o")
    made = relay.nn.global_avg_pool2d(relay.nn.max_pool2d(made, (2, 2), layout="NCHW4c"), layout="NCHW4c")
    function = relay.Function([x, w], relay.layout_transform(made, "NCHW4c", "NHWC"))
    inputs = [np.random.default_rng(2).standard_normal(shape).astype(np.float32) for shape in [(2, 8, 5, 6), (4, 8, 3, 3)]]
    session = onnxruntime.InferenceSession(to_onnx(IRModule.from_expr(function)).SerializeToString())
    (found,) = session.run(None, dict(zip([each.name for each in session.get_inputs()], inputs, strict=True)))
    np.testing.assert_allclose(found, relay.create_executor().evaluate(function)(*inputs).numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("source", "target"), [("NCHW", "NCHW4c"), ("NHWC4c", "NCHW"), ("OIHW4i2o", "OHWI2i8o")])
def test_a_change_of_layout_in_onnx(source: str, target: str) -> None:
    whole = {"N": 3, "O": 16, "I": 8, "C": 8, "H": 5, "W": 6}
    shape = split_shape(tuple(whole[letter] for letter in without_blocks(source)), source)
    x = relay.var("x", shape=shape)
    function = relay.Function([x], relay.layout_transform(x, source, target))
    sizes = [int(str(size)) for size in shape]
    data = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    model = to_onnx(IRModule.from_expr(function))
    assert len(model.graph.node) <= 3
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {model.graph.input[0].name: data})
    assert np.array_equal(found, relay.create_executor().evaluate(function)(data).numpy())


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NCHW", "NHWC4c", (3, 8, 5, 6)),
        ("NCHW", "NHWC4c", (3, 8, 0, 6)),
        ("NHWC2c", "NCHW4c", (3, 5, 0, 4, 2)),
        ("NHWC2c", "NCHW", (3, 5, 6, 4, 2)),
        ("OIHW4i2i", "OIHW", (3, 2, 0, 1, 4, 2)),
    ],
)
def test_unknown_sizes_in_onnx(source: str, target: str, shape: tuple[int, ...]) -> None:
    x = relay.var("x", shape=tuple(size if i > 3 or not size else f"n{i}" for i, size in enumerate(shape)))
    function = relay.Function([x], relay.layout_transform(x, source, target))
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    model = to_onnx(IRModule.from_expr(function))
    (found,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {model.graph.input[0].name: data})
    wanted = split(joined(data, source).transpose(axes_of(without_blocks(source), without_blocks(target))), target)
    assert found.shape == wanted.shape
    assert np.array_equal(found, wanted)


def test_a_change_between_whole_axes_is_a_transpose() -> None:
    x = relay.var("x", shape=(2, 8, 5, 6))
    with pytest.raises(InferError, match="NCHW and NHWC have no blocks, so the change of layout is a transpose"):
        run_infer_type(relay.Call(relay.op.get("layout_transform"), [x], {"src_layout": "NCHW", "dst_layout": "NHWC"}))
    assert "transpose(%x" in str(relay.layout_transform(x, "NCHW", "NHWC"))


def test_a_weight_of_six_axes_says_its_blocks() -> None:
    x, w = relay.var("x", shape=(1, 2, 8, 8, 4)), relay.var("w", shape=(4, 2, 3, 3, 4, 2))
    call = relay.nn.contrib_conv2d_nchwc(x, w, channels=8, kernel_size=(3, 3), data_layout="NCHW4c")
    assert call.attrs["kernel_layout"] == "OIHW4i2o"


def test_blocks_of_another_size_are_a_type_error() -> None:
    x, w = relay.var("x", shape=(1, 2, 8, 8, 8)), relay.var("w", shape=(16, 16, 3, 3))
    with pytest.raises(InferError, match="the layout NCHW4c has blocks of 4, but the tensor has 8 along c"):
        run_infer_type(relay.nn.conv2d(x, w, data_layout="NCHW4c"))
