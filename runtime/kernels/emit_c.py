"""Prints functions of the loop IR as C.

Parallel loops are serial in C. An allocation of one element in the scope `local` is a variable.
"""

import math
import re
from collections.abc import Iterator, Sequence
from typing import Final

from passat.ir.tir.arithmetic import Add, Max
from passat.ir.tir.expr import IntImm, PrimExpr, Var
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order
from passat.ir.tir.stmt import (
    Allocate,
    AttrStmt,
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
    is_nothing,
    stmt_list,
)
from passat.ir.tir.types import DataType, PointerType, TirError
from passat.ir.tir.values import Load
from passat.runtime.kernels.c_expressions import Names, c_type, expression
from passat.runtime.kernels.scalars import SCALARS

REASSOCIATE: Final = "reassociate"
"""The annotation of loops whose sums and maxima in local variables may be computed in any order."""
_WAVE: Final = re.compile(r"\bk_((?:sin|cos)_float\d+)\(")
"""Functions that take several times as long for any argument as for one below 2^20. A kernel assumes that all arguments are, and starts
again if it meets another."""
_STACK: Final = 1 << 14
"""The size in bytes of the largest allocation on the stack."""
_ALIGNMENT: Final = 16
"""The alignment in bytes of memory on the stack, which may hold elements of other types than it is declared for; `malloc` has the same."""
_LOCAL: Final = "local"
_HEAD: Final = """#include <stddef.h>
#include <stdint.h>
#ifdef __FMA__
#define FMAF(x, y, z) __builtin_fmaf(x, y, z)
#define FMA(x, y, z) __builtin_fma(x, y, z)
#else
#define FMAF(x, y, z) ((x) * (y) + (z))
#define FMA(x, y, z) ((x) * (y) + (z))
#endif
"""


def name_of(function: PrimFunc) -> str:
    """The name of a function: its attribute `global_symbol`."""
    return str(function.attrs.get("global_symbol", "main"))


def emit(function: PrimFunc, *, exported: bool = False) -> str:
    """Prints a function as C: `k_NAME` with internal linkage, or NAME if it is exported. With the attribute `tir.noalias`, memory that it
    writes does not overlap other memory. Raises TirError for what C cannot express."""
    return _Emitter(function).text(exported=exported)


def module_source(functions: Sequence[PrimFunc]) -> str:
    """The C source of a library of functions, each exported by its name."""
    return "\n".join([_HEAD, SCALARS, *(emit(function, exported=True) for function in functions)])


class _Emitter:
    def __init__(self, function: PrimFunc) -> None:
        self.function = function
        self.names = Names()
        self.pointers: dict[Var, str] = {}
        for param in function.params:
            buffer = function.buffer_map.get(param)
            self.names.define(param)
            if buffer is not None:
                self.names.alias(buffer.data, param)
                self.pointers[param] = buffer.dtype
            elif isinstance(param.type_annotation, PointerType):
                self.pointers[param] = param.type_annotation.element_type.dtype
        self.written = {
            part.buffer_var if isinstance(part, Store) else part.buffer.data
            for part in post_order(function.body)
            if isinstance(part, (Store, BufferStore))
        }

    def text(self, *, exported: bool) -> str:
        """The function."""
        name = name_of(self.function) if exported else f"k_{name_of(self.function)}"
        linkage = '__attribute__((visibility("default"))) ' if exported else "static "
        params = ", ".join(map(self._param, self.function.params))
        body = "\n".join(self._lines(self.function.body))
        near = _WAVE.sub(r"k_near_\1(&far, ", body)
        if near == body:
            return f"{linkage}void {name}({params}) {{\n{body}\n}}\n"
        args = ", ".join(self.names[param] for param in self.function.params)
        return (
            f"static int32_t {name}_near({params}) {{\nint32_t far = 0;\n{near}\nreturn far;\n}}\n"
            f"{linkage}void {name}({params}) {{\nif (!{name}_near({args})) return;\n{body}\n}}\n"
        )

    def _param(self, param: Var) -> str:
        name = self.names[param]
        if param not in self.pointers:
            return f"{c_type(param.dtype)} {name}"
        restrict = " restrict" if self.function.attrs.get("tir.noalias") else ""
        buffer = self.function.buffer_map.get(param)
        is_written = param in self.written or (buffer is not None and buffer.data in self.written)
        return f"{'' if is_written else 'const '}{c_type(self.pointers[param])}*{restrict} {name}"

    def _lines(self, stmt: Stmt) -> Iterator[str]:
        """The lines of a statement. Statements within bindings do not use the Python stack."""
        while isinstance(stmt, (LetStmt, AttrStmt, Allocate)):
            if isinstance(stmt, LetStmt):
                yield f"const {c_type(stmt.var.dtype)} {self.names.define(stmt.var)} = {self._expr(stmt.value)};"
            elif isinstance(stmt, Allocate):
                self.names.allocated[stmt.buffer_var] = stmt.dtype
                size = self._elements(stmt)
                if size is None:
                    yield from self._on_heap(stmt)
                    return
                start, rest = _started(stmt) if stmt.buffer_var in self.names.scalars else (None, stmt.body)
                shape = "" if stmt.buffer_var in self.names.scalars else f"[{size}] __attribute__((aligned({_ALIGNMENT})))"
                value = "" if start is None else f" = {self._expr(start)}"
                yield f"{c_type(stmt.dtype)} {self.names.define(stmt.buffer_var)}{shape}{value};"
                stmt = rest
                continue
            stmt = stmt.body
        if not isinstance(stmt, SeqStmt):
            yield from self._single(stmt)
            return
        parts = stmt_list(stmt)
        for part in parts:
            alone = part is not parts[-1] and isinstance(part, (LetStmt, AttrStmt, Allocate))
            yield from ["{", *self._lines(part), "}"] if alone else self._lines(part)

    def _single(self, stmt: Stmt) -> Iterator[str]:
        if isinstance(stmt, Store):
            if stmt.value.lanes != 1:
                raise TirError(f"C code stores no vectors, as into {stmt.buffer_var.name}; print loops before they are vectorized")
            yield self._stored(stmt)
        elif isinstance(stmt, BufferStore):
            place = self._expr(stmt.buffer.offset(stmt.indices))
            yield f"{self.names[stmt.buffer.data]}[{place}] = {self._expr(stmt.value)};"
        elif isinstance(stmt, For):
            yield from self._loop(stmt)
        elif isinstance(stmt, IfThenElse):
            yield from [f"if ({self._expr(stmt.condition)}) {{", *self._lines(stmt.then_case)]
            if not is_nothing(stmt.else_case) and stmt.else_case is not None:
                yield from ["} else {", *self._lines(stmt.else_case)]
            yield "}"
        elif isinstance(stmt, While):
            yield from [f"while ({self._expr(stmt.condition)}) {{", *self._lines(stmt.body), "}"]
        elif isinstance(stmt, Evaluate):
            if not is_nothing(stmt):
                yield f"(void){self._expr(stmt.value)};"
        else:
            raise TirError(f"C code has no statement for a {type(stmt).__name__}")

    def _stored(self, stmt: Store) -> str:
        if stmt.buffer_var not in self.names.scalars:
            return f"{self.names.element(stmt.buffer_var, stmt.value.dtype, self._expr(stmt.index))} = {self._expr(stmt.value)};"
        name = self.names[stmt.buffer_var]
        operation = _accumulated(stmt)
        if isinstance(operation, Add):
            return f"{name} += {self._expr(operation.b)};"
        if isinstance(operation, Max):
            value = self._expr(operation.b)
            return f"{name} = {name} > {value} ? {name} : {value};"
        return f"{name} = {self._expr(stmt.value)};"

    def _loop(self, loop: For) -> Iterator[str]:
        if loop.kind == ForKind.THREAD_BINDING:
            raise TirError(f"C code has no threads for the loop over {loop.loop_var.name}")
        name, kind = self.names.define(loop.loop_var), c_type(loop.loop_var.dtype)
        first, extent = self._expr(loop.min), self._expr(loop.extent)
        last = extent if first == "0" else f"({first} + {extent})"
        if loop.annotations.get(REASSOCIATE):
            yield from self._regrouped(loop.body)
        elif loop.kind == ForKind.VECTORIZED:
            yield "#pragma omp simd"
        elif loop.kind == ForKind.UNROLLED and isinstance(loop.extent, IntImm):
            yield f"#pragma GCC unroll {max(1, min(loop.extent.value, 65534))}"
        yield f"for ({kind} {name} = {first}; {name} < {last}; ++{name}) {{"
        yield from self._lines(loop.body)
        yield "}"

    def _regrouped(self, body: Stmt) -> list[str]:
        """The pragma that allows regrouping the accumulations of a loop, and nothing else."""
        while isinstance(body, LetStmt):
            body = body.body
        found = [each for each in stmt_list(body) if isinstance(each, Store) and each.buffer_var in self.names.scalars]
        clauses = [f"reduction({'+' if isinstance(_accumulated(each), Add) else 'max'}:{self.names[each.buffer_var]})" for each in found]
        return [f"#pragma omp simd {' '.join(clauses)}"] if found else []

    def _elements(self, stmt: Allocate) -> int | None:
        """The number of elements of an allocation on the stack; None for one on the heap. Notes variables."""
        if not all(isinstance(extent, IntImm) for extent in stmt.extents):
            return None
        count = max(1, math.prod(int(extent) for extent in stmt.extents if isinstance(extent, IntImm)))
        pointer = stmt.buffer_var.type_annotation
        if count == 1 and isinstance(pointer, PointerType) and pointer.storage_scope == _LOCAL:
            self.names.scalars.add(stmt.buffer_var)
        return count if count * DataType.of(stmt.dtype).itemsize <= _STACK else None

    def _on_heap(self, stmt: Allocate) -> Iterator[str]:
        name, kind = self.names.define(stmt.buffer_var), c_type(stmt.dtype)
        count = " * ".join(["(int64_t)1", *(f"(int64_t){self._expr(extent)}" for extent in stmt.extents)])
        yield f"{kind}* {name} = __builtin_malloc(k_max_int64({count}, 1) * sizeof({kind}));"
        yield f"if (!{name}) __builtin_trap();"
        yield from self._lines(stmt.body)
        yield f"__builtin_free({name});"

    def _expr(self, expr: PrimExpr) -> str:
        return expression(expr, self.names)


def _started(stmt: Allocate) -> tuple[PrimExpr | None, Stmt]:
    """The value that an allocated variable starts with, and the statements after that."""
    first, *rest = stmt_list(stmt.body) or [stmt.body]
    if isinstance(first, Store) and first.buffer_var is stmt.buffer_var and rest and not _reads(first.value, stmt.buffer_var):
        return first.value, rest[0] if len(rest) == 1 else SeqStmt(rest)
    return None, stmt.body


def _accumulated(stmt: Store) -> Add | Max | None:
    """The sum or maximum of a variable and a value that is stored in the variable; maxima are those of integers."""
    value = stmt.value
    if not isinstance(value, (Add, Max)) or not isinstance(value.a, Load) or value.a.buffer_var is not stmt.buffer_var:
        return None
    if isinstance(value, Max) and not value.type.is_integer:
        return None
    return None if _reads(value.b, stmt.buffer_var) else value


def _reads(expr: PrimExpr, pointer: Var) -> bool:
    return any(isinstance(part, Load) and part.buffer_var is pointer for part in post_order(expr))
