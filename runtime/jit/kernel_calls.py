"""LLVM IR of the scalar functions of kernels (`kernel.NAME`), with the values of those in C (`kernels.scalars`)."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

import llvmlite.ir as ll

from passat.ir.tir.types import DataType

_LARGEST: Final = {"float32": float.fromhex("0x1.fffffep+127"), "float64": float.fromhex("0x1.fffffffffffffp+1023")}


def compared(emitter: AnyValue, sign: str, type_: DataType, a: AnyValue, b: AnyValue) -> AnyValue:
    """The comparison of two numbers, false for NaN."""
    builder = emitter.builder
    if type_.is_float:
        return builder.fcmp_ordered(sign, a, b)
    return (builder.icmp_signed if type_.kind == "int" else builder.icmp_unsigned)(sign, a, b)


def _abs(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    if node.type.is_float:
        return emitter.intrinsic("llvm.fabs", node.dtype, [x])
    return emitter.builder.select(_is(emitter, "<", node, x, 0), emitter.builder.neg(x), x)


def _is(emitter: AnyValue, sign: str, node: AnyValue, x: AnyValue, bound: float) -> AnyValue:
    return compared(emitter, sign, node.type, x, emitter.constant(node.dtype, bound))


def _neg(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    return emitter.builder.fneg(x) if node.type.is_float else emitter.builder.neg(x)


def _relu(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    return emitter.builder.select(_is(emitter, "<", node, x, 0), emitter.constant(node.dtype, 0), x)


def _leaky(emitter: AnyValue, node: AnyValue, x: AnyValue, slope: AnyValue) -> AnyValue:
    return emitter.builder.select(_is(emitter, ">=", node, x, 0), x, emitter.builder.fmul(slope, x))


def _sign(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    found = x if node.type.is_float else emitter.constant(node.dtype, 0)
    signs = ((">", 1),) if node.type.kind == "uint" else (("==", 0), ("<", -1), (">", 1))
    for sign, value in signs:
        found = emitter.builder.select(_is(emitter, sign, node, x, 0), emitter.constant(node.dtype, value), found)
    return found


def _clip_low(emitter: AnyValue, node: AnyValue, x: AnyValue, low: AnyValue) -> AnyValue:
    return emitter.builder.select(compared(emitter, "<", node.type, x, low), low, x)


def _clip_high(emitter: AnyValue, node: AnyValue, x: AnyValue, high: AnyValue) -> AnyValue:
    return emitter.builder.select(compared(emitter, ">", node.type, x, high), high, x)


def _round(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    return emitter.intrinsic("llvm.rint", node.dtype, [x])


def _isinf(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    given = node.args[0]
    size = emitter.intrinsic("llvm.fabs", given.dtype, [x])
    return compared(emitter, ">", given.type, size, emitter.constant(given.dtype, _LARGEST[given.dtype]))


def _half(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    return emitter.builder.fpext(emitter.builder.fptrunc(x, ll.HalfType()), ll.FloatType())


def _ordered(builder: AnyValue, bits: AnyValue) -> AnyValue:
    """The bits of floats, with those of negative ones inverted except for the sign."""
    width = bits.type.width
    signs = builder.ashr(bits, ll.Constant(bits.type, width - 1))
    return builder.xor(bits, builder.and_(signs, ll.Constant(bits.type, (1 << (width - 1)) - 1)))


def _order(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    builder, made = emitter.builder, ll.IntType(node.type.bits)
    found = _ordered(builder, builder.bitcast(x, made))
    nan = ll.Constant(made, 0x7FC00000 if node.type.bits == 32 else 0x7FF8 << 48)  # of the largest integer LLVM would make a branch
    return builder.select(builder.fcmp_unordered("uno", x, x), nan, found)


def _of_order(emitter: AnyValue, node: AnyValue, x: AnyValue) -> AnyValue:
    return emitter.builder.bitcast(_ordered(emitter.builder, x), ll.FloatType() if node.type.bits == 32 else ll.DoubleType())


KERNEL_CALLS: Final[dict[str, Callable[..., AnyValue]]] = {
    f"kernel.{made.__name__.removeprefix('_')}": made
    for made in (_abs, _neg, _relu, _leaky, _sign, _clip_low, _clip_high, _round, _isinf, _half, _order, _of_order)
}
"""The functions by name. Each gets the emitter, the call, and the values of its arguments."""
