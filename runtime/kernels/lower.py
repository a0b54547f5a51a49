"""Lowers an elementwise expression to loops: one function for each combination of inputs that are broadcast along a row."""

from collections.abc import Callable
from typing import Final

from passat.ir.tir import Buffer, Call, Const, Expr, For, Let, Load, LoopFunc, Stmt, Store, Var

MOST_VARIED: Final = 3
"""Maximum number of inputs for a function per combination. Kernels with more inputs have one function without broadcasting, and a general
one."""

_I, _N, _Y = Var("i"), Var("n"), Buffer("y")
Value = Callable[[list[Expr]], tuple[list[tuple[Var, Expr]], Expr]]
"""Maps the elements of the inputs to named values, in order, and the result."""


def variants(name: str, inputs: int, value: Value) -> list[tuple[int | None, LoopFunc]]:
    """The functions of a kernel, each with the mask of the inputs that advance along the row; None for any, with strides as arguments."""
    masks: list[int | None] = list(range(1 << inputs)) if inputs <= MOST_VARIED else [(1 << inputs) - 1, None]
    return [(mask, _variant(f"{name}_{'any' if mask is None else mask}", inputs, mask, value)) for mask in masks]


def _variant(name: str, inputs: int, mask: int | None, value: Value) -> LoopFunc:
    buffers = [Buffer(f"x{number}") for number in range(inputs)]
    strides = [Var(f"s{number}") for number in range(inputs)] if mask is None else []
    elements: list[Expr] = []
    for number, buffer in enumerate(buffers):
        index: Expr = Const(0, "int64")
        if mask is None:
            index = Call("mul", (_I, strides[number]))
        elif mask >> number & 1:
            index = _I
        elements.append(Load(buffer, index))
    named, result = value(elements)
    body: Stmt = Store(_Y, _I, result)
    for var, expr in reversed(named):
        body = Let(var, expr, body)
    return LoopFunc(name, (*buffers, *strides, _Y, _N), For(_I, _N, body))
