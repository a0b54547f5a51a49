"""`build_config`: the old spelling of PassContext, as Relay still had it."""

import warnings
from collections.abc import Iterable

from passat.passmgr.context import PassContext


def build_config(opt_level: int = 2, required_pass: Iterable[str] | None = None, disabled_pass: Iterable[str] | None = None) -> PassContext:
    """A `PassContext` with this level and these lists. Warns that it is deprecated.

    A pass of a pipeline runs where its level is at most `opt_level`. The levels that Relay's documentation lists are

        SimplifyInference            0
        OpFusion                     1
        FoldConstant                 2
        FoldScaleAxis                3
        AlterOpLayout                3
        CanonicalizeOps              3
        CanonicalizeCast             3
        EliminateCommonSubexpr       3
        CombineParallelConv2D        4
        CombineParallelDense         4
        CombineParallelBatchMatmul   4
        FastMath                     4

    `passat passes` lists the passes that there are here, each with its level.
    """
    warnings.warn("build_config is deprecated: use PassContext(opt_level=..., required_pass=..., ...)", DeprecationWarning, stacklevel=2)
    return PassContext(opt_level, required_pass, disabled_pass)
