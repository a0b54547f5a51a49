"""Attributes at their limits, before and after rules fold into them: dilation, as many groups as channels, automatic padding, ceil_mode,
negative and empty axes, and defaults that depend on the version of ONNX. Each model keeps its values on ONNX Runtime."""

from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, numpy_helper

from tests.corpus.optimizing import floats, operators, optimize, parse, run


def weighted(model: ModelProto, **weights: Any) -> ModelProto:
    """A model with initializers of these names."""
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    return model


def positive(*shape: int, seed: int = 0) -> Any:
    return np.abs(floats(*shape, seed=seed)) + np.float32(0.5)


NORM = {f"n{i}": positive(4, seed=i) for i in range(4)}
CONVOLUTIONS = {
    "dilation": ("dilations = [2, 3]", 4, 2, "Conv"),
    "dilation and padding": ("dilations = [3, 2], pads = [2, 0, 1, 3], strides = [2, 1]", 4, 2, "Conv"),
    "groups": ("group = 2", 4, 1, "Conv"),
    "as many groups as channels": ("group = 2, dilations = [2, 2]", 4, 1, "Conv"),
    "same upper": ('auto_pad = "SAME_UPPER", strides = [2, 2]', 4, 2, "Conv"),
    "same lower": ('auto_pad = "SAME_LOWER", strides = [2, 3]', 4, 2, "Conv"),
    "valid": ('auto_pad = "VALID"', 4, 2, "Conv"),
    "transposed": ("strides = [2, 2], output_padding = [1, 0], pads = [1, 0, 1, 2]", 2, 4, "ConvTranspose"),
    "transposed, dilated": ("dilations = [2, 1]", 2, 4, "ConvTranspose"),
    "transposed, groups": ("group = 2", 2, 2, "ConvTranspose"),
    "transposed, same upper": ('auto_pad = "SAME_UPPER", strides = [2, 2]', 2, 4, "ConvTranspose"),
}

KEPT = ("transposed, groups", "transposed, same upper")
"""Convolutions whose weights cannot absorb a scale: the weight has no output axis, or the padding is only known at run time."""


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_normalizations_and_scales_after_a_convolution(name: str) -> None:
    attributes, first, second, operator = CONVOLUTIONS[name]
    text = f"""g (float[1, 2, 11, 10] x) => (float[] y) {{
        a = {operator} <{attributes}> (x, w)
        b = BatchNormalization (a, n0, n1, n2, n3)
        c = Relu (b)
        y = Mul (c, s)
    }}"""
    model = weighted(parse(text), w=floats(first, second, 3, 3), s=positive(4, 1, 1), **NORM)
    out, _ = optimize(model, {"x": floats(1, 2, 11, 10, seed=9)})
    assert ("BatchNormalization" in operators(out)) == (name in KEPT)


POOLS = {
    "ceil": "kernel_shape = [3, 3], strides = [2, 2], ceil_mode = 1",
    "ceil and padding": "kernel_shape = [3, 2], strides = [2, 2], ceil_mode = 1, pads = [1, 0, 1, 1]",
    "dilated": "kernel_shape = [2, 2], dilations = [3, 2]",
    "same upper": 'kernel_shape = [3, 3], strides = [2, 2], auto_pad = "SAME_UPPER"',
    "same lower": 'kernel_shape = [2, 2], strides = [1, 1], auto_pad = "SAME_LOWER"',
    "padding that counts": "kernel_shape = [3, 3], pads = [1, 1, 1, 1], count_include_pad = 1",
    "padding that does not": "kernel_shape = [3, 3], pads = [1, 1, 1, 1]",
}


@pytest.mark.parametrize(
    ("operator", "name"), [*(("AveragePool", name) for name in POOLS), *(("MaxPool", name) for name in POOLS if "that" not in name)]
)
def test_scales_around_a_pooling(operator: str, name: str) -> None:
    """A negative scale does not commute with the maximum."""
    text = f"""g (float[1, 3, 11, 10] x) => (float[] y) {{
        a = Mul (x, s)
        b = {operator} <{POOLS[name]}> (a)
        c = Mul (b, t)
        d = Add (c, u)
        y = Conv (d, w)
    }}"""
    values = {"s": positive(3, 1, 1), "t": floats(3, 1, 1, seed=1), "u": floats(3, 1, 1, seed=2), "w": floats(2, 3, 1, 1)}
    optimize(weighted(parse(text, opset=19), **values), {"x": floats(1, 3, 11, 10, seed=9)})


@pytest.mark.parametrize(
    "body",
    [
        "a = ReduceSum <keepdims = 0> (x, minus_one)  y = ReduceSum <keepdims = 0> (a, minus_one)",
        "a = ReduceMax <keepdims = 1> (x, minus_one)  y = ReduceMax <keepdims = 1> (a, minus_two)",
        "a = Transpose <perm = [0, 2, 1]> (x)  y = ReduceMean <keepdims = 0> (a, minus_two)",
        "a = Softmax <axis = -2> (x)  b = Log (a)  y = Transpose <perm = [1, 0, 2]> (b)",
        "a = Concat <axis = -1> (x, x)  b, c = Split <axis = -1, num_outputs = 2> (a)  y = Add (b, c)",
        "a = Gather <axis = -1> (x, order)  y = Gather <axis = -1> (a, order)",
        "a = Unsqueeze (x, minus_one)  y = Squeeze (a, minus_one)",
        "a = Flatten <axis = -1> (x)  y = Neg (a)",
        "a = LayerNormalization <axis = -2> (x, scale)  y = Mul (a, scale)",
    ],
)
def test_axes_from_the_end(body: str) -> None:
    text = f"g (float[2, 3, 4] x) => (float[] y) {{ {body} }}"
    constants = {
        "minus_one": np.array([-1]),
        "minus_two": np.array([-2]),
        "order": np.array([3, 1, -3, 0]),
        "scale": floats(3, 4, seed=5),
    }
    optimize(weighted(parse(text), **{name: value for name, value in constants.items() if name in body}), {"x": floats(2, 3, 4, seed=9)})


@pytest.mark.parametrize("noop", [0, 1])
@pytest.mark.parametrize("operator", ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"])
def test_no_axes_are_all_of_them_or_none(operator: str, noop: int) -> None:
    """By default all axes are reduced; with the attribute none is, and surrounding operators must not move through it as if all were."""
    for axes in ("", ", none"):
        text = f"""g (float[2, 3] x) => (float[] y) {{
            a = Add (x, x)
            b = {operator} <noop_with_empty_axes = {noop}, keepdims = 1> (a{axes})
            y = {operator} <keepdims = 1> (b, first)
        }}"""
        values = {"first": np.array([0])} | ({"none": np.array([], "int64")} if axes else {})
        optimize(weighted(parse(text), **values), {"x": floats(2, 3, seed=9)})


def test_tensors_without_unit_axes_are_not_squeezed() -> None:
    text = "g (float[2, 1, 3] x) => (float[] y) { a = Squeeze (x)  b = Unsqueeze (a, middle)  y = Exp (b) }"
    out, _ = optimize(weighted(parse(text), middle=np.array([1])), {"x": floats(2, 1, 3)})
    assert operators(out) == {"Exp": 1}


@pytest.mark.parametrize(("opset", "shape"), [(11, (2, 12)), (12, (2, 12)), (13, (2, 3, 4))])
def test_the_axis_of_a_softmax_by_default(opset: int, shape: tuple[int, ...]) -> None:
    """Before version 13 it covers everything from axis 1 on, later only the last axis."""
    text = "g (float[2, 3, 4] x, float[2, 3, 1] r) => (float[] y) { a = Sub (x, r)  b = Softmax (a)  y = Log (b) }"
    x, r = floats(2, 3, 4, seed=9), floats(2, 3, 1, seed=8)
    out, _ = optimize(parse(text, opset=opset, ir=6), {"x": x, "r": r})
    exps = np.exp((x - r).reshape(shape))
    expected = np.log(exps / exps.sum(-1, keepdims=True)).reshape(x.shape)
    np.testing.assert_allclose(run(out, {"x": x, "r": r})[0], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("opset", [9, 14, 15])
def test_a_normalization_s_epsilon_by_default(opset: int) -> None:
    text = "g (float[1, 4, 3, 3] x) => (float[] y) { a = BatchNormalization (x, n0, n1, n2, tiny)  b = Mul (a, s)  y = Conv (b, w) }"
    values = {**{name: NORM[name] for name in ("n0", "n1", "n2")}, "tiny": np.full(4, 1e-6, "float32"), "s": positive(4, 1, 1)}
    model = weighted(parse(text, opset=opset, ir=5), **values, w=floats(2, 4, 3, 3))
    optimize(model, {"x": floats(1, 4, 3, 3, seed=9)})


@pytest.mark.parametrize("kind", ["int8", "int32", "uint8", "bool"])
def test_types_for_which_algebra_is_another(kind: str) -> None:
    """Integers wrap, division is not the inverse of multiplication, and there are no infinities; booleans do not add."""
    body = (
        "a = Or (x, x)  b = Xor (a, x)  y = And (b, x)"
        if kind == "bool"
        else "a = Mul (x, zero)  b = Sub (x, x)  c = Add (a, b)  y = Add (c, x)"
    )
    text = f"g ({kind}[2, 3] x) => ({kind}[] y) {{ {body} }}"
    values = {} if kind == "bool" else {"zero": np.zeros((), kind)}
    optimize(weighted(parse(text), **values), {"x": np.array([[1, 0, 1], [0, 1, 1]]).astype(kind)})


@pytest.mark.parametrize("body", ["y = Sub (x, x)", "y = Mul (x, zero)", "y = Div (x, x)", "a = Add (x, z)  y = Sub (a, x)"])
def test_infinities_and_nan_are_not_computed_away(body: str) -> None:
    text = f"g (float[3] x, float[3] z) => (float[] y) {{ {body} }}"
    x = np.array([np.inf, np.nan, -1.0], "float32")
    model = weighted(parse(text), **({"zero": np.zeros((), "float32")} if "zero" in body else {}))
    _, report = optimize(model, {"x": x, "z": np.ones(3, "float32")})
    assert report.node_count_after == report.node_count_before
