"""Identities that give passes information about a value, or show it."""

from collections.abc import Sequence

from passat.ir.cost import view
from passat.ir.expr import Call
from passat.ir.global_functions import get_global_func
from passat.ir.onnx_mapping import Emitter, to_onnx
from passat.ir.op import define_op
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type, tensor_type


@define_op("annotation.stop_fusion", kernel=lambda data: data, cost=view, movement=True, pattern=8, shape_arith=True)
def stop_fusion(data: Type) -> Type:
    """Identity that prevents fusing the producer of a tensor, or of a tuple of tensors, with its users (`FuseOps` removes it). Relay
    annotation.stop_fusion; written as Identity."""
    if isinstance(data, TupleType):
        return TupleType(tensor_type(field, "a field of the operand") for field in data.fields)
    return tensor_type(data, "the operand")


@to_onnx(stop_fusion)
def _write_stop_fusion(call: Call, inputs: Sequence[str], emit: Emitter) -> list[str]:
    return [emit.node("Identity", [name]) for name in inputs]


@define_op("annotation.checkpoint", kernel=lambda data: data, cost=view, pattern=8)
def checkpoint(data: Type) -> Type:
    """Identity that marks a value, of any type, to keep for gradients. Relay annotation.checkpoint; written as Identity."""
    return data


@to_onnx(checkpoint)
def _write_checkpoint(call: Call, inputs: Sequence[str], emit: Emitter) -> list[str]:
    return [emit.node("Identity", [name]) for name in inputs]


@define_op("annotation.compiler_begin", kernel=lambda data, *, compiler: data, cost=view, pattern=8, non_computational=True)
def compiler_begin(data: Type, *, compiler: str) -> Type:
    """Identity that begins a region for an external compiler: its operand is an input of the region. Of any type. Relay
    annotation.compiler_begin; not written to ONNX."""
    return data


@define_op("annotation.compiler_end", kernel=lambda data, *, compiler: data, cost=view, pattern=8, non_computational=True)
def compiler_end(data: Type, *, compiler: str) -> Type:
    """Identity that ends a region for an external compiler: its operand is a result of the region. Of any type. Relay
    annotation.compiler_end; not written to ONNX."""
    return data


def _debug(data: Array, *, debug_func: str) -> Array:
    function = get_global_func(debug_func) if debug_func else None
    if function is not None:
        function(data)
    return data


@define_op("debug", kernel=_debug, cost=view, pattern=8, stateful=True)
def debug(data: TensorType, *, debug_func: str = "") -> TensorType:
    """Identity that calls the global function of this name (`passat.register_func`) with the value. Relay debug; not written to ONNX."""
    return tensor_type(data, "the operand")
