"""The same two small networks, written for every version of the operators that Passat reads, and for older ones."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import passat
from passat.ir.onnx import check
from tests.corpus.optimizing import floats, operators, optimize, run
from tests.share import share

NEWEST = onnx.defs.onnx_opset_version()
IR_OF_OPSET = {
    7: 3,
    8: 3,
    9: 4,
    10: 5,
    11: 6,
    12: 7,
    13: 7,
    14: 7,
    15: 8,
    16: 8,
    17: 8,
    18: 8,
    19: 9,
    20: 9,
    21: 10,
    22: 10,
    23: 11,
    24: 12,
}

CONVOLUTIONAL = dict.fromkeys(("Clip", "MaxPool", "Relu", "GlobalAveragePool", "Reshape", "Gemm", "Softmax"), 1) | {"Conv": 2}
DENSE = {"Gemm": 1, "Tanh": 1, "Split": 1, "Add": 3, "Concat": 1, "ReduceSum": 1, "ReduceMean": 1, "MatMul": 1, "Sigmoid": 1}
"""The remaining operators of the networks, in every version."""


class Writer:
    """Writes nodes in the form of an ONNX version."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.random = np.random.default_rng(0)
        self.nodes: list[NodeProto] = []
        self.constants: list[TensorProto] = []

    def node(self, op: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [name, *(f"{name}_{i}" for i in range(1, outputs))], **attributes))
        return name

    def constant(self, value: object, dtype: str = "float32") -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.random.normal(size=shape) / 4)

    def along(self, op: str, x: str, axes: list[int], since: int) -> str:
        """An operator whose axes become an input in some version."""
        if self.opset < since:
            return self.node(op, x, axes=axes)
        return self.node(op, x, self.constant(axes, "int64"))

    def dropout(self, x: str) -> str:
        if self.opset < 12:
            return self.node("Dropout", x, ratio=0.5, outputs=2)
        return self.node("Dropout", x, self.constant(0.5), outputs=2)

    def clip(self, x: str, low: float, high: float) -> str:
        if self.opset < 11:
            return self.node("Clip", x, min=low, max=high)
        return self.node("Clip", x, self.constant(low), self.constant(high))

    def pad(self, x: str, width: list[int]) -> str:
        return self.node("Pad", x, pads=width) if self.opset < 11 else self.node("Pad", x, self.constant(width, "int64"))

    def slice(self, x: str, start: int, end: int, axis: int) -> str:
        if self.opset < 10:
            return self.node("Slice", x, starts=[start], ends=[end], axes=[axis])
        return self.node("Slice", x, *(self.constant([value], "int64") for value in (start, end, axis)))

    def split(self, x: str, parts: list[int]) -> list[str]:
        if self.opset < 13:
            first = self.node("Split", x, outputs=len(parts), axis=1, split=parts)
        else:
            first = self.node("Split", x, self.constant(parts, "int64"), outputs=len(parts), axis=1)
        return [first, *(f"{first}_{i}" for i in range(1, len(parts)))]

    def model(self, shape: list[int | str], result: str, output: list[int | str]) -> ModelProto:
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
        ir = IR_OF_OPSET.get(self.opset, onnx.IR_VERSION)
        if ir < 4:
            inputs += [helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims) for tensor in self.constants]
        self.nodes[-1].output[0] = "y"
        graph = helper.make_graph(self.nodes, "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, output)], self.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=ir)
        onnx.checker.check_model(model)
        return model


def convolutional(opset: int) -> ModelProto:
    """Convolutions with batch norm, padding, pooling, a detour through Shape, and dropout."""
    w = Writer(opset)
    h = w.pad("x", [0, 0, 1, 1, 0, 0, 1, 1])
    h = w.node("Conv", h, w.weight(4, 3, 3, 3), kernel_shape=[3, 3])
    h = w.node("BatchNormalization", h, *(w.weight(4) for _ in range(3)), w.constant([0.5, 1.0, 1.5, 2.0]))
    h = w.clip(h, 0.0, 6.0)
    h = w.node("MaxPool", h, kernel_shape=[2, 2], strides=[2, 2])
    h = w.dropout(h)
    h = w.node("Conv", h, w.weight(6, 4, 1, 1), w.weight(6))
    h = w.node("Mul", h, w.weight(6, 1, 1))
    h = w.node("Relu", h)
    h = w.node("GlobalAveragePool", h)
    size = w.node("Shape", h)
    batch = w.node("Gather", size, w.constant(0, "int64"))
    batch = w.along("Unsqueeze", batch, [0], 13)
    shape = w.node("Concat", batch, w.constant([-1], "int64"), axis=0)
    h = w.node("Reshape", h, shape)
    h = w.node("Gemm", h, w.weight(5, 6), w.weight(5), transB=1)
    w.node("Softmax", h, axis=1)
    return w.model(["batch", 3, 8, 8], "y", ["batch", 5])


def dense(opset: int) -> ModelProto:
    """Products with separate biases, slices, splits, reductions, squeezes, and arithmetic without effect."""
    w = Writer(opset)
    h = w.node("Add", w.node("MatMul", "x", w.weight(8, 12)), w.weight(12))
    h = w.node("Tanh", h)
    a, b, c = w.split(h, [4, 4, 4])
    h = w.node("Add", w.node("Mul", a, w.constant(1.0)), w.node("Sub", b, w.constant(0.0)))
    h = w.node("Concat", h, w.node("Neg", w.node("Neg", c)), axis=1)
    h = w.slice(h, 0, 8, 1)
    h = w.along("Squeeze", w.along("Unsqueeze", h, [1], 13), [1], 13)
    h = w.node("Transpose", w.node("Transpose", h, perm=[1, 0]), perm=[1, 0])
    h = w.node("Add", h, w.along("ReduceSum", h, [1], 13))
    h = w.node("Add", h, w.along("ReduceMean", h, [1], 18))
    h = w.node("Cast", h, to=TensorProto.FLOAT)
    w.node("Sigmoid", w.node("MatMul", h, w.weight(8, 3)))
    return w.model(["batch", 8], "y", ["batch", 3])


@pytest.mark.parametrize("opset", range(7, NEWEST + 1, share(4, 1)))
def test_a_convolutional_network(opset: int) -> None:
    assert outcome(convolutional(opset), 3, 3, 8, 8) == CONVOLUTIONAL


@pytest.mark.parametrize("opset", range(7, NEWEST + 1, share(4, 1)))
def test_a_dense_network(opset: int) -> None:
    assert outcome(dense(opset), 3, 8) == DENSE


def outcome(model: ModelProto, *shape: int) -> dict[str, int]:
    """The operators of the optimized model; if a version is newer than ONNX Runtime, onnx.reference compares the values."""
    feed = {"x": floats(*shape)}
    try:
        run(model, feed)
    except Exception as error:  # ONNX Runtime's own errors
        assert "opset" in str(error) or "IR version" in str(error)  # noqa: PT017  # the older versions run
        result = passat.optimize(model, opt_level=3, allow_unverified=True).model
        check(result)
        want, got = (ReferenceEvaluator(each).run(None, feed) for each in (model, result))
        for a, b in zip(want, got, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-4, atol=1e-5)
        return operators(result)
    return operators(optimize(model, feed)[0])


@pytest.mark.parametrize("opset", range(1, 7))
def test_older_models_pass_through(opset: int) -> None:
    consumed: dict[str, Any] = {"consumed_inputs": [0]} if opset < 6 else {}
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["h"], **consumed), helper.make_node("Tanh", ["h"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=3)
    result = passat.optimize(model, opt_level=3)
    assert operators(result.model) == {"Relu": 1, "Tanh": 1}
