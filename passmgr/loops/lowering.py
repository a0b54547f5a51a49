"""The passes that lower functions of loops to what is compiled."""

from collections.abc import Sequence
from typing import Final

from passat.passmgr.context import PassContext
from passat.passmgr.loops.loop_partition import LoopPartition
from passat.passmgr.loops.no_op import RemoveNoOp
from passat.passmgr.loops.storage_flatten import FlattenBuffer, StorageFlatten
from passat.passmgr.loops.storage_rewrite import StorageRewrite
from passat.passmgr.loops.unroll import UnrollLoop
from passat.passmgr.loops.vectorize import VectorizeLoop
from passat.passmgr.options import ConfigError, register_option
from passat.passmgr.passes import Pass
from passat.passmgr.registry import get_pass
from passat.passmgr.sequential import Sequential

VECTORIZE: Final = "tir.disable_vectorize"
ADDED: Final = "tir.add_lower_pass"

register_option(VECTORIZE, bool, False, "driver.lower makes serial loops of those marked vectorize.")
register_option(
    ADDED,
    list[tuple[int, Pass]],
    [],
    "Passes that driver.lower also runs, each after its phase: 0 before all others, 1 after StorageFlatten, 2 after UnrollLoop, 3 last.",
)


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
