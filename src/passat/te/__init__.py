"""`tvm.te`: tensors described by expressions of their elements."""

from passat.ir.te.schedule import Schedule, Stage, create_schedule
from passat.ir.te.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor, TensorSlice, compute, extern, placeholder
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
from passat.te import schedule, tensor

__all__ = [
    "ComputeOp",
    "ExternOp",
    "PlaceholderOp",
    "Schedule",
    "Stage",
    "Tensor",
    "TensorSlice",
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
    "compute",
    "cos",
    "cosh",
    "create_schedule",
    "div",
    "erf",
    "exp",
    "extern",
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
    "placeholder",
    "popcount",
    "power",
    "reduce_axis",
    "round",
    "rsqrt",
    "schedule",
    "sigmoid",
    "sin",
    "sinh",
    "size_var",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "tensor",
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
