"""`relay.build_module`: what prepares programs for running."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue

from passat.ir.bind import bind_params_by_name as bind_constants
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext, get_pass
from passat.runtime.devices import Target
from passat.runtime.executor import create_executor
from passat.runtime.values import named

__all__ = ["bind_params_by_name", "build_config", "create_executor", "optimize"]


def bind_params_by_name(func: Function, params: Mapping[str, AnyValue]) -> Function:
    """The function with constants in place of the parameters of the given names."""
    return bind_constants(func, named(params))


def optimize(
    mod: IRModule | Function, target: AnyValue = None, params: Mapping[str, AnyValue] | None = None
) -> tuple[IRModule, dict[str, AnyValue]]:
    """The module after the passes that `relay.build` runs before fusion (`GetPassPrefix`), in the current context, and the parameters that
    are left over, which are none: `params` become constants in place of the parameters of `main`. The target is "llvm", the CPU."""
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod.shallow_copy()
    if target is not None:
        Target(target)
    main = module["main"]
    if params:
        assert isinstance(main, Function)
        module["main"] = bind_params_by_name(main, params)
    return get_pass("relay._transform.GetPassPrefix")(module), {}


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
