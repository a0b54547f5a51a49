"""Accesses of buffers as accesses of memory: a walk, since an index depends on the region of the enclosing realization."""

from typing import Any as AnyValue

from passat.ir.tir.buffer import Buffer, decl_buffer
from passat.ir.tir.expr import PrimExpr
from passat.ir.tir.function import PrimFunc
from passat.ir.tir.functor import post_order, rewrite
from passat.ir.tir.stmt import Allocate, BufferRealize, BufferStore, Prefetch
from passat.ir.tir.types import DataType, TirError
from passat.ir.tir.values import BufferLoad


def flatten(function: PrimFunc) -> PrimFunc:
    """The function with `Load`, `Store` and `Allocate` instead of accesses and realizations of buffers.

    A realized region has memory of its size, in row-major order. Booleans are bytes. Raises TirError for a buffer that is neither a
    parameter nor realized.

    >>> from passat.ir.tir.parser import parse_function
    >>> text = "primfn(a: handle) buffers a -> A: Buffer(p: Pointer(global int32), int32, [2, 4]) { A[1, 2] = A[0, 3] }"
    >>> print(flatten(parse_function(text)).body)
    p: Pointer(global int32)[6] = (int32*)p[3]
    """
    regions: dict[Buffer, tuple[Buffer, list[PrimExpr]]] = {}
    for node in post_order(function.body):
        if isinstance(node, BufferRealize):
            buffer = node.buffer
            region = decl_buffer([bound.extent for bound in node.bounds], buffer.dtype, buffer.name, buffer.data)
            regions[buffer] = (region, [bound.min for bound in node.bounds])
    known = set(function.buffer_map.values())

    def view(buffer: Buffer, indices: tuple[PrimExpr, ...]) -> tuple[Buffer, list[PrimExpr]]:
        if buffer in regions:
            region, start = regions[buffer]
            return region, [index - first for index, first in zip(indices, start, strict=True)]
        if buffer not in known:
            raise TirError(f"the buffer {buffer.name} is neither a parameter nor realized")
        return buffer, list(indices)

    def flat(node: AnyValue) -> AnyValue:
        if isinstance(node, BufferLoad):
            buffer, place = view(node.buffer, node.indices)
            return buffer.vload(place or [0], node.dtype)
        if isinstance(node, BufferStore):
            buffer, place = view(node.buffer, node.indices)
            return buffer.vstore(place or [0], node.value)
        if isinstance(node, BufferRealize):
            type_ = DataType.of(node.buffer.dtype)
            stored = "int8" if type_.is_bool else node.buffer.dtype
            return Allocate(node.buffer.data, stored, [bound.extent for bound in node.bounds] or [1], node.condition, node.body)
        return None

    return function.with_body(rewrite(function.body, flat, lambda node: node if isinstance(node, Prefetch) else None))
