"""The blocks of PP-OCR's networks (MobileNetV3 of Paddle, opset 11) with named sizes: the nodes that remain."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import ModelProto, helper, numpy_helper

from passat import optimize

CHANNELS = 4


class Exported:
    """A graph as Paddle exports it: a batch normalization after each convolution, HardSwish as Add, Clip, Mul and Div."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []

    def __call__(self, op: str, *operands: str, **attributes: Any) -> str:
        name = f"{op}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, operands, [name], name, **attributes))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant(self.random.uniform(0.5, 1.5, size=shape).astype(np.float32) / max(int(np.prod(shape[1:])), 1))

    def constant(self, value: npt.NDArray[Any] | np.float32) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value: float) -> str:
        return self.constant(np.float32(value))

    def normalized(self, of: str, kernel: int) -> str:
        found = self("Conv", of, self.weight(CHANNELS, CHANNELS, kernel, kernel), pads=[kernel // 2] * 4)
        return self("BatchNormalization", found, *(self.weight(CHANNELS) for _ in range(4)))

    def hard_swish(self, of: str) -> str:
        clipped = self("Clip", self("Add", of, self.number(3)), self.number(0), self.number(6))
        return self("Div", self("Mul", of, clipped), self.number(6))

    def gated(self, of: str) -> str:
        """Squeeze and excitation with separate biases, as vectors along the channels."""
        inner = self("GlobalAveragePool", of)
        for last in (False, True):
            product = self("Conv", inner, self.weight(CHANNELS, CHANNELS, 1, 1))
            sum_ = self("Add", product, self("Reshape", self.weight(CHANNELS), self.constant(np.array([1, -1, 1, 1]))))
            inner = self("HardSigmoid", sum_, alpha=0.2, beta=0.5) if last else self("Relu", sum_)
        return self("Mul", of, inner)

    def model(self, result: str) -> ModelProto:
        inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, ["N", CHANNELS, "H", "W"])]
        outputs = [helper.make_tensor_value_info(result, onnx.TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "ocr", inputs, outputs, self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=7)


def test_blocks_of_pp_ocr() -> None:
    graph = Exported()
    hidden = graph.hard_swish(graph.normalized("x", 3))
    for _ in range(2):
        wide = graph.gated(graph.hard_swish(graph.normalized(hidden, 3)))
        hidden = graph("Add", hidden, graph.normalized(wide, 1))
    result = optimize(graph.model(hidden)).model
    assert result.opset_import[0].version == 11
    found = Counter(node.op_type for node in result.graph.node)
    assert found == {"Conv": 9, "HardSigmoid": 3 + 2, "Mul": 3 + 2, "GlobalAveragePool": 2, "Relu": 2, "Add": 2}
    assert all(len(node.input) == 3 for node in result.graph.node if node.op_type == "Conv"), "each bias belongs to its convolution"
