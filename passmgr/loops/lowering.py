"""The passes that flatten buffers (`passat.ir.tir.flatten`), and the pipeline that lowers functions of loops to what is compiled."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir import prim_func
from passat.ir.module import IRModule
from passat.ir.tir.flatten import CACHE_LINE, flatten
from passat.ir.tir.function import PrimFunc
from passat.passmgr.context import PassContext
from passat.passmgr.loops.effects import RemoveNoOp
from passat.passmgr.loops.loop_partition import LoopPartition
from passat.passmgr.loops.storage_rewrite import StorageRewrite
from passat.passmgr.loops.unroll import UnrollLoop
from passat.passmgr.loops.vectorize import VectorizeLoop
from passat.passmgr.options import ConfigError, register_option
from passat.passmgr.pass_info import PassInfo
from passat.passmgr.passes import Pass, PrimFuncPass
from passat.passmgr.registry import get_pass
from passat.passmgr.sequential import Sequential

VECTORIZE: Final = "tir.disable_vectorize"
ADDED: Final = "tir.add_lower_pass"
_OF_SCHEDULE: Final = "from_legacy_te_schedule"
"""The attribute of functions that were made of a schedule."""

register_option(VECTORIZE, bool, False, "driver.lower makes serial loops of those marked vectorize.")
register_option(
    ADDED,
    list[tuple[int, Pass]],
    [],
    "Passes that driver.lower also runs, each after its phase: 0 before all others, 1 after StorageFlatten, 2 after UnrollLoop, 3 last.",
)


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


def Lower(simple_mode: bool = False) -> Sequential:
    """The passes of `driver.lower`, in TVM's order, for the options of the current context. Each of the four phases ends with the passes of
    the option `tir.add_lower_pass`. In the simple mode, loops are not split."""
    ctx = PassContext.current()
    phases: list[Sequence[Pass]] = [
        (),
        (StorageFlatten(), FlattenBuffer(), get_pass("tir.Simplify")),
        (*(() if simple_mode else (LoopPartition(),)), VectorizeLoop(not ctx.get_config(VECTORIZE)), StorageRewrite(), UnrollLoop()),
        (get_pass("tir.Simplify"), RemoveNoOp()),
    ]
    added = ctx.get_config(ADDED)
    for phase, _ in added:
        if not 0 <= phase < len(phases):
            raise ConfigError(f"{ADDED} has phases from 0 to 3, not {phase}")
    passes = [each for number, own in enumerate(phases) for each in (*own, *(pass_ for phase, pass_ in added if phase == number))]
    return Sequential(passes, name="tir.Lower")
