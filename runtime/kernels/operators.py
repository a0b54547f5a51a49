"""The ONNX operators that kernels compute, as scalar functions.

The results equal those of ONNX Runtime bit for bit, including NaN, infinities and signed zeros. Exp, Log, Tanh, Sigmoid and Erf are our own
approximations. The declarations of Passat's operators (`Op.pattern`) are not used: after ONNX Runtime's
fusions there are nodes of ONNX, whose functions differ from Relay's (constant inputs, attributes, several types).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Final, TypeAlias

from passat.ir.tir.expr import Cast, PrimExpr, const
from passat.runtime.kernels.functions import call

Build: TypeAlias = Callable[[Sequence[PrimExpr]], PrimExpr]
Attributes: TypeAlias = Mapping[str, float]

FLOATS: Final = ("float32", "float64", "float16")
INTEGERS: Final = ("int32", "int64", "int8", "uint8")
_NUMBERS: Final = (*FLOATS, *INTEGERS)
_SIGNED: Final = (*FLOATS, "int32", "int64", "int8")
_LARGEST: Final = {"float32": float.fromhex("0x1.fffffep+127"), "float64": float.fromhex("0x1.fffffffffffffp+1023")}

_BOOL: Final = ("bool",)
_DIRECT: Final = {
    "Abs": ("abs", _SIGNED), "Ceil": ("ceil", FLOATS), "Cos": ("cos", FLOATS), "Erf": ("erf", ("float32", "float16")),
    "Exp": ("exp", FLOATS), "Floor": ("floor", FLOATS), "IsInf": ("isinf", FLOATS), "IsNaN": ("isnan", FLOATS), "Log": ("log", FLOATS),
    "Neg": ("neg", _SIGNED),
    "Not": ("not", _BOOL), "Relu": ("relu", _SIGNED), "Round": ("round", FLOATS), "Sigmoid": ("sigmoid", FLOATS),
    "Sign": ("sign", _NUMBERS), "Sin": ("sin", FLOATS), "Sqrt": ("sqrt", FLOATS), "Tanh": ("tanh", FLOATS),
    "Add": ("add", _NUMBERS), "And": ("and", _BOOL), "Div": ("div", _NUMBERS), "Equal": ("eq", (*_NUMBERS, "bool")),
    "Greater": ("gt", _NUMBERS), "GreaterOrEqual": ("ge", _NUMBERS), "Less": ("lt", _NUMBERS), "LessOrEqual": ("le", _NUMBERS),
    "Mul": ("mul", _NUMBERS), "Or": ("or", _BOOL), "Sub": ("sub", _NUMBERS), "Xor": ("ne", _BOOL),
}  # fmt: skip
"""Operators that are one scalar function, and the types of their operands."""
_FOLDED: Final = {"Max": "max", "Min": "min", "Sum": "add"}
"""Operators of any number of operands."""


def _composed(kind: str, x: PrimExpr, attributes: Attributes) -> PrimExpr | None:
    def number(value: float) -> PrimExpr:
        return const(value, x.dtype)

    def less_one(value: PrimExpr) -> PrimExpr:
        return call("sub", call("exp", value), number(1))

    def softplus() -> PrimExpr:
        log = call("log", call("add", number(1), call("exp", call("neg", call("abs", x)))))
        return call("add", call("relu", x), log)

    alpha = attributes.get("alpha", {"HardSigmoid": 0.2, "LeakyRelu": 0.01, "Selu": 1.67326319217681884765625}.get(kind, 1.0))
    zero = number(0)
    if kind == "LeakyRelu":
        return call("leaky", x, number(alpha))
    if kind == "Reciprocal":
        return call("div", number(1), x)
    if kind == "Elu":
        return call("where", call("ge", x, zero), x, call("mul", number(alpha), less_one(x)))
    if kind == "Selu":
        gamma = attributes.get("gamma", 1.05070102214813232421875)
        inner = call("where", call("gt", x, zero), x, call("sub", call("mul", number(alpha), call("exp", x)), number(alpha)))
        return call("mul", number(gamma), inner)
    if kind == "HardSigmoid":
        line = call("add", call("mul", x, number(alpha)), number(attributes.get("beta", 0.5)))
        return call("clip_high", call("clip_low", line, zero), number(1))
    if kind == "HardSwish":
        line = call("add", call("mul", x, number(_single(1 / 6))), number(0.5))
        return call("mul", x, call("clip_high", call("clip_low", line, zero), number(1)))
    if kind == "Softplus":
        return softplus()
    if kind == "Softsign":
        return call("div", x, call("add", number(1), call("abs", x)))
    if kind == "Mish":
        return call("mul", x, call("tanh", softplus()))
    if kind == "Gelu" and attributes.get("tanh"):
        cubic, linear = (number(_single(math.sqrt(2 / math.pi) * factor)) for factor in (0.044715, 1))
        inner = call("mul", x, call("add", call("mul", cubic, call("mul", x, x)), linear))
        return call("mul", call("mul", x, number(0.5)), call("add", call("tanh", inner), number(1)))
    if kind == "Gelu":
        erf = call("erf", call("mul", x, number(_single(math.sqrt(0.5)))))
        return call("mul", call("mul", x, number(0.5)), call("add", erf, number(1)))
    if kind == "ThresholdedRelu":
        return call("where", call("gt", x, number(alpha)), x, zero)
    return None


_COMPOSED: Final = (
    "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Reciprocal", "Selu", "Softplus", "Softsign", "ThresholdedRelu",
)  # fmt: skip
KNOWN: Final = frozenset((*_DIRECT, *_FOLDED, *_COMPOSED, "Cast", "Clip", "Mod", "Pow", "Where"))
"""The operators that a kernel may compute, one element from one element of each operand."""
REDUCTIONS: Final = {
    "ReduceL2": "add",
    "ReduceMax": "max",
    "ReduceMean": "add",
    "ReduceMin": "max",
    "ReduceSum": "add",
    "ReduceSumSquare": "add",
}
"""The operators that a kernel may compute along a row, and what they accumulate; a minimum is the maximum of the reversed."""


DIVISIONS: Final = frozenset(("Div", "Mod"))
"""Operators whose second operand must be a constant other than zero if it is an integer: ONNX Runtime reports divisions by zero."""


def builder(kind: str, operands: Sequence[str], result: str, constants: Sequence[float | None], attributes: Attributes) -> Build | None:
    """The scalar function of an operator in `KNOWN`; None if unsupported. Depends on the types of operands and result, and on the constant
    inputs (None for omitted ones)."""
    types = set(operands)
    if kind == "Where":
        return (lambda args: call("where", *args)) if operands[0] == "bool" and operands[1] == operands[2] else None
    if len(types) != 1:
        return None
    given = operands[0]
    if kind in _DIRECT:
        name, allowed = _DIRECT[kind]
        plain = kind != "IsInf" or all(attributes.values())  # it may be of one sign
        return (lambda args: call(name, *args)) if given in allowed and plain else None
    if kind == "Cast":
        return _cast(given, result)
    if given not in _NUMBERS:
        return None
    if kind in _FOLDED:
        return lambda args: reduce(lambda x, y: call(_FOLDED[kind], x, y), args)
    if kind in _COMPOSED:
        return (lambda args: _known(_composed(kind, args[0], attributes))) if given in FLOATS and _is_composed(kind, attributes) else None
    if kind == "Mod" and (given in INTEGERS or attributes.get("fmod")):
        return lambda args: call("fmod" if attributes.get("fmod") else "mod", *args)
    if kind == "Pow" and given in FLOATS:
        exponent = constants[0] if constants else None
        return _pow(exponent) if exponent is None or given == "float64" or _single(exponent) == exponent or math.isnan(exponent) else None
    if kind == "Clip" and not any(bound is not None and math.isnan(bound) for bound in constants):
        return lambda args: _clip(args[0], *constants)
    return None


def _is_composed(kind: str, attributes: Attributes) -> bool:
    return _composed(kind, const(0.0), attributes) is not None


def _known(expr: PrimExpr | None) -> PrimExpr:
    assert expr is not None
    return expr


def _single(value: float) -> float:
    """The value rounded to float32, like ONNX Runtime's constants."""
    import numpy as np

    return float(np.float32(value))


def _pow(exponent: float | None) -> Build:
    """Powers; those of the constant exponents 2 and 3 are products, like ONNX Runtime's."""
    if exponent is None:
        return lambda args: call("pow", *args)
    if exponent == 2:
        return lambda args: call("mul", args[0], args[0])
    if exponent == 3:
        return lambda args: call("mul", call("mul", args[0], args[0]), args[0])
    return lambda args: call("pow", args[0], const(exponent, args[0].dtype))


def _cast(given: str, wanted: str) -> Build | None:
    if wanted == "float16":
        return lambda args: call("half", Cast("float32", args[0]))
    if wanted not in (*_NUMBERS, "bool") or (given in FLOATS and wanted in ("int8", "uint8")):
        return None  # small integers of large floats depend on the processor
    return lambda args: Cast(wanted, args[0])


def _clip(value: PrimExpr, low: float | None = None, high: float | None = None) -> PrimExpr:
    """Clips like ONNX Runtime, which replaces a missing bound of floats by the largest finite number, so the result is never infinite."""
    most = _LARGEST.get(value.dtype)
    low, high = -most if low is None and most else low, most if high is None and most else high
    if low is not None:
        value = call("clip_low", value, const(low, value.dtype))
    return value if high is None else call("clip_high", value, const(high, value.dtype))
