"""`relay.build_module`: prepares programs to be run."""

import warnings
from collections.abc import Iterable, Mapping
from typing import Any as AnyValue
from typing import Literal, TypeAlias, overload

from passat.ir.bind import bind_params_by_name as bind_constants
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.ir.similar_names import did_you_mean
from passat.passmgr import PassContext
from passat.relay.backend.registered import Executor
from passat.runtime.devices import Target, cpu
from passat.runtime.graph.build import build as build_graph
from passat.runtime.graph.build import build_vm, prepared
from passat.runtime.graph.executors import create_executor
from passat.runtime.graph.factory import ExecutorFactory
from passat.runtime.graph.given_params import typed_params
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.virtual_machine import Executable

__all__ = ["bind_params_by_name", "build", "build_config", "create_executor", "optimize"]

TargetLike: TypeAlias = "Target | str | Mapping[AnyValue, Target | str] | None"
"""A target; or one for each kind of device, of which the CPU's is taken."""


def bind_params_by_name(func: Function, params: Mapping[str, AnyValue]) -> Function:
    """The function with constants in place of the named parameters; names that it does not have are ignored. Values of other types than the
    parameters are taken as they are, as in TVM: type inference reports operators that do not take them."""
    return bind_constants(func, typed_params(func, params, others=True))


def optimize(
    mod: IRModule | Function, target: AnyValue = None, params: Mapping[str, AnyValue] | None = None
) -> tuple[IRModule, dict[str, AnyValue]]:
    """The module after the passes that `relay.build` runs before fusion (`GetPassPrefix`), in the current context, and an empty dict of
    remaining parameters: `params` become constants in place of the parameters of `main`. The target is "llvm", the CPU."""
    if target is not None:
        Target(target).for_building()
    return prepared(mod, params), {}


@overload
def build(
    ir_mod: IRModule | Function,
    target: TargetLike = None,
    target_host: Target | str | None = None,
    executor: Literal["graph"] | None = None,
    runtime: AnyValue = None,
    workspace_memory_pools: AnyValue = None,
    constant_memory_pools: AnyValue = None,
    params: Mapping[str, AnyValue] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory: ...
@overload
def build(
    ir_mod: IRModule | Function,
    target: TargetLike = None,
    target_host: Target | str | None = None,
    executor: Executor | str | None = None,
    runtime: AnyValue = None,
    workspace_memory_pools: AnyValue = None,
    constant_memory_pools: AnyValue = None,
    params: Mapping[str, AnyValue] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory | Executable: ...
def build(
    ir_mod: IRModule | Function,
    target: TargetLike = None,
    target_host: Target | str | None = None,
    executor: Executor | str | None = None,
    runtime: AnyValue = None,
    workspace_memory_pools: AnyValue = None,
    constant_memory_pools: AnyValue = None,
    params: Mapping[str, AnyValue] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory | Executable:
    """Builds a module by the passes of the current context's level (docs/running.md).

    `lib["default"](passat.cpu())` creates an executor of the result, and `lib.export_library(path)` writes it to a file. `executor` is
    `graph`, or `vm` for programs with control flow or unknown sizes. `params` become constants in place of the parameters of those
    names; a warning names those that `main` does not have. Hosts, runtimes and memory pools, which TVM's compilers need, are ignored.

    Raises GraphError for programs that the executor cannot run, and ValueError for targets other than the CPU.
    """
    if isinstance(target_host, Mapping) or isinstance(executor, Mapping):
        raise TypeError("relay.build takes params by name: relay.build(mod, target, params={...})")
    kind = "graph" if executor is None else executor.name if isinstance(executor, Executor) else executor
    chosen = _cpu_target(target)
    if kind == "vm":
        return build_vm(ir_mod, chosen, params)
    if kind != "graph":
        raise GraphError(f"modules are built for the executors graph and vm, not for {kind!r}{did_you_mean(str(kind), ('graph', 'vm'))}")
    return build_graph(ir_mod, chosen, params, mod_name)


def _cpu_target(target: TargetLike) -> Target | str | None:
    """The target for the CPU. Raises ValueError if there is none."""
    if not isinstance(target, Mapping):
        return target
    for kind, found in target.items():
        if str(kind) in (str(cpu().device_type), "cpu"):
            return found
    raise ValueError(f"there is no target for the CPU among those for {', '.join(map(str, target)) or 'no device'}")


def build_config(opt_level: int = 2, required_pass: Iterable[str] | None = None, disabled_pass: Iterable[str] | None = None) -> PassContext:
    """A `PassContext` with this level and these lists. Warns that it is deprecated.

    A pass of a pipeline runs if its level is at most `opt_level`. The levels that Relay's documentation lists are

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

    `passat passes` lists Passat's passes with their levels.
    """
    warnings.warn("build_config is deprecated: use PassContext(opt_level=..., required_pass=..., ...)", DeprecationWarning, stacklevel=2)
    return PassContext(opt_level, required_pass, disabled_pass)
