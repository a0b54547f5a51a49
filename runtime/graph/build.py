"""Builds modules: optimizes, fuses, compiles the primitive functions, and makes the graph (`relay.build`)."""

from collections.abc import Mapping
from typing import Any as AnyValue
from typing import Final, TypeGuard

from passat.ir.expr import Constant, Expr, Function
from passat.ir.module import IRModule
from passat.ir.traverse import children, rewrite, with_children
from passat.passmgr import get_pass
from passat.runtime.devices import Target
from passat.runtime.graph.codegen import GraphRuntimeCodegen
from passat.runtime.graph.compile_engine import CompileEngine
from passat.runtime.graph.external import compile_external
from passat.runtime.graph.factory import ExecutorFactory
from passat.runtime.graph.given_params import with_params
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library
from passat.runtime.graph.virtual_machine import Executable

DEFAULT_TARGET: Final = "llvm"


def build(
    mod: IRModule | Function,
    target: Target | str | None = None,
    params: Mapping[str, AnyValue] | None = None,
    mod_name: str = "default",
) -> ExecutorFactory:
    """Builds `main` of a module for the graph executor, by the passes of the current context's level.

    `params` replace the parameters of those names. The target is that of the context (`with Target`), or `llvm`.
    Raises GraphError for programs that are not graphs, and the errors of the passes.
    """
    chosen = Target(target if target is not None else Target.current() or DEFAULT_TARGET).for_building()
    module = optimized(mod, params)
    function = module["main"]
    if not isinstance(function, Function):
        raise GraphError("main of the module is not a Relay function")
    engine = CompileEngine(f"tvmgen_{mod_name}_fused")
    codegen = GraphRuntimeCodegen(module, chosen, engine, lambda each: compile_external(each, chosen))
    graph_json, _, constants = codegen.codegen(function)
    lib = Library(codegen.lowered_funcs.values(), chosen)
    return ExecutorFactory(graph_json, lib, constants, mod_name, module)


def build_vm(mod: IRModule | Function, target: Target | str | None = None, params: Mapping[str, AnyValue] | None = None) -> Executable:
    """Builds a module for the virtual machine: programs with control flow, unknown sizes, closures and data types.

    Raises the errors of the passes.
    """
    chosen = Target(target if target is not None else Target.current() or DEFAULT_TARGET).for_building()
    return Executable(optimized(mod, params), chosen)


def prepared(mod: IRModule | Function, params: Mapping[str, AnyValue] | None = None) -> IRModule:
    """The module with its parameters as constants, after the passes of `relay.build` before fusion."""
    if not isinstance(mod, (IRModule, Function)):
        raise TypeError(f"only modules and functions can be built, not a {type(mod).__name__}; see IRModule.from_expr")
    module = IRModule.from_expr(mod) if isinstance(mod, Function) else mod.shallow_copy()
    if "main" not in module:
        raise GraphError("the module has no function main, which is what is built")
    main = module["main"]
    if params and isinstance(main, Function):
        module["main"] = with_params(main, params)
    return get_pass("relay._transform.GetPassPrefix")(module)


def optimized(mod: IRModule | Function, params: Mapping[str, AnyValue] | None = None) -> IRModule:
    """The prepared module, after fusion."""
    module = prepared(mod, params)
    for name, function in module.functions.items():
        if isinstance(function, Function):
            module[name] = with_own_scalars(function)
    return get_pass("relay._transform.FuseOps")(module)


def with_own_scalars(function: Function) -> Function:
    """Gives each use of a scalar constant its own copy, so that fusion moves it into the function of that use.

    A walk, since rules do not see sharing.
    """

    def apart(_: Expr, node: Expr) -> Expr:
        return with_children(node, [Constant(part.data) if _is_scalar(part) else part for part in children(node)])

    return rewrite(function, apart)


def _is_scalar(expr: Expr) -> TypeGuard[Constant]:
    return isinstance(expr, Constant) and not expr.data.shape
