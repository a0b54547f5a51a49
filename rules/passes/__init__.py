"""The passes of the rule library under Relay's names, and their pipelines."""

import passat.passmgr.loops  # noqa: F401  # importing registers the passes over functions of loops
from passat.passmgr import register_pass
from passat.rules.passes import (  # noqa: F401  # importing registers the passes
    algebra,
    compiler_regions,
    fake_quantization,
    fuse_ops,
    merge_composite,
    partial_evaluate,
    partition_graph,
    simplify,
    split_args,
    target,
)
from passat.rules.passes.pipelines import default_pipeline

__all__ = ["default_pipeline"]

register_pass("tir.Simplify", "passat.rules.passes.simplify_loops:SimplifyLoops")
