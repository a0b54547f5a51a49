"""ONNX graphs created without a framework: scaling tests, and the light models that ship with the onnx package.

`chain` and `wide` grow without limit, `big_external` is above protobuf's size limit, and `light_models` finds the nine real architectures
with weights from ConstantOfShape.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET: Final = 18
IR_VERSION: Final = 9
SIDE: Final = 8
"""Every value of `chain` and `wide` is a float32 matrix of this many rows and columns, so that any two of them combine."""

UNARY: Final = ("Sigmoid", "Abs", "Neg", "Relu")
BINARY: Final = ("Add", "Mul", "Sub", "Max", "Min")


def light_models() -> dict[str, Path]:
    """Return the nine models under `onnx/backend/test/data/light/` of the installed onnx package, by their short names."""
    folder = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
    return {path.stem: path for path in sorted(folder.glob("light_*.onnx"))}


class _Builder:
    """Collects the nodes and constants of one graph over square matrices."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[onnx.TensorProto] = []

    def constant(self, name: str, value: np.ndarray) -> str:
        """Add an initializer and return its name."""
        self.initializers.append(numpy_helper.from_array(value.astype(np.float32), name))
        return name

    def choose(self, options: Sequence[str]) -> str:
        """Draw one of `options`."""
        return options[int(self.random.integers(len(options)))]

    def call(self, op: str, *inputs: str, perm: Sequence[int] | None = None) -> str:
        """Add a node with one output and return the name of that output."""
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, list(inputs), [name], name=f"{op}_{len(self.nodes)}", perm=perm))
        return name

    def model(self, name: str, inputs: list[str], outputs: list[str]) -> onnx.ModelProto:
        """Close the graph and return it as a model."""
        graph = helper.make_graph(
            self.nodes,
            name,
            [helper.make_tensor_value_info(i, TensorProto.FLOAT, [SIDE, SIDE]) for i in inputs],
            [helper.make_tensor_value_info(o, TensorProto.FLOAT, [SIDE, SIDE]) for o in outputs],
            self.initializers,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)


def chain(length: int, *, seed: int = 0) -> onnx.ModelProto:
    """Make a chain of `length` elementwise calls, each of which reads the previous one. Two in five calls are binary, with a constant as
    the other operand, and no two of those are neighbors; every fifth is Tanh. So nothing can be removed or folded, and the chain measures
    the cost of a walk over depth.
    """
    build = _Builder(seed)
    constants = [build.constant(f"c{i}", build.random.uniform(0.5, 1.5, (1, SIDE))) for i in range(16)]
    value = "x"
    for step in range(length):
        if step % 5 in (1, 3):
            value = build.call(build.choose(BINARY), value, build.choose(constants))
        else:
            value = build.call("Tanh" if step % 5 == 4 else build.choose(UNARY), value)
    return build.model(f"chain_{length}", ["x"], [value])


def wide(size: int, *, seed: int = 0) -> onnx.ModelProto:
    """Make a random graph of about `size` nodes with sharing, and with parts that a simplifier removes. Values are drawn from the last 64
    made, so depth grows slowly and most values have several readers. About one step in five adds something to remove: `x + 0`, `x * 1`, a
    pair of transposes, a sum of two constants, or an existing expression.
    """
    build = _Builder(seed)
    inputs = [f"x{i}" for i in range(8)]
    zero, one = build.constant("zero", np.zeros(())), build.constant("one", np.ones((1, SIDE)))
    weights = [build.constant(f"w{i}", build.random.normal(size=(SIDE, SIDE)) / SIDE) for i in range(32)]
    values = list(inputs)
    read: set[str] = set()

    def operand() -> str:
        name = values[-1 - int(build.random.integers(min(64, len(values))))]
        read.add(name)
        return name

    while len(build.nodes) + len(values) - len(read) < size:  # unread values are summed at the end, one Add each
        kind, x, w = build.random.random(), operand(), build.choose(weights)
        if kind < 0.04:
            values.append(build.call("Add", x, zero))
        elif kind < 0.08:
            values.append(build.call("Mul", one, x))
        elif kind < 0.12:
            values.append(build.call("Transpose", build.call("Transpose", x, perm=[1, 0]), perm=[1, 0]))
        elif kind < 0.16:
            values.append(build.call("Mul", x, build.call("Add", w, weights[0])))
        elif kind < 0.20:
            values += [build.call("Tanh", x), build.call("Tanh", x)]
        elif kind < 0.30:
            values.append(build.call("MatMul", x, w))
        elif kind < 0.36:
            values.append(build.call("Transpose", x, perm=[1, 0]))
        elif kind < 0.60:
            values.append(build.call(build.choose(UNARY), x))
        else:
            values.append(build.call(build.choose(BINARY), x, operand()))
    ends = [value for value in values[len(inputs) :] if value not in read]
    while len(ends) > 1:
        ends = [build.call("Add", *pair) if len(pair) == 2 else pair[0] for pair in (ends[i : i + 2] for i in range(0, len(ends), 2))]
    return build.model(f"wide_{size}", inputs, ends)


def big_external(path: Path, gigabytes: float = 2.2, *, width: int = 4096) -> None:
    """Write a stack of MatMul layers to `path`, with weights of `gigabytes` (10^9 bytes) in a file beside it.

    Weights are written one at a time, so this needs the memory of one layer. Layers are separated by Relu, with `x + 0` before every
    fourth, so that there is something to optimize.
    """
    layers = max(1, round(gigabytes * 1e9 / (4 * width * width)))
    data = path.with_name(path.name + ".data")
    random = np.random.default_rng(0)
    nodes: list[onnx.NodeProto] = []
    weights = [numpy_helper.from_array(np.zeros((), np.float32), "zero")]
    value = "x"
    with data.open("wb") as file:
        for layer in range(layers):
            weight = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width], data_location=TensorProto.EXTERNAL)
            file.write(((random.random((width, width), np.float32) - 0.5) * (3.4 / width**0.5)).tobytes())
            for key, number in (("location", data.name), ("offset", layer * 4 * width * width), ("length", 4 * width * width)):
                weight.external_data.add(key=key, value=str(number))
            weights.append(weight)
            if layer % 4 == 0:
                nodes.append(helper.make_node("Add", [value, "zero"], [f"a{layer}"]))
                value = f"a{layer}"
            nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"m{layer}"]))
            nodes.append(helper.make_node("Relu", [f"m{layer}"], [f"r{layer}"]))
            value = f"r{layer}"
    graph = helper.make_graph(
        nodes,
        path.stem,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", width])],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, ["batch", width])],
        weights,
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    path.write_bytes(model.SerializeToString())
