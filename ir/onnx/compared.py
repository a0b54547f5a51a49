"""Finds the integers that a model compares its inputs with, such as the sampling rates that it knows."""

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from passat.ir.onnx.scope import subgraphs, without_functions

_SAME_VALUE: Final = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Flatten"})
"""Operators after which an integer is still the input's, so that comparing it compares the input."""
_EXTERNAL: Final = TensorProto.EXTERNAL


def compared_integers(model: ModelProto, inputs: Collection[str]) -> dict[str, tuple[int, ...]]:
    """For each of some inputs, the constant integers that nodes Equal compare it with, in order, also in subgraphs and functions."""
    found: dict[str, dict[int, None]] = {name: {} for name in inputs}
    if found:
        whole = without_functions(model) if model.functions else model  # a copy
        _collect(whole.graph, {name: name for name in inputs}, {}, found)
    return {name: tuple(values) for name, values in found.items() if values}


def _collect(graph: GraphProto, origins: Mapping[str, str], known: Mapping[str, int], found: Mapping[str, dict[int, None]]) -> None:
    """Adds what a graph compares to `found`. `origins` are the inputs by the names of values that equal them; `known` are the constants."""
    origins, known = dict(origins), dict(known)
    for tensor in graph.initializer:
        _learn(known, tensor.name, tensor)
    for node in graph.node:
        if node.op_type == "Constant":
            _learn_constant(known, node)
        elif node.op_type in _SAME_VALUE and node.input[0] in origins:
            origins[node.output[0]] = origins[node.input[0]]
        elif node.op_type in _SAME_VALUE and node.input[0] in known:
            known[node.output[0]] = known[node.input[0]]
        elif node.op_type == "Equal" and len(node.input) == 2:
            for one, other in (node.input, reversed(node.input)):
                if one in origins and other in known:
                    found[origins[one]][known[other]] = None
        for subgraph in subgraphs(node):
            _collect(subgraph, origins, known, found)


def _learn(known: dict[str, int], name: str, tensor: TensorProto) -> None:
    if np.prod(tensor.dims, dtype=np.int64) == 1 and tensor.data_location != _EXTERNAL:
        array = numpy_helper.to_array(tensor)
        if array.dtype.kind in "iu":
            known[name] = int(array.item())


def _learn_constant(known: dict[str, int], node: NodeProto) -> None:
    for attribute in node.attribute:
        if attribute.name == "value":
            _learn(known, node.output[0], attribute.t)
        elif attribute.name == "value_int":
            known[node.output[0]] = attribute.i
        elif attribute.name == "value_ints" and len(attribute.ints) == 1:
            known[node.output[0]] = attribute.ints[0]
