"""Evaluates calls on constants by ONNX Runtime: writes them as ONNX nodes and runs these with optimizations disabled."""

from typing import Any as AnyValue

from passat.ir.expr import Call, Constant, Expr, Tuple
from passat.ir.infer import infer_type
from passat.ir.naming import Names
from passat.ir.onnx.emitter import NodeEmitter
from passat.ir.onnx.ort_evaluator import NoKernelError, evaluate_nodes
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import Op
from passat.ir.tensor import Tensor
from passat.ir.types import TupleType


def run_call(op: Op, operands: tuple[AnyValue, ...], attrs: dict[str, AnyValue], opset: int) -> AnyValue:
    """Computes a call on arrays and tuples of arrays, in a model of an opset. Returns arrays in the form that kernels return.

    Raises ValueError if ONNX Runtime rejects the call, and NoKernelError if it has no kernel or the call has no ONNX form.
    """
    if op.to_onnx is None:
        raise NoKernelError(f"{op.name} has no ONNX form")
    call = Call(op, [_constant(operand) for operand in operands], op.bind_attrs(attrs))
    infer_type(call)
    constants: dict[str, Tensor] = {}

    def name_of(tensor: Tensor) -> str:
        name = f"c{len(constants)}"
        constants[name] = tensor
        return name

    emitter = NodeEmitter(opset, name_of, set())
    names = [name for arg in call.args for name in ([name_of(field.data) for field in _fields(arg)] or [""])]
    try:
        written = op.to_onnx(call, names, emitter)
    except OnnxVersionError as error:
        raise NoKernelError(str(error)) from error
    results = [written] if isinstance(written, str) else list(written)
    opsets = {"": opset, "com.microsoft": 1}
    nodes, results = emitter.finish(results, [f"r{i}" for i in range(len(results))], "", Names(constants), Names(), opsets)
    computed = [name for name in results if name not in constants]
    values = dict(zip(computed, evaluate_nodes(nodes, constants, computed, opsets), strict=True)) if computed else {}
    arrays = tuple((constants.get(name) or values[name]).numpy() for name in results)
    return arrays if isinstance(call.checked_type, TupleType) else arrays[0]


def _constant(operand: AnyValue) -> Expr:
    return Tuple([_constant(field) for field in operand]) if isinstance(operand, tuple) else Constant(Tensor.dense(operand))


def _fields(arg: Expr) -> list[Constant]:
    return [field for field in (arg.fields if isinstance(arg, Tuple) else (arg,)) if isinstance(field, Constant)]
