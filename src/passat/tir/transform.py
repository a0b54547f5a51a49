"""`tvm.tir.transform`: passes over functions of loops."""

from passat.passmgr import Pass, prim_func_pass
from passat.passmgr.loops.effects import RemoveNoOp
from passat.passmgr.loops.loop_partition import LoopPartition
from passat.passmgr.loops.lowering import FlattenBuffer, StorageFlatten
from passat.passmgr.loops.storage_rewrite import StorageRewrite
from passat.passmgr.loops.unroll import UnrollLoop
from passat.passmgr.loops.vectorize import VectorizeLoop
from passat.rules.passes.simplify_loops import SimplifyLoops

__all__ = [
    "FlattenBuffer",
    "LoopPartition",
    "RemoveNoOp",
    "Simplify",
    "StorageFlatten",
    "StorageRewrite",
    "UnrollLoop",
    "VectorizeLoop",
    "prim_func_pass",
]


def Simplify() -> Pass:  # noqa: N802  # TVM's name
    """The pass that simplifies integer expressions, and drops branches that are never taken."""
    return SimplifyLoops()
