"""Loops over buffers: what a kernel computes, before it is C."""

from passat.ir.tir.loops import Buffer, Call, Const, Expr, For, Let, Load, LoopFunc, Seq, Stmt, Store, Var
from passat.ir.tir.printer import show

__all__ = ["Buffer", "Call", "Const", "Expr", "For", "Let", "Load", "LoopFunc", "Seq", "Stmt", "Store", "Var", "show"]
