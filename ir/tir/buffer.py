"""Buffers: multi-dimensional views of memory."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.ir.counting import counted
from passat.ir.tir.expr import IntImm, PrimExpr, Var, cast, const, convert
from passat.ir.tir.node import Node
from passat.ir.tir.types import DataType, PointerType, PrimType, TirError, canonical

if TYPE_CHECKING:
    from passat.ir.tir.stmt import Store


class Buffer(Node):
    """A view of the memory that `data` points to: the element at an index is `elem_offset` plus the sum of index times stride.

    Without strides, the elements are in row-major order.
    """

    __slots__ = ("buffer_type", "data", "data_alignment", "dtype", "elem_offset", "name", "offset_factor", "shape", "strides")
    FIELDS = ("data", "dtype", "shape", "strides", "elem_offset", "name", "data_alignment", "offset_factor", "buffer_type")
    DEFINES = frozenset({"data", "shape", "strides", "elem_offset"})

    def __init__(
        self,
        data: Var,
        dtype: str,
        shape: Sequence[AnyValue],
        strides: Sequence[AnyValue],
        elem_offset: PrimExpr,
        name: str,
        data_alignment: int = 0,
        offset_factor: int = 0,
        buffer_type: str = "",
    ) -> None:
        self.data, self.dtype, self.name = data, canonical(dtype), name
        self.shape: tuple[PrimExpr, ...] = tuple(map(convert, shape))
        self.strides: tuple[PrimExpr, ...] = tuple(map(convert, strides))
        if buffer_type == "auto_broadcast" and self.shape and not self.strides:
            self.strides = tuple(Var("stride", extent.dtype) for extent in self.shape)
        self.elem_offset = elem_offset
        self.data_alignment = data_alignment if data_alignment > 0 else 128
        self.offset_factor, self.buffer_type = offset_factor or 1, buffer_type

    def scope(self) -> str:
        """Where the memory is: `global` by default."""
        pointer = self.data.type_annotation
        return pointer.storage_scope if isinstance(pointer, PointerType) else "global"

    def offset(self, begin: Sequence[AnyValue]) -> PrimExpr:
        """The number of elements from the pointer to the element at an index. Raises TirError for an index of the wrong length,
        and for more elements than the type of the index counts."""
        index = tuple(map(convert, begin))
        if not self.shape and len(index) == 1:
            return self.elem_offset + index[0]
        if len(index) != len(self.shape):
            raise TirError(f"the buffer {self.name} has {counted(len(self.shape), 'dimension')}, and the index {len(index)}")
        if not index:
            return self.elem_offset
        if self.strides:
            total = self.elem_offset
            for place, stride in zip(index, self.strides, strict=True):
                total = total + place * stride
            return total
        offset = index[0]
        for place, extent in zip(index[1:], self.shape[1:], strict=True):
            offset = offset * extent + place
        known = [int(extent) for extent in self.shape if isinstance(extent, IntImm)]
        if len(known) == len(self.shape) and offset.type.is_index and not offset.type.holds(math.prod(known)):
            raise TirError(
                f"the buffer {self.name} has {counted(math.prod(known), 'element')}, more than {offset.dtype} counts; "
                "make its sizes int64, as in tir.const(8, 'int64')"
            )
        return self.elem_offset + offset

    def vload(self, begin: AnyValue, dtype: str | None = None) -> PrimExpr:
        """A read of the elements from an index on, as many as a vector type has lanes."""
        from passat.ir.tir.values import Load

        wanted = self._access_type(dtype or self.dtype)
        loaded = Load(str(wanted.stored), self.data, self._vector_index(begin, wanted.lanes))
        return cast(str(wanted.read), loaded)

    def vstore(self, begin: AnyValue, value: AnyValue) -> "Store":
        """A write of the elements from an index on."""
        from passat.ir.tir.stmt import Store

        value = convert(value)
        wanted = self._access_type(value.dtype)
        return Store(self.data, cast(str(wanted.stored), value), self._vector_index(begin, wanted.lanes))

    def access_ptr(
        self,
        access_mask: int | str,
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: AnyValue = 0,
    ) -> PrimExpr:
        """A pointer to the buffer for a call of another function. The mask says whether it reads (`r`, 1) or writes (`w`, 2)."""
        from passat.ir.tir.expr import Call

        if isinstance(access_mask, str):
            if set(access_mask) - {"r", "w"}:
                raise ValueError(f"a mask of accesses consists of r and w, not {access_mask!r}")
            access_mask = ("r" in access_mask) + 2 * ("w" in access_mask)
        element = DataType.of(self.dtype)
        extent: PrimExpr = const(1, "int32")
        if self.strides:
            extent = self.strides[0] * self.shape[0]
        else:
            for size in self.shape:
                extent = extent * size
        start = self.elem_offset + convert(offset)
        if content_lanes > 1:
            extent, start = extent // content_lanes, start // content_lanes
            element = element.with_lanes(element.lanes * content_lanes)
        annotation = Call(str(element), "tir.type_annotation", [])
        return Call(ptr_type, "tir.tvm_access_ptr", [annotation, self.data, start, extent, access_mask])

    def _access_type(self, dtype: str) -> "_Access":
        element, wanted = DataType.of(self.dtype), DataType.of(dtype)
        if element.with_lanes(1) != wanted.with_lanes(1) or wanted.lanes % element.lanes:
            raise TirError(f"the buffer {self.name} has elements of type {self.dtype}; {dtype} is not a vector of them")
        return _Access(wanted)

    def _vector_index(self, begin: AnyValue, lanes: int) -> PrimExpr:
        from passat.ir.tir.values import Ramp

        begin = begin if isinstance(begin, (list, tuple)) else (begin,)
        offset = self.offset(begin)
        own = DataType.of(self.dtype).lanes
        if own != 1:
            offset = offset * const(own, offset.dtype)
        return Ramp(offset, const(1, offset.dtype), lanes) if lanes > 1 else offset


class _Access:
    """The type of an access, and the type in memory: booleans are bytes."""

    def __init__(self, read: DataType) -> None:
        self.read, self.lanes = read, read.lanes
        self.stored = DataType("int", 8, read.lanes) if read.is_bool else read


def decl_buffer(
    shape: AnyValue,
    dtype: str | None = None,
    name: str = "buffer",
    data: Var | None = None,
    strides: Sequence[AnyValue] | None = None,
    elem_offset: PrimExpr | None = None,
    scope: str = "",
    data_alignment: int = -1,
    offset_factor: int = 0,
    buffer_type: str = "",
) -> Buffer:
    """A buffer with a new pointer, unless one is given. With an `offset_factor`, its offset is a variable.

    >>> decl_buffer((4, 2), "float16", "A").offset([1, 1])
    3
    """
    sizes = tuple(map(convert, shape if isinstance(shape, (list, tuple)) else (shape,)))
    dtype = canonical(dtype or "float32")
    size_type = sizes[0].dtype if sizes else "int32"
    if elem_offset is None:
        elem_offset = Var(f"{name}_elem_offset", size_type) if offset_factor else IntImm(size_type, 0)
    if data is None:
        data = Var(name, PointerType(PrimType("int8" if dtype == "bool" else dtype), scope))
    return Buffer(data, dtype, sizes, strides or (), elem_offset, name, data_alignment, offset_factor, buffer_type)
