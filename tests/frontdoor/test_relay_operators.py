"""Relay's operator functions: parameters, the expressions that they build, their values, and rejected arguments."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from passat import relay, tir
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.ir.op import OpTypeError, call_op
from passat.ir.types import tensor_type
from passat.relay import derived, derived_nn
from passat.runner import Runner

RNG = np.random.default_rng(1)
x = relay.var("x", shape=(2, 3))
y = relay.var("y", shape=(2, 3))
image = relay.var("image", shape=(1, 4, 6, 6))
weight = relay.var("weight", shape=(8, 4, 3, 3))
unknown = relay.var("unknown")
loose: Any = relay  # for arguments that are not of the declared types
X = RNG.standard_normal((2, 3)).astype(np.float32)


def computed(expr: relay.Expr, **values: Any) -> Any:
    """The value of an expression whose free variables have the given values; X for %x."""
    given = {"x": X, **values}
    binds = {var: given[var.name_hint] for var in relay.analysis.free_vars(expr)}
    result = relay.create_executor().evaluate(expr, binds)
    return [part.numpy() for part in result] if len(getattr(result, "fields", ())) else result.numpy()


def attrs(expr: relay.Expr) -> dict[str, Any]:
    assert isinstance(expr, relay.Call)
    return dict(expr.attrs)


@pytest.mark.parametrize(
    ("name", "function"), [(name, getattr(module, name)) for module in (derived, derived_nn) for name in module.__all__]
)
def test_derived_functions_have_signatures_and_documentation(name: str, function: Callable[..., Any]) -> None:
    assert function.__doc__
    assert function.__name__ == name
    assert "self" not in inspect.signature(function).parameters


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (relay.exp, ["data"]),
        (relay.add, ["lhs", "rhs"]),
        (relay.sum, ["data", "axis", "keepdims", "exclude"]),
        (relay.transpose, ["data", "axes"]),
        (relay.cast, ["data", "dtype"]),
        (relay.concatenate, ["data", "axis"]),
        (relay.split, ["data", "indices_or_sections", "axis"]),
        (relay.expand_dims, ["data", "axis", "num_newaxis"]),
        (relay.squeeze, ["data", "axis"]),
        (relay.where, ["condition", "x", "y"]),
        (relay.one_hot, ["indices", "on_value", "off_value", "depth", "axis", "dtype"]),
        (relay.nn.softmax, ["data", "axis"]),
        (relay.nn.bias_add, ["data", "bias", "axis"]),
        (relay.nn.batch_norm, ["data", "gamma", "beta", "moving_mean", "moving_var", "axis", "epsilon", "center", "scale"]),
        (relay.nn.lrn, ["data", "size", "axis", "bias", "alpha", "beta"]),
        (relay.nn.leaky_relu, ["data", "alpha"]),
    ],
)
def test_parameters_are_relays(function: Callable[..., Any], names: list[str]) -> None:
    assert list(inspect.signature(function).parameters) == names


def test_by_position_and_by_name() -> None:
    by_name = relay.sum(data=x, axis=(0,), keepdims=True)
    relay.assert_structural_equal(relay.sum(x, [0], True), by_name)
    relay.assert_structural_equal(relay.add(rhs=x, lhs=y), relay.add(y, x))


@pytest.mark.parametrize(
    ("build", "key", "value"),
    [
        (lambda: loose.sum(x, np.int64(1)), "axis", 1),
        (lambda: relay.nn.leaky_relu(x, 1), "alpha", 1.0),
        (lambda: relay.transpose(x, [1, 0]), "axes", (1, 0)),
        (lambda: loose.transpose(x, np.array([1, 0])), "axes", (1, 0)),
        (lambda: loose.cast(x, np.float16), "dtype", "float16"),
        (lambda: loose.cast(x, np.dtype("int8")), "dtype", "int8"),
        (lambda: loose.trilu(x, relay.const(1)), "k", 1),
        (lambda: relay.reshape(x, 6), "newshape", (6,)),
        (lambda: relay.reshape(x, relay.const([3, -1])), "newshape", (3, -1)),
        (lambda: loose.reshape(x, np.array([3, 2])), "newshape", (3, 2)),
        (lambda: relay.zeros(3), "shape", (3,)),
        (lambda: relay.full(relay.const(1.0), (2,)), "dtype", None),
        (lambda: relay.nn.conv2d(image, weight, 2, 1), "padding", (1, 1, 1, 1)),
        (lambda: relay.nn.conv2d(image, weight, 2, (1, 2)), "padding", (1, 2, 1, 2)),
        (lambda: relay.nn.conv2d(image, weight, 2), "strides", (2, 2)),
        (lambda: relay.nn.conv2d(image, weight, kernel_size=3), "kernel_size", (3, 3)),
        (lambda: relay.nn.max_pool2d(image, 2, 2, 1, (0, 1)), "padding", (0, 1, 0, 1)),
        (lambda: relay.nn.avg_pool2d(image, (2, 2), count_include_pad=True), "count_include_pad", True),
        (lambda: relay.nn.pad(x, [(0, 1), (1, 0)], relay.const(2.0)), "pad_value", 2.0),
        (lambda: relay.nn.pad(x, ((0, 1), (1, 0)), 0, "edge"), "pad_mode", "edge"),
        (lambda: relay.strided_slice(x, [0], [2], [1], axes=[1]), "axes", (1,)),
        (lambda: relay.strided_slice(x, [0, 0], [2, 3], [2]), "strides", (2, 1)),
        (lambda: relay.strided_slice(x, [0, 0], [2, 3], [1], axes=[0, 1]), "strides", None),
    ],
)
def test_python_values_become_attributes(build: Callable[[], relay.Expr], key: str, value: object) -> None:
    found = attrs(build())[key]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: relay.sum(x, axis=1), X.sum(1)),
        (lambda: relay.mean(x, 0, True), X.mean(0, keepdims=True)),
        (lambda: relay.max(x, axis=1, exclude=True), X.max(0)),
        (lambda: relay.argmax(x), X.argmax()),
        (lambda: relay.argmin(x, [1], keepdims=True), X.argmin(1, keepdims=True)),
        (lambda: relay.cumsum(x), X.cumsum()),
        (lambda: relay.cumsum(relay.cast(x, "int8"), 1, "int32"), X.astype(np.int8).cumsum(1)),
        (lambda: relay.transpose(x), X.T),
        (lambda: relay.reshape(x, (0, -1, 1)), X.reshape(2, 3, 1)),
        (lambda: relay.clip(x, -1, 1), X.clip(-1, 1)),
        (lambda: relay.mod(relay.const([-7, 7]), relay.const([4, -4])), [-3, 3]),
        (lambda: relay.concatenate([x, x], 1), np.concatenate([X, X], 1)),
        (lambda: relay.concatenate(relay.split(x, 3, 1), 0), X.T.reshape(6, 1)),
        (lambda: relay.stack((x, x), 0), np.stack([X, X])),
        (lambda: relay.einsum([x, x], "ij,ij->i"), (X * X).sum(1)),
        (lambda: relay.strided_slice(x, (0, 1), (2, 3)), X[:, 1:3]),
        (lambda: relay.strided_slice(x, [0, 0], [2, 3], [2]), X[::2]),
        (lambda: relay.strided_slice(x, [0, 1], [None]), X[:, 1:]),
        (lambda: relay.strided_slice(x, [None, 2], [2, None], [1, -1]), X[:, 2:0:-1]),
        (lambda: relay.strided_slice(x, (0, 1), (2, 1), slice_mode="size"), X[:, 1:2]),
        (lambda: relay.strided_slice(x, (1, 1), (-1, -1), slice_mode="size"), X[1:, 1:]),
        (lambda: relay.strided_slice(x, relay.const([0, 1]), relay.const([2, 3])), X[:, 1:3]),
        (lambda: relay.strided_slice(x, relay.sum(relay.const([[0], [1]]), 1), relay.const([2, 3]), [1]), X[:, 1:3]),
        (lambda: relay.take(x, relay.const([2, 0]), 1), X[:, [2, 0]]),
        (lambda: relay.take(x, relay.const([-1, 4]), 1, mode="wrap"), X[:, [2, 1]]),
        (lambda: relay.take(x, relay.const([-1, 4]), 1), X[:, [0, 2]]),
        (lambda: relay.take(x, relay.const([7])), X.reshape(-1)[[5]]),
        (lambda: relay.gather(x, 1, relay.const([[0, 1], [2, 2]])), np.take_along_axis(X, np.array([[0, 1], [2, 2]]), 1)),
        (lambda: relay.gather_nd(x, relay.const([[0, 1], [2, 0]])), X[[0, 1], [2, 0]]),
        (
            lambda: relay.scatter_elements(x, relay.const([[1], [0]]), relay.const([[5.0], [6.0]]), 1),
            [[X[0, 0], 5, X[0, 2]], [6, *X[1, 1:]]],
        ),
        (lambda: relay.scatter_nd(x, relay.const([[0], [1]]), relay.const([5.0]), "add"), X + np.array([[0, 5, 0], [0, 0, 0]])),
        (lambda: relay.zeros((2,), "int8"), [0, 0]),
        (lambda: relay.ones((2,)), [1, 1]),
        (lambda: relay.full(relay.const(3.0), (2,), "int32"), [3, 3]),
        (lambda: relay.arange(relay.const(3.0)), [0, 1, 2]),
        (lambda: relay.arange(1, 7, 2, dtype="int32"), [1, 3, 5]),
        (lambda: relay.tile(x, (1, 2)), np.tile(X, (1, 2))),
        (lambda: relay.repeat(x, 2, 0), X.repeat(2, 0)),
        (lambda: relay.broadcast_to(relay.const([1.0]), (2, 2)), np.ones((2, 2))),
        (lambda: relay.shape_of(x), [2, 3]),
        (lambda: relay.ndarray_size(x), 6),
        (lambda: relay.shape_of(relay.reshape_like(x, relay.zeros((5, 3, 1), "float32"), lhs_begin=1, rhs_begin=1)), [2, 3, 1]),
        (lambda: relay.shape_of(relay.reshape_like(x, relay.zeros((2, 1), "float32"), lhs_end=1, rhs_end=2)), [2, 1, 3]),
        (lambda: relay.shape_of(x, "float32"), [2.0, 3.0]),
        (lambda: relay.ndarray_size(x, "uint8"), 6),
        (lambda: relay.where(x < relay.const(0.0), relay.zeros_like(x), x), np.maximum(X, 0)),
        (lambda: relay.one_hot(relay.const([1]), relay.const(1.0), relay.const(0.0), 3, -1, "float32"), [[0, 1, 0]]),
        (lambda: relay.topk(x, 1, ret_type="values"), X.max(1, keepdims=True)),
        (lambda: relay.topk(x, 1, is_ascend=True, ret_type="indices"), X.argmin(1, keepdims=True)),
        (lambda: relay.nn.dense(x, y, units=2), X @ X.T),
        (lambda: relay.nn.matmul(x, y, transpose_b=True), X @ X.T),
        (lambda: relay.nn.batch_matmul(relay.expand_dims(x, 0), relay.expand_dims(y, 0)), (X @ X.T)[None]),
        (lambda: relay.nn.dropout(x), X),
        (lambda: relay.nn.prelu(relay.const([[-1.0, -1.0]]), relay.const([2.0, 3.0])), [[-2, -3]]),
        (lambda: relay.nn.prelu(relay.const([[[-1.0], [-1.0]]]), relay.const([2.0, 3.0]), 1), [[[-2], [-3]]]),
        (lambda: relay.nn.pad(x, ((1, 0), (0, 0)), 7.0), np.pad(X, ((1, 0), (0, 0)), constant_values=7)),
        (lambda: relay.nn.batch_flatten(relay.expand_dims(x, 2)), X),
        (lambda: relay.nn.max_pool2d(relay.reshape(x, (1, 1, 2, 3)), (2, 3)), X.max().reshape(1, 1, 1, 1)),
    ],
)
def test_values_of_the_functions(build: Callable[[], relay.Expr], expected: Any) -> None:
    np.testing.assert_allclose(computed(build(), y=X), expected, rtol=1e-5)


def test_topk_gives_both_with_the_wanted_type_of_indices() -> None:
    values, indices = computed(relay.topk(x, 2))
    np.testing.assert_array_equal(values, np.sort(X)[:, :0:-1])
    assert indices.dtype == np.int32
    both = relay.topk(x, 2, dtype="int64")
    assert isinstance(both, relay.Call)
    assert computed(both)[1].dtype == np.int64
    assert len(relay.topk(x, relay.var("k", "int64"), dtype="int64")) == 2  # type: ignore[arg-type]  # a call of a tuple


def test_dynamic_sizes_build_dynamic_operators() -> None:
    n = relay.var("n", shape=(2,), dtype="int64")
    shape = np.array([3, 2])
    assert computed(relay.reshape(x, n), n=shape).shape == (3, 2)
    assert computed(relay.broadcast_to(relay.const(1.0), n), n=shape).shape == (3, 2)
    assert computed(relay.zeros(n, "int8"), n=shape).dtype == np.int8
    assert computed(relay.ones(n), n=shape).sum() == 6
    assert computed(relay.full(relay.const(2.0), n), n=shape).sum() == 12
    assert computed(relay.tile(x, n), n=shape).shape == (6, 6)
    np.testing.assert_array_equal(computed(relay.strided_slice(x, (0, 0), n), n=np.array([1, 2])), X[:1, :2])
    hot = [relay.one_hot(places, relay.const(1.0), relay.const(0.0), 3) for places in (n, n.astype("int8"), n.astype("float16"))]
    hot += [relay.one_hot(relay.const([-1, 2]), relay.const(1.0), relay.const(0.0), depth) for depth in (3, relay.const(3))]
    hot.append(relay.one_hot(relay.const([-1.0, 2.0]), relay.const(1.0), relay.const(0.0), 3))
    hot.append(relay.one_hot(n, relay.const(1.0), relay.const(0.0), relay.sum(relay.const([1, 2]))))
    for expr in hot:
        np.testing.assert_array_equal(computed(expr, n=np.array([-1, 2])), [[0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(computed(relay.take(x, n, 1), n=np.array([-1, 7])), X[:, [0, 2]])
    np.testing.assert_array_equal(computed(relay.take(x, n, 1, mode="wrap"), n=np.array([-1, 7])), X[:, [2, 1]])
    np.testing.assert_array_equal(computed(relay.take(x, n, 1, mode="fast"), n=np.array([0, 1])), X[:, :2])
    np.testing.assert_array_equal(computed(relay.strided_slice(x, n, n + relay.const(1, "int64")), n=np.array([1, 2])), X[1:2, 2:3])
    np.testing.assert_array_equal(computed(relay.strided_slice(x, n, n, axes=[1, 0]), n=np.array([0, 0])).shape, (0, 0))
    widths = relay.var("w", shape=(2, 2), dtype="int64")
    np.testing.assert_array_equal(
        computed(relay.nn.pad(x, widths, 1), w=np.array([[1, 0], [0, 2]])), np.pad(X, ((1, 0), (0, 2)), constant_values=1)
    )
    fill = relay.var("f")
    np.testing.assert_array_equal(
        computed(relay.nn.pad(x, ((1, 0), (0, 2)), fill), f=np.float32(4)), np.pad(X, ((1, 0), (0, 2)), constant_values=4)
    )


def test_normalizations_without_scale_and_shift() -> None:
    gamma, beta = relay.var("gamma", shape=(3,)), relay.var("beta", shape=(3,))
    given = {"gamma": np.float32([2, 2, 2]), "beta": np.float32([1, 1, 1])}  # type: ignore[arg-type]
    plain = (X - X.mean(1, keepdims=True)) / X.std(1, keepdims=True)
    np.testing.assert_allclose(computed(relay.nn.layer_norm(x, gamma, beta), **given), plain * 2 + 1, rtol=1e-3)
    np.testing.assert_allclose(computed(relay.nn.layer_norm(x, gamma, beta, center=False), **given), plain * 2, rtol=1e-3)
    np.testing.assert_allclose(computed(relay.nn.layer_norm(x, gamma, beta, 1, scale=False), **given), plain + 1, rtol=1e-3)
    channels = relay.var("gamma", shape=(4,)), relay.var("beta", shape=(4,))
    data = {"image": RNG.standard_normal((1, 4, 6, 6)).astype(np.float32), "gamma": np.ones(4, np.float32), "beta": np.zeros(4, np.float32)}
    instance = computed(relay.nn.instance_norm(image, *channels), **data)
    np.testing.assert_allclose(instance, computed(relay.nn.group_norm(image, *channels, num_groups=4), **data), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(instance.mean((2, 3)), 0, atol=1e-5)


def test_a_batch_norm_is_decomposed() -> None:
    v = relay.const(np.ones(3))
    out, mean, var = relay.nn.batch_norm(x, v, v, v, v)
    assert [part.checked_type.shape for part in map(relay.testing.run_infer_type, (out, mean, var))] == [(2, 3), (3,), (3,)]  # type: ignore[attr-defined]


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_windows_over_each_number_of_dimensions(rank: int) -> None:
    data = relay.var("d", shape=(1, 2, *(5,) * rank))
    kernel = relay.const(np.ones((3, 2, *(3,) * rank)))
    back = relay.const(np.ones((2, 3, *(3,) * rank)))
    shapes = {
        f"conv{rank}d": (getattr(relay.nn, f"conv{rank}d")(data, kernel, padding=1, strides=2), (1, 3, *(3,) * rank)),
        f"conv{rank}d_transpose": (
            getattr(relay.nn, f"conv{rank}d_transpose")(data, back, strides=2, output_padding=1),
            (1, 3, *(12,) * rank),
        ),
        f"max_pool{rank}d": (getattr(relay.nn, f"max_pool{rank}d")(data, 2, 2, ceil_mode=True), (1, 2, *(3,) * rank)),
        f"avg_pool{rank}d": (getattr(relay.nn, f"avg_pool{rank}d")(data, 3), (1, 2, *(3,) * rank)),
    }
    for name, (expr, shape) in shapes.items():
        assert relay.testing.run_infer_type(expr).checked_type == relay.TensorType(shape), name


def test_element_types_and_units_that_agree_are_accepted() -> None:
    assert relay.nn.conv2d(image, weight, out_dtype="float32", out_layout="NCHW")
    assert relay.nn.dense(relay.exp(x), y, 2, "float32")
    assert relay.nn.dense(unknown, unknown, 5)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: loose.add(x, 1.0), TypeError, r"relay.add: rhs must be an expression, not a float; write relay.const\(1.0\)"),
        (lambda: loose.exp("x"), TypeError, "relay.exp: data must be an expression, not a str$"),
        (lambda: loose.add(x), TypeError, r"relay.add\(lhs, rhs\): missing a required argument: 'rhs'"),
        (lambda: loose.nn.softmax(x, axes=1), TypeError, r"relay.nn.softmax\(data, axis=-1\): got an unexpected keyword argument 'axes'"),
        (lambda: loose.transpose(x, "ab"), TypeError, r"relay.transpose: axes: expected tuple\[int, ...\] \| None, got 'ab'"),
        (lambda: loose.sum(x, 1.5), TypeError, "relay.sum: axis: expected .*, got 1.5"),
        (lambda: relay.concatenate([], 0), ValueError, "relay.concatenate requires data to be non-empty"),
        (lambda: loose.concatenate([x, 1], 0), TypeError, "relay.concatenate: field 1 of data must be an expression"),
        (lambda: loose.reshape(x, (2, relay.Any())), TypeError, r"relay.reshape: newshape: expected tuple\[int, ...\]"),
        (
            lambda: relay.nn.conv2d(image, weight, out_layout="NHWD"),
            ValueError,
            "relay.nn.conv2d: out_layout: 'NCHW' and 'NHWD' have different axes",
        ),
        (
            lambda: relay.nn.conv2d_transpose(image, weight, out_dtype="int32"),
            ValueError,
            "out_dtype='int32' is not supported: .* which is float32",
        ),
        (lambda: relay.nn.conv2d_transpose(unknown, weight, out_dtype="int32"), ValueError, "which is not known here"),
        (lambda: relay.nn.dense(x, y, units=3), ValueError, r"units=3, but the weight Tensor\[\(2, 3\), float32\] gives 2"),
        (lambda: relay.nn.matmul(x, y, units=2), ValueError, "units=2, but the weight .* gives 3"),
        (lambda: relay.nn.conv2d(image, weight, padding=(1, 2, 3)), OpTypeError, "padding"),
        (lambda: relay.nn.max_pool2d(image, out_layout="NHWC"), ValueError, "out_layout='NHWC' is not supported"),
        (lambda: relay.nn.layer_norm(image, weight, weight, axis=1), ValueError, "axis=1 is not supported; the last axis is"),
        (lambda: relay.nn.depth_to_space(image, 2, "NHWC"), ValueError, "relay.nn.depth_to_space: layout='NHWC' is not supported"),
        (lambda: relay.nn.space_to_depth(image, 2, "NHWC"), ValueError, "layout='NHWC' is not supported; 'NCHW' is"),
        (lambda: relay.nn.prelu(unknown, x), ValueError, "relay.nn.prelu: the number of dimensions of data must be known here"),
        (lambda: relay.nn.pad(unknown, x, 1.0), ValueError, "the element type of data must be known"),
        (lambda: relay.take(x, relay.const([0]), batch_dims=1), ValueError, "relay.take: batch_dims=1 is not supported; 0 is"),
        (lambda: relay.take(x, relay.const([0]), mode="none"), ValueError, "mode='none' is not supported; 'clip' or 'wrap' or 'fast' is"),
        (lambda: relay.gather_nd(x, relay.const([[0]]), batch_dims=1), ValueError, "batch_dims=1 is not supported"),
        (lambda: relay.gather_nd(x, unknown), ValueError, "the number of dimensions of indices must be known here"),
        (lambda: relay.scatter_elements(x, x, x, reduction="mean"), ValueError, "reduction='mean' is not supported; 'update' or"),
        (lambda: relay.scatter_nd(x, x, x, "none"), ValueError, "relay.scatter_nd: mode='none' is not supported"),
        (lambda: relay.strided_slice(x, [0], [1], slice_mode="both"), ValueError, "slice_mode='both' is not supported; 'end' or 'size' is"),
        (lambda: relay.strided_slice(x, [-1], [1], slice_mode="size"), ValueError, "count from the front"),
        (lambda: relay.strided_slice(x, [0, 0], [1], slice_mode="size"), ValueError, "name different numbers of axes"),
        (lambda: relay.argmax(x, (0, 1)), ValueError, r"relay.argmax: axis=\(0, 1\) is not supported; one axis is, or None for all"),
        (lambda: relay.argmax(x, 0, exclude=True), ValueError, "exclude=True is not supported"),
        (lambda: relay.argmin(x, keepdims=True), ValueError, "keepdims=True is not supported"),
        (lambda: relay.topk(x, ret_type="all"), ValueError, "ret_type='all' is not supported"),
    ],
)
def test_rejected_arguments(build: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        build()


def test_asking_for_types_leaves_variables_without_one_alone() -> None:
    value = relay.var("v")
    assert relay.nn.dense(relay.exp(value), y, out_dtype="float32").attrs.out_dtype == "float32"
    bound = relay.Let(value, x, relay.exp(value))
    assert relay.testing.run_infer_type(bound).checked_type == relay.TensorType((2, 3))


@pytest.mark.parametrize(
    ("source", "target", "shape"),
    [
        ("NHWC", "NCHW", (1, 8, 2, 3)),
        ("NHWC", "NCHW4c", (1, 2, 2, 3, 4)),
        ("NCHW4c", "NHWC", (1, 2, 3, 8)),
        ("NCHW4c", "NCHW2c", (1, 4, 2, 3, 2)),
        ("NCHW4c", "NCHW4c", (1, 2, 2, 3, 4)),
        ("OIHW", "OIHW4i2o", (4, 2, 2, 3, 4, 2)),
    ],
)
def test_layouts_there_and_back(source: str, target: str, shape: tuple[int, ...]) -> None:
    whole = {"N": 1, "C": 8, "H": 2, "W": 3, "O": 8, "I": 8}
    first = {letter.upper(): int(size) for size, letter in re.findall(r"(\d+)([a-z])", source)}
    sizes = [first[letter.upper()] if letter.islower() else whole[letter] // first.get(letter, 1) for letter in re.sub(r"\d", "", source)]
    data = np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)
    y = relay.var("y", shape=sizes)
    there = relay.layout_transform(y, source, target)
    found = relay.create_executor().evaluate(relay.Function([y], relay.Tuple([there, relay.layout_transform(there, target, source)])))(data)
    assert found[0].numpy().shape == shape
    np.testing.assert_array_equal(found[1].numpy(), data)


@pytest.mark.parametrize(("source", "target"), [("NCHW", "NCH"), ("NCHW", "NCHW4d"), ("NCHW", "NCHWc"), ("NC HW", "NCHW")])
def test_layouts_of_different_axes(source: str, target: str) -> None:
    with pytest.raises(ValueError, match=r"relay\.layout_transform: "):
        relay.layout_transform(relay.var("y", shape=(1, 8, 2, 3)), source, target)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC", "NCHW2c"])
def test_upsampling_repeats_the_nearest_element(layout: str) -> None:
    data = relay.layout_transform(image, "NCHW", layout)
    made = relay.nn.upsampling(data, scale_h=2, scale_w=relay.const(3), layout=layout)
    given = RNG.standard_normal((1, 4, 6, 6)).astype(np.float32)
    found = computed(relay.layout_transform(made, layout, "NCHW"), image=given)
    assert np.array_equal(found, given.repeat(2, 2).repeat(3, 3))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scale_h": 1.5}, "scale_h=1.5 is not supported; an integer of 1 or more is"),
        ({"method": "bilinear"}, "method='bilinear' is not supported; 'nearest_neighbor' is"),
        ({"layout": "NCW"}, "layout='NCW' is not supported; a layout with the whole axis H is"),
        ({"layout": "NCHW2h"}, "layout='NCHW2h' is not supported; a layout with the whole axis H is"),
    ],
)
def test_rejected_upsamplings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        loose.nn.upsampling(image, **arguments)


def test_results_of_convolutions_in_another_layout() -> None:
    plain, blocks = relay.nn.conv2d(image, weight, out_layout="NHWC"), relay.nn.conv2d(image, weight, out_layout="NCHW4c")
    assert relay.testing.run_infer_type(plain).checked_type == relay.TensorType((1, 4, 4, 8))
    assert relay.testing.run_infer_type(blocks).checked_type == relay.TensorType((1, 2, 4, 4, 4))
    given = {"image": RNG.standard_normal((1, 4, 6, 6)).astype(np.float32), "weight": RNG.standard_normal((8, 4, 3, 3)).astype(np.float32)}
    whole = computed(relay.nn.conv2d(image, weight), **given)
    np.testing.assert_array_equal(computed(plain, **given), whole.transpose(0, 2, 3, 1))
    np.testing.assert_array_equal(computed(blocks, **given), whole.reshape(1, 2, 4, 4, 4).transpose(0, 1, 3, 4, 2))


def test_a_debug_function_gets_the_value_and_is_kept_by_optimizations() -> None:
    seen: list[Any] = []
    once = relay.op.debug(relay.exp(x) + relay.exp(x), lambda value: seen.append(value.numpy()))
    module, _ = relay.optimize(IRModule.from_expr(once * relay.const(0.0)), target="llvm")
    assert "debug(" in module.astext()
    result = relay.create_executor(mod=module).evaluate()(X)
    np.testing.assert_allclose(seen, [2 * np.exp(X)], rtol=1e-6)
    np.testing.assert_array_equal(result.numpy(), np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(computed(relay.op.debug(x)), X)


@pytest.mark.parametrize(
    ("newshape", "shape"), [((4, 0, 2), (4, 3, 2)), ((2, 0, 0), (2, 3, 4)), ((0, -1), (3, 8)), ((-1, 0), (6, 4)), ((0, -3), (2, 12))]
)
def test_entries_of_reverse_reshape_count_from_the_end(newshape: tuple[int, ...], shape: tuple[int, ...]) -> None:
    made = relay.reverse_reshape(relay.var("t", shape=(2, 3, 4)), newshape)
    assert relay.testing.run_infer_type(made).checked_type == relay.TensorType(shape)
    with pytest.raises(ValueError, match="the shape of data must be known here"):
        relay.reverse_reshape(unknown, newshape)
    with pytest.raises(ValueError, match="splits a size; write the two sizes"):
        relay.reverse_reshape(x, (-4, 1, 2, 0))


def test_integers_of_loops_are_attributes() -> None:
    shape: Any = (tir.const(2, "int64"), 3)
    assert relay.full(relay.const(1.0), shape=shape).attrs["shape"] == (2, 3)


def _hot(depth: int, kind: str, **arguments: Any) -> relay.Expr:
    indices, dtype = relay.var("i", shape=arguments.pop("shape", (3,)), dtype=kind), arguments.get("dtype", "float32")
    return relay.one_hot(indices, relay.const(1, dtype), relay.const(0, dtype), depth, arguments.pop("axis", -1), dtype)


def _transposed(extra: int, *, bias: bool = False, **arguments: Any) -> relay.Expr:
    data, kernel = relay.var("d", shape=(1, 4, 5, 5)), relay.const(RNG.standard_normal((4, 2, 3, 3)).astype("float32"))
    made = relay.nn.conv2d_transpose(data, kernel, channels=2, kernel_size=(3, 3), output_padding=(extra, 1), **arguments)
    return relay.nn.bias_add(made, relay.const(np.array([1, 2], "float32"))) if bias else made


EMPTY = relay.const(np.zeros(0, "int64"))


@pytest.mark.parametrize(
    "expr",
    [
        _hot(0, "int32"),
        _hot(0, "int64", axis=0, shape=(3, 2)),
        _hot(0, "int64", shape=()),
        _hot(4, "int32"),
        _hot(4, "int32", dtype="int32"),
        _hot(4, "int32", dtype="int64"),
        _hot(4, "int64", dtype="int32"),
        relay.nn.pad(relay.var("s", shape=()), []),
        call_op("dyn.pad", relay.var("s", shape=()), EMPTY, relay.const(1.0)),
        call_op("dyn.strided_slice", relay.var("s", shape=()), EMPTY, EMPTY, EMPTY, EMPTY),
        _transposed(2, strides=(2, 2), padding=(1, 1)),
        _transposed(5, strides=(2, 2), padding=(1, 1, 2, 2), bias=True),
        _transposed(2, strides=(2, 2), dilation=(3, 1)),
    ],
)
def test_onnx_runtime_runs_what_is_written(expr: relay.Expr) -> None:
    """It has no kernel for a depth of 0, for scalars that are padded or sliced, and for output paddings of a stride and more."""
    module = relay.transform.InferType()(IRModule.from_expr(relay.Function(relay.analysis.free_vars(expr), expr)))
    feeds = {}
    for param in module["main"].params:
        type_ = tensor_type(param.checked_type)
        feeds[param.name_hint] = RNG.integers(-2, 3, [int(str(dim)) for dim in type_.shape]).astype(type_.dtype)
    [found] = Runner(to_onnx(module)).run(feeds)
    want = relay.create_executor("debug", mod=module).evaluate()(*feeds.values()).numpy()
    assert (found.shape, found.dtype) == (want.shape, want.dtype)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-6)
