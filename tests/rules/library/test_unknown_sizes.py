"""Models with sizes without names, which rules must not take to be equal: each runs, and has the same result as before, on inputs whose
sizes differ."""

from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest

import passat

HEAD = '<ir_version: 8, opset_import: ["" : 17]>'


def run(model: onnx.ModelProto, inputs: dict[str, AnyValue]) -> AnyValue:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options).run(None, inputs)[0]


def numbers(*shape: int) -> AnyValue:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


KERNELS = {f"w{i}": numbers(8, 8, *((3, 3) if i else (1, 1))) for i in range(6)}
MODELS: dict[str, tuple[str, dict[str, AnyValue], dict[str, AnyValue]]] = {
    "a scale before a flatten of two axes": (
        """g (float[?, 2, 3, 3] x, float[9, 5] w) => (float[?, 5] o) <float[2, 1, 1] c = {2.0, 3.0}>
        { y = Mul (x, c) f = Flatten <axis = 2> (y) o = MatMul (f, w) }""",
        {"x": numbers(2, 2, 3, 3), "w": numbers(9, 5)},
        {},
    ),
    "a softmax of a difference": (
        "g (float[?, 1, 3] x, float[?, 1, 1] y) => (float[?, 1, 3] o) { d = Sub (x, y) o = Softmax <axis = -1> (d) }",
        {"x": numbers(1, 1, 3), "y": numbers(3, 1, 1)},
        {"rules.math": "finite"},
    ),
    "kernels beside each other": (
        "g (float[1, 8, 16, 16] x, "
        + ", ".join(f"float[8, 8, ?, ?] {name}" for name in KERNELS)
        + ") => ("
        + ", ".join(f"float[1, 8, ?, ?] o{i}" for i in range(len(KERNELS)))
        + ") { "
        + " ".join(f"o{i} = Conv <pads = [1, 1, 1, 1]> (x, {name})" for i, name in enumerate(KERNELS))
        + " }",
        {"x": numbers(1, 8, 16, 16), **KERNELS},
        {"rules.cost": "nodes"},
    ),
    "a kernel inside another": (
        """g (float[1, 2, 8, 8] x, float[N, 2, 3, 3] y, float[N, 2, 1, 1] z) => (float[1, K, 8, 8] o)
        { a = Conv <pads = [1, 1, 1, 1]> (x, y) b = Conv (x, z) o = Concat <axis = 1> (a, b) }""",
        {"x": numbers(1, 2, 8, 8), "y": numbers(4, 2, 3, 3), "z": numbers(4, 2, 1, 1)},
        {"rules.math": "finite"},
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_unknown_sizes_may_differ(name: str) -> None:
    text, inputs, config = MODELS[name]
    model = onnx.parser.parse_model(HEAD + text)
    result = passat.optimize(model, opt_level=4, verify=False, config=config)
    expected, found = run(model, inputs), run(result.model, inputs)
    assert expected.shape == found.shape
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
