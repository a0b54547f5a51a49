"""Random functions of the loop IR."""

from hypothesis import strategies as st

from passat.ir.tir.arithmetic import And, Not, Or
from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import BINARY, Broadcast, Call, Cast, FloatImm, IntImm, PrimExpr, SizeVar, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.ranges import Range
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
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
from passat.ir.tir.types import PointerType, PrimType
from passat.ir.tir.values import BufferLoad, Let, Load, Ramp, Select, true

ARITHMETIC = ("+", "-", "*", "/", "%", "floordiv", "floormod", "min", "max")
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
NAMES = st.sampled_from(("x", "y", "i", "i_1", "for", "float32", "a.b", "size", "2d", "ä", "inf"))
INTEGERS = st.integers(-(1 << 31), (1 << 31) - 1)


@st.composite
def expressions(draw: st.DrawFn, scope: list[Var], buffers: list[Buffer], dtype: str, depth: int = 3) -> PrimExpr:
    """An expression of a type over variables and buffers."""

    def part(kind: str = dtype) -> PrimExpr:
        return draw(expressions(scope, buffers, kind, depth - 1))

    known = [var for var in scope if var.dtype == dtype]
    if depth == 0 or draw(st.booleans()):
        variable: bool = draw(st.booleans())
        if known and variable:
            return draw(st.sampled_from(known))
        if dtype.startswith("float"):
            return FloatImm(dtype, draw(st.floats(width=32)))
        return IntImm(dtype, draw(st.integers(0, 1) if dtype == "bool" else INTEGERS))
    if dtype == "bool":
        form = draw(st.sampled_from(("and", "or", "not", "compare")))
        if form == "not":
            return Not(part())
        if form == "compare":
            kind = draw(st.sampled_from(("int32", "float32", "int64")))
            return BINARY[draw(st.sampled_from(COMPARISONS))](part(kind), part(kind))
        return (And if form == "and" else Or)(part(), part())
    form = draw(st.sampled_from(("binary", "binary", "select", "let", "cast", "call", "load", "buffer")))
    if form == "select":
        return Select(part("bool"), part(), part())
    if form == "let":
        var = Var(draw(NAMES), "int32")
        return Let(var, part("int32"), draw(expressions([*scope, var], buffers, dtype, depth - 1)))
    if form == "cast":
        return Cast(dtype, part(draw(st.sampled_from(("int32", "float32", "int64", "bool")))))
    if form == "call":
        return Call(dtype, "tir.if_then_else", [part("bool"), part(), part()])
    readable = [buffer for buffer in buffers if buffer.dtype == dtype]
    if form == "load" and readable:
        return Load(dtype, draw(st.sampled_from(readable)).data, part("int32"))
    if form == "buffer" and readable:
        buffer = draw(st.sampled_from(readable))
        return BufferLoad(buffer, [part("int32") for _ in buffer.shape])
    return BINARY[draw(st.sampled_from(ARITHMETIC))](part(), part())


@st.composite
def statements(draw: st.DrawFn, scope: list[Var], buffers: list[Buffer], depth: int = 3) -> Stmt:
    """A statement over variables and buffers."""

    def expr(dtype: str = "int32") -> PrimExpr:
        return draw(expressions(scope, buffers, dtype, 2))

    def body(more: list[Var] | None = None, views: list[Buffer] | None = None) -> Stmt:
        return draw(statements([*scope, *(more or [])], [*buffers, *(views or [])], depth - 1))

    simple = ("store", "buffer", "evaluate", "vector")
    nested = ("let", "for", "while", "if", "seq", "allocate", "attr", "assert", "realize")
    form = draw(st.sampled_from(simple if depth == 0 else (*simple, *nested)))
    if form == "let":
        var = Var(draw(NAMES), "float32")
        return LetStmt(var, expr("float32"), body([var]))
    if form == "for":
        var = Var(draw(NAMES), "int32")
        kind = draw(st.sampled_from([each for each in ForKind if each != ForKind.THREAD_BINDING]))
        return For(var, expr(), expr(), kind, body([var]), annotations=draw(st.sampled_from(({}, {"step": 2, "why": 'a"b'}))))
    if form == "while":
        return While(expr("bool"), body())
    if form == "if":
        return IfThenElse(expr("bool"), body(), body() if draw(st.booleans()) else None)
    if form == "seq":
        return SeqStmt([body() for _ in range(draw(st.integers(0, 4)))])
    if form == "allocate":
        var = Var(draw(NAMES), PointerType(PrimType("float32"), draw(st.sampled_from(("global", "local", "shared.dyn")))))
        return Allocate(var, "float32", [expr()], draw(st.sampled_from((true(), expr("bool")))), body())
    if form == "attr":
        return AttrStmt(draw(st.sampled_from([None, *scope, *buffers])), "pragma_x", expr(), body())
    if form == "assert":
        return AssertStmt(expr("bool"), 'must "hold"\n', body())
    if form == "realize":
        view = decl_buffer((4, 8), draw(st.sampled_from(("float32", "int32"))), draw(NAMES))
        return BufferRealize(view, [Range(4), Range.from_min_extent(expr(), 8)], true(), body(views=[view]))
    buffer = draw(st.sampled_from(buffers))
    if form == "buffer":
        return BufferStore(buffer, expr(buffer.dtype), [expr() for _ in buffer.shape])
    if form == "store":
        return Store(buffer.data, expr(buffer.dtype), expr())
    if form == "vector":
        index, mask = Ramp(expr(), 1, 4), Broadcast(expr("bool"), 4)
        return Store(buffer.data, Load(f"{buffer.dtype}x4", buffer.data, index, mask), index, mask)
    return Evaluate(expr(draw(st.sampled_from(("int32", "float32", "int64", "bool")))))


@st.composite
def functions(draw: st.DrawFn) -> PrimFunc:
    """A function of two buffers and two sizes."""
    n, m = SizeVar("n"), Var(draw(NAMES), "int32")
    first = decl_buffer((n, 4), "float32", draw(NAMES), strides=draw(st.sampled_from((None, [n * 4, 1]))))
    second = decl_buffer((m,), "int32", draw(NAMES), offset_factor=draw(st.sampled_from((0, 4))))
    attrs = draw(st.sampled_from(({}, {"global_symbol": "f", "tir.noalias": True, "sizes": (1, 2)})))
    return PrimFunc([n, first, second, m], draw(statements([n, m], [first, second])), attrs=attrs)
