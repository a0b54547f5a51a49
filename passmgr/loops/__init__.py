"""Passes over functions of loops (`passat.ir.tir`), with the names of `tvm.tir.transform`."""

from passat.passmgr.loops.no_op import RemoveNoOp
from passat.passmgr.loops.unroll import UnrollLoop, UnrollLoopConfig
from passat.passmgr.loops.vectorize import VectorizeLoop

__all__ = ["RemoveNoOp", "UnrollLoop", "UnrollLoopConfig", "VectorizeLoop"]
