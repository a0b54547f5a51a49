"""`tvm.te`: tensors described by expressions of their elements."""

from passat.ir.tir.expr import SizeVar, Var
from passat.ir.tir.ops import (
    abs,
    acos,
    acosh,
    all,
    any,
    asin,
    asinh,
    atan,
    atanh,
    ceil,
    cos,
    cosh,
    div,
    erf,
    exp,
    floor,
    floordiv,
    floormod,
    fmod,
    if_then_else,
    indexdiv,
    indexmod,
    isfinite,
    isinf,
    isnan,
    log,
    log2,
    log10,
    max_value,
    min_value,
    nearbyint,
    popcount,
    power,
    round,
    rsqrt,
    sigmoid,
    sin,
    sinh,
    sqrt,
    tan,
    tanh,
    trunc,
    truncdiv,
    truncmod,
)
from passat.ir.tir.ranges import IterVar, Range
from passat.ir.tir.reducers import comm_reducer, max, min, sum

__all__ = [
    "abs",
    "acos",
    "acosh",
    "all",
    "any",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "comm_reducer",
    "cos",
    "cosh",
    "div",
    "erf",
    "exp",
    "floor",
    "floordiv",
    "floormod",
    "fmod",
    "if_then_else",
    "indexdiv",
    "indexmod",
    "isfinite",
    "isinf",
    "isnan",
    "log",
    "log2",
    "log10",
    "max",
    "max_value",
    "min",
    "min_value",
    "nearbyint",
    "popcount",
    "power",
    "reduce_axis",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "thread_axis",
    "trunc",
    "truncdiv",
    "truncmod",
    "var",
]


def var(name: str = "tindex", dtype: str = "int32") -> Var:
    """A variable.

    >>> print(var("n") * 2)
    (n: int32*2)
    """
    return Var(name, dtype)


def size_var(name: str = "size", dtype: str = "int32") -> SizeVar:
    """A variable for a size."""
    return SizeVar(name, dtype)


def reduce_axis(dom: "Range | tuple[object, object]", name: str = "rv", thread_tag: str = "") -> IterVar:
    """An axis to reduce over."""
    return IterVar(dom, name, IterVar.CommReduce, thread_tag)


def thread_axis(dom: "Range | tuple[object, object] | int | str | None" = None, tag: str = "", name: str = "") -> IterVar:
    """An axis of threads, such as `threadIdx.x`."""
    thread = dom if isinstance(dom, str) else tag
    if not thread:
        raise ValueError("a thread axis has a tag, such as threadIdx.x")
    domain = Range(dom) if isinstance(dom, int) else None if isinstance(dom, str) else dom
    return IterVar(domain, name or thread, IterVar.ThreadIndex, thread)
