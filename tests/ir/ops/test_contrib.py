"""Operators of ONNX Runtime's own domain: the values are ONNX Runtime's, and models keep their nodes."""

from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.op import OpTypeError, get_op
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

DOMAIN = "com.microsoft"
rng = np.random.default_rng(0)
X = rng.normal(size=(2, 3, 4)).astype(np.float32) * 2
BIAS = rng.normal(size=4).astype(np.float32)
TENSOR = helper.make_tensor("t", TensorProto.FLOAT, [], [1.0])
Y = rng.normal(size=(2, 5, 4)).astype(np.float32)

NODES: list[tuple[str, str, list[Array], dict[str, AnyValue]]] = [
    ("BiasGelu", "contrib.bias_gelu", [X, BIAS], {}),
    ("FastGelu", "contrib.fast_gelu", [X, BIAS], {}),
    ("QuickGelu", "contrib.quick_gelu", [X], {}),
    ("QuickGelu", "contrib.quick_gelu", [X], {"alpha": 1.0}),
    ("FusedMatMul", "contrib.fused_matmul", [X, Y], {"transB": 1, "alpha": 0.5}),
    ("FusedMatMul", "contrib.fused_matmul", [X, Y.swapaxes(1, 2).copy()], {"alpha": -3.0}),
    ("FusedMatMul", "contrib.fused_matmul", [X.swapaxes(1, 2).copy(), Y], {"transA": 1, "transB": 1}),
    ("FusedMatMul", "contrib.fused_matmul", [X[0], Y], {"transB": 1}),
]


def model_of(op_type: str, operands: list[Array], attrs: dict[str, AnyValue], opset: int = 18) -> onnx.ModelProto:
    names = [f"x{i}" for i in range(len(operands))]
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, value.shape) for name, value in zip(names, operands, strict=True)]
    node = helper.make_node(op_type, names, ["y"], domain=DOMAIN, **attrs)
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=9)


def run(model: onnx.ModelProto, operands: list[Array]) -> Array:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    found: Array = session.run(None, {f"x{i}": value for i, value in enumerate(operands)})[0]
    return found


def call_of(module: IRModule) -> Call:
    body = module["main"].body
    assert isinstance(body, Call)
    return body


@pytest.mark.parametrize(("op_type", "name", "operands", "attrs"), NODES)
def test_values_and_nodes_are_those_of_onnx_runtime(op_type: str, name: str, operands: list[Array], attrs: dict[str, AnyValue]) -> None:
    model = model_of(op_type, operands, attrs)
    module = from_onnx(model)
    call, op = call_of(module), get_op(name)
    assert call.op is op
    found = evaluate_call(op, [Tensor.dense(value) for value in operands], call.attrs, call.checked_type)
    assert isinstance(found, Tensor)
    np.testing.assert_allclose(found.numpy(), run(model, operands), rtol=1e-5, atol=1e-6)
    written = to_onnx(module)
    assert [(node.op_type, node.domain) for node in written.graph.node] == [(op_type, DOMAIN)]
    np.testing.assert_array_equal(run(written, operands), run(model, operands))


@pytest.mark.parametrize(
    ("op_type", "operands", "attrs"),
    [
        ("FusedMatMul", [X[0], BIAS], {}),  # a vector
        ("FusedMatMul", [Y, Y], {"transBatchA": 1}),
        ("BiasGelu", [X, BIAS], {"unknown": 1}),
        ("QuickGelu", [X], {"unknown": 1}),
        *(("FusedMatMul", [X[0].T, X[0]], {name: value}) for name in ("alpha", "transA", "transB") for value in ("", [1.0], TENSOR)),
        *(("QuickGelu", [X], {"alpha": value}) for value in ("", "1", [1.0], 1, TENSOR)),
        ("FusedMatMul", [X[0].T, X[0]], {"alpha": 2}),
        ("FusedMatMul", [X[0], X[0]], {"transA": 1.0}),
        ("FastGelu", [X], {}),  # without a bias it is the Gelu of the standard
        ("BiasSoftmax", [X, X], {"axis": 1, "is_inner_broadcast": 1}),
    ],
)
def test_nodes_with_unknown_attributes_stay_opaque(op_type: str, operands: list[Array], attrs: dict[str, AnyValue]) -> None:
    module = from_onnx(model_of(op_type, operands, attrs))
    assert call_of(module).op.name not in {name for _, name, _, _ in NODES}  # type: ignore[attr-defined]  # a call of an operator
    (node,) = to_onnx(module).graph.node
    assert (node.op_type, node.domain) == (op_type, DOMAIN)


@pytest.mark.parametrize(
    ("op_type", "names"), [("FusedMatMul", ["x0", ""]), ("FusedMatMul", ["", "x1"]), ("BiasGelu", ["", "x1"]), ("QuickGelu", [""])]
)
def test_an_absent_operand_is_for_onnx_runtime_to_reject(op_type: str, names: list[str]) -> None:
    model = model_of(op_type, [X, Y][: len(names)], {})
    model.graph.node[0].input[:] = names
    call = call_of(from_onnx(model))
    assert call.op.name == f"onnx.{DOMAIN}.{op_type}"  # type: ignore[attr-defined]  # an operator


def test_a_local_function_of_that_name_is_not_the_operator() -> None:
    model = model_of("QuickGelu", [X], {})
    body = helper.make_node("Neg", ["a"], ["b"])
    model.functions.append(helper.make_function(DOMAIN, "QuickGelu", ["a"], ["b"], [body], [helper.make_opsetid("", 18)]))
    assert call_of(from_onnx(model)).op is not get_op("contrib.quick_gelu")


@pytest.mark.parametrize(
    ("name", "types", "attrs", "reason"),
    [
        ("contrib.fused_matmul", [(3,), (3, 4)], {}, "batches of them"),
        ("contrib.fused_matmul", [(2, 3), (3, 4)], {"alpha": float("inf")}, "must be finite"),
        ("contrib.fused_matmul", [(2, 3), (3, 4)], {"transpose_b": True}, "have 3 elements, but columns of the right operand have 4"),
        ("contrib.bias_gelu", [(2, 3), (4,)], {}, "as long as its last axis"),
        ("contrib.fast_gelu", [(2, 3), (2, 3)], {}, "as long as its last axis"),
        ("contrib.quick_gelu", [(2, 3)], {"alpha": float("nan")}, "must be finite"),
    ],
)
def test_wrong_types(name: str, types: list[tuple[int, ...]], attrs: dict[str, AnyValue], reason: str) -> None:
    op = get_op(name)
    with pytest.raises(OpTypeError, match=reason):
        op.infer([TensorType(shape, "float32") for shape in types], op.bind_attrs(attrs))
