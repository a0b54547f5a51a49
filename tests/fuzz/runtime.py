"""ONNX Runtime with its optimizations off, on one thread: it accepts or rejects models, and computes values."""

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import ModelProto, TensorProto, helper

from passat.ir.onnx import OnnxError, check
from passat.ir.onnx_runtime import onnx_runtime
from passat.runner import Runner

Feed = Mapping[str, Any]


def run(model: ModelProto, feed: Feed) -> list[Any]:
    """The outputs of a model. Raises the errors of ONNX Runtime."""
    return Runner(model, threads=1).run(feed)


def accepts(model: ModelProto) -> bool:
    """True if `onnx.checker` accepts a model, and its booleans are stored as 0 and 1, as ONNX requires."""
    tensors = [*model.graph.initializer, *(attribute.t for node in model.graph.node for attribute in node.attribute)]
    if any(tensor.data_type == TensorProto.BOOL and max(tensor.raw_data, default=0) > 1 for tensor in tensors):
        return False
    try:
        check(model)
    except OnnxError:
        return False
    return True


def newest_opset() -> int:
    """The newest opset that both the onnx package and ONNX Runtime support."""
    onnxruntime = onnx_runtime()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    value = helper.make_tensor_value_info("x", 1, [1])
    result = helper.make_tensor_value_info("y", 1, [1])
    for opset in range(onnx.defs.onnx_opset_version(), 7, -1):
        graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "probe", [value], [result])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # ONNX Runtime has no exception class for it
            continue
        return opset
    raise AssertionError("ONNX Runtime loads nothing")
