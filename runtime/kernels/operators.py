"""The ONNX operators that kernels compute, as scalar functions.

The results equal those of ONNX Runtime bit for bit, including NaN, infinities and signed zeros. Exp, Tanh and Sigmoid are our own
approximations.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from passat.ir.tir import Call, Const, Expr

Build: TypeAlias = Callable[[Sequence[Expr]], Expr]

_UNARY: Final = {"Abs": "abs", "Exp": "exp", "Neg": "neg", "Relu": "relu", "Sigmoid": "sigmoid", "Sqrt": "sqrt", "Tanh": "tanh"}
_BINARY: Final = {"Add": "add", "Div": "div", "Mul": "mul", "Sub": "sub"}
_LARGEST: Final = float.fromhex("0x1.fffffep+127")
KNOWN: Final = frozenset((*_UNARY, *_BINARY, "Clip", "LeakyRelu", "Pow", "Reciprocal"))
"""The operators that a kernel may compute."""


def constants_from(kind: str) -> int | None:
    """The index from which inputs must be constants and become part of the function; None if there are no such inputs."""
    return 1 if kind in ("Clip", "Pow") else None


def builder(kind: str, constants: Sequence[float | None], attributes: Mapping[str, float]) -> Build | None:
    """The scalar function of an operator in `KNOWN`; None if unsupported. `constants` are its constant inputs, None for omitted ones."""
    if kind in _UNARY:
        return lambda args: Call(_UNARY[kind], (args[0],))
    if kind in _BINARY:
        return lambda args: Call(_BINARY[kind], (args[0], args[1]))
    if kind == "Reciprocal":
        return lambda args: Call("div", (Const(1.0), args[0]))
    if kind == "LeakyRelu":
        return lambda args: Call("leaky", (args[0], Const(attributes.get("alpha", 0.01))))
    if kind == "Pow":
        if constants == [2.0]:
            return lambda args: Call("mul", (args[0], args[0]))
        if constants == [3.0]:
            return lambda args: Call("mul", (Call("mul", (args[0], args[0])), args[0]))
        return None
    if kind == "Clip" and constants and not any(bound is not None and math.isnan(bound) for bound in constants):
        return lambda args: _clip(args[0], *constants)
    return None


def _clip(value: Expr, low: float | None = None, high: float | None = None) -> Expr:
    """Clips like ONNX Runtime, which replaces a missing bound by the largest finite number, so the result is never infinite."""
    value = Call("clip_low", (value, Const(-_LARGEST if low is None else low)))
    return Call("clip_high", (value, Const(_LARGEST if high is None else high)))
