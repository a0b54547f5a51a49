"""Builds statements step by step: `with` blocks are scopes of loops and conditions, and subscripts read and write memory.

>>> ib = create()
>>> x = ib.pointer("float32", name="x")
>>> with ib.for_range(0, 4, name="i") as i:
...     x[i] = x[i] + 1.0
>>> print(ib.get())
for (i: int32, 0, 4) {
  x: Pointer(global float32)[i] = ((float32*)x[i] + 1.0f32)
}
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import ExprOp, IntImm, PrimExpr, Var, cast, const, convert
from passat.ir.tir.ops import likely, maximum
from passat.ir.tir.stmt import (
    Allocate,
    AttrStmt,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import DataType, PointerType, PrimType, TirError
from passat.ir.tir.values import Load, Ramp, true


class Scope:
    """A block of statements."""

    def __init__(self, value: AnyValue, leave: Callable[[], None]) -> None:
        self._value, self._leave = value, leave

    def __enter__(self) -> AnyValue:
        return self._value

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._leave()


class BufferVar(ExprOp):
    """Memory of a builder: `x[i]` reads and `x[i] = value` writes; indices of several dimensions are flattened by `shape`.

    A vector type of `content_type` makes accesses of as many elements.
    """

    __slots__ = ("_builder", "_content", "_offset", "_scalar", "_shape", "_var", "_zero")

    def __init__(self, builder: "IRBuilder", var: Var, shape: Sequence[PrimExpr] | None, content_type: str) -> None:
        self._builder, self._var, self._shape, self._content = builder, var, shape, content_type

    def asobject(self) -> PrimExpr:
        """The pointer."""
        return self._var

    @property
    def dtype(self) -> str:
        """The type of the elements of an access."""
        return self._content

    def _index(self, index: AnyValue) -> PrimExpr:
        places = index if isinstance(index, tuple) else (index,)
        flat: AnyValue = places[0]
        if len(places) > 1:
            if self._shape is None or len(self._shape) != len(places):
                known = "unknown" if self._shape is None else str(len(self._shape))
                raise TirError(
                    f"an index of {counted(len(places), 'dimension')} needs a buffer of as many; those of {self._var.name} are {known}"
                )
            flat = 0
            step: AnyValue = 1
            for place, extent in zip(reversed(places), reversed(self._shape), strict=True):
                flat, step = flat + place * step, step * extent
        flat = convert(flat)
        lanes = DataType.of(self._content).lanes
        return Ramp(flat * lanes, const(1, flat.dtype), lanes) if lanes > 1 else flat

    def __getitem__(self, index: AnyValue) -> PrimExpr:
        return Load(self._content, self._var, self._index(index))

    def __setitem__(self, index: AnyValue, value: AnyValue) -> None:
        given = convert(value) if hasattr(value, "dtype") or isinstance(value, ExprOp) else cast(self._content, value)
        if given.dtype != self._content:
            raise TirError(f"{self._var.name} has elements of type {self._content}, not {given.dtype}; convert the value with astype")
        self._builder.emit(Store(self._var, given, self._index(index)))


class IRBuilder:
    """Collects statements in nested scopes; `get` returns them."""

    def __init__(self) -> None:
        self._scopes: list[list[Stmt]] = [[]]
        self._unnamed = 0

    def _pop(self) -> Stmt:
        """Ends a scope. An open scope, such as that of an allocation, encloses the statements after it."""
        stmts = self._scopes.pop()
        if not stmts or isinstance(stmts[-1], _Open):
            stmts.append(Evaluate(0))
        body: list[Stmt] = []
        for stmt in reversed(stmts):
            if isinstance(stmt, _Open):
                body = [stmt.close(_sequence(body[::-1]))]
            else:
                body.append(stmt)
        return _sequence(body[::-1])

    def emit(self, stmt: Stmt | PrimExpr | Callable[[Stmt], Stmt]) -> None:
        """Adds a statement, an expression to evaluate, or a function that makes a statement of the rest of the scope."""
        if isinstance(stmt, PrimExpr):
            stmt = Evaluate(stmt)
        self._scopes[-1].append(stmt if isinstance(stmt, Stmt) else _Open(stmt))

    def _scope(self, value: AnyValue, finish: Callable[[Stmt], Stmt]) -> Scope:
        self._scopes.append([])
        return Scope(value, lambda: self.emit(finish(self._pop())))

    def scope_attr(self, node: AnyValue, attr_key: str, value: AnyValue) -> None:
        """An attribute of the rest of the scope."""
        given = maximum(1, value) if attr_key == "thread_extent" else convert(value)
        self.emit(lambda body: AttrStmt(node, attr_key, given, body))

    def for_range(self, begin: AnyValue, end: AnyValue, name: str = "i", dtype: str = "int32", kind: str | ForKind = "serial") -> Scope:
        """A loop over the numbers from `begin` to before `end`: serial, parallel, vectorize or unroll. Loops without a name are i, j, k."""
        if isinstance(kind, str) and kind not in _KINDS:
            raise ValueError(f"loops are {', '.join(_KINDS)}, not {kind!r}")
        if name == "i":
            name = "ijk"[self._unnamed] if self._unnamed < 3 else f"i_{self._unnamed - 3}"
            self._unnamed += 1
        first = convert(begin)
        extent = convert(end) if isinstance(first, IntImm) and first.value == 0 else end - first
        var = Var(name, dtype)
        made = _KINDS[kind] if isinstance(kind, str) else kind
        return self._scope(var, lambda body: For(var, first, extent, made, body))

    def while_loop(self, condition: AnyValue) -> Scope:
        """A loop as long as a condition holds."""
        given = convert(condition)
        return self._scope(None, lambda body: While(given, body))

    def if_scope(self, cond: AnyValue) -> Scope:
        """Statements that run if a condition holds."""
        condition = convert(cond)
        return self._scope(None, lambda body: IfThenElse(condition, body))

    def else_scope(self) -> Scope:
        """Statements that run if the condition of the `if_scope` before does not hold. Raises TirError if there is none."""
        previous = self._scopes[-1].pop() if self._scopes[-1] else None
        if not isinstance(previous, IfThenElse) or previous.else_case is not None:
            raise TirError("else_scope follows if_scope")
        return self._scope(None, lambda body: previous.with_fields(else_case=body))

    def new_scope(self) -> Scope:
        """A scope that ends the attributes, variables and allocations in it."""
        return self._scope(None, lambda body: body)

    def let(self, var_name: str | Var, value: AnyValue) -> Var:
        """A variable with a value in the rest of the scope."""
        given = convert(value)
        var = var_name if isinstance(var_name, Var) else Var(var_name, given.dtype)
        self.emit(lambda body: LetStmt(var, given, body))
        return var

    def allocate(self, dtype: str, shape: AnyValue, name: str = "buf", scope: str = "") -> BufferVar:
        """New memory in the rest of the scope."""
        sizes = tuple(map(convert, shape if isinstance(shape, (list, tuple)) else (shape,)))
        var = Var(name, PointerType(PrimType(dtype), scope))
        self.emit(lambda body: Allocate(var, dtype, sizes, true(), body))
        return BufferVar(self, var, sizes, dtype)

    def pointer(self, content_type: str, name: str = "ptr", scope: str = "") -> BufferVar:
        """A new pointer to memory."""
        return BufferVar(self, Var(name, PointerType(PrimType(content_type), scope)), None, content_type)

    def buffer_ptr(self, buf: Buffer, shape: Sequence[PrimExpr] | None = None) -> BufferVar:
        """The memory of a buffer."""
        return BufferVar(self, buf.data, buf.shape if shape is None else shape, buf.dtype)

    def likely(self, expr: AnyValue) -> PrimExpr:
        """A condition that usually holds."""
        return likely(expr)

    def get(self) -> Stmt:
        """The statements. Raises TirError inside a scope."""
        if len(self._scopes) != 1:
            raise TirError(f"{len(self._scopes) - 1} scopes are still open; leave their `with` blocks first")
        return self._pop()


_KINDS = {
    "serial": ForKind.SERIAL,
    "parallel": ForKind.PARALLEL,
    "vectorize": ForKind.VECTORIZED,
    "vectorized": ForKind.VECTORIZED,
    "unroll": ForKind.UNROLLED,
    "unrolled": ForKind.UNROLLED,
}


class _Open(Stmt):
    """A statement that encloses the statements after it."""

    __slots__ = ("close",)

    def __init__(self, close: Callable[[Stmt], Stmt]) -> None:
        self.close = close


def _sequence(stmts: list[Stmt]) -> Stmt:
    return stmts[0] if len(stmts) == 1 else SeqStmt(stmts)


def create() -> IRBuilder:
    """A new builder."""
    return IRBuilder()
