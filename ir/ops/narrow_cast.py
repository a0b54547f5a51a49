"""Conversion from and to floating-point numbers of 4 and 8 bits, and integers of 2 and 4 bits."""

from collections.abc import Sequence
from typing import Final

import ml_dtypes
import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.dtypes import from_numpy, to_numpy
from passat.ir.expr import Call
from passat.ir.onnx_mapping import TYPE_NUMBERS, Emitter, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.elementwise import PLAIN
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type

_SATURATED: Final = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz")
_POWERS: Final = "float8_e8m0fnu"
SINCE: Final = {
    **dict.fromkeys(_SATURATED, 19),
    **dict.fromkeys(("int4", "uint4"), 21),
    **{"float4_e2m1fn": 23, _POWERS: 24, "int2": 25, "uint2": 25},
}
"""The narrow element types, and the opset since which Cast has them."""
_ROUNDINGS: Final = ("up", "down", "nearest")


def _to_powers(x: Array, saturate: bool, round_mode: str) -> Array:
    """Powers of two: the exponents of the elements, rounded; NaN for elements that are not finite. Signs are lost."""
    bits = x.astype(np.float32).view(np.uint32)
    exponent, fraction = (bits >> 23) & 0xFF, bits & 0x7FFFFF
    if round_mode == "up":
        rounded = fraction > 0
    elif round_mode == "down":
        rounded = np.zeros(x.shape, bool)
    else:  # to the nearest one; halves go up, except to the lowest power
        rounded = (fraction > 0x400000) | ((fraction == 0x400000) & (exponent > 0))
    special = exponent == 0xFF
    rounded &= ~special
    if saturate:
        rounded &= exponent < 0xFE
    return (exponent + rounded).astype(np.uint8).view(to_numpy(_POWERS))


def _narrow_cast(x: Array, *, dtype: str, saturate: bool, round_mode: str) -> Array:
    wanted = to_numpy(dtype)
    if from_numpy(x.dtype) in SINCE:
        x = x.astype(np.float32)  # has all elements of the narrow types
    if dtype == _POWERS:
        return _to_powers(x, saturate, round_mode)
    if dtype in _SATURATED and saturate:
        limits = ml_dtypes.finfo(wanted)  # type: ignore[no-untyped-call]  # the stubs of ml_dtypes lack types
        wide = x if x.dtype in (np.float32, np.float64, np.float16) else x.astype(np.float32)
        x = np.clip(wide, float(limits.min), float(limits.max))
    return x.astype(wanted)


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    return Cost(elements(result), nbytes(args[0]) + nbytes(result))


@define_op("narrow_cast", kernel=_narrow_cast, cost=_cost, pattern=8)
def narrow_cast(x: TensorType, *, dtype: str, saturate: bool = True, round_mode: str = "up") -> TensorType:
    """Converts the elements from or to a floating-point type of 4 or 8 bits, or integers of 2 or 4 bits. ONNX Cast (19, 21, 23, 24, 25).

    With `saturate`, numbers beyond the limits of a floating-point type of 8 bits become the limits. `round_mode` ("up", "down", "nearest")
    applies to powers of two (float8_e8m0fnu). `cast` converts between wider types.
    """
    own = tensor_type(x, "the operand").dtype
    known = PLAIN | SINCE.keys()
    if dtype not in known or own not in known or not {dtype, own} & SINCE.keys():
        raise OpTypeError(f"converts between types of which one is {', '.join(SINCE)}, not from {own} to {dtype}; use cast")
    if round_mode not in _ROUNDINGS:
        raise OpTypeError(f"round_mode must be one of {', '.join(_ROUNDINGS)}, not {round_mode!r}")
    return x.with_dtype(dtype)


@to_onnx(narrow_cast)
def _write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs = call.attrs
    for dtype in (attrs.dtype, tensor_type(call.args[0].checked_type).dtype):
        need_opset(emit, SINCE.get(dtype, 0), narrow_cast)
    given: dict[str, object] = {"to": TYPE_NUMBERS[attrs.dtype]}
    if not attrs.saturate:
        given["saturate"] = 0
    if attrs.round_mode != "up":
        given["round_mode"] = attrs.round_mode
    return emit.node("Cast", inputs, given)
