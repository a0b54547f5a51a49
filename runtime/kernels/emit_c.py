"""Prints loops as C. Names are those of the loops, which Passat generates; numbers are hexadecimal, and therefore exact."""

import math
import re
from typing import Final

from passat.ir.tir import Accumulate, Buffer, Cast, Const, Expr, For, Let, Load, Local, LoopFunc, Seq, Stmt, Store, Var

TYPES: Final = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "bool": "uint8_t",
}
"""The C types, by element type. Values of float16 are computed as float32."""
_INFIX: Final = {
    "add": "+", "and": "&", "div": "/", "eq": "==", "ge": ">=", "gt": ">", "le": "<=", "lt": "<", "mul": "*", "ne": "!=", "or": "|",
    "sub": "-",
}  # fmt: skip
_FLOATS: Final = ("float32", "float64")

_WAVE: Final = re.compile(r"\bk_((?:sin|cos)_float\d+)\(")
"""Functions that take several times as long for any argument as for one below 2^20. A kernel assumes that all arguments are, and starts
again if it meets another."""


def emit(function: LoopFunc) -> str:
    """Prints a function as C. The buffers that it writes overlap no others."""
    params = ", ".join(_param(param, written=param in function.outputs) for param in function.params)
    body = "\n".join(_lines(function.body))
    near = _WAVE.sub(r"k_near_\1(&far, ", body)
    if near == body:
        return f"static void k_{function.name}({params}) {{\n{body}\n}}\n"
    args = ", ".join(param.name for param in function.params)
    return (
        f"static int32_t k_{function.name}_near({params}) {{\nint32_t far = 0;\n{near}\nreturn far;\n}}\n"
        f"static void k_{function.name}({params}) {{\nif (!k_{function.name}_near({args})) return;\n{body}\n}}\n"
    )


def _param(param: Buffer | Var, *, written: bool) -> str:
    kind = TYPES[param.dtype]
    if isinstance(param, Var):
        return f"{kind} {param.name}"
    return f"{'' if written else 'const '}{kind}* restrict {param.name}"


def _lines(stmt: Stmt) -> list[str]:
    if isinstance(stmt, Store):
        value = _expr(stmt.value)
        return [f"{stmt.buffer.name}[{_expr(stmt.index)}] = {f'k_to_half({value})' if stmt.buffer.dtype == 'float16' else value};"]
    if isinstance(stmt, (Let, Local)):
        const = "const " if isinstance(stmt, Let) else ""
        return [f"{const}{TYPES[stmt.var.dtype]} {stmt.var.name} = {_expr(stmt.value)};", *_lines(stmt.body)]
    if isinstance(stmt, Accumulate):
        name, value = stmt.var.name, _expr(stmt.value)
        return [f"{name} += {value};" if stmt.name == "add" else f"{name} = {name} > {value} ? {name} : {value};"]
    if isinstance(stmt, For):
        name = stmt.var.name
        return [*_regrouped(stmt.body), f"for (int64_t {name} = 0; {name} < {_expr(stmt.extent)}; ++{name}) {{", *_lines(stmt.body), "}"]
    assert isinstance(stmt, Seq)
    return [line for each in stmt.body for line in _lines(each)]


def _regrouped(body: Stmt) -> list[str]:
    """The pragma that allows regrouping the accumulations of a loop, and nothing else."""
    while isinstance(body, (Let, Local)):
        body = body.body
    found = [each for each in (body.body if isinstance(body, Seq) else [body]) if isinstance(each, Accumulate)]
    clauses = (f"reduction({'+' if each.name == 'add' else each.name}:{each.var.name})" for each in found)
    return [f"#pragma omp simd {' '.join(clauses)}"] if found else []


def _expr(expr: Expr) -> str:
    if isinstance(expr, Var):
        return expr.name
    if isinstance(expr, Const):
        return number(expr.value, expr.dtype)
    if isinstance(expr, Load):
        element = f"{expr.buffer.name}[{_expr(expr.index)}]"
        return f"k_half({element})" if expr.buffer.dtype == "float16" else element
    if isinstance(expr, Cast):
        return _cast(_expr(expr.value), expr.value.dtype, expr.dtype)
    args = [_expr(arg) for arg in expr.args]
    kind = expr.args[-1].dtype
    if expr.name == "where":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if expr.name == "not":
        return f"(!{args[0]})"
    if expr.name in _INFIX:
        text = f"({args[0]} {_INFIX[expr.name]} {args[1]})"
        return f"({TYPES[kind]}){text}" if kind in ("int8", "uint8") else text
    return f"k_{expr.name}_{kind}({', '.join(args)})"


def _cast(value: str, given: str, wanted: str) -> str:
    if wanted == "bool":
        return f"({value} != 0)"
    if given in _FLOATS and wanted not in _FLOATS:
        return f"k_to_{wanted}_{given}({value})"
    return f"({TYPES[wanted]}){value}"


def number(value: float, dtype: str = "float32") -> str:
    """A number as a C literal.

    >>> number(0.5), number(float("inf")), number(-0.0), number(0.5, "float64"), number(-7, "int64")
    ('0x1.0000000000000p-1f', '__builtin_inff()', '(-0x0.0p+0f)', '0x1.0000000000000p-1', '(int64_t)(-6 - 1)')
    """
    if dtype not in _FLOATS:  # the least integer has no literal in C
        return f"({TYPES[dtype]})({int(value) + 1} - 1)" if value < 0 else str(int(value))
    value = float(value)
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    digits = f"__builtin_inf{suffix}()" if math.isinf(value) else f"{abs(value).hex()}{suffix}"
    return f"(-{digits})" if math.copysign(1.0, value) < 0 else digits
