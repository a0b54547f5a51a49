"""Accesses of buffers as accesses of memory: a walk, since an index depends on the region of the enclosing realization."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import Call, Cast, IntImm, PrimExpr, StringImm, Var, const
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, rewrite, substitute
from passat.ir.tir.stmt import Allocate, AttrStmt, BufferRealize, BufferStore, Evaluate, For, ForKind, Prefetch, Stmt, Store
from passat.ir.tir.types import DataType, PointerType, TirError
from passat.ir.tir.values import BufferLoad, Load

CACHE_LINE: Final = 64
"""The size of a cache line in bytes."""
BOUND: Final = "buffer_bound"
"""The attribute of a pointer with the number of elements of its memory."""
_OF_REGIONS: Final = ("buffer_dim_align", "realize_scope")
"""Attributes of a buffer that say how its memory is realized."""


def flatten(function: PrimFunc, cache_line_size: int = CACHE_LINE, create_bound_attribute: bool = False) -> PrimFunc:
    """The function with `Load`, `Store` and `Allocate` instead of accesses and realizations of buffers.

    A realized region has memory of its size, in row-major order. `buffer_dim_align` pads the step of a dimension, `realize_scope` sets the
    kind of memory; other attributes of buffers become attributes of their pointers. Booleans are bytes. A `Prefetch` becomes loops over the
    cache lines of its region. With `create_bound_attribute`, allocations and writes have the number of elements of each memory that they
    access, as the attribute `buffer_bound` of the pointer.

    Raises TirError for a buffer that is neither a parameter nor realized, or realized twice.

    >>> from passat.ir.tir.parser import parse_function
    >>> text = "primfn(a: handle) buffers a -> A: Buffer(p: Pointer(global int32), int32, [2, 4]) { A[1, 2] = A[0, 3] }"
    >>> print(flatten(parse_function(text)).body)
    p: Pointer(global int32)[6] = (int32*)p[3]
    """
    flattening = _Flattening(function, cache_line_size, create_bound_attribute)
    body = rewrite(function.body, flattening.flat)
    return function.with_body(substitute(body, flattening.moved) if flattening.moved else body)


@dataclass(frozen=True, eq=False)
class _Region:
    """The memory of a buffer: a buffer of the realized sizes, and the index of its first element."""

    memory: Buffer
    start: tuple[PrimExpr, ...] = ()

    def place(self, index: Sequence[PrimExpr]) -> list[PrimExpr]:
        """The index of an element in the memory."""
        moved = [place - first for place, first in zip(index, self.start, strict=True)] if self.start else list(index)
        return moved or [const(0, "int32")]

    @property
    def extents(self) -> list[PrimExpr]:
        """The sizes of the memory, whose product is the number of its elements."""
        memory = self.memory
        return [memory.strides[0] * memory.shape[0]] if memory.strides else list(memory.shape)


class _Flattening:
    def __init__(self, function: PrimFunc, line: int, bounds: bool) -> None:
        self._line, self._bounds = line, bounds
        self._regions = {buffer: _Region(buffer) for buffer in function.buffer_map.values()}
        self._given = frozenset(self._regions)
        self.moved: dict[Var, Var] = {}
        """New pointers of memory that `realize_scope` moves."""
        nodes = post_order(function.body)
        aligned: defaultdict[Buffer, dict[int, tuple[int, int]]] = defaultdict(dict)
        scopes: dict[Buffer, str] = {}
        for node in nodes:
            if isinstance(node, AttrStmt) and isinstance(node.node, Buffer):
                if node.attr_key == "buffer_dim_align":
                    dimension, factor, offset = _numbers(node)
                    aligned[node.node][dimension] = factor, offset
                elif node.attr_key == "realize_scope" and isinstance(node.value, StringImm):
                    scopes[node.node] = node.value.value
        for node in nodes:
            if isinstance(node, BufferRealize) and node.buffer not in self._given:
                if node.buffer in self._regions:
                    raise TirError(f"the buffer {node.buffer.name} is realized twice")
                self._regions[node.buffer] = self._realized(node, aligned[node.buffer], scopes.get(node.buffer))
        self._by_pointer = {region.memory.data: region for region in self._regions.values()}

    def _realized(self, node: BufferRealize, aligned: Mapping[int, tuple[int, int]], scope: str | None) -> _Region:
        buffer, sizes = node.buffer, [bound.extent for bound in node.bounds]
        data, pointer = buffer.data, buffer.data.type_annotation
        if scope is not None and scope != buffer.scope() and isinstance(pointer, PointerType):
            data = self.moved[buffer.data] = Var(data.name, PointerType(pointer.element_type, scope))
        strides = _strides(sizes, aligned) if aligned else None
        return _Region(decl_buffer(sizes, buffer.dtype, buffer.name, data, strides), tuple(bound.min for bound in node.bounds))

    def _region(self, buffer: Buffer) -> _Region:
        if buffer not in self._regions:
            raise TirError(f"the buffer {buffer.name} is neither a parameter nor realized")
        return self._regions[buffer]

    def flat(self, node: AnyValue) -> AnyValue:
        """The statement or expression of memory for one of a buffer whose parts are done; None if it stays."""
        if isinstance(node, BufferLoad):
            region = self._region(node.buffer)
            return region.memory.vload(region.place(node.indices), node.dtype)
        if isinstance(node, BufferStore):
            region = self._region(node.buffer)
            return self._bounded(region.memory.vstore(region.place(node.indices), node.value))
        if isinstance(node, BufferRealize):
            return node.body if node.buffer in self._given else self._allocated(node)
        if isinstance(node, Prefetch):
            return self._prefetched(node)
        if isinstance(node, AttrStmt) and isinstance(node.node, Buffer):
            return node.body if node.attr_key in _OF_REGIONS else node.with_fields(node=self._region(node.node).memory.data)
        return None

    def _allocated(self, node: BufferRealize) -> Stmt:
        region = self._region(node.buffer)
        memory, extents = region.memory, region.extents
        stored = "int8" if DataType.of(memory.dtype).is_bool else memory.dtype
        made = Allocate(memory.data, stored, extents or [1], node.condition, node.body)
        return AttrStmt(memory.data, BOUND, _product(extents), made) if self._bounds and extents else made

    def _bounded(self, store: Store) -> Stmt:
        """A write with the bounds of all memory that it accesses."""
        if not self._bounds:
            return store
        made: Stmt = store
        read = [part.buffer_var for part in post_order(store) if isinstance(part, Load)]
        for pointer in dict.fromkeys((*read, store.buffer_var)):
            if pointer in self._by_pointer and (extents := self._by_pointer[pointer].extents):
                made = AttrStmt(pointer, BOUND, _product(extents), made)
        return made

    def _prefetched(self, node: Prefetch) -> Stmt:
        """Loops over a region that prefetch each cache line: inner dimensions that fit into one are not iterated over."""
        region, bounds = self._region(node.buffer), node.bounds
        memory, last = region.memory, len(bounds) - 1
        elements = max(self._line // DataType.of(memory.dtype).itemsize, 1)
        row = 1
        while last > 0 and isinstance(size := memory.shape[last], IntImm) and 0 < row * size.value <= elements:
            row *= size.value
            last -= 1
        step = elements // row
        loops: list[tuple[Var, PrimExpr]] = []
        index = [bound.min for bound in bounds]
        for place, bound in enumerate(bounds[: last + 1]):
            var = Var(f"prefetch.{node.buffer.name}.{place}", bound.min.dtype)
            index[place] = bound.min + var * step if place == last else bound.min + var
            loops.append((var, (bound.extent - 1) // step + 1 if place == last else bound.extent))
        read = memory.vload(region.place(index), memory.dtype)
        address = Call("handle", "tir.address_of", [read.value if isinstance(read, Cast) else read])
        made: Stmt = Evaluate(Call(memory.dtype, "tir.prefetch", [address, 0, 3, 1]))
        for var, extent in reversed(loops):
            made = For(var, const(0, var.dtype), extent, ForKind.SERIAL, made)
        return made


def _strides(sizes: Sequence[PrimExpr], aligned: Mapping[int, tuple[int, int]]) -> list[PrimExpr]:
    """The steps of the dimensions; those that are aligned by a factor and an offset are padded to be a multiple plus the offset."""
    found: list[PrimExpr] = []
    stride: PrimExpr = const(1, sizes[-1].dtype)
    for place in reversed(range(len(sizes))):
        factor, offset = aligned.get(place, (0, 0))
        if factor:
            stride = stride + (factor + offset - stride % factor) % factor
        found.append(stride)
        stride = stride * sizes[place]
    return found[::-1]


def _numbers(node: AttrStmt) -> list[int]:
    """The constants of a tuple."""
    args = node.value.args if isinstance(node.value, Call) else ()
    numbers = [arg.value for arg in args if isinstance(arg, IntImm)]
    if len(numbers) != 3 or len(args) != 3:
        raise TirError(f"{node.attr_key} has a tuple of three constants (dimension, factor, offset), not {node.value}")
    return numbers


def _product(extents: Sequence[PrimExpr]) -> PrimExpr:
    total = extents[0]
    for extent in extents[1:]:
        total = total * extent
    return total
