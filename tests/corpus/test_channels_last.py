"""Models whose data have the channels last, between convolutions that have them first, as Keras and TensorFlow write them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from tests.corpus.optimizing import floats, operators, optimize

CHANNELS, SIZE = 4, 6


class Net:
    """A model that is built node by node. Names are those of outputs."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.constants: dict[str, np.ndarray] = {}

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node, and returns the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [name], **attributes))
        return name

    def constant(self, value: np.ndarray) -> str:
        """Adds a constant, and returns its name."""
        name = f"c{len(self.constants)}"
        self.constants[name] = value
        return name

    def convolution(self, x: str, inputs: int, outputs: int, size: int = 1) -> str:
        """A convolution of data with the channels last, between transposes."""
        weight = self.constant(floats(outputs, inputs, size, size, seed=len(self.nodes)))
        first = self.add("Transpose", x, perm=[0, 3, 1, 2])
        return self.add("Transpose", self.add("Conv", first, weight), perm=[0, 2, 3, 1])

    def biased(self, x: str, inputs: int, outputs: int, size: int = 1) -> str:
        """A convolution, and a bias that is added to the channels."""
        made = self.convolution(x, inputs, outputs, size)
        return self.add("Add", made, self.constant(floats(outputs, seed=len(self.nodes))))

    def normalized(self, x: str, channels: int) -> str:
        """A rectified scale and shift of each channel."""
        scale, shift = np.abs(floats(channels, seed=len(self.nodes))) + 0.5, floats(channels, seed=len(self.nodes) + 1)
        return self.add("Relu", self.add("Add", self.add("Mul", x, self.constant(scale)), self.constant(shift)))

    def padded(self, x: str, width: int) -> str:
        """The images with zeros around them."""
        return self.add("Pad", x, self.constant(np.array([0, width, width, 0, 0, width, width, 0])))

    def model(self, y: str, shape: Sequence[int]) -> ModelProto:
        """The model from x to y."""
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, SIZE, SIZE, CHANNELS])]
        outputs = [helper.make_tensor_value_info(y, TensorProto.FLOAT, shape)]
        constants = [numpy_helper.from_array(value, name) for name, value in self.constants.items()]
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def test_paddings_become_part_of_convolutions() -> None:
    """Each Pad stayed between two transposes."""
    net, x = Net(), "x"
    for _ in range(3):
        x = net.add("Relu", net.convolution(net.padded(x, 1), CHANNELS, CHANNELS, 3))
    result, _ = optimize(net.model(x, [2, SIZE, SIZE, CHANNELS]))
    assert operators(result) == {"Transpose": 2, "Conv": 3, "Relu": 3}


def test_dense_blocks_lose_their_transposes() -> None:
    """Nested concatenations were merged into those of three parts and more, which no rule could move transposes past. A second run
    did one more of each block."""
    net, growth, layers = Net(), 2, 7
    x = net.convolution("x", CHANNELS, CHANNELS)
    for layer in range(layers):
        channels = CHANNELS + layer * growth
        inner = net.normalized(net.convolution(net.normalized(x, channels), channels, CHANNELS), CHANNELS)
        x = net.add("Concat", x, net.convolution(net.padded(inner, 1), CHANNELS, growth, 3), axis=3)
    result, _ = optimize(net.model(x, [2, SIZE, SIZE, CHANNELS + layers * growth]))
    assert operators(result)["Transpose"] == 2
    assert "Pad" not in operators(result)


def test_transposes_pass_many_residual_blocks() -> None:
    """Each block takes two rounds, of which LinearAlgebra had eight. A second run did the rest."""
    net, blocks = Net(), 6
    x = net.convolution("x", CHANNELS, CHANNELS)
    for _ in range(blocks):
        x = net.add("Relu", net.add("Add", x, net.convolution(x, CHANNELS, CHANNELS)))
    result, _ = optimize(net.model(x, [2, SIZE, SIZE, CHANNELS]))
    assert operators(result) == {"Transpose": 2, "Conv": blocks, "Relu": blocks}


def test_blocks_with_biases_lose_their_transposes() -> None:
    """The biases of the convolutions were moved out of the sums of the blocks, which retired the sums that transposes could have
    passed. A second run moved them."""
    net, blocks, stream = Net(), 4, CHANNELS * 4
    x = net.biased("x", CHANNELS, stream)
    for _ in range(blocks):
        inner = net.normalized(net.biased(net.normalized(x, stream), stream, CHANNELS, 1), CHANNELS)
        x = net.add("Add", x, net.biased(inner, CHANNELS, stream))
    result, _ = optimize(net.model(net.normalized(x, stream), [2, SIZE, SIZE, stream]))
    assert operators(result)["Transpose"] == 2
    again, _ = optimize(result)
    assert operators(again) == operators(result)
