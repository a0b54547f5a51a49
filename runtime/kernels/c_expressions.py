"""Prints expressions of the loop IR as C. Numbers are hexadecimal, and therefore exact."""

import math
import re
from collections.abc import Mapping
from typing import Final

from passat.ir import naming
from passat.ir.tir.arithmetic import EQ, GE, GT, LE, LT, NE, Add, And, CmpOp, Div, FloorDiv, FloorMod, Max, Min, Mod, Mul, Not, Or, Sub
from passat.ir.tir.expr import BinaryOp, Call, Cast, FloatImm, IntImm, PrimExpr, Var
from passat.ir.tir.functor import post_order
from passat.ir.tir.node import Node
from passat.ir.tir.types import DataType, TirError
from passat.ir.tir.values import BufferLoad, Let, Load, Select

TYPES: Final = {
    "float32": "float",
    "float64": "double",
    "float16": "uint16_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "uint8": "uint8_t",
    "uint16": "uint16_t",
    "uint32": "uint32_t",
    "uint64": "uint64_t",
    "bool": "uint8_t",
}
"""The C types, by element type. Numbers of float16 can only be cast from and to float32."""
_PLAIN: Final = re.compile(r"(?!k_|v_)[a-z][a-z0-9_]*")
_OTHERS: Final = re.compile(r"\W", re.ASCII)
_KEYWORDS: Final = frozenset(
    (
        *("asm", "auto", "break", "case", "char", "const", "continue", "default", "do", "double", "else", "enum", "extern", "far", "float"),
        *("for", "goto", "if", "inline", "int", "linux", "long", "near", "register", "restrict", "return", "short", "signed", "sizeof"),
        *("static", "struct", "switch", "typedef", "typeof", "union", "unix", "unsigned", "void", "volatile", "while"),
    )
)
"""Words that are no names in C, or that the generated code uses."""
_FLOATS: Final = ("float32", "float64")
_SMALL: Final = ("int8", "int16", "uint8", "uint16")
_INFIX: Final[dict[type[BinaryOp], str]] = {
    Add: "+", Div: "/", EQ: "==", GE: ">=", GT: ">", LE: "<=", LT: "<", Mod: "%", Mul: "*", NE: "!=", Sub: "-",
}  # fmt: skip
_FUNCTIONS: Final[dict[type[BinaryOp], str]] = {FloorDiv: "floordiv", FloorMod: "mod", Max: "max", Min: "min"}
_CALLS: Final = {
    **{f"tir.{name}": name for name in ("ceil", "cos", "erf", "exp", "floor", "fmod", "isnan", "log", "pow", "sigmoid", "sin")},
    **{f"tir.{name}": name for name in ("sqrt", "tanh")},
    "tir.fabs": "abs",
    "tir.nearbyint": "round",
    "tir.round": "round",
}
"""The functions of `scalars` that compute calls of the loop IR. Those of `kernel.NAME` have this name."""
_BITS: Final = {"tir.bitwise_and": "&", "tir.bitwise_or": "|", "tir.bitwise_xor": "^", "tir.shift_left": "<<", "tir.shift_right": ">>"}
_C_LIBRARY: Final = frozenset(
    f"tir.{name}"
    for name in (
        *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "copysign", "cosh", "erf", "exp2", "exp10", "fma", "hypot"),
        *("log10", "log1p", "log2", "nextafter", "sinh", "tan", "trunc"),
    )
)


class Names:
    """The names of variables in a C function: each has one of its own."""

    def __init__(self) -> None:
        self._names: dict[Var, str] = {}
        self._taken = naming.Names()
        self.scalars: set[Var] = set()
        """Pointers to memory of one element, which are variables in C."""
        self.allocated: dict[Var, str] = {}
        """The element types of allocated memory."""

    def define(self, var: Var) -> str:
        """The name of a variable that is a parameter, or that a statement binds."""
        if var not in self._names:
            plain = _PLAIN.fullmatch(var.name) is not None and var.name not in _KEYWORDS
            self._names[var] = self._taken.take(var.name if plain else f"v_{_OTHERS.sub('_', var.name)}")
        return self._names[var]

    def alias(self, var: Var, other: Var) -> None:
        """Gives a variable the name of another."""
        self._names[var] = self.define(other)

    def element(self, var: Var, dtype: str, index: str) -> str:
        """An element of memory, which may be allocated for elements of another type."""
        if var in self.scalars:
            return self[var]
        kind = c_type(dtype)
        cast = "" if c_type(self.allocated.get(var, dtype)) == kind else f"({kind} __attribute__((may_alias))*)"
        return f"({cast}{self[var]})[{index}]" if cast else f"{self[var]}[{index}]"

    def __getitem__(self, var: Var) -> str:
        """The name of a variable. Raises TirError if it is not a parameter of the function, or bound in it."""
        if var not in self._names:
            raise TirError(f"{var.name} is neither a parameter of the function nor bound in it")
        return self._names[var]


def expression(expr: PrimExpr, names: Names) -> str:
    """Prints an expression. Raises TirError for vectors, and what C has no expression for."""
    if isinstance(expr, Var):
        return names[expr]
    texts: dict[int, str] = {}
    order = post_order(expr)
    for node in order:
        if isinstance(node, Let):
            names.define(node.var)
    for node in order:
        texts[id(node)] = _text(node, texts, names)
    return texts[id(expr)]


def c_type(dtype: str) -> str:
    """The C type of a number. Raises TirError if there is none."""
    if dtype not in TYPES:
        hint = "; print loops before they are vectorized" if DataType.of(dtype).lanes != 1 else ""
        raise TirError(f"C code has no type {dtype}{hint}")
    return TYPES[dtype]


def _text(node: Node, texts: Mapping[int, str], names: Names) -> str:
    if isinstance(node, Var):
        return names[node]
    if isinstance(node, (IntImm, FloatImm)):
        return number(node.value, node.dtype)
    if isinstance(node, Load):
        return names.element(node.buffer_var, node.dtype, texts[id(node.index)])
    if isinstance(node, BufferLoad):
        return f"{names[node.buffer.data]}[{expression(node.buffer.offset(node.indices), names)}]"
    if isinstance(node, Cast):
        return _cast(texts[id(node.value)], node.value.dtype, node.dtype)
    if isinstance(node, Select):
        return f"({texts[id(node.condition)]} ? {texts[id(node.true_value)]} : {texts[id(node.false_value)]})"
    if isinstance(node, Let):
        kind = c_type(node.value.dtype)
        return f"({{ const {kind} {names[node.var]} = {texts[id(node.value)]}; {texts[id(node.body)]}; }})"
    if isinstance(node, Not):
        return f"(!{texts[id(node.a)]})"
    if isinstance(node, Call):
        return _call(node, [texts[id(arg)] for arg in node.args])
    if isinstance(node, BinaryOp):
        return _binary(node, texts[id(node.a)], texts[id(node.b)])
    raise TirError(f"C code has no expression for a {type(node).__name__}")


def _binary(node: BinaryOp, a: str, b: str) -> str:
    kind = node.a.dtype
    c_type(kind)
    if kind == "float16":
        raise TirError("C code computes float16 as float32: cast the operands")
    if isinstance(node, (And, Or)):
        guarded = any(isinstance(part, (Load, BufferLoad, Call, Div, Mod, FloorDiv, FloorMod)) for part in post_order(node.b))
        sign = "&" if isinstance(node, And) else "|"
        return f"({a} {sign * (1 + guarded)} {b})"
    if type(node) in _FUNCTIONS and kind != "bool":
        return f"k_{_FUNCTIONS[type(node)]}_{kind}({a}, {b})"
    if isinstance(node, Mod) and kind in _FLOATS:
        return f"k_fmod_{kind}({a}, {b})"
    if type(node) not in _INFIX:
        raise TirError(f"C code has no {type(node).__name__} of {kind}")
    text = f"({a} {_INFIX[type(node)]} {b})"
    if kind == "bool" and isinstance(node, (Add, Sub)):
        return f"({text} & 1)"
    return f"({TYPES[kind]}){text}" if kind in _SMALL and not isinstance(node, CmpOp) else text


def _call(node: Call, args: list[str]) -> str:
    name, kind = str(node.op.name), node.args[-1].dtype if node.args else "void"
    if name == "tir.likely":
        return args[0]
    if name == "tir.if_then_else":
        return f"({args[0]} ? {args[1]} : {args[2]})"
    if name == "tir.address_of" and isinstance(node.args[0], Load):
        return f"&{args[0]}"
    if name == "tir.prefetch":
        return f"__builtin_prefetch({', '.join(args[:3])})"
    if name in _BITS:
        kind = c_type(node.dtype)
        return f"({kind})(({kind}){args[0]} {_BITS[name]} {args[1]})"
    if name == "tir.bitwise_not":
        return f"(!{args[0]})" if node.type.is_bool else f"({c_type(node.dtype)})(~{args[0]})"
    if name == "tir.large_uint_imm":
        return f"((uint64_t){args[1]} << 32 | {args[0]})"
    if name in _C_LIBRARY and kind in _FLOATS and (name, kind) != ("tir.erf", "float32"):
        return f"__builtin_{name.removeprefix('tir.')}{'f' * (kind == 'float32')}({', '.join(args)})"
    own = name.removeprefix("kernel.") if name.startswith("kernel.") else _CALLS.get(name)
    if own is None or (name in _CALLS and kind not in _FLOATS):
        raise TirError(f"C code has no {name} of {kind}")
    return f"k_{own}_{kind}({', '.join(args)})"


def _cast(value: str, given: str, wanted: str) -> str:
    to = c_type(wanted)
    c_type(given)
    if "float16" in (given, wanted):
        if {given, wanted} != {"float16", "float32"}:
            raise TirError(f"C code casts float16 from and to float32, not from {given} to {wanted}")
        return f"{'k_half' if given == 'float16' else 'k_to_half'}({value})"
    if wanted == "bool":
        return f"({value} != 0)"
    if given in _FLOATS and wanted not in _FLOATS:
        if wanted in ("int32", "int64", "uint64"):
            return f"k_to_{wanted}_{given}({value})"
        return f"({to})k_to_int64_{given}({value})"
    return f"({to}){value}"


def number(value: float, dtype: str = "float32") -> str:
    """A number as a C literal.

    >>> number(0.5), number(float("inf")), number(-0.0), number(0.5, "float64"), number(-7, "int64")
    ('0x1.0000000000000p-1f', '__builtin_inff()', '(-0x0.0p+0f)', '0x1.0000000000000p-1', '(int64_t)(-6 - 1)')
    """
    if dtype not in _FLOATS:  # the least integer has no literal in C
        return f"({c_type(dtype)})({int(value) + 1} - 1)" if value < 0 else str(int(value))
    value = float(value)
    suffix = "f" if dtype == "float32" else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    digits = f"__builtin_inf{suffix}()" if math.isinf(value) else f"{abs(value).hex()}{suffix}"
    return f"(-{digits})" if math.copysign(1.0, value) < 0 else digits
