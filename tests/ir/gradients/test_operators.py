"""Every gradient that is registered agrees with finite differences."""

from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest

from passat import relay
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Constant, Expr, Function, Tuple, TupleGetItem, var
from passat.ir.gradients.elementwise import DERIVATIVES
from passat.ir.gradients.registry import GradientError, has_gradient, operand_gradients
from passat.ir.infer import infer_type
from passat.ir.op import call_op, list_ops
from passat.ir.types import TensorType


def _scalar(value: float) -> Constant:
    return Constant(np.array(value))


def _sums_of_batch_norm(*args: Expr) -> Expr:
    """All three results, without scale and shift."""
    call = call_op("nn.batch_norm", *args, axis=-1, center=False, scale=False)
    return TupleGetItem(call, 0) * TupleGetItem(call, 1) + TupleGetItem(call, 2)


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
_TWICE = Constant(np.array([[0, 0], [2, 1]], np.int64))
_ONE_ZERO = Constant(np.array([[1.0, 0, 1], [0, 0, 1], [1, 1, 1], [0, 0, 0]]))
_CONV = {"strides": (2, 1), "padding": (1, 0, 2, 1), "dilation": (1, 2)}
_WINDOW = {"pool_size": (3, 2), "strides": (2, 1), "padding": (1, 0, 1, 1)}

CASES: dict[str, list[tuple[Build, Shapes]]] = {
    "copy": [(_op("copy"), ((2, 3),))],
    "annotation.checkpoint": [
        (_op("annotation.checkpoint"), ((2, 3),)),
        (lambda x, y: TupleGetItem(call_op("annotation.checkpoint", Tuple([x, y])), 1), ((2, 3), (4,))),
    ],
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
    "max": [(_op("max", axis=1), ((2, 3, 2),)), (_op("max"), ((2, 3),)), (_op("max"), ((),))],
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
    "nn.dense": [(_op("nn.dense"), ((2, 3), (4, 3))), (_op("nn.dense"), ((2, 3, 0), (4, 0)))],
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
        (_at("take", Constant(np.array([1, 0])), axis=0), ((3, 0),)),
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
    **{f"nn.global_max_pool{rank}d": [(_op(f"nn.global_max_pool{rank}d"), ((2, 2, *(3,) * rank),))] for rank in (1, 2, 3)},
    **{f"nn.global_avg_pool{rank}d": [(_op(f"nn.global_avg_pool{rank}d"), ((2, 2, *(3,) * rank),))] for rank in (1, 2, 3)},
    **{name: [(_op(name), ((2, 3),))] for name in DERIVATIVES},
    "clip": [(_op("clip", a_min=0.5, a_max=0.7), ((4, 4),)), (_op("clip", a_min=0.5), ((4, 4),))],
    "nn.gelu": [(_op("nn.gelu"), ((2, 3),)), (_op("nn.gelu", approximate="tanh"), ((2, 3),))],
    "nn.shrink": [(_op("nn.shrink", lambd=0.5, bias=0.1), ((4, 4),)), (_op("nn.shrink"), ((2, 3),))],
    "nn.thresholded_relu": [(_op("nn.thresholded_relu", alpha=0.6), ((4, 4),))],
    "nn.celu": [
        (lambda x: call_op("nn.celu", -x, alpha=0.7), ((2, 3),)),
        (_op("nn.celu"), ((2, 3),)),
        (lambda x: call_op("nn.celu", -x, alpha=0.0), ((2,),)),
    ],
    "nn.selu": [(lambda x: call_op("nn.selu", -x), ((2, 3),)), (_op("nn.selu"), ((2, 3),))],
    "nn.hard_sigmoid": [(_op("nn.hard_sigmoid", alpha=1.0, beta=0.3), ((4, 4),))],
    "nn.hard_swish": [(_op("nn.hard_swish"), ((2, 3),)), (lambda x: call_op("nn.hard_swish", x * _scalar(-8.0)), ((4, 4),))],
    "nn.prelu": [(lambda x, y: call_op("nn.prelu", x - _scalar(0.6), y), ((2, 3, 4), (3, 1)))],
    "contrib.quick_gelu": [(_op("contrib.quick_gelu"), ((2, 3),))],
    "contrib.bias_gelu": [(_op("contrib.bias_gelu"), ((2, 3), (3,)))],
    "contrib.fast_gelu": [(_op("contrib.fast_gelu"), ((2, 3), (3,)))],
    "contrib.fused_matmul": [
        (_op("contrib.fused_matmul", alpha=0.5, transpose_b=True), ((2, 3), (4, 3))),
        (_op("contrib.fused_matmul", transpose_a=True), ((2, 3, 2), (3, 2))),
    ],
    "fmod": [(lambda x, y: call_op("fmod", x * _scalar(-3.0), y), ((2, 3), (3,)))],
    "floor_mod": [(lambda x, y: call_op("floor_mod", x * _scalar(-3.0), y), ((2, 3), (3,)))],
    "prod": [
        (_op("prod", axis=1), ((2, 3, 2),)),
        (_op("prod"), ((2, 3),)),
        (_op("prod"), ((),)),
        (lambda x: call_op("prod", x * _ONE_ZERO, axis=1, keepdims=True), ((4, 3),)),
    ],
    "reduce_l1": [(lambda x: call_op("reduce_l1", x - _scalar(0.6), axis=1), ((2, 3),))],
    "reduce_l2": [(_op("reduce_l2", axis=(0, 2)), ((2, 3, 2),))],
    "reduce_log_sum": [(_op("reduce_log_sum", axis=1, keepdims=True), ((2, 3),))],
    "reduce_sum_square": [(_op("reduce_sum_square", axis=1), ((2, 3),))],
    "elemwise_mean": [(_of_tuple("elemwise_mean"), ((2, 3), (3,), (2, 1)))],
    "elemwise_max": [(_of_tuple("elemwise_max"), ((2, 3), (3,), (2, 1)))],
    "elemwise_min": [(_of_tuple("elemwise_min"), ((2, 3), (3,), (2, 1)))],
    "dyn.broadcast_to": [(_at("dyn.broadcast_to", Constant(np.array([4, 2, 3], np.int64))), ((2, 1),))],
    "dyn.full": [(_at("dyn.full", Constant(np.array([2, 3], np.int64))), ((),))],
    "einsum": [
        (_of_tuple("einsum", equation="ij,jk->ki"), ((2, 3), (3, 4))),
        (_of_tuple("einsum", equation="...ij,kj,j->...i"), ((5, 2, 3), (4, 3), (3,))),
        (_of_tuple("einsum", equation="ij->"), ((2, 3),)),
        (_of_tuple("einsum", equation="ij,ij"), ((2, 1), (2, 3))),
    ],
    "reverse": [(_op("reverse", axis=1), ((2, 3),))],
    "trilu": [(_op("trilu"), ((3, 4),)), (_op("trilu", k=-1, upper=False), ((2, 3, 3),))],
    "layout_transform": [(_op("layout_transform", src_layout="NCHW", dst_layout="NHWC2c"), ((1, 4, 2, 3),))],
    "nn.depth_to_space": [(_op("nn.depth_to_space", block_size=2, mode=mode), ((1, 8, 2, 3),)) for mode in ("DCR", "CRD")],
    "nn.space_to_depth": [(_op("nn.space_to_depth", block_size=2, mode=mode), ((1, 2, 4, 2),)) for mode in ("DCR", "CRD")],
    "nn.space_to_batch_nd": [(_op("nn.space_to_batch_nd", block_shape=(2, 2), paddings=((1, 0), (0, 1))), ((1, 3, 3, 2),))],
    "nn.batch_to_space_nd": [(_op("nn.batch_to_space_nd", block_shape=(2, 2), crops=((1, 0), (0, 1))), ((4, 2, 2, 2),))],
    "tile": [
        (_op("tile", reps=(2, 1, 3)), ((2, 3),)),
        (_op("tile", reps=(2,)), ((2, 3),)),
        (_op("tile", reps=()), ((),)),
        (_op("tile", reps=(0, 2)), ((2, 3),)),
    ],
    "repeat": [
        (_op("repeat", repeats=2, axis=1), ((2, 3, 2),)),
        (_op("repeat", repeats=3), ((2, 3),)),
        (_op("repeat", repeats=0, axis=1), ((2, 3),)),
    ],
    "scatter_elements": [
        (lambda x, y: call_op("scatter_elements", x, Constant(np.array([[1, 0, 1]], np.int64)), y, axis=0), ((2, 3), (1, 3))),
        (lambda x, y: call_op("scatter_elements", x, _TWICE, y, axis=1, reduction="add"), ((2, 3), (2, 2))),
    ],
    "scatter_nd": [
        (lambda x, y: call_op("scatter_nd", x, Constant(np.array([[1]], np.int64)), y), ((2, 3), (1, 3))),
        (lambda x, y: call_op("scatter_nd", x, Constant(np.array([[1], [1]], np.int64)), y, reduction="add"), ((2, 3), (2, 3))),
    ],
    "topk": [(lambda x: TupleGetItem(call_op("topk", x, k=2, axis=0), 0), ((4, 3),))],
    "dyn.topk": [(lambda x: TupleGetItem(call_op("dyn.topk", x, Constant(np.array([2], np.int64)), axis=0), 0), ((4, 3),))],
    "nn.fast_softmax": [(_op("nn.fast_softmax", axis=1), ((2, 3, 2),))],
    "nn.batch_norm": [
        (lambda *args: TupleGetItem(call_op("nn.batch_norm", *args, epsilon=0.01), 0), ((2, 3, 2), *((3,),) * 4)),
        (_sums_of_batch_norm, ((2, 3), *((3,),) * 4)),
    ],
    "nn.layer_norm": [
        (_op("nn.layer_norm", epsilon=0.1), ((2, 4), (4,), (4,))),
        (_op("nn.layer_norm", axis=1), ((2, 3, 2), (3, 2), (3, 2))),
        (_at("nn.layer_norm", Tuple(())), ((2, 4), (4,))),
    ],
    "nn.instance_norm": [
        (_op("nn.instance_norm"), ((2, 3, 4), (3,), (3,))),
        (_op("nn.instance_norm", axis=-1, epsilon=0.1), ((2, 4, 3), (3,), (3,))),
    ],
    "nn.group_norm": [
        (_op("nn.group_norm", num_groups=2), ((2, 4, 3), (4,), (4,))),
        (_op("nn.group_norm", num_groups=2, axis=3, epsilon=0.1), ((2, 2, 2, 4), (4,), (4,))),
    ],
    "nn.rms_norm": [(_op("nn.rms_norm"), ((2, 4), (4,))), (_op("nn.rms_norm", axis=1, epsilon=0.1), ((2, 3, 2), (3, 2)))],
    "nn.l2_normalize": [
        (_op("nn.l2_normalize", eps=1e-6, axis=1), ((2, 3),)),
        (_op("nn.l2_normalize", eps=9.0, axis=(0, 1)), ((2, 3, 2),)),
        (_op("nn.l2_normalize", eps=0.1), ((2, 3),)),
    ],
    "nn.lp_normalize": [(_op("nn.lp_normalize", p=p, axis=1), ((2, 3, 2),)) for p in (1, 2)],
    "nn.lrn": [(_op("nn.lrn", size=3, alpha=0.7), ((2, 5, 2),)), (_op("nn.lrn", size=2, axis=-1, alpha=0.5, beta=0.4), ((2, 4),))],
    "nn.dropout": [(lambda x: TupleGetItem(call_op("nn.dropout", x), 0), ((2, 3),))],
    **{name: [(_op(name), ((2, 3),))] for name in ("sign", "ceil", "floor", "round", "trunc", "zeros_like", "ones_like")},
}
"""Calls by the name of the operator, and the shapes of their variables."""

WITHOUT_VALUES = {
    *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite", "logical_not", "logical_and"),
    *("logical_or", "logical_xor", "all", "any", "shape_of", "ndarray_size", "zeros", "ones", "argmax", "argmin"),
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


@pytest.mark.parametrize("mode", ["higher_order", "first_order"])
@pytest.mark.parametrize(
    ("build", "shapes"),
    [
        (_op("nn.group_norm", num_groups=2), ((0, 4, 3), (4,), (4,))),
        (_op("nn.group_norm", num_groups=2), ((2, 4, 0), (4,), (4,))),
        (_op("nn.instance_norm"), ((2, 3, 0), (3,), (3,))),
        (_op("nn.layer_norm"), ((3, 0), (0,), (0,))),
        (_op("nn.max_pool2d", pool_size=(2, 2)), ((2, 0, 4, 4),)),
        (_op("nn.avg_pool2d", pool_size=(2, 2)), ((2, 0, 4, 4),)),
    ],
)
def test_operands_of_empty_results_have_gradients_of_zeros(build: Build, shapes: Shapes, mode: str) -> None:
    params = [var(f"x{i}", shape=shape) for i, shape in enumerate(shapes)]
    function = relay.transform.gradient(Function(params, infer_type(build(*params))), mode=mode)
    _, gradients = relay.create_executor("debug").evaluate(function)(*(np.ones(shape, "float32") for shape in shapes))
    for gradient, shape in zip(gradients, shapes, strict=True):
        np.testing.assert_array_equal(gradient.numpy(), np.zeros(shape, "float32"))


@pytest.mark.parametrize("name", ["nn.global_max_pool2d", "nn.global_avg_pool2d"])
def test_empty_operands_have_gradients_of_zeros(name: str) -> None:
    """A pooling of no elements is an error, which its gradient does not read."""
    call = infer_type(_op(name)(var("x", shape=(1, 2, 0, 3))))
    assert isinstance(call, Call)
    assert operand_gradients(call, var("result", shape=(1, 2, 1, 1)), relay.ones((1, 2, 1, 1), "float32")) == [None]


def test_an_operator_without_a_gradient_is_named() -> None:
    """The error names the operator and the way out."""
    x = var("x", shape=(2, 2, 2))
    for mode in ("higher_order", "first_order"):
        with pytest.raises(
            GradientError, match=r"nn\.global_lp_pool does not have a registered gradient; register one with register_gradient"
        ):
            relay.transform.gradient(Function([x], call_op("nn.global_lp_pool", x)), mode=mode)
