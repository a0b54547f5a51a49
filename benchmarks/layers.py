"""Models of many equal layers in the form that exporters write: attention and a perceptron, with typical redundancies of exporters."""

from typing import Any as AnyValue
from typing import Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

WIDTH: Final = 64
HEADS: Final = 4
LENGTH: Final = 16


class _Writer:
    """Nodes and initializers under fresh names."""

    def __init__(self, seed: int, *, splat: bool) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)
        self._splat = splat

    def weight(self, *shape: int) -> str:
        """A weight of that shape: random, or one value repeated."""
        if self._splat:
            return self.constant(np.full(shape, 0.02, np.float32))
        return self.constant(self._random.normal(0, 0.02, shape).astype(np.float32))

    def constant(self, value: npt.ArrayLike) -> str:
        """An initializer."""
        name = f"c{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def node(self, kind: str, *inputs: str, **attributes: AnyValue) -> str:
        """A node, by the name of its output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], name=f"n{len(self.nodes)}", **attributes))
        return name


def equal_layers(layers: int, *, seed: int = 0, splat: bool = False, kinds: int = 1) -> onnx.ModelProto:
    """A transformer of equal layers, about 55 nodes each, whose weights are random, or (`splat`) one value repeated. With several `kinds`,
    each layer is equal to the one that many layers before it, and the perceptrons get wider from kind to kind."""
    writer = _Writer(seed, splat=splat)
    value = "input"
    for layer in range(layers):
        value = writer.node("Add", value, _attention(writer, _norm(writer, value)))
        value = writer.node("Add", value, _perceptron(writer, _norm(writer, value), (2 + layer % kinds) * WIDTH))
    graph = helper.make_graph(
        [*writer.nodes, helper.make_node("Identity", [value], ["output"])],
        "layers",
        [helper.make_tensor_value_info("input", TensorProto.FLOAT, [1, LENGTH, WIDTH])],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, LENGTH, WIDTH])],
        writer.initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def _norm(writer: _Writer, value: str) -> str:
    """A layer normalization, decomposed."""
    axes = {"axes": [-1], "keepdims": 1}
    centered = writer.node("Sub", value, writer.node("ReduceMean", value, **axes))
    variance = writer.node("ReduceMean", writer.node("Pow", centered, writer.constant(np.float32(2.0))), **axes)
    deviation = writer.node("Sqrt", writer.node("Add", variance, writer.constant(np.float32(1e-5))))
    scaled = writer.node("Mul", writer.node("Div", centered, deviation), writer.weight(WIDTH))
    return writer.node("Add", scaled, writer.weight(WIDTH))


def _attention(writer: _Writer, value: str) -> str:
    def project() -> str:
        made = writer.node("Add", writer.node("MatMul", value, writer.weight(WIDTH, WIDTH)), writer.weight(WIDTH))
        sizes = [writer.node("Gather", writer.node("Shape", made), writer.constant(np.int64(axis)), axis=0) for axis in (0, 1)]
        parts = [writer.node("Unsqueeze", size, writer.constant(np.array([0]))) for size in sizes]
        rest = [writer.constant(np.array([HEADS])), writer.constant(np.array([WIDTH // HEADS]))]
        split = writer.node("Reshape", made, writer.node("Concat", *parts, *rest, axis=0))
        return writer.node("Transpose", split, perm=[0, 2, 1, 3])

    query, key, content = project(), project(), project()
    scores = writer.node("MatMul", query, writer.node("Transpose", key, perm=[0, 1, 3, 2]))
    scaled = writer.node("Div", scores, writer.constant(np.float32((WIDTH // HEADS) ** 0.5)))
    mixed = writer.node("MatMul", writer.node("Softmax", writer.node("Mul", scaled, writer.constant(np.float32(1.0))), axis=-1), content)
    joined = writer.node("Reshape", writer.node("Transpose", mixed, perm=[0, 2, 1, 3]), writer.constant(np.array([0, 0, WIDTH])))
    return writer.node("Add", writer.node("MatMul", joined, writer.weight(WIDTH, WIDTH)), writer.weight(WIDTH))


def _perceptron(writer: _Writer, value: str, hidden: int) -> str:
    wide = writer.node("Add", writer.node("MatMul", value, writer.weight(WIDTH, hidden)), writer.weight(hidden))
    error = writer.node("Erf", writer.node("Div", wide, writer.constant(np.float32(2.0**0.5))))
    gate = writer.node(
        "Mul", writer.node("Mul", wide, writer.node("Add", error, writer.constant(np.float32(1.0)))), writer.constant(np.float32(0.5))
    )
    return writer.node("Add", writer.node("MatMul", writer.node("Identity", gate), writer.weight(hidden, WIDTH)), writer.weight(WIDTH))
