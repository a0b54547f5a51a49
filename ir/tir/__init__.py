"""The loop IR: expressions, statements, buffers and functions, as TVM has them."""

from passat.ir.tir import arithmetic as arithmetic  # the operators of expressions
