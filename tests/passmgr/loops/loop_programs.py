"""Random functions of loops whose behavior is defined: accesses are in bounds, and memory is written before it is read."""

from typing import Any

import numpy as np
from hypothesis import strategies as st

from passat.ir.tir.expr import IntImm, PrimExpr, SizeVar, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.ops import call_extern, if_then_else, likely
from passat.ir.tir.stmt import Allocate, AttrStmt, Evaluate, For, ForKind, IfThenElse, LetStmt, SeqStmt, Stmt, Store, nothing
from passat.ir.tir.types import PointerType, PrimType
from passat.ir.tir.values import Load, Select, true

SIZE = 32
"""The number of elements of each memory; indices are taken modulo it."""
KINDS = (ForKind.SERIAL, ForKind.SERIAL, ForKind.PARALLEL, ForKind.UNROLLED)


def pointer(name: str, scope: str = "global", dtype: str = "int32") -> Var:
    return Var(name, PointerType(PrimType(dtype), scope))


@st.composite
def indices(draw: st.DrawFn, scope: list[Var]) -> PrimExpr:
    """An index between 0 and SIZE, mostly linear in the variables."""
    total: PrimExpr = const(draw(st.integers(0, 5)))
    for var in draw(st.lists(st.sampled_from(scope), max_size=2)) if scope else []:
        total = total + var * draw(st.integers(-2, 4))
    return total % SIZE


@st.composite
def values(draw: st.DrawFn, scope: list[Var], readable: list[Var], depth: int = 2) -> PrimExpr:
    """A number that depends on variables and memory."""
    form = draw(st.sampled_from(("const", "var", "load", "add", "min", "select", "if"))) if depth else "const"
    if form == "var" and scope:
        return draw(st.sampled_from(scope))
    if form == "load" and readable:
        return Load("int32", draw(st.sampled_from(readable)), draw(indices(scope)))
    if form in ("add", "min"):
        a, b = (draw(values(scope, readable, depth - 1)) for _ in range(2))
        return a + b if form == "add" else Select(a < b, a, b)
    if form in ("select", "if"):
        condition = draw(conditions(scope))
        a, b = (draw(values(scope, readable, depth - 1)) for _ in range(2))
        return Select(condition, a, b) if form == "select" else if_then_else(condition, a, b)
    return IntImm("int32", draw(st.integers(-9, 9)))


@st.composite
def conditions(draw: st.DrawFn, scope: list[Var]) -> PrimExpr:
    """A comparison of a linear expression with a number or a variable, sometimes likely."""
    total: PrimExpr = const(0)
    for var in draw(st.lists(st.sampled_from(scope), min_size=1, max_size=3) if scope else st.just([])):
        total = total + var * draw(st.sampled_from((-3, -1, 1, 1, 2, 4)))
    by_variable: bool = draw(st.booleans())
    limit: PrimExpr = draw(st.sampled_from(scope)) if scope and by_variable else const(draw(st.integers(-3, 12)))
    made = draw(st.sampled_from((total < limit, total <= limit, total > limit, total >= limit, total.equal(limit))))
    return likely(made) if draw(st.booleans()) else made


@st.composite
def statements(draw: st.DrawFn, scope: list[Var], memory: list[Var], depth: int = 3) -> Stmt:
    """A statement over variables and initialized memory."""

    def body(more: list[Var] | None = None, new: list[Var] | None = None) -> Stmt:
        return draw(statements([*scope, *(more or [])], [*memory, *(new or [])], depth - 1))

    leaves = ("store", "store", "store", "call", "nothing")
    form = draw(st.sampled_from(leaves if depth == 0 else (*leaves, "for", "for", "for", "if", "if", "seq", "let", "allocate")))
    if form == "for":
        var = Var(draw(st.sampled_from("ijk")), "int32")
        kind = draw(st.sampled_from(KINDS))
        sizes = [each for each in scope if isinstance(each, SizeVar)] if kind != ForKind.UNROLLED else []
        extent = draw(st.sampled_from((const(0), const(1), const(2), const(3), const(5), *sizes, *(size + 3 for size in sizes))))
        return For(var, draw(st.integers(-1, 3)), extent, kind, body([var]))
    if form == "if":
        return IfThenElse(draw(conditions(scope)), body(), body() if draw(st.booleans()) else None)
    if form == "seq":
        return SeqStmt([body() for _ in range(draw(st.integers(1, 4)))])
    if form == "let":
        var = Var("v", "int32")
        return LetStmt(var, draw(values(scope, memory)), body([var]))
    if form == "allocate":
        new = pointer(draw(st.sampled_from("ST")), draw(st.sampled_from(("global", "global:tag", "shared"))))
        fill = Var("f", "int32")
        first = For(fill, 0, SIZE, ForKind.SERIAL, Store(new, draw(values([*scope], memory)), fill))
        return Allocate(new, "int32", [SIZE], true(), SeqStmt([first, body(new=[new]), body(new=[new])]))
    if form == "call":
        return Evaluate(call_extern("int32", "f", draw(values(scope, memory))))
    if form == "nothing":
        return draw(st.sampled_from((nothing(), Evaluate(draw(values(scope, memory))), AttrStmt(None, "pragma_x", 1, nothing()))))
    return Store(draw(st.sampled_from(memory)), draw(values(scope, memory)), draw(indices(scope)))


@st.composite
def functions(draw: st.DrawFn) -> PrimFunc:
    """A function of a size and two pointers."""
    n, a, b = SizeVar("n"), pointer("a"), pointer("b")
    return PrimFunc([n, a, b], draw(statements([n], [a, b])))


@st.composite
def arguments(draw: st.DrawFn) -> list[Any]:
    """Arguments of such a function."""
    return [draw(st.integers(0, 4)), np.arange(SIZE, dtype=np.int32), np.arange(SIZE, dtype=np.int32) * 7 % 5]


@st.composite
def vector_functions(draw: st.DrawFn) -> PrimFunc:
    """A function with a loop marked `vectorize` whose iterations write different elements, and read no others that are written."""
    n, a, b = SizeVar("n"), pointer("a"), pointer("b")
    i, j = Var("i"), Var("j")
    lanes, start = draw(st.integers(1, 4)), draw(st.integers(0, 2))

    def own(place: PrimExpr) -> PrimExpr:
        return place * 1 + i * 4

    def value(names: list[Var]) -> PrimExpr:
        made = draw(values(names, [b]))
        return made + Load("int32", a, own(j)) if draw(st.booleans()) else made

    def body(names: list[Var], depth: int) -> Stmt:
        form = draw(st.sampled_from(("store", "if", "seq", "let", "for", "allocate"))) if depth else "store"
        if form == "if":
            return IfThenElse(draw(conditions(names)), body(names, depth - 1), body(names, depth - 1) if draw(st.booleans()) else None)
        if form == "seq":
            return SeqStmt([body(names, depth - 1) for _ in range(2)])
        if form == "let":
            var = Var("v")
            return LetStmt(var, value(names), body([*names, var], depth - 1))
        if form == "for":
            var = Var("k")
            return For(var, 0, draw(st.sampled_from((const(2), n, j))), ForKind.SERIAL, body([*names, var], depth - 1))
        if form == "allocate":
            new = pointer("t")
            return Allocate(new, "int32", [2], true(), SeqStmt([Store(new, value(names), 1), Store(a, Load("int32", new, 1) + 1, own(j))]))
        return Store(a, value(names), own(j))

    inner = For(j, start, lanes, ForKind.VECTORIZED, body([n, i, j], 3))
    return PrimFunc([n, a, b], For(i, 0, 4, ForKind.SERIAL, inner))
