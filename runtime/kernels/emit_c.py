"""Prints loops as C. Names are those of the loops, which Passat generates; numbers are hexadecimal, and therefore exact."""

import math
from typing import Final

from passat.ir.tir import Buffer, Call, Const, Expr, For, Let, Load, LoopFunc, Seq, Stmt, Store, Var

_TYPES: Final = {"float32": "float", "int64": "int64_t"}
_INFIX: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def emit(function: LoopFunc) -> str:
    """Prints a function as C. It writes the last buffer, which overlaps no other."""
    *_, written = (param for param in function.params if isinstance(param, Buffer))
    params = ", ".join(_param(param, written=param is written) for param in function.params)
    return f"static void {function.name}({params}) {{\n" + "\n".join(_lines(function.body)) + "\n}\n"


def _param(param: Buffer | Var, *, written: bool) -> str:
    kind = _TYPES[param.dtype]
    if isinstance(param, Var):
        return f"{kind} {param.name}"
    return f"{'' if written else 'const '}{kind}* restrict {param.name}"


def _lines(stmt: Stmt) -> list[str]:
    if isinstance(stmt, Store):
        return [f"{stmt.buffer.name}[{_expr(stmt.index)}] = {_expr(stmt.value)};"]
    if isinstance(stmt, Let):
        return [f"const {_TYPES[stmt.var.dtype]} {stmt.var.name} = {_expr(stmt.value)};", *_lines(stmt.body)]
    if isinstance(stmt, For):
        name = stmt.var.name
        return [f"for (int64_t {name} = 0; {name} < {_expr(stmt.extent)}; ++{name}) {{", *_lines(stmt.body), "}"]
    assert isinstance(stmt, Seq)
    return [line for each in stmt.body for line in _lines(each)]


def _expr(expr: Expr) -> str:
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Const):
        return number(expr.value) if expr.dtype == "float32" else str(int(expr.value))
    if isinstance(expr, Load):
        return f"{expr.buffer.name}[{_expr(expr.index)}]"
    assert isinstance(expr, Call)
    args = [_expr(arg) for arg in expr.args]
    return f"({args[0]} {_INFIX[expr.name]} {args[1]})" if expr.name in _INFIX else f"k_{expr.name}({', '.join(args)})"


def number(value: float) -> str:
    """A float32 as a C literal.

    >>> number(0.5), number(float("inf")), number(-0.0)
    ('0x1.0000000000000p-1f', '__builtin_inff()', '(-0x0.0p+0f)')
    """
    if math.isnan(value):
        return '__builtin_nanf("")'
    digits = "__builtin_inff()" if math.isinf(value) else f"{abs(value).hex()}f"
    return f"(-{digits})" if math.copysign(1.0, value) < 0 else digits
