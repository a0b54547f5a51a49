"""Nodes on constants, computed by ONNX Runtime: the same values as a session with optimizations off, and rejected nodes."""

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper

from passat.ir.onnx.ort_evaluator import MAX_BYTES, evaluate_node, evaluate_nodes
from passat.ir.tensor import Tensor

node = helper.make_node


def test_the_meaning_is_that_of_the_opset() -> None:
    x = Tensor.dense(np.zeros((2, 3), np.float32))
    found = [evaluate_node(node("Softmax", ["x"], ["y"], axis=0), [x], {"": version})[0].numpy() for version in (11, 13)]
    np.testing.assert_allclose(found[0], np.full((2, 3), 1 / 6), rtol=1e-6)
    np.testing.assert_allclose(found[1], np.full((2, 3), 1 / 2), rtol=1e-6)


@pytest.mark.parametrize("opset", [6, 7, 12, onnx.defs.onnx_opset_version()])
def test_operators_that_are_as_they_were_run_in_opsets_that_the_runtime_does_not_know(opset: int) -> None:
    x = Tensor.dense(np.array([-1.0, 2.0], np.float32))
    values = evaluate_nodes([node("Relu", ["x"], ["t"]), node("Neg", ["t"], ["y"])], {"x": x}, ["y"], {"": opset})
    assert values[0].numpy().tolist() == [-0.0, -2.0]


@pytest.mark.parametrize("rows", [3, 600])
def test_products_are_those_of_the_model_bit_for_bit(rows: int, run: Callable[..., Any], random: np.random.Generator) -> None:
    a, b = random.standard_normal((7, rows)).astype(np.float32), random.standard_normal((rows, 33)).astype(np.float32)
    constants = [numpy_helper.from_array(a, "a"), numpy_helper.from_array(b, "b")]
    graph = helper.make_graph([node("MatMul", ["a", "b"], ["y"])], "g", [], [helper.make_tensor_value_info("y", 1, [7, 33])], constants)
    expected = run(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), {})[0]
    found = evaluate_node(node("MatMul", ["a", "b"], ["y"]), [Tensor.dense(a), Tensor.dense(b)], {"": 17})[0]
    assert found.numpy().tobytes() == expected.tobytes()


def test_several_nodes_in_one_session() -> None:
    nodes = [node("Neg", ["x"], ["t"]), node("TopK", ["t", "k"], ["values", "indices"])]
    constants = {"x": Tensor.dense(np.array([3.0, 1.0, 2.0], np.float32)), "k": Tensor.dense(np.array([2]))}
    values, indices = evaluate_nodes(nodes, constants, ["values", "indices"], {"": 17})
    assert values.numpy().tolist() == [-1, -2]
    assert indices.numpy().tolist() == [1, 2]


def test_absent_operands_and_results() -> None:
    clip = evaluate_node(
        node("Clip", ["x", "", "high"], ["y"]), [Tensor.splat(7.0, (2,), "float32"), None, Tensor.dense(2.0, "float32")], {"": 13}
    )
    assert clip[0].numpy().tolist() == [2, 2]
    unique = evaluate_node(
        node("Unique", ["x"], ["values", "", "", "counts"], sorted=0), [Tensor.dense(np.array([3.0, 1.0, 3.0]))], {"": 17}
    )
    assert [each.numpy().tolist() for each in unique] == [[3, 1], [2, 1]]


@pytest.mark.parametrize(
    "value",
    [
        np.array([["a", "é"]], np.object_),
        np.array([1.5, -0.0, np.inf], ml_dtypes.bfloat16),
        np.array([1.5, -0.0, 448], ml_dtypes.float8_e4m3fn),
        np.array([1.5, np.nan], np.float16),
        np.array([True, False]),
        np.array(2**64 - 1, np.uint64),
        np.zeros(100_000, np.float32),
    ],
    ids=lambda value: f"{value.dtype}-{value.size}",
)
def test_element_types(value: Any) -> None:
    (found,) = evaluate_node(node("Identity", ["x"], ["y"]), [Tensor.dense(value)], {"": 19})
    assert (found.dtype, found.shape) == (Tensor.dense(value).dtype, value.shape)
    assert found.numpy().tolist() == value.tolist() or np.isnan(value[-1])


def test_elements_of_half_a_byte() -> None:
    (found,) = evaluate_node(
        node("QuantizeLinear", ["x", "s"], ["y"], output_dtype=onnx.TensorProto.INT4),
        [Tensor.dense(np.array([1.0, -9.0, 5.0], np.float32)), Tensor.dense(1.0, "float32")],
        {"": 21},
    )
    assert found.dtype == "int4"
    assert found.numpy().astype(int).tolist() == [1, -8, 5]


@pytest.mark.parametrize(
    ("proto", "operands", "opset", "message"),
    [
        (node("Max", ["x", ""], ["y"]), [Tensor.splat(1, (2,), "float32"), None], 13, "an absent input among its variadic inputs"),
        (node("Max", [], ["y"]), [], 13, "is not valid"),
        (node("Softmax", ["x"], ["y"], axes=0), [Tensor.splat(1, (2,), "float32")], 13, "is not valid: .*axes"),
        (node("NoSuch", ["x"], ["y"]), [Tensor.splat(1, (2,), "float32")], 13, "NoSuch"),
        (node("NoSuch", ["x"], ["y"], domain="mine"), [Tensor.splat(1, (2,), "float32")], 13, "unknown to the onnx package"),
        (node("Softmax", ["x"], ["y"]), [Tensor.splat(1, (2,), "int32")], 13, "ONNX Runtime failed to compute"),
        (node("Add", ["x", "y"], ["z"]), [Tensor.splat(1, (2,), "float32"), Tensor.splat(1, (3,), "float32")], 13, "failed to compute"),
        (node("Relu", ["x"], ["y"]), [Tensor.splat(1, (MAX_BYTES,), "float32")], 13, "bytes are too large to be evaluated"),
        (
            node("Unique", ["x"], ["y"], axis=0),
            [Tensor.splat(0, (2, 0), "float32")],
            13,
            "an empty operand, which crashes",
        ),
        (
            node("GatherND", ["x", "i"], ["y"], batch_dims=-2),
            [Tensor.splat(1.0, (2, 2, 2), "float32"), Tensor.splat(0, (2, 1), "int64")],
            13,
            "an invalid attribute 'batch_dims', which crashes",
        ),
        (node("Squeeze", ["x"], ["y"], axes=[2**33]), [Tensor.splat(1.0, (1,), "float32")], 11, "an invalid attribute 'axes'"),
        (node("SequenceConstruct", ["x"], ["y"]), [Tensor.splat(1, (2,), "float32")], 13, "not a tensor"),
    ],
)
def test_rejected_nodes(proto: onnx.NodeProto, operands: list[Tensor | None], opset: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evaluate_node(proto, operands, {"": opset, "mine": 1})


def test_an_invalid_node_inside_a_graph_is_rejected() -> None:
    inner = helper.make_graph(
        [node("Max", ["c", ""], ["z"])],
        "b",
        [],
        [helper.make_tensor_value_info("z", 1, [1])],
        [numpy_helper.from_array(np.ones(1, np.float32), "c")],
    )
    with pytest.raises(ValueError, match="an absent input among its variadic inputs"):
        evaluate_node(node("If", ["x"], ["y"], then_branch=inner, else_branch=inner), [Tensor.dense(True)], {"": 13})


def test_a_runtime_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    with pytest.raises(ValueError, match="is not installed"):
        evaluate_node(node("Relu", ["x"], ["y"]), [Tensor.splat(1, (2,), "float32")], {"": 13})


def test_the_model_is_unchanged() -> None:
    model = ModelProto()
    model.graph.node.append(node("Relu", ["x"], ["y"], name="first"))
    before = model.SerializeToString()
    evaluate_node(model.graph.node[0], [Tensor.splat(1, (2,), "float32")], {"": 13})
    assert model.SerializeToString() == before
