"""Statements of the loop IR."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.buffer import Buffer
from passat.ir.tir.expr import IntImm, PrimExpr, StringImm, Var, convert
from passat.ir.tir.node import Node
from passat.ir.tir.ranges import IterVar, Range
from passat.ir.tir.types import PointerType, TirError, canonical
from passat.ir.tir.values import indices_of, true
from passat.ir.walks import preorder


class Stmt(Node):
    """A statement."""

    __slots__ = ()


class ForKind(IntEnum):
    """How the iterations of a loop run."""

    SERIAL = 0
    PARALLEL = 1
    VECTORIZED = 2
    UNROLLED = 3
    THREAD_BINDING = 4


KINDS: Final = {"serial": ForKind.SERIAL, "parallel": ForKind.PARALLEL, "vectorized": ForKind.VECTORIZED, "unrolled": ForKind.UNROLLED}
"""The kinds of loops by name."""


class LetStmt(Stmt):
    """A statement in which a variable has a value."""

    __slots__ = ("body", "value", "var")
    FIELDS = ("var", "value", "body")
    DEFINES = frozenset({"var"})

    def __init__(self, var: Var, value: AnyValue, body: Stmt) -> None:
        self.var, self.value, self.body = var, convert(value), body
        if self.value.dtype != var.dtype:
            raise TirError(f"{var.name} of type {var.dtype} cannot have a value of type {self.value.dtype}")


class AttrStmt(Stmt):
    """A statement with an attribute of a node or tensor for passes, such as the extent of a thread, or `pragma_unroll`."""

    __slots__ = ("attr_key", "body", "node", "value")
    FIELDS = ("node", "attr_key", "value", "body")

    def __init__(self, node: AnyValue, attr_key: str, value: AnyValue, body: Stmt) -> None:
        plain = isinstance(node, Node) or node is None or hasattr(node, "value_index")
        self.node: AnyValue = node if plain else convert(node)
        self.attr_key, self.value, self.body = attr_key, convert(value), body


class AssertStmt(Stmt):
    """A statement that runs if a condition holds; otherwise the function fails with a message."""

    __slots__ = ("body", "condition", "message")
    FIELDS = ("condition", "message", "body")

    def __init__(self, condition: AnyValue, message: AnyValue, body: Stmt) -> None:
        self.condition, self.message, self.body = convert(condition), convert(message), body
        if not self.condition.type.is_bool:
            raise TirError(f"an assertion has a condition of type bool, not {self.condition.dtype}")


class For(Stmt):
    """Runs the body for `extent` numbers, the first of which is `min`."""

    __slots__ = ("annotations", "body", "extent", "kind", "loop_var", "min", "thread_binding")
    FIELDS = ("loop_var", "min", "extent", "kind", "body", "thread_binding", "annotations")
    DEFINES = frozenset({"loop_var"})

    def __init__(
        self,
        loop_var: Var,
        min_val: AnyValue,
        extent: AnyValue,
        kind: ForKind | int | str,
        body: Stmt,
        thread_binding: IterVar | None = None,
        annotations: Mapping[str, AnyValue] | None = None,
    ) -> None:
        self.loop_var, self.body, self.thread_binding = loop_var, body, thread_binding
        self.min, self.extent = (_of_type(value, loop_var) for value in (min_val, extent))
        self.kind = KINDS[kind] if isinstance(kind, str) else ForKind(kind)
        self.annotations = dict(annotations or {})


def _of_type(value: AnyValue, var: Var) -> PrimExpr:
    """A bound of a loop; constants take the type of the loop variable."""
    bound = convert(value)
    if isinstance(bound, IntImm) and bound.dtype != var.dtype:
        return IntImm(var.dtype, bound.value)
    if bound.dtype != var.dtype:
        raise TirError(f"the bounds of the loop over {var.name} have the type {var.dtype}, not {bound.dtype}")
    return bound


class While(Stmt):
    """Runs the body as long as a condition holds."""

    __slots__ = ("body", "condition")
    FIELDS = ("condition", "body")

    def __init__(self, condition: AnyValue, body: Stmt) -> None:
        self.condition, self.body = convert(condition), body
        if not self.condition.type.is_bool or self.condition.lanes != 1:
            raise TirError(f"a loop has a condition of type bool, not {self.condition.dtype}")


class Store(Stmt):
    """Writes elements of memory at an index. Lanes whose predicate is false are not written."""

    __slots__ = ("buffer_var", "index", "predicate", "value")
    FIELDS = ("buffer_var", "value", "index", "predicate")

    def __init__(self, buffer_var: Var, value: AnyValue, index: AnyValue, predicate: AnyValue = None) -> None:
        [self.index] = indices_of([index])
        self.buffer_var, self.value = buffer_var, convert(value)
        self.predicate = true(self.value.lanes) if predicate is None else convert(predicate)
        for part in (self.index, self.predicate):
            if part.lanes != self.value.lanes:
                raise TirError(f"a store of {self.value.lanes} lanes has an index and a predicate of as many, not {part.dtype}")


class BufferStore(Stmt):
    """Writes the element of a buffer at an index for each dimension."""

    __slots__ = ("buffer", "indices", "value")
    FIELDS = ("buffer", "value", "indices")

    def __init__(self, buffer: Buffer, value: AnyValue, indices: Iterable[AnyValue]) -> None:
        self.buffer, self.value = buffer, convert(value)
        self.indices = indices_of(indices)


class BufferRealize(Stmt):
    """A statement in which the region `bounds` of a buffer has memory."""

    __slots__ = ("body", "bounds", "buffer", "condition")
    FIELDS = ("buffer", "bounds", "condition", "body")

    def __init__(self, buffer: Buffer, bounds: Iterable[Range], condition: AnyValue, body: Stmt) -> None:
        self.buffer, self.bounds, self.condition, self.body = buffer, tuple(bounds), convert(condition), body


class ProducerStore(Stmt):
    """Writes the element of a tensor at an index for each dimension."""

    __slots__ = ("indices", "producer", "value")
    FIELDS = ("producer", "value", "indices")

    def __init__(self, producer: AnyValue, value: AnyValue, indices: Iterable[AnyValue]) -> None:
        self.producer, self.value = producer, convert(value)
        self.indices = indices_of(indices)


class ProducerRealize(Stmt):
    """A statement in which the region `bounds` of a tensor has memory."""

    __slots__ = ("body", "bounds", "condition", "producer", "storage_scope")
    FIELDS = ("producer", "bounds", "condition", "body", "storage_scope")

    def __init__(self, producer: AnyValue, bounds: Iterable[Range], condition: AnyValue, body: Stmt, storage_scope: str = "") -> None:
        self.producer, self.bounds, self.condition, self.body = producer, tuple(bounds), convert(condition), body
        self.storage_scope = storage_scope


class Allocate(Stmt):
    """A statement in which a variable points to new memory for elements of a type."""

    __slots__ = ("annotations", "body", "buffer_var", "condition", "dtype", "extents")
    FIELDS = ("buffer_var", "dtype", "extents", "condition", "body", "annotations")
    DEFINES = frozenset({"buffer_var"})

    def __init__(
        self,
        buffer_var: Var,
        dtype: str,
        extents: Iterable[AnyValue],
        condition: AnyValue,
        body: Stmt,
        annotations: Mapping[str, AnyValue] | None = None,
    ) -> None:
        if not isinstance(buffer_var.type_annotation, PointerType):
            raise TirError(f"memory is allocated for a variable of a PointerType, which {buffer_var.name} is not")
        self.buffer_var, self.dtype, self.body = buffer_var, canonical(dtype), body
        self.extents: tuple[PrimExpr, ...] = tuple(map(convert, extents))
        self.condition = convert(condition)
        self.annotations = dict(annotations or {})
        if not self.condition.type.is_bool:
            raise TirError(f"an allocation has a condition of type bool, not {self.condition.dtype}")


class SeqStmt(Stmt):
    """Statements that run one after another."""

    __slots__ = ("seq",)
    FIELDS = ("seq",)

    def __init__(self, seq: Iterable[Stmt]) -> None:
        self.seq = tuple(seq)

    def __getitem__(self, index: int) -> Stmt:
        return self.seq[index]

    def __len__(self) -> int:
        return len(self.seq)

    def __iter__(self) -> Iterator[Stmt]:
        return iter(self.seq)


class IfThenElse(Stmt):
    """One of two statements; the second may be missing."""

    __slots__ = ("condition", "else_case", "then_case")
    FIELDS = ("condition", "then_case", "else_case")

    def __init__(self, condition: AnyValue, then_case: Stmt, else_case: Stmt | None = None) -> None:
        self.condition, self.then_case, self.else_case = convert(condition), then_case, else_case


class Evaluate(Stmt):
    """Evaluates an expression for its effects."""

    __slots__ = ("value",)
    FIELDS = ("value",)

    def __init__(self, value: AnyValue) -> None:
        self.value = convert(value)


class Prefetch(Stmt):
    """A hint that a region of a buffer is read soon."""

    __slots__ = ("bounds", "buffer")
    FIELDS = ("buffer", "bounds")

    def __init__(self, buffer: Buffer, bounds: Iterable[Range]) -> None:
        self.buffer, self.bounds = buffer, tuple(bounds)


def nothing() -> Evaluate:
    """The statement that does nothing."""
    return Evaluate(0)


def is_nothing(stmt: Stmt | None) -> bool:
    """Whether a statement is missing, or evaluates a constant."""
    return stmt is None or (isinstance(stmt, Evaluate) and isinstance(stmt.value, (IntImm, StringImm)))


def stmt_seq(*args: Stmt | PrimExpr | Sequence[Stmt]) -> Stmt:
    """The statements one after another; sequences are flattened, expressions evaluated.

    >>> len(stmt_seq(Evaluate(1), [Evaluate(2), Evaluate(3)]))  # type: ignore[arg-type]  # a sequence
    3
    """
    found: list[Stmt] = []
    for arg in args:
        if isinstance(arg, PrimExpr):
            found.append(Evaluate(arg))
        elif isinstance(arg, Stmt) and not isinstance(arg, SeqStmt):
            found.append(arg)
        else:
            found.extend(arg)
    return found[0] if len(found) == 1 else SeqStmt(found)


def stmt_list(stmt: Stmt) -> list[Stmt]:
    """The statements of nested sequences, in order."""
    nested = preorder([stmt], lambda part: part.seq if isinstance(part, SeqStmt) else ())
    return [part for part in nested if not isinstance(part, SeqStmt)]
