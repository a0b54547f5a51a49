"""The nodes of a model as one list."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from passat.ir.onnx.flat_graph import INPUT, NODE, OUTPUT, flat_graph
from passat.ir.tensor import Tensor


def value(name: str, *shape: int, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, kind, shape)


def model(
    nodes: list[onnx.NodeProto], inputs: list[onnx.ValueInfoProto], functions: list[onnx.FunctionProto] | None = None
) -> onnx.ModelProto:
    weight = numpy_helper.from_array(np.array([1, 2], np.float32), "w")
    graph = helper.make_graph(nodes, "g", inputs, [value("y", 2)], [weight])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, functions=functions or [])


def test_constants_are_operands_and_defaults_are_left_out() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(np.array([3, 4], np.float32))),
        helper.make_node("Add", ["x", "c"], ["a"], name="first"),
        helper.make_node("Gemm", ["a", "w"], ["y"], alpha=1.0, transB=1, name="second"),
    ]
    found = flat_graph(model(nodes, [value("x", 2)]))
    assert [(node.kind, node.operator, node.name) for node in found] == [
        (INPUT, "x", "x"),
        (NODE, "Add", "first"),
        (NODE, "Gemm", "second"),
        (OUTPUT, "y", "y"),
    ]
    constant, weight = found[1].operands[1], found[2].operands[1]
    assert isinstance(constant, Tensor)
    assert isinstance(weight, Tensor)
    assert (constant.numpy().tolist(), weight.numpy().tolist()) == ([3, 4], [1, 2])
    assert found[2].operands[0] == 1
    assert found[2].attributes == {"transB": "1"}
    assert found[3].operands == [2]


def test_nodes_are_sorted() -> None:
    nodes = [helper.make_node("Relu", ["a"], ["y"]), helper.make_node("Neg", ["x"], ["a"])]
    assert [node.operator for node in flat_graph(model(nodes, [value("x", 2)]))] == ["x", "Neg", "Relu", "y"]


def test_subgraphs_read_from_outside_and_belong_to_their_node() -> None:
    branches = {
        name: helper.make_graph([helper.make_node(operator, ["a"], [name])], name, [], [value(name, 2)])
        for name, operator in (("then_branch", "Relu"), ("else_branch", "Neg"))
    }
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("If", ["b"], ["y"], name="choose", **branches)]
    found = flat_graph(model(nodes, [value("x", 2), value("b", kind=TensorProto.BOOL)]))
    owner = next(number for number, node in enumerate(found) if node.operator == "If")
    inner = {node.operator: node for node in found if node.owner == owner}
    assert inner.keys() == {"Relu", "Neg"}
    assert inner["Relu"].where == "If 'choose': then_branch"
    assert inner["Relu"].operands == [2]
    assert found[owner].operands == [1, 2], "the condition, and the values that the branches read"


def test_bodies_of_functions_come_last() -> None:
    opset = [helper.make_opsetid("", 18)]
    body = helper.make_function("mine", "Twice", ["p"], ["q"], [helper.make_node("Add", ["p", "p"], ["q"])], opset)
    found = flat_graph(model([helper.make_node("Twice", ["x"], ["y"], domain="mine")], [value("x", 2)], [body]))
    assert [(node.operator, node.where) for node in found] == [
        ("x", ""),
        ("mine.Twice", ""),
        ("y", ""),
        ("p", "function mine.Twice"),
        ("Add", "function mine.Twice"),
        ("q", "function mine.Twice"),
    ]
