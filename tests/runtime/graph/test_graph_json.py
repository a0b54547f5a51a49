"""Graphs in TVM's JSON: the schema, execution with functions of the user's, and texts that are no graphs."""

import json
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from passat.ir.expr import Function, var
from passat.ir.types import TupleType
from passat.relay import nn
from passat.rules.passes.fuse_ops import fuse_ops
from passat.runtime.graph import GraphError, GraphExecutor, GraphRuntimeCodegen, read_graph
from passat.runtime.graph.build import build
from passat.runtime.graph.codegen import InputNode, NodeRef, OpNode
from passat.runtime.module import Module
from passat.runtime.values import NDArray
from tests.runtime.graph.programs import X, layer, weights


def chain(function: str = "myadd") -> dict[str, AnyValue]:
    """A graph of one call, as TVM's tests write it."""
    attrs = {"func_name": function, "flatten_data": "1", "num_inputs": "1", "num_outputs": "1"}
    return {
        "nodes": [
            {"op": "null", "name": "x", "inputs": []},
            {"op": "tvm_op", "name": "add", "inputs": [[0, 0, 0]], "attrs": attrs},
        ],
        "arg_nodes": [0],
        "node_row_ptr": [0, 1, 2],
        "heads": [[1, 0, 0]],
        "attrs": {
            "shape": ["list_shape", [[4], [4]]],
            "dltype": ["list_str", ["float32", "float32"]],
            "storage_id": ["list_int", [0, 1]],
        },
    }


def add_one(x: NDArray, out: NDArray) -> None:
    out.copyfrom(x.numpy() + 1)


def test_nodes_can_be_added_by_hand() -> None:
    x = var("x", shape=(4,))
    codegen = GraphRuntimeCodegen(target="numpy")
    ref = codegen.add_node(InputNode("x"), x)
    assert ref == NodeRef(0)
    assert ref.to_json() == [0, 0, 0]
    node = OpNode("call", {}, "f", [ref], {"flag": "1"})
    assert codegen.add_node(node, TupleType([x.checked_type, x.checked_type])) == (NodeRef(1), NodeRef(1, 1))
    assert node.to_json() == {
        "op": "tvm_op",
        "name": "call",
        "attrs": {"flag": "1", "func_name": "f", "flatten_data": "0", "num_inputs": "1", "num_outputs": "2"},
        "inputs": [[0, 0, 0]],
    }


def test_the_memory_plan_as_text() -> None:
    func = fuse_ops(Function([x := var("x", shape=(4,))], nn.softmax(x)))
    text = GraphRuntimeCodegen(target="numpy").debug_dump_memory_plan(func)
    assert "/* storage=[1] */" in text


def test_functions_of_the_user_take_arrays() -> None:
    executor = GraphExecutor(json.dumps(chain()), Module({"myadd": add_one}))
    executor.set_input("x", np.arange(4, dtype=np.float32))
    executor.run()
    assert executor.get_output(0).numpy().tolist() == [1, 2, 3, 4]


def test_the_schema() -> None:
    graph = json.loads(build(layer(), "numpy", params=weights()).get_graph_json())
    assert set(graph) == {"nodes", "arg_nodes", "heads", "attrs", "node_row_ptr"}
    assert graph["attrs"]["shape"][0] == "list_shape"
    assert graph["attrs"]["dltype"][0] == "list_str"
    assert graph["attrs"]["storage_id"][0] == "list_int"
    call = graph["nodes"][-1]
    assert call["op"] == "tvm_op"
    assert all(isinstance(value, str) for value in call["attrs"].values())
    assert {"func_name", "flatten_data", "num_inputs", "num_outputs"} <= set(call["attrs"])
    assert graph["node_row_ptr"] == list(range(len(graph["nodes"]) + 1))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nodes": 3}, "'nodes' of the graph must be a list"),
        ({"heads": [[7, 0, 0]]}, "must be an integer from 0 to 1"),
        ({"arg_nodes": [1]}, "which is not an input"),
        ({"arg_nodes": []}, "lacks the input 'x', which is node 0"),
        ({"arg_nodes": [0, 0]}, "names one twice"),
        ({"node_row_ptr": [0, 1]}, "'node_row_ptr' of the graph must be"),
        ({"attrs": {}}, "'shape' of the graph must be"),
    ],
)
def test_wrong_graphs(change: dict[str, AnyValue], message: str) -> None:
    with pytest.raises(GraphError, match=message):
        read_graph(json.dumps(chain() | change))


@pytest.mark.parametrize("dtype", [{}, [], 1, "0" * 5000])
def test_an_unknown_element_type(dtype: AnyValue) -> None:
    graph = chain()
    graph["attrs"]["dltype"][1][0] = dtype
    with pytest.raises(GraphError, match=r"the graph has the unknown element type .{1,60}$"):
        read_graph(json.dumps(graph))


def test_a_node_reads_only_earlier_ones() -> None:
    graph = chain()
    graph["nodes"][1]["inputs"] = [[1, 0, 0]]
    with pytest.raises(GraphError, match="an input of node 1"):
        read_graph(json.dumps(graph))


def test_a_missing_function() -> None:
    with pytest.raises(GraphError, match="the node 'add' calls 'other', which the library does not have"):
        GraphExecutor(json.dumps(chain("other")), Module({"myadd": add_one}))


def test_a_result_of_another_type() -> None:
    graph = chain("__nop")
    graph["attrs"]["shape"][1] = [[4], [5]]
    executor = GraphExecutor(json.dumps(graph), Module())
    with pytest.raises(GraphError, match="the node 'add' cannot give 4 elements the type"):
        executor.run()


def test_a_plan_that_overwrites_a_value() -> None:
    graph = chain("__copy")
    graph["nodes"].append({**graph["nodes"][1], "name": "again"})
    graph["node_row_ptr"].append(3)
    graph["heads"] = [[2, 0, 0]]
    for key, value in (("shape", [4]), ("dltype", "float32"), ("storage_id", 2)):
        graph["attrs"][key][1].append(value)
    graph["attrs"]["storage_id"][1][1] = 0
    executor = GraphExecutor(json.dumps(graph), Module())
    with pytest.raises(GraphError, match="the plan of the graph overwrites the storage 0"):
        executor.run()


@given(
    st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=8,
    )
)
def test_arbitrary_json_is_rejected_with_a_sentence(value: AnyValue) -> None:
    with pytest.raises(GraphError):
        read_graph(json.dumps(value))
    for key in chain():
        graph = chain()
        if graph[key] != value:
            with pytest.raises(GraphError):
                read_graph(json.dumps(graph | {key: {"a": value}}))


def test_inputs() -> None:
    executor = GraphExecutor(json.dumps(chain()), Module({"myadd": add_one}))
    assert (executor.get_input_index("x"), executor.get_input_index("y"), executor.get_input("y")) == (0, -1, None)
    assert executor.get_input_info() == ({"x": (4,)}, {"x": "float32"})
    with pytest.raises(GraphError, match="the graph has no input 'y'; it has: x"):
        executor.set_input("y", X)
    with pytest.raises(TypeError, match="the input 'x' has type"):
        executor.set_input("x", X)
    with pytest.raises(GraphError, match="call run"):
        executor.get_output(0)
    with pytest.raises(GraphError, match="there is no result 1"):
        executor.get_output(1)
    given_input = executor.get_input(0)
    assert given_input is not None
    given_input.copyfrom(np.ones(4))
    executor.run()
    assert executor.get_output(0).numpy().tolist() == [2, 2, 2, 2]
    other = GraphExecutor(json.dumps(chain()), Module({"myadd": add_one}))
    from passat.runtime.graph import save_param_dict

    other.share_params(executor, save_param_dict({"x": np.ones(4, np.float32)}))
    other.run()
    assert other.get_output(0).numpy().tolist() == [2, 2, 2, 2]
