"""The scalar functions of kernels, as nodes of the loop IR. Those for which it has no node are calls of `kernel.NAME`."""

from collections.abc import Callable
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.arithmetic import EQ, GE, GT, LE, LT, NE, Add, And, Div, FloorMod, Max, Min, Mod, Mul, Not, Or, Sub
from passat.ir.tir.expr import Call, PrimExpr
from passat.ir.tir.intrinsics import INTRINSICS, Intrinsic
from passat.ir.tir.values import Select

_NODES: Final[dict[str, Callable[..., PrimExpr]]] = {
    "add": Add, "and": And, "div": Div, "eq": EQ, "ge": GE, "gt": GT, "le": LE, "lt": LT, "max": Max, "min": Min, "mod": FloorMod,
    "mul": Mul, "ne": NE, "not": Not, "or": Or, "sub": Sub, "where": Select,
}  # fmt: skip
_SHARED: Final = ("ceil", "cos", "erf", "exp", "floor", "isnan", "log", "pow", "sigmoid", "sin", "sqrt", "tanh")
_OWN: Final = ("abs", "clip_high", "clip_low", "half", "isinf", "leaky", "neg", "of_order", "order", "relu", "round", "sign")
FUNCTIONS: Final = {
    **{name: INTRINSICS[f"tir.{name}"] for name in _SHARED},
    **{name: Intrinsic(f"kernel.{name}") for name in _OWN},
}
"""The functions that calls name. `half` rounds to float16; `order` maps floats to integers in the same order, NaN last, and `of_order` maps
them back; `round` rounds to even."""
_ORDER: Final = {"order": {"float32": "int32", "float64": "int64"}, "of_order": {"int32": "float32", "int64": "float64"}}


def call(name: str, *args: AnyValue) -> PrimExpr:
    """A scalar function of arguments of one type (except for the condition of `where`).

    >>> from passat.ir.tir.expr import const
    >>> call("leaky", const(2.0), const(0.1)).dtype, call("isnan", const(1.0)).dtype, call("order", const(1.0, "float64")).dtype
    ('float32', 'bool', 'int64')
    """
    if name in _NODES:
        return _NODES[name](*args)
    kind = args[-1].dtype
    if name == "fmod":
        return Call(kind, "tir.fmod", args) if args[0].type.is_float else Mod(*args)
    dtype = "bool" if name in ("isinf", "isnan") else _ORDER.get(name, {}).get(kind, kind)
    return Call(dtype, FUNCTIONS[name], args)
