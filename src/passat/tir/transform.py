"""`tvm.tir.transform`: passes over functions of loops."""

from passat.passmgr import Pass
from passat.rules.passes.simplify_loops import SimplifyLoops

__all__ = ["Simplify"]


def Simplify() -> Pass:  # noqa: N802  # TVM's name
    """The pass that simplifies integer expressions, and drops branches that are never taken."""
    return SimplifyLoops()
