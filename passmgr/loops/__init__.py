"""Passes over functions of loops (`passat.ir.tir`), with the names of `tvm.tir.transform`. Each is imported when it is used."""

from typing import Final

from passat.passmgr.registry import register_pass

PASSES: Final = {
    "FlattenBuffer": "lowering",
    "LoopPartition": "loop_partition",
    "Lower": "lowering",
    "RemoveNoOp": "effects",
    "StorageFlatten": "lowering",
    "StorageRewrite": "storage_rewrite",
    "UnrollLoop": "unroll",
    "VectorizeLoop": "vectorize",
}
"""The modules of the passes."""

for name, module in PASSES.items():
    register_pass(f"tir.{name}", f"{__name__}.{module}:{name}")
