"""The memory of a function of loops: where it is allocated, and between which statements it is used.

A region is a body that runs as a whole: that of the function, of a loop, or of a branch. Its steps are the statements that run in it, one
after another; a loop or a branch is one step, with a region of its own.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.expr import Call, IntImm, PrimExpr, Var
from passat.ir.tir.functor import children, post_order
from passat.ir.tir.linear import Polynomial, Polynomials
from passat.ir.tir.node import Node
from passat.ir.tir.stmt import (
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    Store,
    While,
)
from passat.ir.tir.types import DataType, PointerType, TirError
from passat.ir.tir.values import BufferLoad, Let, Load, ProducerLoad
from passat.passmgr.loops.effects import is_total

THREADS: Final = ("thread_extent", "virtual_thread")
"""The attributes of statements that run on threads."""
_CONCURRENT: Final = (ForKind.PARALLEL, ForKind.VECTORIZED, ForKind.THREAD_BINDING)
_BORROWS: Final = frozenset(
    f"tir.{name}"
    for name in ("address_of", "call_extern", "call_pure_extern", "prefetch", "tvm_access_ptr", "tvm_call_packed", "tvm_stack_make_array")
)
"""Functions that use a pointer only while the statement with their call runs."""
_NOT_FLAT: Final = (BufferRealize, BufferStore, Prefetch, ProducerRealize, ProducerStore, BufferLoad, ProducerLoad)


@dataclass(eq=False)
class Memory:
    """Memory of one allocation. `size` is in bytes; `first` and `last` are the steps of its region that use it, None without uses."""

    node: Allocate
    number: int
    region: "Region"
    around: "Memory | None"
    """The memory of the region that is allocated around it."""
    size: Polynomial
    variables: frozenset[Var]
    """The variables of its size."""
    is_movable: bool
    """Whether it may be allocated elsewhere, and share its place."""
    is_opaque: bool = False
    """Whether a function gets the pointer to its start."""
    is_used_after: bool = False
    """Whether it is used after the loop or branch that allocates it."""
    first: int | None = None
    last: int | None = None

    @property
    def var(self) -> Var:
        """The pointer to the memory."""
        return self.node.buffer_var

    @property
    def alignment(self) -> int:
        """The alignment in bytes: the size of an element, or of the lane of a vector."""
        return DataType.of(self.node.dtype).itemsize

    @property
    def element_size(self) -> int:
        """The size of an element in bytes, with all lanes."""
        return self.alignment * DataType.of(self.node.dtype).lanes

    @property
    def scope(self) -> str:
        """The kind of memory."""
        pointer = self.var.type_annotation
        return pointer.storage_scope if isinstance(pointer, PointerType) else ""


@dataclass(eq=False)
class Step:
    """A statement of a region, or an expression that it evaluates; `touched` are the pointers that it uses."""

    node: Node
    touched: set[Var]
    around: Memory | None
    """The innermost memory of the region that is allocated around it."""
    region: "Region | None" = None


@dataclass(eq=False)
class Region:
    """A body that runs as a whole. In a closed one, memory that is allocated inside stays inside: its iterations run at the same time."""

    body: Stmt
    parent: "Region | None" = None
    loop_var: Var | None = None
    is_closed: bool = False
    steps: list[Step] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    lets: set[Var] = field(default_factory=set)
    """The variables that its statements define; they have no value at its start."""

    def lets_out(self, memory: Memory) -> bool:
        """Whether memory may be allocated around the region instead of inside."""
        return not self.is_closed and self.loop_var not in memory.variables and memory.variables.isdisjoint(self.lets)

    def above(self) -> "Iterator[Region]":
        """The region and those around it, from the inside out."""
        region: Region | None = self
        while region is not None:
            yield region
            region = region.parent


class Regions:
    """The regions of a statement, those around others first. Each variable is defined once."""

    def __init__(self, body: Stmt) -> None:
        self.polynomials = Polynomials()
        self.regions: list[Region] = []
        self.memory: dict[Var, Memory] = {}
        """The memory by its pointer, that of statements around others first."""
        self._kept: set[Var] = set()
        """Pointers that are known under other names, or have attributes."""
        self._opaque: set[Var] = set()
        self._walk(body)
        self._finish()

    def _walk(self, body: Stmt) -> None:
        stack: list[tuple[Stmt, Region, Memory | None, bool]] = [(body, self._region(body), None, False)]
        while stack:
            node, region, around, on_threads = stack.pop()
            if isinstance(node, _NOT_FLAT):
                raise TirError("StorageRewrite applies to flat memory; run StorageFlatten before")
            if isinstance(node, SeqStmt):
                stack.extend((part, region, around, on_threads) for part in reversed(node.seq))
            elif isinstance(node, Allocate):
                self._step(region, node, around, (*node.extents, node.condition))
                memory = self._allocated(node, region, around)
                stack.append((node.body, region, memory, on_threads))
            elif isinstance(node, AttrStmt) and node.attr_key in THREADS and not on_threads:
                inner = self._region(node.body, region, is_closed=True)
                self._step(region, node, around, (node.value,), inner)
                stack.append((node.body, inner, None, True))
            elif isinstance(node, (LetStmt, AttrStmt, AssertStmt)):
                self._scope(region, node, around)
                stack.append((node.body, region, around, on_threads))
            elif isinstance(node, For):
                inner = self._region(node.body, region, node.loop_var, node.kind in _CONCURRENT)
                self._step(region, node, around, (node.min, node.extent), inner)
                stack.append((node.body, inner, None, on_threads))
            elif isinstance(node, While):
                inner = self._region(node.body, region)
                self._step(region, node, around, (node.condition,), inner)
                stack.append((node.body, inner, None, on_threads))
            elif isinstance(node, IfThenElse):
                self._step(region, node.condition, around, (node.condition,))
                parts = []
                for case in (node.then_case, node.else_case):
                    if case is not None:
                        inner = self._region(case, region)
                        self._step(region, case, around, (), inner)
                        parts.append((case, inner, None, on_threads))
                stack.extend(reversed(parts))
            else:
                self._step(region, node, around, (node,))

    def _region(self, body: Stmt, parent: Region | None = None, loop_var: Var | None = None, is_closed: bool = False) -> Region:
        made = Region(body, parent, loop_var, is_closed)
        self.regions.append(made)
        return made

    def _scope(self, region: Region, node: LetStmt | AttrStmt | AssertStmt, around: Memory | None) -> None:
        if isinstance(node, LetStmt):
            region.lets.add(node.var)
            value = node.value
            self._keep_aliases(value)
        elif isinstance(node, AttrStmt):
            value = node.value
            if isinstance(node.node, Var) and node.attr_key != "storage_scope":
                self._kept.add(node.node)
        else:
            value = node.condition
        self._step(region, value, around, (value,))

    def _allocated(self, node: Allocate, region: Region, around: Memory | None) -> Memory:
        type_ = DataType.of(node.dtype)
        parts = [part for extent in node.extents for part in post_order(extent)]
        is_simple = (
            type_.kind != "handle"
            and not node.annotations
            and isinstance(node.condition, IntImm)
            and bool(node.condition)
            and all(extent.type.is_index and is_total(extent) for extent in node.extents)
            and not any(isinstance(part, Let) for part in parts)
        )
        size: Polynomial = type_.itemsize * type_.lanes
        for extent in node.extents if is_simple else ():
            size = size * self.polynomials.of(extent)  # type: ignore[assignment]  # a product of polynomials is one
        variables = frozenset(part for part in parts if isinstance(part, Var))
        memory = Memory(node, len(self.memory), region, around, size, variables, is_simple)
        self.memory[node.buffer_var] = memory
        return memory

    def _step(self, region: Region, node: Node, around: Memory | None, parts: Iterable[Node], inner: Region | None = None) -> None:
        touched: set[Var] = set()
        for part in parts:
            touched |= self._touched(part)
        region.steps.append(Step(node, touched, around, inner))

    def _touched(self, node: AnyValue) -> set[Var]:
        """The pointers that an expression or a write uses."""
        if isinstance(node, Var):
            self._kept.add(node)
            return {node}
        found: set[Var] = set()
        for part in post_order(node):
            if isinstance(part, _NOT_FLAT):
                raise TirError("StorageRewrite applies to flat memory; run StorageFlatten before")
            if isinstance(part, (Load, Store)):
                found.add(part.buffer_var)
            is_borrowed = isinstance(part, Call) and part.op.name in _BORROWS
            if isinstance(part, (Let, Store)):
                self._keep_aliases(part.value)
            elif isinstance(part, Call) and not is_borrowed:
                for arg in part.args:
                    self._keep_aliases(arg)
            for child in children(part):
                if isinstance(child, Var) and child in self.memory:
                    found.add(child)
                    (self._opaque if is_borrowed else self._kept).add(child)
        return found

    def _keep_aliases(self, value: PrimExpr) -> None:
        """Keeps the memory whose pointer gets another name, or is stored."""
        if value.type.kind == "handle":
            for part in post_order(value):
                if isinstance(part, Var):
                    self._kept.add(part)
                elif isinstance(part, Load):
                    self._kept.add(part.buffer_var)

    def _finish(self) -> None:
        """Finds the first and the last use of each memory. Memory that is used after its statement belongs to the region around both."""
        for region in self.regions:
            for step in region.steps:
                for var in step.touched & self.memory.keys():
                    self._contain(self.memory[var], region)
        for region in reversed(self.regions):
            if region.parent is not None:
                step = next(each for each in region.parent.steps if each.region is region)
                for each in region.steps:
                    step.touched |= each.touched
        for memory in self.memory.values():
            memory.is_movable &= memory.var not in self._kept and memory.variables.isdisjoint(memory.region.lets)
            memory.is_opaque = memory.var in self._opaque
            memory.region.memory.append(memory)
            uses = [place for place, step in enumerate(memory.region.steps) if memory.var in step.touched]
            if uses:
                memory.first, memory.last = uses[0], uses[-1]

    def _contain(self, memory: Memory, region: Region) -> None:
        around = set(region.above())
        while memory.region not in around:
            crossed, memory.is_used_after = memory.region, True
            assert crossed.parent is not None, "the outermost region is around all"
            memory.region = crossed.parent
            memory.is_movable &= crossed.lets_out(memory)
