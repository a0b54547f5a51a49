"""The passes of the rule library under Relay's names, and their pipelines."""

import passat.passmgr.loops  # noqa: F401  # importing registers the passes over functions of loops
from passat.passmgr import register_pass
from passat.rules.passes.algebra import (
    combine_parallel_batch_matmul,
    combine_parallel_conv2d,
    combine_parallel_dense,
    explore,
    fold_scale_axis,
    linear_algebra,
)
from passat.rules.passes.annotate_target import AnnotateTarget
from passat.rules.passes.fake_quantization import FakeQuantizationToInteger
from passat.rules.passes.fuse_ops import DefuseOps, FuseOps
from passat.rules.passes.merge_compiler_regions import MergeCompilerRegions
from passat.rules.passes.merge_composite import MergeComposite
from passat.rules.passes.partial_evaluate import PartialEvaluate
from passat.rules.passes.partition_graph import PartitionGraph
from passat.rules.passes.pipelines import default_passes, default_pipeline, get_pass_prefix
from passat.rules.passes.simplify import (
    SIMPLIFY,
    SIMPLIFY_EXPR,
    DeadCodeElimination,
    dynamic_to_static,
    eliminate_common_subexpr,
    fold_batch_norm,
    fold_constant,
    simplify_expr,
    simplify_inference,
    simplify_tuple_get,
)
from passat.rules.passes.split_args import SplitArgs
from passat.rules.passes.target import contrib_operators, raise_attention, raise_operators, target_forms

__all__ = [
    "SIMPLIFY",
    "SIMPLIFY_EXPR",
    "AnnotateTarget",
    "DeadCodeElimination",
    "DefuseOps",
    "FakeQuantizationToInteger",
    "FuseOps",
    "MergeCompilerRegions",
    "MergeComposite",
    "PartialEvaluate",
    "PartitionGraph",
    "SplitArgs",
    "combine_parallel_batch_matmul",
    "combine_parallel_conv2d",
    "combine_parallel_dense",
    "contrib_operators",
    "default_passes",
    "default_pipeline",
    "dynamic_to_static",
    "eliminate_common_subexpr",
    "explore",
    "fold_batch_norm",
    "fold_constant",
    "fold_scale_axis",
    "get_pass_prefix",
    "linear_algebra",
    "raise_attention",
    "raise_operators",
    "simplify_expr",
    "simplify_inference",
    "simplify_tuple_get",
    "target_forms",
]

register_pass("tir.Simplify", "passat.rules.passes.simplify_loops:SimplifyLoops")
