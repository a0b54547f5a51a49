"""Compares single ONNX nodes with ONNX Runtime and onnx's reference: kernel, type, static and dynamic form, and written form."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from passat.ir.dtypes import to_numpy
from passat.ir.evaluate import Value, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from passat.ir.infer import infer_type, known_value
from passat.ir.onnx_mapping import READERS, OnnxNode
from passat.ir.op import Op, get_op, list_ops
from passat.ir.ops.static_forms import static_form
from passat.ir.shape import Any, Dim, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType, Type

MODULES = frozenset(
    f"passat.ir.ops.{name}"
    for name in (
        "blocks",
        "creation",
        "dynamic",
        "indexing",
        "movement",
        "padding",
        "reshaping",
        "scattering",
        "selection",
        "slicing",
        "splitting",
    )
)


class Emitter:
    """Collects the nodes of writers, as an exporter would."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.nodes_: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def node(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int = 1, domain: str = ""
    ) -> str:
        return self.nodes(op_type, inputs, attrs, outputs=outputs, domain=domain)[0]

    def nodes(
        self, op_type: str, inputs: Sequence[str], attrs: Mapping[str, AnyValue] | None = None, *, outputs: int, domain: str = ""
    ) -> list[str]:
        names = [f"t{len(self.nodes_)}_{i}" for i in range(outputs)]
        plain = {name: _proto(value.numpy(), "") if isinstance(value, Tensor) else value for name, value in (attrs or {}).items()}
        self.nodes_.append(helper.make_node(op_type, list(inputs), names, domain=domain, **plain))
        return names

    def constant(self, value: Tensor | Array) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(_proto(value.numpy() if isinstance(value, Tensor) else value, name))
        return name


def _proto(array: Array, name: str) -> onnx.TensorProto:
    return onnx.numpy_helper.from_array(np.array(array), name)


def write(expr: Expr, opset: int) -> onnx.ModelProto:
    """A model of an expression, checked by onnx."""
    emit = Emitter(opset)
    names: dict[int, list[str]] = {}
    inputs: list[onnx.ValueInfoProto] = []
    for node in post_order(expr):
        found: str | Sequence[str] = ""
        if isinstance(node, Var):
            found = node.name_hint
            inputs.append(_value_info(found, node.checked_type))
        elif isinstance(node, Constant):
            found = emit.constant(node.data)
        elif isinstance(node, Tuple):
            found = [name for field in node.fields for name in names[id(field)]]
        elif isinstance(node, TupleGetItem):
            found = names[id(node.tuple_value)][node.index]
        elif isinstance(node, Call):
            assert isinstance(node.op, Op)
            assert node.op.to_onnx is not None
            found = node.op.to_onnx(node, [name for arg in node.args for name in names[id(arg)]], emit)
        names[id(node)] = [found] if isinstance(found, str) else list(found)
    (result,) = names[id(expr)]
    if not emit.nodes_ or result not in emit.nodes_[-1].output:
        result = emit.node("Identity", [result])
    graph = helper.make_graph(emit.nodes_, "g", inputs, [_value_info(result, expr.checked_type)], emit.constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    onnx.checker.check_model(onnx.shape_inference.infer_shapes(model, strict_mode=True))
    return model


def _value_info(name: str, type_: Type) -> onnx.ValueInfoProto:
    assert isinstance(type_, TensorType)
    element = helper.np_dtype_to_tensor_dtype(to_numpy(type_.dtype))
    return helper.make_tensor_value_info(name, element, [dim if isinstance(dim, int) else None for dim in type_.shape])


def run(model: onnx.ModelProto, feeds: Mapping[str, Array], *, reference: bool) -> list[Array]:
    """The outputs of a model on ONNX Runtime without optimizations, or by onnx's reference implementation."""
    wanted = {value.name for value in model.graph.input}
    used = {name: array for name, array in feeds.items() if name in wanted}
    if reference:
        found = ReferenceEvaluator(model).run(None, used)
        assert isinstance(found, list)
        return [np.asarray(value) for value in found]
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return [np.asarray(value) for value in session.run(None, used)]


def evaluated(expr: Expr, feeds: Mapping[str, Array]) -> Array:
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
            values[id(node)] = evaluate_call(node.op, [values[id(arg)] for arg in node.args], node.attrs, node.checked_type)
    return _array(values[id(expr)])


def run_dim(dim: Dim, sizes: Mapping[str, int]) -> int | None:
    """The value of a dimension for given sizes, including quotients, minima and maxima; None if unknown."""
    if isinstance(dim, Any):
        return None
    if isinstance(dim, int):
        return dim
    scope = {"max": max, "min": min, "__builtins__": {}}
    total = 0
    for names, coefficient in dim.terms:
        total += coefficient * math.prod(eval(name, scope, dict(sizes)) for name in names)
    return total


def parts_of(expr: Expr, count: int) -> list[Expr]:
    if isinstance(infer_type(expr).checked_type, TupleType):
        return [infer_type(TupleGetItem(expr, i)) for i in range(count)]
    return [expr]


class Bench:
    """Reads single nodes in all their forms, and compares each with the same expected result."""

    def value(self, op: str, operands: Sequence[Array | tuple[Array, ...]], **attrs: AnyValue) -> AnyValue:
        """The value of one of Passat's operators on arrays, checked against its inferred type: an array, or a tuple of arrays."""
        args = [tuple(map(Tensor.dense, value)) if isinstance(value, tuple) else Tensor.dense(value) for value in operands]
        types: list[Type] = []
        for arg in args:
            fields = arg if isinstance(arg, tuple) else (arg,)
            found = [TensorType(field.shape, field.dtype) for field in fields]
            types.append(TupleType(found) if isinstance(arg, tuple) else found[0])
        bound = get_op(op).bind_attrs(attrs)
        result = evaluate_call(get_op(op), args, bound, get_op(op).infer(types, bound))
        return tuple(map(_array, result)) if isinstance(result, tuple) else result.numpy()

    def call(self, op: str, operands: Sequence[Expr | tuple[Expr, ...]], **attrs: AnyValue) -> Expr:
        """A typed call of one of Passat's operators."""
        args = [Tuple(operand) if isinstance(operand, tuple) else operand for operand in operands]
        return infer_type(get_op(op)(*args, **attrs))

    def written(self, expr: Expr | None, opset: int) -> list[str]:
        """The operators of the nodes that an expression is written as."""
        assert expr is not None
        return [node.op_type for node in write(parts_of(expr, 1)[0], opset).graph.node]

    def written_agrees(
        self, op: str, operands: Sequence[Expr | tuple[Expr, ...]], arrays: Sequence[Array], opset: int, /, **attrs: AnyValue
    ) -> None:
        """Compares the written form of a call, run by ONNX Runtime, with the kernel; `arrays` are the values of its variables in order."""
        expr = self.call(op, operands, **attrs)
        names = dict.fromkeys(node.name_hint for node in post_order(expr) if isinstance(node, Var))
        feeds = dict(zip(names, arrays, strict=True))
        for part in parts_of(expr, 2):
            same(run(write(part, opset), feeds, reference=False)[0], evaluated(part, feeds))

    def operators(self) -> list[Op]:
        """The operators that move, select or create elements."""
        return [op for op in list_ops() if op.relation.__module__ in MODULES]

    def run_dim(self, dim: Dim, sizes: Mapping[str, int]) -> int | None:
        return run_dim(dim, sizes)

    def node(
        self, op_type: str, version: int, operands: Sequence[Expr | None], attrs: Mapping[str, AnyValue], outputs: int = 1
    ) -> Expr | None:
        found = READERS[op_type](OnnxNode(op_type, version, operands, attrs, outputs))
        assert found is None or isinstance(found, Expr)
        return None if found is None else infer_type(found)

    def model(
        self, op_type: str, version: int, arrays: Sequence[Array | None], attrs: Mapping[str, AnyValue], outputs: int = 1
    ) -> onnx.ModelProto:
        names = ["" if array is None else f"x{i}" for i, array in enumerate(arrays)]
        inputs = [
            helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
            for name, array in zip(names, arrays, strict=True)
            if array is not None
        ]
        results = [f"y{i}" for i in range(outputs)]
        plain = {name: _proto(value, "") if isinstance(value, np.ndarray) else value for name, value in attrs.items()}
        graph = helper.make_graph(
            [helper.make_node(op_type, names, results, **plain)],
            "g",
            inputs,
            [helper.make_empty_tensor_value_info(name) for name in results],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)], ir_version=10)

    def hold(
        self,
        op_type: str,
        version: int,
        arrays: Sequence[Array | None],
        attrs: Mapping[str, AnyValue] | None = None,
        *,
        opsets: Collection[int] = (),
        outputs: int = 1,
        variable: Collection[int] = (0,),
        reference: bool = False,
        symbolic: bool = True,
        dynamic: bool = True,
    ) -> Expr:
        """Compares a node, with the operands `variable` as inputs and the others as constants, with its result, and its written form in
        `version` and `opsets`; then with symbolic sizes, then with all operands as inputs. Returns the expression that was read first."""
        attrs = attrs or {}
        feeds = {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
        expected = run(self.model(op_type, version, arrays, attrs, outputs), feeds, reference=reference)
        plain = {name: Tensor.dense(value) if isinstance(value, np.ndarray) else value for name, value in attrs.items()}
        operands = [None if array is None else self._operand(i, array, i in variable) for i, array in enumerate(arrays)]
        expr = self.node(op_type, version, operands, plain, outputs)
        assert expr is not None, f"{op_type} was not read"
        self._check(expr, feeds, expected, [version, *opsets], reference=reference)
        if symbolic:
            self._check_symbols(op_type, version, arrays, plain, variable, expected)
        if dynamic and len(variable) < len(arrays):
            self._check_dynamic(op_type, version, arrays, plain, expected, reference=reference)
        return expr

    def _operand(self, index: int, array: Array, variable: bool) -> Expr:
        data = Tensor.dense(array)
        return Var(f"x{index}", TensorType(data.shape, data.dtype)) if variable else Constant(data)

    def _check(self, expr: Expr, feeds: Mapping[str, Array], expected: Sequence[Array], opsets: Sequence[int], *, reference: bool) -> None:
        for part, wanted in zip(parts_of(expr, len(expected)), expected, strict=True):
            type_ = part.checked_type
            assert isinstance(type_, TensorType)
            assert type_.dtype == Tensor.dense(wanted).dtype
            assert len(type_.shape) == wanted.ndim
            assert all(not isinstance(dim, int) or dim == size for dim, size in zip(type_.shape, wanted.shape, strict=True)), type_
            same(evaluated(part, feeds), wanted)
            for opset in opsets:
                same(run(write(part, opset), feeds, reference=reference)[0], wanted)

    def _check_symbols(
        self,
        op_type: str,
        version: int,
        arrays: Sequence[Array | None],
        attrs: Mapping[str, AnyValue],
        variable: Collection[int],
        expected: Sequence[Array],
    ) -> None:
        """Checks that the type with a symbol for each size of the first operand is right for these sizes."""
        first = arrays[0]
        assert first is not None
        sizes = {f"d{axis}": size for axis, size in enumerate(first.shape)}
        operands = [None if array is None else self._operand(i, array, i in variable) for i, array in enumerate(arrays)]
        operands[0] = Var("x0", TensorType(map(SymDim.named, sizes), Tensor.dense(first).dtype))
        found = self.node(op_type, version, operands, attrs, len(expected))
        if found is None:
            return
        for part, wanted in zip(parts_of(found, len(expected)), expected, strict=True):
            assert isinstance(part.checked_type, TensorType)
            dims = [run_dim(dim, sizes) for dim in part.checked_type.shape]
            assert len(dims) == wanted.ndim
            assert all(dim is None or dim == size for dim, size in zip(dims, wanted.shape, strict=True)), (part.checked_type, wanted.shape)

    def _check_dynamic(
        self,
        op_type: str,
        version: int,
        arrays: Sequence[Array | None],
        attrs: Mapping[str, AnyValue],
        expected: Sequence[Array],
        *,
        reference: bool,
    ) -> None:
        """Checks that with all operands as inputs the result is the same, and that of the static form for the given values, too."""
        operands = [None if array is None else self._operand(i, array, True) for i, array in enumerate(arrays)]
        found = self.node(op_type, version, operands, attrs, len(expected))
        if found is None:
            return
        assert isinstance(found, Call)
        feeds = {f"x{i}": array for i, array in enumerate(arrays) if array is not None}
        self._check(found, feeds, expected, [version], reference=reference)
        assert isinstance(found.op, Op)
        if not found.op.name.startswith("dyn."):
            return
        fixed = [Constant(Tensor.dense(feeds[arg.name_hint])) if isinstance(arg, Var) else arg for arg in found.args]
        constants = [arg.data if isinstance(arg, Constant) else None for arg in fixed]
        types = [arg.checked_type for arg in fixed]
        form = static_form(found.op.name, types, [known_value(arg) for arg in fixed], found.attrs, constants)
        assert form is not None, found.op.name
        static = infer_type(get_op(form.op)(*(fixed[i] for i in form.operands), **form.attrs))
        for part, wanted in zip(parts_of(static, len(expected)), expected, strict=True):
            same(evaluated(part, feeds), wanted)


def _array(value: AnyValue) -> Array:
    assert isinstance(value, Tensor)
    return value.numpy()


def same(found: Array, wanted: Array) -> None:
    """Raises AssertionError if shapes, element types or elements differ."""
    assert found.dtype == wanted.dtype or {found.dtype.kind, wanted.dtype.kind} <= set("OU")
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.fixture(scope="session")
def bench() -> Bench:
    return Bench()
