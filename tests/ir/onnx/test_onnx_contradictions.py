"""Models that contradict themselves in several places: all contradictions are reported, but not their consequences."""

from collections.abc import Sequence

import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, NodeProto, TensorProto, helper

from passat.ir.diagnostics import DiagnosticError
from passat.ir.onnx import OnnxError, from_onnx
from tests.share import share


def model(nodes: Sequence[NodeProto], outputs: dict[str, list[int]]) -> ModelProto:
    """A model of the inputs a: (2, 3), b: (4), c: bool."""
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("a", [2, 3]), ("b", [4]))]
    inputs.append(helper.make_tensor_value_info("c", TensorProto.BOOL, []))
    results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()]
    graph = helper.make_graph(nodes, "g", inputs, results)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def rejected(proto: ModelProto) -> OnnxError:
    with pytest.raises(OnnxError) as caught:
        from_onnx(proto)
    return caught.value


def node(op_type: str, inputs: list[str], output: str, name: str = "") -> NodeProto:
    return helper.make_node(op_type, inputs, [output], name=name)


def test_all_contradictions_in_one_go() -> None:
    nodes = [
        node("Add", ["a", "b"], "s", "first"),
        node("Relu", ["s"], "r"),
        node("MatMul", ["a", "a"], "m", "second"),
        node("Add", ["r", "m"], "o", "follows"),
        node("Relu", ["a"], "p"),
    ]
    proto = model(nodes, {"o": [2], "p": [2, 3]})
    proto.graph.output[1].type.tensor_type.elem_type = TensorProto.INT64
    error = rejected(proto)
    assert isinstance(error, DiagnosticError)
    assert (
        error.render()
        == """\
error: node 'first' (Add) does not accept operands of types float32[2, 3], float32[4]: Incompatible dimensions
 --> node "first", which produces "s"
  |
  | s = Add(a, b)
  |   a: float32[2, 3]
  |   b: float32[4]

error: node 'second' (MatMul) does not accept operands of types float32[2, 3], float32[2, 3]: Incompatible dimensions for matrix multiplication
 --> node "second", which produces "m"
  |
  | m = MatMul(a, a)
  |   a: float32[2, 3]

error: 'p' is declared as int64[2, 3], but the Relu node that produces 'p' returns float32[2, 3]
 --> the producer of "p\""""
    )
    assert str(error).split("\n") == [found.message for found in error.diagnostics]


@pytest.mark.parametrize("given", ["<axes: ints = []>(x)", "(x, none)"])
def test_an_empty_list_of_axes_to_squeeze_promises_no_shape(given: str) -> None:
    """For ONNX it means none of them, for ONNX Runtime all of size 1; the declarations there are not trusted."""
    opset, constants = (13, "<int64[0] none = {}>") if "none" in given else (11, "")
    proto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}]> g (float[1, 3] x) => (float[n] y) {constants} {{ y = Squeeze{given} }}'
    )
    assert repr(from_onnx(proto)["main"].body.checked_type) == "_"


def test_one_contradiction_is_one_sentence() -> None:
    error = rejected(model([node("Add", ["a", "b"], "s", "first")], {"s": [2, 3]}))
    assert str(error) == "node 'first' (Add) does not accept operands of types float32[2, 3], float32[4]: Incompatible dimensions"
    assert len(error.diagnostics) == 1


def test_contradictions_in_subgraphs() -> None:
    branches = {}
    for branch in ("then_branch", "else_branch"):
        inner = node("Add", ["a", "b"], f"{branch}_s", branch)
        branches[branch] = helper.make_graph([inner], branch, [], [helper.make_tensor_value_info(f"{branch}_s", TensorProto.FLOAT, None)])
    choice = helper.make_node("If", ["c"], ["s"], name="choice", **branches)
    error = rejected(model([choice, node("MatMul", ["a", "s"], "o"), node("MatMul", ["a", "b"], "p", "last")], {"o": [2], "p": [2]}))
    assert sorted(found.span.source_name for found in error.diagnostics if found.span is not None) == ["else_branch", "last", "then_branch"]


def test_nodes_out_of_order_are_reported_once() -> None:
    nodes = [node("Add", ["a", "b"], "s", "first"), node("Relu", ["late"], "o"), node("Relu", ["a"], "late")]
    assert len(rejected(model(nodes, {"s": [2], "o": [2, 3]})).diagnostics) == 1


def test_other_errors_do_not_hide_contradictions() -> None:
    nodes = [node("Add", ["a", "b"], "s", "first"), helper.make_node("Foo", ["a"], ["o"], domain="nowhere")]
    first, second = str(rejected(model(nodes, {"o": [2, 3]}))).split("\n")
    assert first.startswith("node 'first' (Add) does not accept")
    assert "'nowhere', which the model does not import" in second


def test_no_more_than_a_hundred_are_looked_for() -> None:
    nodes = [node("Add", ["a", "b"], f"s{i}", f"node{i}") for i in range(300)]
    error = rejected(model(nodes, {"s299": [2, 3]}))
    assert len(error.diagnostics) == 100
    assert str(error).endswith("\n... and 80 more")


@settings(max_examples=share(15, 30))
@given(st.lists(st.booleans(), min_size=1, max_size=10))
def test_exactly_the_nodes_that_contradict(right: list[bool]) -> None:
    nodes, last = [], "a"
    for i, fine in enumerate(right):
        nodes.append(node("Add", ["a", "a" if fine else "b"], f"s{i}", f"node{i}"))
        nodes.append(node("Add", [last, f"s{i}"], f"t{i}", f"sum{i}"))
        last = f"t{i}"
    proto = model(nodes, {last: [2, 3]})
    if all(right):
        assert len(from_onnx(proto)) == 1
        return
    places = [found.span.source_name for found in rejected(proto).diagnostics if found.span is not None]
    assert places == [f"node{i}" for i, fine in enumerate(right) if not fine]


@pytest.mark.parametrize("op", ["NonZero", "Squeeze", "PRelu", "MaxPool", "Resize", "SplitToSequence", "ReduceMax", "ArgMax"])
def test_a_node_without_its_operands_is_rejected_by_name(op: str) -> None:
    graph = helper.make_graph([node(op, [], "y", "bare")], "g", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    assert "bare" in str(rejected(proto))
