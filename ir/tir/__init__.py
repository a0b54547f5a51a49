"""Loops over buffers: the IR of kernels, from which C is generated."""

from passat.ir.tir.loops import Buffer, Call, Const, Expr, For, Let, Load, LoopFunc, Seq, Stmt, Store, Var
from passat.ir.tir.printer import show

__all__ = ["Buffer", "Call", "Const", "Expr", "For", "Let", "Load", "LoopFunc", "Seq", "Stmt", "Store", "Var", "show"]
