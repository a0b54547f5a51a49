"""Helpers of elementwise operators: allowed element types, broadcasting, and computation of 16-bit floats."""

import functools
from collections.abc import Callable, Iterable
from typing import Any as AnyValue
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.expr import Call
from passat.ir.onnx_mapping import Emitter
from passat.ir.op import Kernel, OpTypeError
from passat.ir.ops.emitting import scalar
from passat.ir.shape import broadcast
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type

FLOATING: Final = frozenset({"float16", "bfloat16", "float32", "float64"})
INTEGRAL: Final = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
SIGNED_NUMBERS: Final = FLOATING | {"int8", "int16", "int32", "int64"}
ARITHMETIC: Final = FLOATING | INTEGRAL
WIDE: Final = FLOATING | {"int32", "int64", "uint32", "uint64"}
BOOLEAN: Final = frozenset({"bool"})
PLAIN: Final = ARITHMETIC | BOOLEAN

_WORDS: Final = {
    FLOATING: "floating-point elements of 16 to 64 bits",
    INTEGRAL: "integer elements of 8 to 64 bits",
    SIGNED_NUMBERS: "signed numbers of 8 to 64 bits",
    ARITHMETIC: "numbers of 8 to 64 bits",
    WIDE: "numbers: floating-point ones, or integers of 32 or 64 bits",
    BOOLEAN: "bool",
    PLAIN: "numbers of 8 to 64 bits, or bool",
}
_NARROW: Final = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def same_type(x: Type, allowed: frozenset[str]) -> TensorType:
    """The type relation of unary operators that keep shape and element type. Raises OpTypeError for element types that are not allowed."""
    tensor = tensor_type(x, "the operand")
    if tensor.dtype not in allowed:
        raise OpTypeError(f"takes {_WORDS.get(allowed) or ', '.join(sorted(allowed))}, not {tensor.dtype}")
    return tensor


def broadcast_type(operands: Iterable[Type], allowed: frozenset[str]) -> TensorType:
    """The type relation of operators that broadcast operands of one element type. Raises OpTypeError for different or disallowed types."""
    result: TensorType | None = None
    for operand in operands:
        tensor = same_type(operand, allowed)
        if result is None:
            result = tensor
        elif tensor.dtype != result.dtype:
            raise OpTypeError(f"operands have different element types {result.dtype} and {tensor.dtype}; cast one")
        else:
            result = TensorType(broadcast(result.shape, tensor.shape), result.dtype)
    if result is None:
        raise OpTypeError("takes at least one operand")
    return result


def in_float32(kernel: Callable[..., AnyValue]) -> Kernel:
    """Wraps a kernel to compute 16-bit floats in float32, so that the result is rounded once."""

    @functools.wraps(kernel, updated=())
    def wide(*operands: Array, **attrs: AnyValue) -> AnyValue:
        dtype = operands[0].dtype
        if dtype not in _NARROW:
            return kernel(*operands, **attrs)
        return kernel(*(operand.astype(np.float32) for operand in operands), **attrs).astype(dtype)

    return wide


@functools.cache
def finite_limits(dtype: np.dtype[AnyValue]) -> tuple[AnyValue, AnyValue]:
    """The lowest and highest finite values of an element type.

    >>> finite_limits(np.dtype(np.int8))
    (-128, 127)
    """
    if dtype.kind in "iu":
        integers = np.iinfo(dtype)
        return integers.min, integers.max
    floats = ml_dtypes.finfo(dtype)  # type: ignore[no-untyped-call]  # ml_dtypes has no type annotations for it
    return floats.min, floats.max


def constant_like(call: Call, value: float, emit: Emitter) -> str:
    """Emits a scalar constant of the element type of the call's first operand and returns its name."""
    return scalar(emit, value, tensor_type(call.args[0].checked_type).dtype)
