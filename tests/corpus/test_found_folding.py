"""Constants that were folded to other values than ONNX Runtime computes, each reduced to a minimum."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.runner import Runner

node = helper.make_node
NAN, INF = np.nan, np.inf
random = np.random.default_rng(0)


def normal(*shape: int, dtype: str = "float32") -> Any:
    return random.normal(size=shape).astype(dtype)


def of_constants(proto: Any, constants: Mapping[str, Any], opset: int = 13) -> ModelProto:
    """A model of one node on constants."""
    initializers = [numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items()]
    outputs = [helper.make_empty_tensor_value_info(name) for name in proto.output]
    graph = helper.make_graph([proto], "g", [], outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    # without types onnx.checker rejects the rest, and another process asks ONNX Runtime
    for output, value in zip(graph.output, Runner(model).run({}), strict=True):
        output.CopyFrom(helper.make_tensor_value_info(output.name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)


def assert_same(model: ModelProto, math: str, *, bits: bool) -> list[str]:
    """Optimizes a model without inputs, compares the result with ONNX Runtime, and returns the remaining operators."""
    expected = Runner(model).run({})
    result = passat.optimize(model, verify=False, config={"rules.math": math}).model
    for one, other in zip(Runner(result).run({}), expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if bits:
            assert one.tobytes() == other.tobytes(), f"{one} for {other}"
        else:
            np.testing.assert_allclose(one, other, rtol=1e-5)
    return [each.op_type for each in result.graph.node]


x = normal(3, 40)
ROUNDED: list[tuple[Any, dict[str, Any]]] = [
    *((node(name, ["x"], ["y"]), {"x": abs(x)}) for name in ("Exp", "Sigmoid", "Tanh", "Log", "Erf", "Sin", "Softplus", "Reciprocal")),
    (node("Pow", ["x", "p"], ["y"]), {"x": abs(x), "p": abs(x)}),
    (node("MatMul", ["x", "w"], ["y"]), {"x": normal(3, 40, dtype="float64"), "w": normal(40, 5, dtype="float64")}),
    (node("MatMul", ["x", "w"], ["y"]), {"x": normal(1, 40), "w": normal(40, 5)}),
    (node("Gemm", ["x", "w", "b"], ["y"]), {"x": x, "w": normal(40, 5), "b": normal(5)}),
    (node("Gemm", ["x", "w", "b"], ["y"]), {"x": normal(2, 0), "w": normal(0, 3), "b": np.full(3, -0.0, "f")}),
    (
        node("BatchNormalization", ["x", "g", "b", "m", "v"], ["y"]),
        {"x": x, "g": normal(40), "b": normal(40), "m": normal(40), "v": abs(normal(40))},
    ),
    (node("InstanceNormalization", ["x", "g", "b"], ["y"]), {"x": normal(2, 3, 1), "g": normal(3), "b": np.zeros(3, "f")}),
    (node("ReduceSum", ["x"], ["y"]), {"x": x}),
    (node("Softmax", ["x"], ["y"]), {"x": x}),
    (node("Cast", ["x"], ["y"], to=TensorProto.FLOAT16), {"x": np.array([1 + 2.0**-11 + 2.0**-30, NAN, -0.0])}),
]
SPECIAL: list[tuple[Any, dict[str, Any]]] = [
    (node("ReduceMax", ["x"], ["y"], axes=[1]), {"x": np.array([[1, NAN, 2], [NAN, 1, 2], [INF, NAN, -INF]], "f")}),
    (node("ReduceMin", ["x"], ["y"], axes=[0]), {"x": np.array([[1, NAN, 2], [NAN, 1, 2], [INF, NAN, -INF]])}),
    (node("ArgMax", ["x"], ["y"], axis=1), {"x": np.array([[1, NAN, 2], [NAN, 1, 2]], "f")}),
    (node("ArgMin", ["x"], ["y"], axis=1), {"x": np.array([[1, NAN, 2], [NAN, 1, 2]], "f")}),
    (node("MaxPool", ["x"], ["y"], kernel_shape=[2], pads=[1, 1]), {"x": np.array([[[-INF, -INF, 1]]], "f")}),
    (node("LogSoftmax", ["x"], ["y"]), {"x": np.array([[INF, 1], [NAN, -INF]])}),
    (node("Hardmax", ["x"], ["y"]), {"x": np.array([[INF, INF, 1], [NAN, 2, 2], [3, 3, 3]], "f")}),
    (node("QuantizeLinear", ["x", "s", "z"], ["y"]), {"x": np.array([INF, -INF, NAN, 3e9], "f"), "s": np.float32(0.5), "z": np.uint8(3)}),
    *(
        (node(name, ["x"], ["y"]), {"x": np.array([limit, 5, -7, limit // 2], dtype)})
        for name in ("ReduceSum", "ReduceL1", "ReduceSumSquare", "ReduceProd", "ReduceMean")
        for dtype, limit in (("int32", 2**31 - 1), ("int64", 2**63 - 1))
    ),
    (node("ReduceL2", ["x"], ["y"]), {"x": np.array([2**31 - 1, 5], np.int32)}),
    *((node(name, ["x", "z"], ["y"]), {"x": np.array([0.0, -0.0, NAN]), "z": np.array([-0.0, 0.0, 1])}) for name in ("Max", "Min")),
    (node("Max", ["x", "z"], ["y"]), {"x": np.array([2**31, 0]), "z": np.array([0, 2**31])}),
    (node("Clip", ["x", "low"], ["y"]), {"x": np.array([2**31, 0, -5]), "low": np.array(1)}),
    (node("Clip", ["x", "low", "high"], ["y"]), {"x": np.array([NAN, -0.0, 2], "f"), "low": np.float32(1), "high": np.float32(-1)}),
    (node("Sign", ["x"], ["y"]), {"x": np.array([2**31, -(2**63), 3])}),
    (node("Where", ["c", "x", "z"], ["y"]), {"c": np.array([True, False]), "x": np.array([-0.0, 1], "f"), "z": np.array([1, -0.0], "f")}),
    (node("Relu", ["x"], ["y"]), {"x": np.array([-0.0, NAN, -INF, INF], "f")}),
    (node("Pow", ["x", "p"], ["y"]), {"x": np.array([2, -2, 3]), "p": np.array([63, 3, -1])}),
    (node("Mod", ["x", "z"], ["y"], fmod=1), {"x": np.array([5.5, -5.5, INF, NAN, -0.0], "f"), "z": np.array([2, 2, 2, 2, 2], "f")}),
    (node("Mod", ["x", "z"], ["y"]), {"x": np.array([7, -7, -(2**63)]), "z": np.array([-3, 3, 5])}),
    (node("Round", ["x"], ["y"]), {"x": np.array([0.5, 1.5, -2.5, -0.4, NAN], "f")}),
    (node("Gather", ["x", "i"], ["y"]), {"x": np.array([["a", "b"], ["c", "d"]], object), "i": np.array([1, 0])}),
]

UNDEFINED: list[tuple[Any, dict[str, Any]]] = [
    (node("MaxPool", ["x"], ["y"], kernel_shape=[2]), {"x": np.array([[[1, NAN, 2, NAN, NAN, 3]]], "f")}),
    (node("MaxPool", ["x"], ["y"], kernel_shape=[2, 2]), {"x": np.array([[[[NAN, 0], [0, 0]]]], "f")}),
]
"""ONNX Runtime's results depend on the position of NaN in the window."""


@pytest.mark.parametrize(("proto", "constants"), [*ROUNDED, *SPECIAL, *UNDEFINED], ids=lambda part: getattr(part, "op_type", ""))
def test_with_exact_every_bit_stays(proto: Any, constants: Mapping[str, Any]) -> None:
    assert_same(of_constants(proto, constants), "exact", bits=True)


@pytest.mark.parametrize("math", ["reassociate", "finite"])
@pytest.mark.parametrize(("proto", "constants"), SPECIAL, ids=lambda part: getattr(part, "op_type", ""))
def test_folded_values_are_onnx_runtimes(proto: Any, constants: Mapping[str, Any], math: str) -> None:
    left = assert_same(of_constants(proto, constants), math, bits=True)
    assert proto.op_type not in left or proto.op_type == "Mod"


@pytest.mark.parametrize("math", ["reassociate", "finite"])
@pytest.mark.parametrize(("proto", "constants"), UNDEFINED, ids=lambda part: getattr(part, "op_type", ""))
def test_values_that_onnx_does_not_define_are_not_folded(proto: Any, constants: Mapping[str, Any], math: str) -> None:
    assert proto.op_type in assert_same(of_constants(proto, constants), math, bits=True)


@pytest.mark.parametrize(("proto", "constants"), ROUNDED, ids=lambda part: getattr(part, "op_type", ""))
def test_folded_values_differ_by_rounding_at_most(proto: Any, constants: Mapping[str, Any]) -> None:
    assert_same(of_constants(proto, constants), "reassociate", bits=False)
