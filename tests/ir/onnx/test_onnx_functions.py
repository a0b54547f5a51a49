"""Writing programs that call functions: the bodies of the functions replace the calls."""

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper

from passat.ir.expr import Function, const, var
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx, to_onnx
from passat.ir.op import get_op
from passat.ir.text import parse
from passat.passmgr import PassContext
from passat.rules.passes.fuse_ops import FuseOps

Parse = Callable[..., ModelProto]
Run = Callable[[ModelProto, dict[str, Any]], list[Any]]
X = np.array([[1, -2, 3]], np.float32)


def written(module: IRModule) -> ModelProto:
    model = to_onnx(module)
    onnx.checker.check_model(model, full_check=True)
    return model


def kinds(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_function_literals_that_are_called(run: Run) -> None:
    module = parse(
        """#[version = "0.0.5"]
        def @main(%x: Tensor[(1, 3), float32]) {
          %0 = fn (%p0: Tensor[(1, 3), float32], Primitive=1) { add(nn.relu(%p0), 1f) };
          %1 = fn (%p0: Tensor[(1, 3), float32], Composite="a") { negative(%p0) };
          let %f = fn (%y: Tensor[(1, 3), float32]) { abs(%y) };
          %f(%1(%0(%0(%x))))
        }"""
    )
    model = written(module)
    assert kinds(model) == ["Relu", "Add", "Relu", "Add", "Neg", "Abs"]
    assert np.array_equal(run(model, {"x": X})[0], np.maximum(np.maximum(X, 0) + 1, 0) + 1)
    # the module itself is unchanged
    assert "Primitive=1" in str(module)


@pytest.mark.parametrize("level", [0, 2])
def test_a_fused_model_is_written_as_it_was_read(level: int, run: Run) -> None:
    """It has the same nodes under the same names, including the biases of its products."""
    x, w, b = var("x", shape=("n", 3)), const(np.ones((4, 3), np.float32)), const(np.arange(4, dtype=np.float32))
    dense = get_op("nn.bias_add")(get_op("nn.dense")(x, w), b)
    source = to_onnx(IRModule({"main": Function([x], get_op("nn.relu")(dense) + const(1.0))}))
    module = from_onnx(source)
    with PassContext():
        fused = FuseOps(level)(module)
    assert "Primitive=1" in str(fused)
    model = written(fused)
    assert [(node.op_type, node.name, list(node.output)) for node in model.graph.node] == [
        (node.op_type, node.name, list(node.output)) for node in source.graph.node
    ]
    assert np.array_equal(run(model, {"x": X})[0], run(source, {"x": X})[0])


CONTROL_FLOW = """
g (float[N, 3] x, bool c, int64 n) => (float[N, 3] y, float[N, 3] z) {
  w = Constant <value_floats = [1.0, 2.0, 3.0]> ()
  a = Add(x, w)
  y = If (c) <
    then_branch = p () => (float[N, 3] q) { s = Neg(a) q = Abs(s) },
    else_branch = e () => (float[N, 3] f) { t = Relu(a) f = Neg(t) }
  >
  z = Loop (n, c, y) <body = b (int64 i, bool k, float[N, 3] v) => (bool l, float[N, 3] u) { l = Identity(k) r = Add(v, a) u = Relu(r) }>
}"""


@pytest.mark.parametrize("level", [0, 2])
def test_the_bodies_of_control_flow_are_fused_too(level: int, parse: Parse, run: Run) -> None:
    """Calls that take functions stay unchanged; the contents of the functions are fused, and written as nodes again."""
    source = parse(CONTROL_FLOW)
    module = from_onnx(source)
    with PassContext():
        fused = FuseOps(level)(module)
    assert str(fused).count("Primitive=1") == (8 if level == 0 else 5)
    model = written(fused)
    assert kinds(model) == [kind for kind in kinds(source) if kind != "Constant"]
    for branch in (True, False):
        feeds = {"x": X, "c": np.array(branch), "n": np.array(2)}
        assert all(np.array_equal(a, b) for a, b in zip(run(model, feeds), run(source, feeds), strict=True))


def test_unknown_callees_are_rejected() -> None:
    """A recursive function has no form in ONNX."""
    module = parse(
        """#[version = "0.0.5"]
        def @main(%x: Tensor[(1, 3), float32]) {
          let %f = fn (%y: Tensor[(1, 3), float32]) -> Tensor[(1, 3), float32] { %f(%y) };
          %f(%x)
        }"""
    )
    with pytest.raises(OnnxError, match="a call of a value of kind Var cannot be written to ONNX; inline it first"):
        to_onnx(module)


def test_a_local_function_with_an_invalid_element_type_is_opaque() -> None:
    constant = helper.make_node("Constant", [], ["c"], value=TensorProto(dims=[1], data_type=2**31 - 1))
    body = [constant, helper.make_node("Add", ["a", "c"], ["b"])]
    graph = helper.make_graph(
        [helper.make_node("f", ["x"], ["y"], domain="local")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("local", 1)]
    function = helper.make_function("local", "f", ["a"], ["b"], body, opsets[:1])
    module = from_onnx(helper.make_model(graph, functions=[function], opset_imports=opsets, ir_version=9))
    assert "onnx.local.f(%x" in str(module)
