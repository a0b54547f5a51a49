"""Identity and conversion of element types."""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.bounds import at_least
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import ELEMENT_TYPES, TYPE_NUMBERS, Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.elementwise import FLOATING, INTEGRAL, PLAIN, same_type
from passat.ir.ops.narrow_cast import SINCE, narrow_cast
from passat.ir.shape import ANY, Any
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type


@define_op("copy", exact="always", kernel=lambda x: x, onnx="Identity", elementwise=True, idempotent=True, shape_arith=True)
def copy(x: TensorType) -> TensorType:
    """Identity. ONNX Identity-25 of tensors."""
    return tensor_type(x, "the operand")


def _cast(x: Array, dtype: str) -> Array:
    if x.dtype == np.object_:
        return np.asarray(np.frompyfunc(lambda dim: _cast_dim(dim, dtype), 1, 1)(x), np.object_)
    if x.dtype.name in FLOATING and dtype in INTEGRAL:
        return _to_integers(x, to_numpy(dtype))
    if x.dtype == np.float64 and dtype in ("float16", "bfloat16"):
        x = x.astype(np.float32)  # rounded twice, as ONNX Runtime does
    return x.astype(to_numpy(dtype), copy=False)


def _to_integers(x: Array, dtype: np.dtype[AnyValue]) -> Array:
    limits = np.iinfo(dtype)
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 else x
    # The bounds are exact in float64: the lowest value, and the highest value plus one, are powers of two.
    if wide.size and not (float(np.trunc(wide.min())) >= float(limits.min) and float(np.trunc(wide.max())) < float(limits.max + 1)):
        raise ValueError(f"casting NaN or a value out of range to {dtype} is undefined in ONNX")
    return wide.astype(dtype)


def _cast_dim(dim: object, dtype: str) -> object:
    if isinstance(dim, Any):
        return ANY
    if dtype == "bool":
        return dim != 0 if isinstance(dim, int) else True if at_least(dim, 1) else ANY  # type: ignore[arg-type]  # dims are int, Any, SymDim
    if isinstance(dim, int):
        bits = 32 if dtype == "int32" else 64
        return (int(dim) + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))
    return dim


@define_op("cast", exact="always", kernel=_cast, elementwise=True, idempotent=True, shape_arith=True)
def cast(x: TensorType, *, dtype: str) -> TensorType:
    """Converts the elements to another type. ONNX Cast-13 between numbers of 8 to 64 bits and bool.

    Integers are truncated to the low bits, floats toward zero; nonzero values convert to true. The kernel rejects floats that are out of
    range for an integer type.
    """
    if dtype not in PLAIN:
        raise OpTypeError(f"can convert to numbers of 8 to 64 bits or bool, not to {dtype}")
    return same_type(x, PLAIN).with_dtype(dtype)


@from_onnx("Cast")
def _read_cast(node: OnnxNode) -> Expr | None:
    dtype, own = ELEMENT_TYPES.get(node.attrs.get("to", 0)), node.type(0).dtype
    known = PLAIN | SINCE.keys()
    if dtype is None or {dtype, own} - known:
        return None
    if {dtype, own} & SINCE.keys():
        saturate, rounding = bool(node.attrs.get("saturate", 1)), node.attrs.get("round_mode", "up")
        return narrow_cast(node.input(0), dtype=dtype, saturate=saturate, round_mode=rounding, span=node.span)
    return cast(node.input(0), dtype=dtype, span=node.span)  # `saturate` and `round_mode` only affect float8


@to_onnx(cast)
def _write_cast(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Cast", inputs, {"to": TYPE_NUMBERS[call.attrs.dtype]})
