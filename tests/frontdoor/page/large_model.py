"""A model of any size: layers of attention with parts that rules simplify."""

from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

NODES_OF_A_LAYER = 21
_WIDTH = 8


def layered(layers: int) -> onnx.ModelProto:
    """The model; one layer has `NODES_OF_A_LAYER` nodes."""
    nodes: list[onnx.NodeProto] = []
    value = "x"
    for number in range(layers):
        made, value = _layer(number, value)
        nodes += made
    random = np.random.default_rng(0)
    weights = {
        "query": random.normal(size=(_WIDTH, _WIDTH)) * 0.1,
        "key": random.normal(size=(_WIDTH, _WIDTH)) * 0.1,
        "gamma": np.ones(_WIDTH),
        "beta": np.full(_WIDTH, 0.1),
        "one": np.array(1.0),
        "zero": np.array(0.0),
        "eight": np.array(8.0),
    }
    graph = helper.make_graph(
        nodes,
        "layered",
        [
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4, _WIDTH]),
            helper.make_tensor_value_info("mask", TensorProto.FLOAT, [1, 4, 4]),
        ],
        [helper.make_tensor_value_info(value, TensorProto.FLOAT, [1, 4, _WIDTH])],
        [numpy_helper.from_array(np.asarray(weight, np.float32), name) for name, weight in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def _layer(number: int, x: str) -> tuple[list[onnx.NodeProto], str]:
    nodes: list[onnx.NodeProto] = []

    def add(operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"/encoder/layer.{number}/{operator}_{len(nodes)}"
        nodes.append(helper.make_node(operator, inputs, [f"{name}_output_0"], name=name, **attributes))
        return f"{name}_output_0"

    h = add("LayerNormalization", x, "gamma", "beta")
    query = add("Add", add("MatMul", h, "query"), "beta")
    key = add("Add", add("MatMul", h, "key"), "beta")
    value = add("Mul", add("MatMul", h, "query"), "one")
    scores = add("Div", add("MatMul", query, add("Transpose", key, perm=[0, 2, 1])), "eight")
    weights = add("Softmax", add("Add", scores, "mask"), axis=-1)
    mixed = add("MatMul", weights, value)
    mixed = add("Transpose", add("Transpose", mixed, perm=[0, 2, 1]), perm=[0, 2, 1])
    x = add("Add", add("Add", mixed, "zero"), x)
    h = add("MatMul", add("Relu", add("MatMul", x, "query")), "key")
    return nodes, add("Add", h, x)
