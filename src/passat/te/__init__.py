"""`tvm.te`: tensors described by expressions of their elements."""

from passat.ir.te.schedule import Schedule, Stage, create_schedule
from passat.ir.te.tensor import ComputeOp, ExternOp, PlaceholderOp, Tensor, TensorSlice, compute, extern, placeholder
from passat.ir.tir import ops
from passat.ir.tir.expr import SizeVar, Var
from passat.ir.tir.ops import *  # noqa: F403
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
    "comm_reducer",
    "compute",
    "create_schedule",
    "extern",
    "max",
    "min",
    "placeholder",
    "reduce_axis",
    "schedule",
    "size_var",
    "sum",
    "tensor",
    "thread_axis",
    "var",
]
__all__ += ops.__all__


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
