"""Layouts with blocks: their changes, and the convolution in them."""

from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.infer_error import InferError
from passat.ir.op import OpTypeError
from passat.ir.ops.blocked_layouts import joined, parts_of, split, split_shape
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
    with pytest.raises(OpTypeError, match="is no layout"):
        parts_of(layout)


def test_blocks_divide_their_axis() -> None:
    with pytest.raises(OpTypeError, match="6 elements along C are not divisible into blocks of 4"):
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


def test_blocks_of_another_size_are_a_type_error() -> None:
    x, w = relay.var("x", shape=(1, 2, 8, 8, 8)), relay.var("w", shape=(16, 16, 3, 3))
    with pytest.raises(InferError, match="the layout NCHW4c has blocks of 4, but the tensor has 8 along c"):
        run_infer_type(relay.nn.conv2d(x, w, data_layout="NCHW4c"))
