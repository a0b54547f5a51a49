"""Shared by the tests of operators that are not elementwise: single ONNX nodes are read, evaluated, written and run."""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

import passat.ir.ops  # noqa: F401  # importing declares the operators
from passat.ir.evaluate import Value, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Span, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import ELEMENT_TYPES, READERS, OnnxNode
from passat.ir.op import Op
from passat.ir.ops.linear import accepts_bias
from passat.ir.shape import Any
from passat.ir.tensor import Array, Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, tensor_type

Operand = Array | Tensor | TensorType | None
"""An operand of a node: a variable of an array's type, a constant, a variable of a type, or absent."""


class FakeEmitter:
    """Collects the nodes of writers, as an exporter would."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.protos: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int = 1, domain: str = ""
    ) -> str:
        return self.nodes(op_type, inputs, attrs, outputs=outputs, domain=domain)[0]

    def nodes(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int, domain: str = ""
    ) -> list[str]:
        names = [f"t{len(self.protos)}_{i}" for i in range(outputs)]
        self.protos.append(helper.make_node(op_type, list(inputs), names, domain=domain, **(attrs or {})))
        return names

    def constant(self, value: Tensor | Array) -> str:
        name = f"c{len(self.constants)}"
        array = np.asarray(value.numpy() if isinstance(value, Tensor) else value, order="C")
        self.constants.append(numpy_helper.from_array(array, name))
        return name


class Nodes:
    """Reads, evaluates, writes and runs models of one node."""

    newest = onnx.defs.onnx_opset_version()
    """The newest opset of the onnx package."""
    runtime = 24
    """A newest opset that ONNX Runtime certainly supports."""

    def read(self, op_type: str, version: int, operands: Sequence[Operand], n_outputs: int = 1, /, **attrs: AnyValue) -> Expr | None:
        """The result of the reader for a node, with types; None if the node is opaque."""
        inputs = [None if operand is None else self._variable(f"x{i}", operand) for i, operand in enumerate(operands)]
        found = READERS[op_type](OnnxNode(op_type, version, inputs, attrs, n_outputs, Span("node", outputs=("y",))))
        if found is None:
            return None
        return infer_type(found if isinstance(found, Expr) else found[0])

    def _variable(self, name: str, operand: Array | Tensor | TensorType) -> Expr:
        if isinstance(operand, Tensor):
            return Constant(operand)
        if isinstance(operand, TensorType):
            return Var(name, operand)
        return Var(name, TensorType(operand.shape, Tensor.dense(operand).dtype))

    def evaluate(self, expr: Expr, feeds: Mapping[str, Array]) -> Array:
        """The value of an expression computed by the kernels, each checked against the inferred type."""
        values: dict[int, Value] = {}
        for node in post_order(expr):
            if isinstance(node, Var):
                values[id(node)] = Tensor.dense(feeds[node.name_hint])
            elif isinstance(node, Constant):
                values[id(node)] = node.data
            elif isinstance(node, Tuple):
                values[id(node)] = tuple(values[id(field)] for field in node.fields)
            elif isinstance(node, TupleGetItem):
                whole = values[id(node.tuple_value)]
                assert isinstance(whole, tuple)
                values[id(node)] = whole[node.index]
            elif isinstance(node, Call):
                assert isinstance(node.op, Op)
                args = [values[id(arg)] for arg in node.args]
                values[id(node)] = evaluate_call(node.op, args, node.attrs, node.checked_type)
        found = values[id(expr)]
        assert isinstance(found, Tensor)
        return found.numpy()

    def write(self, expr: Expr, opset: int) -> onnx.ModelProto:
        """A model of an expression with types, with biases fused into products where possible; checked by onnx."""
        emit = FakeEmitter(opset)
        names: dict[int, list[str]] = {}
        inputs: dict[str, onnx.ValueInfoProto] = {}
        order = post_order(infer_type(expr))
        merged = {id(node.args[0]) for node in order if isinstance(node, Call) and _is_merged(node)}
        for node in order:
            if id(node) in merged:
                continue
            if isinstance(node, Var):
                names[id(node)] = [node.name_hint]
                inputs[node.name_hint] = _declaration(node.name_hint, tensor_type(node.checked_type))
            elif isinstance(node, Constant):
                names[id(node)] = [emit.constant(node.data)]
            elif isinstance(node, Tuple):
                names[id(node)] = [name for field in node.fields for name in names[id(field)]] or [""]
            elif isinstance(node, TupleGetItem):
                names[id(node)] = [names[id(node.tuple_value)][node.index]]
            elif isinstance(node, Call):
                assert isinstance(node.op, Op)
                call, args = node, node.args
                if _is_merged(node):
                    assert isinstance(node.args[0], Call)
                    call, args = node.args[0], (*node.args[0].args, node.args[1])
                assert isinstance(call.op, Op)
                assert call.op.to_onnx is not None
                written = call.op.to_onnx(call, [name for arg in args for name in names[id(arg)]], emit)
                names[id(node)] = [written] if isinstance(written, str) else list(written)
        output = _declaration(names[id(expr)][0], tensor_type(expr.checked_type))
        graph = helper.make_graph(emit.protos, "g", list(inputs.values()), [output], emit.constants)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
        # onnx infers no types for results of GroupNormalization, and wrong ones with ceil_mode before opset 22
        wrong = any(node.op_type == "GroupNormalization" or any(a.name == "ceil_mode" for a in node.attribute) for node in emit.protos)
        onnx.checker.check_model(model, full_check=not wrong)
        return model

    def model(self, op_type: str, version: int, arrays: Sequence[Array | None], /, **attrs: AnyValue) -> onnx.ModelProto:
        """A model of one node on inputs of the arrays' types, called x0, x1 ..."""
        names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
            if array is not None
        ]
        node = helper.make_node(op_type, names, ["y"], **attrs)
        graph = helper.make_graph([node], "g", inputs, [helper.make_empty_tensor_value_info("y")])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)

    def session(self, model: onnx.ModelProto) -> onnxruntime.InferenceSession:
        """A session of ONNX Runtime without optimizations."""
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])

    def run(self, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
        """The output of a model on ONNX Runtime without optimizations."""
        session = self.session(model)
        wanted = {value.name for value in session.get_inputs()}
        found: Array = session.run(None, {name: array for name, array in feeds.items() if name in wanted})[0]
        return found

    def refer(self, model: onnx.ModelProto, feeds: Mapping[str, Array]) -> Array:
        """The output of a model by onnx's reference implementation, for operators without a kernel in ONNX Runtime."""
        found: Array = ReferenceEvaluator(model).run(None, dict(feeds))[0]  # type: ignore[index]  # of one output, a list
        return found

    def agree(
        self, op_type: str, version: int, arrays: Sequence[Array | None], opsets: Sequence[int] = (), /, **attrs: AnyValue
    ) -> list[list[str]]:
        """Compares the kernel, and the model written in `version` and in `opsets`, with ONNX Runtime's result of a node. Returns the
        written operators by opset.
        """
        feeds = {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
        expected = self.run(self.model(op_type, version, arrays, **attrs), feeds)
        expr = self.read(op_type, version, arrays, **attrs)
        assert expr is not None
        assert tensor_type(expr.checked_type).shape == expected.shape
        close(self.evaluate(expr, feeds), expected)
        written: list[list[str]] = []
        for opset in (version, *opsets):
            model = self.write(expr, opset)
            close(self.run(model, feeds), expected)
            written.append([node.op_type for node in model.graph.node])
        return written


def _declaration(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    element = next(number for number, dtype in ELEMENT_TYPES.items() if dtype == type_.dtype)
    dims = [None if isinstance(dim, Any) else dim if isinstance(dim, int) else repr(dim) for dim in type_.shape]
    return helper.make_tensor_value_info(name, element, dims)


def _is_merged(call: Call) -> bool:
    return isinstance(call.op, Op) and call.op.name == "nn.bias_add" and accepts_bias(call)


def close(found: Array, expected: Array) -> None:
    """Raises AssertionError if shapes or element types differ, or elements by more than rounding."""
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    tolerance = {2: 4e-3, 4: 2e-5}.get(found.dtype.itemsize, 1e-10)
    np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.fixture(scope="session")
def nodes() -> Nodes:
    return Nodes()
