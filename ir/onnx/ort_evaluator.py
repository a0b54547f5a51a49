"""Evaluates nodes on constants by ONNX Runtime with optimizations disabled, which defines the result of constant folding.

Constants are passed as initializers, as in the original model, because ONNX Runtime prepacks the weights of products, which changes their
rounding. ONNX Runtime's exceptions have no common base class but Exception, so that is caught.
"""

import ctypes
from collections.abc import Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper

from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.onnx.attributes import absurd_attribute, schema_of
from passat.ir.onnx.errors import raise_interrupt
from passat.ir.onnx.scope import describe, inner_nodes
from passat.ir.onnx.tensors import EXTERNAL, dense_proto, read_tensor
from passat.ir.onnx.value_types import NUMBERS
from passat.ir.onnx_mapping import ELEMENT_TYPES
from passat.ir.onnx_runtime import onnx_runtime
from passat.ir.tensor import Array, Tensor

MAX_BYTES: Final = 1 << 30
"""Maximum total size in bytes of constants that are evaluated."""
OLDEST_RUN: Final = 7
"""The oldest opset that ONNX Runtime supports."""
_LEAST_IR: Final = 8
"""The IR version. Before version 4 initializers had to be inputs; otherwise it does not matter."""
_EMPTY_BY_DESIGN: Final = frozenset({"Resize"})
"""Operators for which an empty operand means an absent one."""
_CONTRIB: Final = "com.microsoft"
"""The domain of ONNX Runtime's own operators, unknown to the onnx package."""
_COPIED_BYTES: Final = 1 << 14
"""Maximum size in bytes of constants that are serialized; larger ones are passed by reference."""
_SHARED: Final = frozenset(
    {"bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
"""Element types of constants that can be passed by reference."""


class NoKernelError(ValueError):
    """ONNX Runtime has no kernel for a node on operands of such types, or is not installed."""


def evaluate_node(node: NodeProto, operands: Sequence[Tensor | None], opsets: Mapping[str, int]) -> list[Tensor]:
    """Computes the present results of a node on constant operands; None for an absent optional operand.

    `opsets` are the versions of the operator domains. The names in the node do not matter. Raises ValueError if ONNX Runtime or
    `onnx.checker` rejects the node, and NoKernelError if ONNX Runtime has no kernel or is not installed.
    """
    if node.op_type not in _EMPTY_BY_DESIGN and any(operand is not None and not operand.size for operand in operands):
        raise ValueError(f"{describe(node)} has an empty operand, which crashes some operators of ONNX Runtime")
    alone = NodeProto()
    alone.CopyFrom(node)
    alone.input[:] = ["" if operand is None else f"i{i}" for i, operand in enumerate(operands)]
    alone.output[:] = [f"o{i}" if name else "" for i, name in enumerate(node.output)]
    constants = {f"i{i}": operand for i, operand in enumerate(operands) if operand is not None}
    return evaluate_nodes([alone], constants, [name for name in alone.output if name], opsets)


def evaluate_nodes(
    nodes: Sequence[NodeProto], constants: Mapping[str, Tensor], results: Sequence[str], opsets: Mapping[str, int]
) -> list[Tensor]:
    """Computes values from constants by nodes in topological order, in one session.

    Raises ValueError as `evaluate_node` does.
    """
    since = [each for node in nodes for each in _check(node, opsets)]
    total = sum(constant.nbytes for constant in constants.values())
    if total > MAX_BYTES:
        raise ValueError(f"constants of {counted(total, 'byte')} are too large to be evaluated")
    model = _model(opsets)
    graph = model.graph
    graph.name = "constants"
    graph.node.extend(nodes)
    shared: dict[str, Array] = {}
    for name, constant in constants.items():
        if constant.dtype in _SHARED and constant.nbytes > _COPIED_BYTES:
            shared[name] = np.ascontiguousarray(constant.numpy())
            proto = graph.initializer.add(name=name, data_type=NUMBERS[constant.dtype], dims=constant.shape, data_location=EXTERNAL)
            proto.external_data.add(key="location", value="memory")
        else:
            dense_proto(constant, name, graph.initializer.add())
    for name in results:
        graph.output.add(name=name)
    least = max([OLDEST_RUN, *since])
    try:
        return _run(model, shared, results)
    except ValueError:
        if opsets.get("", 0) <= least:
            raise
    # If ONNX Runtime does not support an opset yet, an older one with the same operators may work.
    older = _model({**opsets, "": least})
    older.graph.CopyFrom(graph)
    return _run(older, shared, results)


def _model(opsets: Mapping[str, int]) -> ModelProto:
    versions = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    return ModelProto(ir_version=max(_LEAST_IR, helper.find_min_ir_version_for(versions, ignore_unknown=True)), opset_import=versions)


def _check(node: NodeProto, opsets: Mapping[str, int]) -> Iterator[int]:
    """Yields the opsets since which the operators of a node and its subgraphs exist in their current version.

    Raises ValueError for nodes that `onnx.checker` rejects or that crash ONNX Runtime, and NoKernelError for custom operators.
    """
    if node.domain not in {"ai.onnx", _CONTRIB, *opsets}:
        raise NoKernelError(f"{describe(node)} has a custom domain, which ONNX Runtime does not support by itself")
    context = onnx.checker.C.CheckerContext()
    context.ir_version = _model(opsets).ir_version
    context.opset_imports = dict(opsets)
    try:
        onnx.checker.check_node(node, context)
    except onnx.checker.ValidationError as error:
        raise ValueError(f"{describe(node)} is not valid: {str(error).strip().splitlines()[0]}") from error
    for each in (node, *inner_nodes(node.attribute)):
        version = opsets.get("" if each.domain == "ai.onnx" else each.domain)
        schema = None if version is None else schema_of(each.op_type, version, each.domain)
        if schema is None:
            raise ValueError(f"{describe(each)} has an operator that is unknown to the onnx package")
        if not schema.domain:
            yield schema.since_version
        absurd = absurd_attribute(each)
        if absurd is not None:
            raise ValueError(f"{describe(each)} has an invalid attribute {absurd!r}, which crashes ONNX Runtime")
        formal = schema.inputs
        for i, name in enumerate(each.input):
            if not name and formal[min(i, len(formal) - 1)].option == onnx.defs.OpSchema.FormalParameterOption.Variadic:
                raise ValueError(f"{describe(each)} has an absent input among its variadic inputs")


def _run(model: ModelProto, shared: Mapping[str, Array], results: Sequence[str]) -> list[Tensor]:
    try:
        onnxruntime = onnx_runtime()
    except ImportError as error:
        raise_interrupt(error)
        raise NoKernelError("ONNX Runtime, which computes constants, is not installed") from None
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.enable_cpu_mem_arena = False
    options.enable_mem_pattern = False
    if not shared:
        options.intra_op_num_threads = 1  # starting threads takes longer than computing small constants
    try:
        values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(array) for name, array in shared.items()}
        if values:
            options.add_external_initializers(list(values), list(values.values()))
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return [_tensor(value) for value in session.run_with_ort_values(list(results), {})]
    except Exception as error:
        # The node has element types without a kernel, or types that the operator does not support.
        rejection = NoKernelError if type(error).__name__ in ("NotImplemented", "InvalidGraph") else ValueError
        raise rejection(f"ONNX Runtime failed to compute {', '.join(results)}: {' '.join(str(error).split())}") from error


def _tensor(value: AnyValue) -> Tensor:
    if not value.has_value() or not value.is_tensor():
        raise ValueError("a result is not a tensor")
    number, shape = value.element_type(), tuple(value.shape())
    dtype = ELEMENT_TYPES[number]
    if dtype == "string" or dtype in _SHARED:
        return Tensor.dense(value.numpy())
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    if to_numpy(dtype).itemsize * np.prod(shape, dtype=np.int64) == len(raw):
        return Tensor.dense(np.frombuffer(raw, to_numpy(dtype)).reshape(shape))
    return read_tensor(TensorProto(dims=shape, data_type=number, raw_data=raw), None)
