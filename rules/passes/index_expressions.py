"""Integer expressions of loops as Passat expressions, and back.

Integers of every type become int64 scalars, since index arithmetic does not overflow; a variable with bounds becomes a `clip` of the
variable, whose value range is known (`passat.rules.ranges`). Reads, calls and floating-point expressions become variables: equal ones the
same variable.

A walk, not rules: it converts one representation to another.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Var
from passat.ir.infer import infer_type
from passat.ir.op import Op, get_op
from passat.ir.tensor import Tensor
from passat.ir.tir import arithmetic as tir
from passat.ir.tir.equality import difference, digest
from passat.ir.tir.expr import BinaryOp, Cast, FloatImm, IntImm, PrimExpr, SizeVar, cast, const
from passat.ir.tir.expr import Call as TirCall
from passat.ir.tir.expr import Var as TirVar
from passat.ir.tir.types import DataType
from passat.ir.tir.values import Let, Select
from passat.ir.traverse import post_order
from passat.ir.types import TensorType
from passat.passmgr.loops.effects import is_total

INDEX: Final = TensorType((), "int64")
TRUTH: Final = TensorType((), "bool")
_BINARY: Final[dict[type[BinaryOp], str]] = {
    tir.Add: "add",
    tir.Sub: "subtract",
    tir.Mul: "multiply",
    tir.Div: "divide",
    tir.Mod: "fmod",
    tir.FloorDiv: "floor_divide",
    tir.FloorMod: "floor_mod",
    tir.Min: "minimum",
    tir.Max: "maximum",
}
_COMPARISONS: Final[dict[type[BinaryOp], str]] = {
    tir.EQ: "equal",
    tir.NE: "not_equal",
    tir.LT: "less",
    tir.LE: "less_equal",
    tir.GT: "greater",
    tir.GE: "greater_equal",
}
_BITS: Final = {"tir.shift_right": "right_shift", "tir.bitwise_and": "bitwise_and", "tir.bitwise_or": "bitwise_or"}
_SHIFTS: Final = {"tir.shift_left": "multiply", "tir.shift_right": "floor_divide"}
_TIR_BITS: Final = {operator: name for name, operator in _BITS.items()}
_LOGIC: Final[dict[type[BinaryOp], str]] = {tir.And: "logical_and", tir.Or: "logical_or"}
_NAMES: Final[Mapping[type, str]] = {**_BINARY, **_COMPARISONS, **_LOGIC}
_MAKERS: Final = {name: cls for table in (_BINARY, _COMPARISONS, _LOGIC) for cls, name in table.items()}
_HARMLESS: Final = frozenset(("tir.likely", "tir.if_then_else", "tir.shift_left", *_BITS))
_LARGEST: Final = 1 << 62
"""Larger bounds count as infinite."""


class Span(NamedTuple):
    """The bounds of a variable; None means unbounded."""

    low: int | None = None
    high: int | None = None


def call(name: str, *args: Expr, **attrs: int) -> Expr:
    """A call of an operator, with its type."""
    op = get_op(name)
    return infer_type(Call(op, args, op.bind_attrs(attrs)))


def integer(value: int) -> Expr:
    """A constant."""
    return infer_type(Constant(Tensor.dense(np.asarray(value, np.int64))))


def truth(value: bool) -> Expr:
    """A constant truth value."""
    return infer_type(Constant(Tensor.dense(np.asarray(value))))


def is_index(dtype: str) -> bool:
    """True for the types whose arithmetic is index arithmetic: signed integers of 32 or 64 bits."""
    return DataType.of(dtype).is_index


class Reader:
    """Converts expressions of loops. `bounds` gives the bounds of variables. `leaves` has the expression that each variable stands for."""

    def __init__(self, bounds: Callable[[TirVar], Span | None] = lambda var: None) -> None:
        self.leaves: dict[Var, PrimExpr] = {}
        self._bounds = bounds
        self._made: dict[int, Expr] = {}
        self._bound: dict[TirVar, Expr] = {}
        self._kept: list[PrimExpr] = []
        self._opaque: dict[int, list[tuple[PrimExpr, Expr]]] = {}

    def bind(self, var: TirVar, value: PrimExpr) -> None:
        """Replaces a variable by its value."""
        self._bound[var] = self.read(value)

    def bind_expression(self, var: TirVar, value: Expr) -> None:
        """Replaces a variable by a Passat expression."""
        self._bound[var] = value

    def read(self, expr: PrimExpr) -> Expr:
        """The Passat expression of a scalar integer or truth value."""
        stack = [expr]
        while stack:
            node = stack[-1]
            if id(node) in self._made:
                stack.pop()
                continue
            parts, make = self._plan(node)
            missing = [part for part in parts if id(part) not in self._made]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            self._kept.append(node)
            self._made[id(node)] = make(*[self._made[id(part)] for part in parts])
        return self._made[id(expr)]

    def _plan(self, node: PrimExpr) -> tuple[Sequence[PrimExpr], Callable[..., Expr]]:
        """The parts of an expression that are converted first, and a function that makes the expression of theirs; no parts for what is not
        arithmetic, which becomes a variable."""
        kind = type(node)
        if isinstance(node, Cast) and isinstance(node.value, (IntImm, FloatImm)):
            return [], partial(self._value, cast(node.dtype, node.value))
        if isinstance(node, BinaryOp) and (
            (kind in _BINARY and is_index(node.dtype))
            or (kind in _COMPARISONS and is_index(node.a.dtype))
            or (kind in _LOGIC and node.lanes == 1 and is_total(node.b, _HARMLESS))
        ):
            return [node.a, node.b], partial(call, _NAMES[kind])
        if node.lanes != 1:
            return [], partial(self._value, node)
        if isinstance(node, Let):
            value = self._made.get(id(node.value))
            if value is not None:
                self._bound.setdefault(node.var, value)
            return [node.value, *([] if value is None else [node.body])], lambda _, body: body
        if isinstance(node, tir.Not):
            return [node.a], partial(call, "logical_not")
        chosen = _choice(node) if is_index(node.dtype) or node.dtype == "bool" else None
        if chosen is not None and (isinstance(node, Select) or all(is_total(value, _HARMLESS) for value in chosen[1:])):
            return chosen, _either if node.dtype == "bool" else partial(call, "where")
        if isinstance(node, Cast) and _is_scalar(node.dtype):
            if _is_scalar(node.value.dtype):
                return [node.value], partial(_cast, node)
            if (through := _through_float(node)) is not None:
                return [through], partial(_cast_twice, node.value.dtype)
        name = getattr(node.op, "name", "") if isinstance(node, TirCall) and is_index(node.dtype) else ""
        if isinstance(node, TirCall) and name in _SHIFTS and isinstance(by := node.args[1], IntImm) and 0 <= by.value < 62:
            return [node.args[0]], partial(_shifted, _SHIFTS[name], 1 << by.value)
        if isinstance(node, TirCall) and name in _BITS:
            return [node.args[0], node.args[1]], partial(call, _BITS[name])
        return [], partial(self._value, node)

    def _value(self, node: PrimExpr) -> Expr:
        """A number, or a variable: of what is not arithmetic, or one that is bound to a value."""
        if isinstance(node, IntImm) and _is_scalar(node.dtype):
            return truth(bool(node.value)) if node.dtype == "bool" else integer(node.value)
        found = self._bound.get(node) if isinstance(node, TirVar) else None
        return self._leaf(node) if found is None else found

    def _leaf(self, node: PrimExpr) -> Expr:
        """The variable of an expression that is not arithmetic; equal expressions have the same one."""
        same = self._opaque.setdefault(digest(node), [])
        for other, made in same:
            if difference(other, node) is None:
                return made
        name = node.name if isinstance(node, TirVar) else f"v{len(self.leaves)}"
        leaf = Var(name, TRUTH if node.dtype == "bool" else INDEX)
        self.leaves[leaf] = node
        made = infer_type(leaf)
        span = self._span(node)
        if node.dtype != "bool" and span is not None:
            made = call("clip", made, a_min=span.low, a_max=span.high)  # type: ignore[arg-type]  # None is no bound
        same.append((node, made))
        return made

    def _span(self, node: PrimExpr) -> Span | None:
        """The bounds of a variable: given ones, otherwise those of its type."""
        found = self._bounds(node) if isinstance(node, TirVar) else None
        type_ = node.type
        if found is None:
            least, most = (0, (1 << type_.bits) - 1) if type_.kind == "uint" else (-(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1)
            found = Span(0, None) if isinstance(node, SizeVar) else Span(least, most)
        low = None if found.low is None or found.low <= -_LARGEST else found.low
        high = None if found.high is None or found.high >= _LARGEST else found.high
        return None if low is None and high is None else Span(low, high)


def _is_scalar(dtype: str) -> bool:
    type_ = DataType.of(dtype)
    return type_.lanes == 1 and (type_.is_index or type_.is_bool)


def _choice(node: PrimExpr) -> tuple[PrimExpr, PrimExpr, PrimExpr] | None:
    """The condition and the two values of a choice."""
    if isinstance(node, Select):
        return node.condition, node.true_value, node.false_value
    if isinstance(node, TirCall) and getattr(node.op, "name", "") == "tir.if_then_else":
        condition, x, y = node.args
        return condition, x, y
    return None


def _through_float(node: Cast) -> PrimExpr | None:
    """The integer that is converted to a floating-point number and back."""
    inner = node.value
    through = isinstance(inner, Cast) and inner.dtype in ("float32", "float64") and _is_scalar(inner.value.dtype)
    return inner.value if through and is_index(node.dtype) and isinstance(inner, Cast) and inner.value.dtype != "bool" else None


def _cast_twice(through: str, value: Expr) -> Expr:
    op = get_op("cast")
    inner = Call(op, (value,), op.bind_attrs({"dtype": through}))
    return infer_type(Call(op, (inner,), op.bind_attrs({"dtype": "int64"})))


def _shifted(operator: str, by: int, value: Expr) -> Expr:
    """A shift by a constant, as a product or, to the right, as a quotient that is rounded down."""
    return call(operator, value, integer(by))


def _cast(node: Cast, value: Expr) -> Expr:
    wanted, given = node.type, node.value.type
    if wanted.is_bool or given.is_bool:
        if wanted.is_bool and given.is_bool:
            return value
        return call("not_equal", value, integer(0)) if wanted.is_bool else call("where", value, integer(1), integer(0))
    return value if wanted.bits >= given.bits else _cast_twice("int32", value)


def _either(condition: Expr, x: Expr, y: Expr) -> Expr:
    """One of two truth values."""
    return call("logical_or", call("logical_and", condition, x), call("logical_and", call("logical_not", condition), y))


class Writer:
    """Converts Passat expressions back to expressions of loops; `leaves` has the expressions that variables stand for;
    `place` replaces what is within them."""

    def __init__(self, leaves: Mapping[Var, PrimExpr], place: Callable[[PrimExpr], PrimExpr] = lambda leaf: leaf) -> None:
        self._leaves = leaves
        self._place = place
        self._made: dict[tuple[int, str], PrimExpr] = {}
        self._kept: list[Expr] = []

    def write(self, expr: Expr, dtype: str) -> PrimExpr:
        """The expression as a value of a type. Arithmetic has the widest type of the variables below, and at least this one."""
        wide = self._widest([expr]) if dtype == "int32" else dtype
        key = (id(expr), wide)
        if key not in self._made:
            self._kept.append(expr)
            self._made[key] = self._write(expr, wide)
        return cast(dtype, self._made[key])

    def _write(self, expr: Expr, dtype: str) -> PrimExpr:
        if isinstance(expr, Constant):
            return const(expr.data.numpy().item(), dtype)
        if isinstance(expr, Var):
            return cast(dtype, self._place(self._leaves[expr]))
        assert isinstance(expr, Call)
        assert isinstance(expr.op, Op)
        name, args = expr.op.name, expr.args
        if name in ("clip", "cast"):
            inner = expr.args[0]
            through = inner.attrs.get("dtype") if name == "cast" and isinstance(inner, Call) else None
            if through is None or not isinstance(inner, Call):
                return self.write(args[0], dtype)
            return cast(dtype, cast(through, self.write(inner.args[0], "int64")))
        if name == "logical_not":
            return tir.Not.of(self.write(args[0], "bool"))
        if name == "where":
            return Select(self.write(args[0], "bool"), self.write(args[1], dtype), self.write(args[2], dtype))
        if name == "negative":
            return tir.Sub.of(const(0, dtype), self.write(args[0], dtype))
        if name in _TIR_BITS:
            return TirCall(dtype, _TIR_BITS[name], [self.write(args[0], dtype), self.write(args[1], dtype)])
        inner = "bool" if name.startswith("logical") else self._widest(args) if dtype == "bool" else dtype
        return _MAKERS[name].of(self.write(args[0], inner), self.write(args[1], inner))

    def _widest(self, args: Sequence[Expr]) -> str:
        """The widest type of the variables in some expressions; int32 if there are none."""
        leaves = [self._leaves[node] for arg in args for node in post_order(arg) if isinstance(node, Var)]
        return "int64" if any(leaf.dtype == "int64" for leaf in leaves) else "int32"
