"""`tvm.tir.transform`: passes over functions of loops."""

from passat.passmgr import Pass, prim_func_pass
from passat.passmgr.loops import RemoveNoOp, UnrollLoop, VectorizeLoop
from passat.rules.passes.simplify_loops import SimplifyLoops

__all__ = ["RemoveNoOp", "Simplify", "UnrollLoop", "VectorizeLoop", "prim_func_pass"]


def Simplify() -> Pass:  # noqa: N802  # TVM's name
    """The pass that simplifies integer expressions, and drops branches that are never taken."""
    return SimplifyLoops()
