"""Primitive functions that ONNX Runtime computes, with a session for each. ONNX Runtime is imported on first use.

ONNX Runtime's errors have no common base class but Exception, which is caught.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

import numpy as np

from passat.ir.expr import Call, Expr, Function
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, to_onnx
from passat.ir.onnx.errors import raise_interrupt
from passat.ir.onnx_runtime import onnx_runtime
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.traverse import post_order
from passat.ir.types import TensorType, TupleType
from passat.runtime.graph.primitive import KernelPrimitive, Primitive, flat_types

if TYPE_CHECKING:
    from onnx import ModelProto

_SHARED: Final = frozenset(
    {"bool", "float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"}
)
"""Element types that ONNX Runtime exchanges with NumPy."""


def exported(function: Function) -> "ModelProto | None":
    """The model that computes a function with flat parameters.

    None if Passat's kernels are needed: without ONNX, for programs that ONNX cannot express, for element types that NumPy does not have,
    for nested results, and for tensors without elements, which crash some of ONNX Runtime's operators.
    """
    result = function.body.checked_type
    if isinstance(result, TupleType) and not (result.fields and all(isinstance(field, TensorType) for field in result.fields)):
        return None
    types = [*(type_ for param in function.params for type_ in flat_types(param.checked_type)), *flat_types(result)]
    if any(type_.dtype not in _SHARED or 0 in type_.shape for type_ in types) or any(map(_is_stateful, post_order(function.body))):
        return None
    try:
        return to_onnx(IRModule.from_expr(function))
    except (OnnxError, ImportError) as error:
        raise_interrupt(error)
        return None


def onnx_primitive(function: Function, model: "ModelProto") -> Primitive | None:
    """The session that computes a function by its model; None without ONNX Runtime, or if that cannot run the model."""
    try:
        onnxruntime = onnx_runtime()
    except ImportError:
        return None
    content: bytes = model.SerializeToString()
    names = [value.name for value in model.graph.input]
    try:
        return OnnxPrimitive(function, onnxruntime, content, names, [value.name for value in model.graph.output])
    except Exception as error:  # ONNX Runtime has no kernel for these types, or does not know the operator
        raise_interrupt(error)
        return None


def _is_stateful(node: Expr) -> bool:
    return isinstance(node, Call) and isinstance(node.op, Op) and node.op.stateful


class OnnxPrimitive:
    """A session of one thread that computes a primitive function. Passat's kernels compute it where the session fails."""

    implementation = "onnxruntime"

    def __init__(self, function: Function, onnxruntime: AnyValue, model: bytes, inputs: Sequence[str], outputs: Sequence[str]) -> None:
        self._function = function
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self._session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self._inputs = tuple(inputs)
        self._outputs = list(outputs)

    def __call__(self, args: Sequence[Tensor]) -> Sequence[Tensor]:
        """Computes the results."""
        feed = {name: np.ascontiguousarray(arg.numpy()).reshape(arg.shape) for name, arg in zip(self._inputs, args, strict=True)}
        try:
            found = self._session.run(self._outputs, feed)
        except Exception as error:  # of the operands, or of ONNX Runtime, which loads some models that it has no kernel for
            raise_interrupt(error)
            return KernelPrimitive(self._function)(args)
        return [Tensor.dense(value) for value in found]
