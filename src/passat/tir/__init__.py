"""`tvm.tir`: the loop IR, its constructors and functions."""

from collections.abc import Iterable

from passat.ir import shape
from passat.ir.shape import Dim
from passat.ir.tir import ops
from passat.ir.tir.arithmetic import EQ, GE, GT, LE, LT, NE, Add, And, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Not, Or, Sub
from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import (
    Broadcast,
    Call,
    Cast,
    FloatImm,
    IntImm,
    PrimExpr,
    SizeVar,
    StringImm,
    Var,
    const,
)
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.intrinsics import CallEffectKind
from passat.ir.tir.ops import *  # noqa: F403
from passat.ir.tir.ranges import CommReducer, IterVar, Range, Reduce
from passat.ir.tir.reducers import comm_reducer, max, min, sum
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    Store,
    While,
    stmt_list,
    stmt_seq,
)
from passat.ir.tir.types import PointerType, PrimType
from passat.ir.tir.values import BufferLoad, Let, Load, ProducerLoad, Ramp, Select, Shuffle
from passat.tir import ir_builder, stmt_functor, transform

__all__ = [
    "EQ",
    "GE",
    "GT",
    "LE",
    "LT",
    "NE",
    "Add",
    "Allocate",
    "And",
    "Any",
    "AssertStmt",
    "AttrStmt",
    "Broadcast",
    "Buffer",
    "BufferLoad",
    "BufferRealize",
    "BufferStore",
    "Call",
    "CallEffectKind",
    "Cast",
    "CommReducer",
    "Div",
    "Evaluate",
    "FloatImm",
    "FloorDiv",
    "FloorMod",
    "For",
    "ForKind",
    "IfThenElse",
    "IntImm",
    "IterVar",
    "Let",
    "LetStmt",
    "Load",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Not",
    "Or",
    "PointerType",
    "Prefetch",
    "PrimExpr",
    "PrimFunc",
    "PrimType",
    "ProducerLoad",
    "ProducerRealize",
    "ProducerStore",
    "Ramp",
    "Range",
    "Reduce",
    "Select",
    "SeqStmt",
    "Shuffle",
    "SizeVar",
    "Stmt",
    "Store",
    "StringImm",
    "Sub",
    "Var",
    "While",
    "comm_reducer",
    "const",
    "decl_buffer",
    "get_const_tuple",
    "int32",
    "int64",
    "ir_builder",
    "max",
    "min",
    "stmt_functor",
    "stmt_list",
    "stmt_seq",
    "sum",
    "transform",
]
__all__ += ops.__all__


def Any() -> shape.Any:  # noqa: N802  # TVM's name of a class
    """The unknown dimension."""
    return shape.ANY


def int32(value: int) -> int:
    """An integer, as TVM's script writes it."""
    return int(value)


int64 = int32


def get_const_tuple(in_tuple: Iterable[Dim | IntImm]) -> tuple[int, ...]:
    """A shape as integers. Raises ValueError for sizes that are not known.

    >>> get_const_tuple([1, 2])
    (1, 2)
    """
    sizes = tuple(in_tuple)
    found = tuple(int(size) for size in sizes if isinstance(size, (int, IntImm)))
    if len(found) != len(sizes):
        raise ValueError(f"the shape {sizes} has unknown sizes")
    return found
