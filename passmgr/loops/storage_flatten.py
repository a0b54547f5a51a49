"""Accesses of buffers become accesses of memory (`passat.ir.tir.flatten`)."""

from dataclasses import dataclass

from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.tir.flatten import CACHE_LINE, flatten
from passat.ir.tir.function import PrimFunc
from passat.passmgr.context import PassContext
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import PrimFuncPass

_OF_SCHEDULE = "from_legacy_te_schedule"
"""The attribute of functions that were made of a schedule."""


@dataclass(frozen=True, repr=False)
class StorageFlatten(PrimFuncPass):
    """Makes reads, writes and allocations of memory of those of buffers, in functions of schedules.

    A `Prefetch` becomes loops over cache lines of `cache_line_size` bytes. With `create_bound_attribute`, allocations and writes have the
    number of elements of each memory as the attribute `buffer_bound`.
    """

    cache_line_size: int = CACHE_LINE
    create_bound_attribute: bool = False
    info = PassInfo(0, "tir.StorageFlatten")

    def transform_function(self, func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        """Flattens a function of a schedule; others stay."""
        if not isinstance(func, PrimFunc) or not func.attrs.get(_OF_SCHEDULE):
            return func
        return flatten(func, self.cache_line_size, self.create_bound_attribute)


@dataclass(frozen=True, repr=False)
class FlattenBuffer(PrimFuncPass):
    """Does for other functions what StorageFlatten does for functions of schedules."""

    info = PassInfo(0, "tir.FlattenBuffer")

    def transform_function(self, func: prim_func.PrimFunc, mod: IRModule, ctx: PassContext) -> prim_func.PrimFunc:
        """Flattens a function of another origin; functions of schedules stay."""
        return flatten(func) if isinstance(func, PrimFunc) and not func.attrs.get(_OF_SCHEDULE) else func
