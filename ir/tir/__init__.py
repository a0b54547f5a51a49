"""Loops over buffers: the IR of kernels, from which C is generated."""

from passat.ir.tir.loops import Accumulate, Buffer, Call, Cast, Const, Expr, For, Let, Load, Local, LoopFunc, Seq, Stmt, Store, Var
from passat.ir.tir.loops_printer import show

__all__ = [
    "Accumulate", "Buffer", "Call", "Cast", "Const", "Expr", "For", "Let", "Load", "Local", "LoopFunc", "Seq", "Stmt", "Store",
    "Var", "show",
]  # fmt: skip
