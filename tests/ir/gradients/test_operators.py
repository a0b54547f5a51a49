"""Every gradient that is registered agrees with finite differences."""

from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Constant, Expr, Function, Tuple, TupleGetItem, var
from passat.ir.gradients.elementwise import DERIVATIVES
from passat.ir.gradients.registry import GradientError, has_gradient
from passat.ir.infer import infer_type
from passat.ir.op import call_op, list_ops
from passat.ir.types import TensorType

Shapes = tuple[tuple[int, ...], ...]
Build = Callable[..., Expr]


def _op(name: str, **attrs: AnyValue) -> Build:
    return lambda *args: call_op(name, *args, **attrs)


def _of_tuple(name: str, **attrs: AnyValue) -> Build:
    return lambda *args: call_op(name, Tuple(args), **attrs)


def _at(name: str, *rest: Expr, **attrs: AnyValue) -> Build:
    """A call whose other operands are constants."""
    return lambda *args: call_op(name, *args, *rest, **attrs)


_INDICES = Constant(np.array([2, 0, 2], np.int64))
_CONDITION = Constant(np.array([[True, False, True], [False, True, True]]))
_CONV = {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}
_WINDOW = {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0, 1, 1)}

CASES: dict[str, list[tuple[Build, Shapes]]] = {
    "copy": [(_op("copy"), ((2, 3),))],
    "add": [(_op("add"), ((2, 1, 3), (4, 1)))],
    "subtract": [(_op("subtract"), ((2, 1, 3), (4, 1)))],
    "multiply": [(_op("multiply"), ((2, 1, 3), (4, 1)))],
    "divide": [(_op("divide"), ((2, 1, 3), (4, 1)))],
    "power": [(_op("power"), ((2, 1, 3), (4, 1)))],
    "maximum": [(_op("maximum"), ((2, 3), (3,)))],
    "minimum": [(_op("minimum"), ((2, 3), (3,)))],
    "where": [(lambda x, y: call_op("where", _CONDITION, x, y), ((2, 3), (3,)))],
    "cast": [(_op("cast", dtype="float64"), ((2, 3),))],
    "cast_like": [(_at("cast_like", Constant(np.array(1.0))), ((2, 3),))],
    "sum": [(_op("sum", axis=1), ((2, 3, 2),)), (_op("sum", axis=(0,), exclude=True), ((2, 3),)), (_op("sum", keepdims=True), ((2, 3),))],
    "mean": [(_op("mean", axis=-1), ((2, 3),)), (_op("mean"), ((2, 3),))],
    "max": [(_op("max", axis=1), ((2, 3, 2),)), (_op("max"), ((2, 3),))],
    "min": [(_op("min", axis=1, keepdims=True), ((2, 3, 2),))],
    "logsumexp": [(_op("logsumexp", axis=1), ((2, 3, 2),))],
    "nn.softmax": [(_op("nn.softmax", axis=1), ((2, 3, 2),))],
    "nn.log_softmax": [(_op("nn.log_softmax", axis=-1), ((2, 3),))],
    "broadcast_to": [(_op("broadcast_to", shape=(4, 2, 3)), ((2, 1),))],
    "broadcast_to_like": [(_op("broadcast_to_like"), ((2, 1), (4, 2, 3)))],
    "collapse_sum_like": [(_op("collapse_sum_like"), ((4, 2, 3), (2, 1)))],
    "collapse_sum_to": [(_op("collapse_sum_to", shape=(2, 1)), ((4, 2, 3),))],
    "cumsum": [(_op("cumsum", axis=1), ((2, 3),)), (_op("cumsum", axis=0, exclusive=True, reverse=True), ((3, 2),))],
    "full": [(_op("full", shape=(2, 3)), ((),))],
    "full_like": [(_op("full_like"), ((2, 3), ()))],
    "nn.dense": [(_op("nn.dense"), ((2, 3), (4, 3)))],
    "nn.matmul": [
        (_op("nn.matmul"), ((2, 3), (3, 4))),
        (_op("nn.matmul", transpose_a=True, transpose_b=True), ((3, 2), (4, 3))),
        (_op("nn.matmul"), ((5, 2, 3), (3, 4))),
    ],
    "nn.batch_matmul": [
        (_op("nn.batch_matmul"), ((2, 2, 3), (2, 4, 3))),
        (_op("nn.batch_matmul", transpose_b=False), ((2, 2, 3), (1, 3, 4))),
        (_op("nn.batch_matmul", transpose_a=True, transpose_b=False), ((2, 3, 2), (2, 3, 4))),
        (_op("nn.batch_matmul", transpose_a=True, transpose_b=True), ((2, 3, 2), (2, 4, 3))),
    ],
    "nn.bias_add": [(_op("nn.bias_add"), ((2, 3, 2), (3,))), (_op("nn.bias_add", axis=-1), ((2, 3), (3,)))],
    "reshape": [(_op("reshape", newshape=(3, 2)), ((2, 3),))],
    "dyn.reshape": [(_at("dyn.reshape", Constant(np.array([3, 2], np.int64))), ((2, 3),))],
    "reshape_like": [(_op("reshape_like"), ((2, 3), (3, 2)))],
    "nn.batch_flatten": [(_op("nn.batch_flatten"), ((2, 3, 2),))],
    "squeeze": [(_op("squeeze"), ((2, 1, 3),))],
    "expand_dims": [(_op("expand_dims", axis=1, num_newaxis=2), ((2, 3),))],
    "transpose": [(_op("transpose", axes=(1, 2, 0)), ((2, 3, 4),)), (_op("transpose"), ((2, 3),))],
    "concatenate": [(_of_tuple("concatenate", axis=1), ((2, 1), (2, 3), (2, 2))), (_of_tuple("concatenate"), ((2,),))],
    "stack": [(_of_tuple("stack", axis=1), ((2, 3), (2, 3)))],
    "split": [(lambda x: TupleGetItem(call_op("split", x, indices_or_sections=(1, 3), axis=1), 1), ((2, 4),))],
    "elemwise_sum": [(_of_tuple("elemwise_sum"), ((2, 3), (3,), (2, 1)))],
    "strided_slice": [
        (_op("strided_slice", begin=(1, 0), end=(3, 2)), ((4, 3),)),
        (_op("strided_slice", begin=(-1, 0), end=(-9, 3), strides=(-2, 2)), ((4, 3),)),
        (_op("strided_slice", begin=(1,), end=(1,), axes=(1,)), ((2, 3),)),
    ],
    "nn.pad": [(_op("nn.pad", pad_width=((1, 0), (2, 1))), ((2, 3),))],
    "take": [
        (_at("take", _INDICES, axis=1), ((2, 3),)),
        (_at("take", _INDICES), ((2, 3),)),
        (_at("take", Constant(np.array(1)), axis=0), ((2, 3),)),
    ],
    "gather": [(_at("gather", Constant(np.array([[1, 0, 1]], np.int64)), axis=0), ((2, 3),))],
    "gather_nd": [(_at("gather_nd", Constant(np.array([[1], [0], [1]], np.int64))), ((2, 3),))],
    "one_hot": [(lambda on, off: call_op("one_hot", _INDICES, on, off, depth=3), ((), ()))],
    "arange": [(lambda start, step: call_op("arange", start, Constant(np.array(9.0)), step), ((), ()))],
    "nn.conv1d": [(_op("nn.conv1d", strides=(2,), padding=(1, 0)), ((2, 2, 6), (3, 2, 3)))],
    "nn.conv2d": [
        (_op("nn.conv2d", **_CONV), ((2, 2, 5, 6), (3, 2, 2, 3))),
        (_op("nn.conv2d", groups=2), ((2, 4, 4, 4), (6, 2, 2, 2))),
        (_op("nn.conv2d", data_layout="NHWC", kernel_layout="HWIO"), ((1, 4, 3, 2), (2, 2, 2, 3))),
    ],
    "nn.conv3d": [(_op("nn.conv3d", strides=(1, 2, 1)), ((1, 2, 3, 4, 3), (2, 2, 2, 2, 2)))],
    "nn.conv1d_transpose": [(_op("nn.conv1d_transpose", strides=(2,), output_padding=(1,)), ((2, 3, 3), (3, 2, 2)))],
    "nn.conv2d_transpose": [
        (_op("nn.conv2d_transpose", strides=(2, 1), padding=(1, 0, 0, 1), output_padding=(1, 0)), ((1, 3, 3, 3), (3, 2, 3, 2))),
        (_op("nn.conv2d_transpose", groups=2), ((1, 4, 2, 2), (4, 2, 2, 2))),
    ],
    "nn.conv3d_transpose": [(_op("nn.conv3d_transpose"), ((1, 2, 2, 2, 2), (2, 1, 2, 2, 2)))],
    "nn.avg_pool1d": [(_op("nn.avg_pool1d", pool_size=(2,), strides=(2,)), ((1, 2, 5),))],
    "nn.avg_pool2d": [
        (_op("nn.avg_pool2d", **_WINDOW), ((2, 2, 5, 4),)),
        (_op("nn.avg_pool2d", count_include_pad=True, **_WINDOW), ((1, 2, 5, 4),)),
    ],
    "nn.avg_pool3d": [(_op("nn.avg_pool3d", pool_size=(2, 1, 2)), ((1, 2, 3, 2, 3),))],
    "nn.max_pool1d": [(_op("nn.max_pool1d", pool_size=(2,), strides=(2,)), ((1, 2, 5),))],
    "nn.max_pool2d": [
        (_op("nn.max_pool2d", **_WINDOW), ((2, 2, 5, 4),)),
        (_op("nn.max_pool2d", pool_size=(2, 2), layout="NHWC"), ((1, 4, 3, 2),)),
    ],
    "nn.max_pool3d": [(_op("nn.max_pool3d", pool_size=(2, 1, 2)), ((1, 2, 3, 2, 3),))],
    **{f"nn.global_avg_pool{rank}d": [(_op(f"nn.global_avg_pool{rank}d"), ((2, 2, *(3,) * rank),))] for rank in (1, 2, 3)},
    **{name: [(_op(name), ((2, 3),))] for name in DERIVATIVES},
    "clip": [(_op("clip", a_min=0.5, a_max=0.7), ((4, 4),)), (_op("clip", a_min=0.5), ((4, 4),))],
    "nn.gelu": [(_op("nn.gelu"), ((2, 3),)), (_op("nn.gelu", approximate="tanh"), ((2, 3),))],
    **{name: [(_op(name), ((2, 3),))] for name in ("sign", "ceil", "floor", "round", "zeros_like", "ones_like")},
}
"""Calls by the name of the operator, and the shapes of their variables."""

WITHOUT_VALUES = {
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite", "logical_not", "logical_and"),
    *("logical_or", "shape_of", "ndarray_size", "zeros", "ones", "argmax", "argmin"),
}
"""Operators whose results are not floating-point numbers, or that have no operands."""


def test_every_registered_gradient_has_a_case() -> None:
    """No gradient is registered without an example, and each example is of one."""
    registered = {op.name for op in list_ops() if has_gradient(op.name)}
    assert registered == {*CASES, *WITHOUT_VALUES}


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_gradients_agree_with_finite_differences(name: str, mode: str) -> None:
    """The gradient of a weighted sum of the result agrees with two-sided differences, for each operand."""
    generator = np.random.default_rng(7)
    for build, shapes in CASES[name]:
        low = 1.2 if name == "acosh" else 0.3
        inputs = [np.asarray(generator.uniform(low, low + 0.6, shape)) for shape in shapes]
        params = [var(f"x{i}", shape=shape, dtype="float64") for i, shape in enumerate(shapes)]
        body = infer_type(build(*params))
        assert isinstance(body.checked_type, TensorType)
        assert body.checked_type.dtype in FLOATS
        if body.checked_type.is_static:
            body = body * Constant(generator.uniform(0.5, 1.5, body.checked_type.concrete_shape))
        relay.testing.check_grad(Function(params, body), inputs, mode=mode, eps=1e-5, atol=1e-6, rtol=1e-5)


def test_an_operator_without_a_gradient_is_named() -> None:
    """The error names the operator and the way out."""
    x = var("x", shape=(2, 2))
    for mode in ("higher_order", "first_order"):
        with pytest.raises(GradientError, match="trilu does not have a registered gradient; register one with register_gradient"):
            relay.transform.gradient(Function([x], call_op("trilu", x)), mode=mode)
