"""`relay.build_module`: what prepares programs for running."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue

from passat.ir.bind import bind_params_by_name as bind_constants
from passat.ir.expr import Function
from passat.passmgr import PassContext
from passat.runtime.executor import create_executor
from passat.runtime.values import named

__all__ = ["bind_params_by_name", "build_config", "create_executor"]


def bind_params_by_name(func: Function, params: Mapping[str, AnyValue]) -> Function:
    """The function with constants in the place of the parameters of the given names."""
    return bind_constants(func, named(params))


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
