"""Elementwise operators and reductions compared with ONNX: values with ONNX Runtime, types with its shape inference, round trips."""

import functools
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from passat.ir.attrs import Attrs
from passat.ir.dtypes import to_numpy
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.expr import Call, Constant, Expr, Tuple, Var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import ELEMENT_TYPES, READERS, OnnxNode, OnnxVersionError
from passat.ir.op import Op, get_op, list_ops
from passat.ir.shape import Shape, SymDim
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, Type
from tests.share import share

MODULES = ("activation", "along_axis", "arithmetic", "cast", "comparison", "reduction", "unary")
OPS = [op for op in list_ops() if op.relation.__module__ in [f"passat.ir.ops.{name}" for name in MODULES]]
DTYPES = ["float32", "float64", "float16", "bfloat16", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)), "bool"]
NEWEST = onnx.defs.onnx_opset_version()
RUNTIME_OPSET = 24
"""An opset that ONNX Runtime certainly supports, and the first opset that has every operator, except for the element types that opset 28
added."""
NEWER = {
    *((name, dtype) for name in ("left_shift", "right_shift") for dtype in ("int8", "int16", "int32", "int64")),
    *(("floor_mod", dtype) for dtype in ("float16", "float32", "float64")),
    *(("nn.celu", dtype) for dtype in ("float16", "float64")),
}
NUMBERS = {name: number for number, name in ELEMENT_TYPES.items()}

AXES: list[dict[str, AnyValue]] = [{}, {"axis": 1}, {"axis": (-1, 0), "keepdims": True}, {"axis": 0, "exclude": True}]
PLACES: list[dict[str, AnyValue]] = [{}, {"axis": -1, "keepdims": True}, {"axis": 1, "select_last_index": True}]
ATTRS: dict[str, list[dict[str, AnyValue]]] = {
    "argmax": PLACES,
    "argmin": PLACES,
    "cast": [{"dtype": dtype} for dtype in DTYPES],
    "clip": [{}, {"a_min": 1}, {"a_max": 2}, {"a_min": 1, "a_max": 3}, {"a_min": 3, "a_max": 1}],
    "cumsum": [{"axis": axis, "exclusive": a, "reverse": b} for axis, a, b in itertools.product((0, -1), (False, True), (False, True))],
    "isinf": [{}, {"detect_negative": False}, {"detect_positive": False}, {"detect_negative": False, "detect_positive": False}],
    "nn.celu": [{}, {"alpha": 0.3}],
    "nn.elu": [{}, {"alpha": 0.3}],
    "nn.gelu": [{}, {"approximate": "tanh"}],
    "nn.hard_sigmoid": [{}, {"alpha": 0.3, "beta": 0.1}],
    "nn.leaky_relu": [{}, {"alpha": 0.3}],
    "nn.selu": [{}, {"alpha": 0.3, "gamma": 2.0}],
    "nn.shrink": [{}, {"lambd": 0.3, "bias": 0.1}],
    "nn.swish": [{}, {"alpha": 0.3}],
    "nn.thresholded_relu": [{}, {"alpha": 0.3}, {"alpha": -0.3}],
} | {op.name: AXES for op in OPS if op.relation.__module__ == "passat.ir.ops.reduction"}

SHAPES: dict[int, list[tuple[Shape, ...]]] = {
    1: [((2, 3, 4),), ((17,),), ((),), ((2, 0),)],
    2: [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((4, 1), (1, 5)), ((), ()), ((0, 3), (1, 3))],
    3: [((2, 1), (2, 3), (3,)), ((), (2,), (2,)), ((0, 1), (3,), (1,))],
}
TUPLES: list[tuple[Shape, ...]] = [((2, 3),), ((2, 3), (3,)), ((2, 1), (1, 3), ()), ((0,), (1,), (0,))]
UNIDIRECTIONAL = [((2, 3), (2, 3)), ((2, 3), (3,)), ((2, 3), ()), ((0, 3), (1, 3))]


class FakeEmitter:
    """Collects the nodes of a writer, as an exporter would."""

    def __init__(self, opset: int) -> None:
        self.opset = opset
        self.protos: list[onnx.NodeProto] = []
        self.constants: dict[str, Array] = {}

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
        self.constants[name] = value.numpy() if isinstance(value, Tensor) else value
        return name


def call_of(op: Op, types: Sequence[TensorType], attrs: Mapping[str, AnyValue]) -> Call:
    """A call on variables of these types, packed into a tuple if the operator takes one."""
    variables = [Var(f"x{i}", type_) for i, type_ in enumerate(types)]
    call = op(Tuple(variables), **attrs) if is_variadic(op) else op(*variables, **attrs)
    infer_type(call)
    return call


def is_variadic(op: Op) -> bool:
    return op.name.startswith("elemwise_")


def model_of(call: Call, types: Sequence[TensorType], opset: int) -> tuple[onnx.ModelProto, FakeEmitter]:
    """The model that the writer of a call gives. Raises OnnxVersionError."""
    emit = FakeEmitter(opset)
    assert isinstance(call.op, Op)
    assert call.op.to_onnx is not None, f"{call.op.name} has no ONNX writer"
    result = call.op.to_onnx(call, [f"x{i}" for i in range(len(types))], emit)
    assert isinstance(result, str)
    inputs = [value_info(f"x{i}", type_) for i, type_ in enumerate(types)]
    constants = [numpy_helper.from_array(value, name) for name, value in emit.constants.items()]
    graph = helper.make_graph(emit.protos, "g", inputs, [onnx.ValueInfoProto(name=result)], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10), emit


def value_info(name: str, type_: TensorType) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, NUMBERS[type_.dtype], [dim if isinstance(dim, int) else repr(dim) for dim in type_.shape])


def samples(op: Op, dtype: str, shapes: Sequence[Shape], seed: int = 0) -> list[Array]:
    """Operands for which ONNX specifies the result."""
    rng = np.random.default_rng([seed, len(op.name)])
    arrays = []
    for i, shape in enumerate(shapes):
        size = [int(dim) for dim in shape if isinstance(dim, int)]
        if dtype == "bool" or (op.name == "where" and i == 0):
            arrays.append(rng.integers(0, 2, size).astype(np.bool_))
        elif dtype.startswith(("int", "uint")):
            signs = [1] if dtype.startswith("u") or op.name in ("power", "left_shift", "right_shift") else [-1, 1]
            lowest = 1 if i and op.name in ("divide", "floor_divide", "floor_mod", "fmod") else 0
            arrays.append((rng.integers(lowest, 7, size) * rng.choice(signs, size)).astype(dtype))
        else:
            values = rng.normal(size=size) * 2
            if op.name in ("log", "log2", "sqrt", "rsqrt", "reduce_log_sum", "power"):
                values = np.abs(values) + 0.1
            elif op.name in ("asin", "acos", "atanh"):
                values = np.tanh(values) * 0.99
            elif op.name == "acosh":
                values = np.abs(values) + 1.01
            elif op.name in ("isnan", "isinf", "isfinite"):
                values = rng.choice([np.nan, np.inf, -np.inf, 1.0], size)
            arrays.append(np.asarray(values).astype(to_numpy(dtype)))
    return [np.asarray(array) for array in arrays]


def instances(op: Op, dtype: str, attrs: Mapping[str, AnyValue]) -> Iterator[tuple[Call, list[TensorType]]]:
    """Well-typed calls on operands of an element type; none if the operator does not accept it."""
    arity = len(op.operand_names)
    for shapes in TUPLES if is_variadic(op) else UNIDIRECTIONAL if op.name == "nn.prelu" else SHAPES[arity]:
        types = [TensorType(shape, "bool" if op.name == "where" and i == 0 else dtype) for i, shape in enumerate(shapes)]
        try:
            yield call_of(op, types, attrs), types
        except TypeError:
            continue


def evaluate(call: Call, arrays: Sequence[Array]) -> Tensor:
    assert isinstance(call.op, Op)
    tensors = [Tensor.dense(array) for array in arrays]
    operands: Sequence[Value] = (tuple(tensors),) if is_variadic(call.op) else tensors
    result = evaluate_call(call.op, operands, call.attrs, call.checked_type)
    assert isinstance(result, Tensor)
    return result


@functools.cache
def options() -> onnxruntime.SessionOptions:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    return options


def run(model: onnx.ModelProto, arrays: Sequence[Array], dtype: str) -> Array | None:
    """The model's result on ONNX Runtime; by ONNX's reference if it has no kernel for integers; otherwise None."""
    feeds = {f"x{i}": array for i, array in enumerate(arrays)}
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options(), providers=["CPUExecutionProvider"])
        results: Sequence[AnyValue] = session.run(None, feeds)
        return np.asarray(results[0])
    except onnxruntime.capi.onnxruntime_pybind11_state.NotImplemented:
        return by_reference(model, feeds, dtype) if arrays[0].dtype.kind in "iu" else None
    except (RuntimeError, onnxruntime.capi.onnxruntime_pybind11_state.RuntimeException) as error:
        if any(reason in str(error) for reason in ("not defined for empty set", "No corresponding Numpy type")):
            return None
        raise


def by_reference(model: onnx.ModelProto, feeds: dict[str, Array], dtype: str) -> Array:
    """The model's result by ONNX's reference, which sums 32-bit integers to 64-bit ones."""
    with np.errstate(all="ignore"):
        results = ReferenceEvaluator(model).run(None, feeds)
    assert isinstance(results, list)
    return np.asarray(results[0], dtype)


def assert_close(found: Array, expected: Array, dtype: str, what: str) -> None:
    assert found.dtype == expected.dtype, what
    assert found.shape == expected.shape, what
    if dtype in ("float16", "bfloat16", "float32", "float64"):
        rtol = {"float16": 2e-3, "bfloat16": 1e-2, "float32": 4e-6, "float64": 1e-7}[dtype]
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=rtol, atol=rtol, err_msg=what)
    else:
        np.testing.assert_array_equal(found, expected, err_msg=what)


def result_dtype(call: Call) -> str:
    type_ = call.checked_type
    assert isinstance(type_, TensorType)
    return type_.dtype


def is_undefined(call: Call, arrays: Sequence[Array]) -> bool:
    """True if ONNX leaves the result undefined, as for some reductions of no elements."""
    type_ = call.checked_type
    assert isinstance(type_, TensorType)
    return repr(call.op) in ("mean", "argmax", "argmin") and arrays[0].size == 0 and 0 not in type_.shape


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_values_are_those_of_onnx_runtime(op: Op) -> None:
    compared: set[str] = set()
    accepted: set[str] = set()
    for dtype, attrs in itertools.product(DTYPES, ATTRS.get(op.name, [{}])):
        for call, types in instances(op, dtype, attrs):
            accepted.add(dtype)
            arrays = samples(op, dtype, [type_.shape for type_ in types])
            if op.name == "cast" and attrs["dtype"].startswith("uint"):
                arrays = [np.asarray(np.abs(array)) for array in arrays]
            what = f"{op.name}({', '.join(map(repr, types))}, {attrs})"
            if is_undefined(call, arrays):
                with pytest.raises(EvaluateError):
                    evaluate(call, arrays)
                continue
            found = evaluate(call, arrays).numpy()
            if dtype == "bfloat16":
                expected = None
            elif (op.name, dtype) in NEWER:
                feeds = {f"x{i}": array for i, array in enumerate(arrays)}
                expected = by_reference(model_of(call, types, NEWEST)[0], feeds, result_dtype(call))
            else:
                expected = run(model_of(call, types, RUNTIME_OPSET)[0], arrays, result_dtype(call))
            if expected is not None:
                assert_close(found, expected, result_dtype(call), what)
                compared.add(dtype)
            elif dtype in ("float16", "bfloat16"):
                wide = [array if array.dtype == np.bool_ else array.astype(np.float32) for array in arrays]
                wide_types = [TensorType(type_.shape, "bool" if type_.dtype == "bool" else "float32") for type_ in types]
                in_float32 = evaluate(call_of(op, wide_types, attrs), wide).numpy()
                assert_close(found, in_float32.astype(found.dtype), result_dtype(call), what)
    assert compared, f"{op.name} was compared on no element type"
    assert "float32" not in accepted or "float32" in compared
    assert "int64" not in accepted or "int64" in compared


def read_back(proto: onnx.NodeProto, opset: int, values: Mapping[str, Expr]) -> Expr | Sequence[Expr] | None:
    attrs: dict[str, AnyValue] = {}
    for attribute in proto.attribute:
        value = helper.get_attribute_value(attribute)
        attrs[attribute.name] = value.decode() if isinstance(value, bytes) else tuple(value) if isinstance(value, list) else value
    reader = READERS[proto.op_type]
    return reader(OnnxNode(proto.op_type, opset, [values[name] if name else None for name in proto.input], attrs))


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_written_nodes_are_valid_of_the_same_type_and_read_back(op: Op) -> None:
    written: dict[int, str] = {}
    # ONNX Runtime has no kernels for Swish and for the newest ReduceLogSumExp
    composed = op.name in ("floor_divide", "rsqrt", "log2", "not_equal", "isfinite", "nn.swish", "logsumexp", "trunc")
    for dtype, attrs in itertools.product(DTYPES, ATTRS.get(op.name, [{}])):
        for (call, types), opset in itertools.product(symbolic_instances(op, dtype, attrs), range(NEWEST, 6, -share(4, 1))):
            try:
                model, emit = model_of(call, types, opset)
                inferred = onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
            except (OnnxVersionError, onnx.shape_inference.InferenceError) as error:
                assert opset < NEWEST, f"{op.name} of {dtype} in opset {opset}: {error}"  # noqa: PT017  # older opsets lack operators
                continue
            written[opset] = dtype
            assert_same_type(call.checked_type, inferred.graph.output[0], f"{call.op}{types} {attrs} in opset {opset}")
            if len(emit.protos) == 1:
                values: dict[str, Expr] = {f"x{i}": Var(f"x{i}", type_) for i, type_ in enumerate(types)}
                values |= {name: Constant(array) for name, array in emit.constants.items()}
                again = read_back(emit.protos[0], opset, values)
                assert isinstance(again, Call)
                infer_type(again)
                if not is_variadic(op) or len(types) != 2:
                    # of unsigned integers, rounding down is rounding toward zero
                    assert again.op is (get_op("divide") if op.name == "floor_divide" else op)
                    # ONNX Runtime computes Clip of opset 11 on float16 in float32: absent bounds are infinite
                    assert (op.name, opset, dtype) == ("clip", 11, "float16") or same_meaning(again.attrs, call.attrs, types[0].ndim), (
                        f"{again.attrs} {call.attrs}"
                    )
                assert again.checked_type == call.checked_type
            else:
                assert composed or opset < 24
    assert NEWEST in written
    assert written[NEWEST]


def symbolic_instances(op: Op, dtype: str, attrs: Mapping[str, AnyValue]) -> Iterator[tuple[Call, list[TensorType]]]:
    n = SymDim.named("n")
    shapes: list[list[Shape]] = [[(n, 3, 5)], [(n, 3), (3,)], [(n, 1), (n, 3), (3,)]]
    chosen = [(n, 3), (n, 1), (3,)] if is_variadic(op) else shapes[len(op.operand_names) - 1]
    types = [TensorType(shape, "bool" if op.name == "where" and i == 0 else dtype) for i, shape in enumerate(chosen)]
    try:
        yield call_of(op, types, attrs), types
    except TypeError:
        return


def same_meaning(found: Attrs, given: Attrs, ndim: int) -> bool:
    """True if attributes are equivalent: axes are counted from the front, sorted, and without `exclude`."""
    if "exclude" in given:
        from passat.ir.ops.reduction import reduced_axes

        axes = [reduced_axes(ndim, attrs.axis, attrs.exclude) for attrs in (found, given)]
        return axes[0] == axes[1] and found.keepdims == given.keepdims and (found.axis is None or found.axis == axes[0])
    if "axis" in given:
        return {**found} == {**given, "axis": given.axis % ndim}
    return all(a == b for a, b in zip(found.values(), given.values(), strict=True)) and list(found) == list(given)


def assert_same_type(type_: Type, info: onnx.ValueInfoProto, what: str) -> None:
    assert isinstance(type_, TensorType)
    tensor = info.type.tensor_type
    dims = [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or "?" for dim in tensor.shape.dim]
    assert ELEMENT_TYPES[tensor.elem_type] == type_.dtype, what
    assert dims == [dim if isinstance(dim, int) else repr(dim) for dim in type_.shape], what


COMPOSED = {
    "nn.gelu": 13,
    "nn.hard_swish": 13,
    "nn.mish": 13,
    "nn.swish": 13,
    "less_equal": 11,
    "greater_equal": 11,
    "any": 13,
    "all": 13,
    "sum": 12,
    "mean": 13,
    "max": 13,
    "clip": 7,
}


@pytest.mark.parametrize("name", COMPOSED)
def test_older_opsets_write_the_same_function_of_older_operators(name: str) -> None:
    op = get_op(name)
    tried = 0
    for dtype, attrs in itertools.product(("float32", "bool"), ATTRS.get(name, [{}])):
        for call, types in instances(op, dtype, attrs):
            arrays = samples(op, dtype, [type_.shape for type_ in types])
            if is_undefined(call, arrays) or attrs == {"a_min": 3, "a_max": 1}:  # ONNX Runtime rejects that in opset 7
                continue
            expected = run(model_of(call, types, COMPOSED[name])[0], arrays, result_dtype(call))
            assert expected is not None
            assert_close(evaluate(call, arrays).numpy(), expected, result_dtype(call), f"{name} {attrs}")
            tried += 1
    assert tried


def test_strings_are_compared_and_chosen() -> None:
    words, other = np.array(["a", "b", "c"], np.object_), np.array(["a", "x", "c"], np.object_)
    strings = TensorType((3,), "string")
    for name, expected in (("equal", [True, False, True]), ("not_equal", [False, True, False])):
        call = call_of(get_op(name), [strings, strings], {})
        found = evaluate(call, [words, other]).numpy()
        assert found.dtype == np.bool_
        assert found.tolist() == expected
        ran = run(model_of(call, [strings, strings], RUNTIME_OPSET)[0], [words, other], "bool")
        assert ran is not None
        assert ran.tolist() == expected
    condition = np.array([True, False, True])
    chosen = evaluate(call_of(get_op("where"), [TensorType((3,), "bool"), strings, strings], {}), [condition, words, other])
    assert chosen.dtype == "string"
    assert chosen.numpy().tolist() == ["a", "x", "c"]
