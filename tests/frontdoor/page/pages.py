"""Models for the tests of report pages."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import passat
from passat.page.document import document
from passat.rules import RuleSet, constant, op, tensors
from passat.rules.guards import is_all, same_type

x, y = tensors("x y")
c = constant("c")


class Small(RuleSet):
    """Rules that are easy to follow."""

    add_zero = (x + c >> x).when(is_all(c, 0), same_type(x, x + c))
    root = op.sqrt(x * x) >> op.abs(x)
    never = op.tan(op.atan(x)) >> x


def small_model(name: str = "/block/Add", value: str = "m") -> onnx.ModelProto:
    """sqrt((x + 0) * (x + 0)) + 1. The first node and the product may have any names."""
    nodes = [
        helper.make_node("Add", ["x", "zero"], ["a"], name=name),
        helper.make_node("Mul", ["a", "a"], [value], name="/block/Mul"),
        helper.make_node("Sqrt", [value], ["s"], name="/block/Sqrt"),
        helper.make_node("Add", ["s", "one"], ["y"], name="/block/Add_1"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])],
        [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in (("zero", [0, 0, 0]), ("one", [1, 1, 1]))],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def optimized(model: "onnx.ModelProto | str | Path", **options: Any) -> passat.Result:
    """The result of `Small` alone, recorded."""
    return passat.optimize(model, passes="Small", rules=[Small], record=True, **{"verify": False, **options})


def data_of(result: passat.Result) -> dict[str, Any]:
    """The data of the page of a result."""
    assert result.record is not None
    return document(result.report, result.record)


def column(data: dict[str, Any], side: str, name: str) -> list[Any]:
    """A column of texts of one of the graphs."""
    return [data["strings"][number] for number in data["graphs"][side][name]]
