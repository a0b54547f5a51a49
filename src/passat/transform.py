"""`tvm.transform`: contexts, passes and pipelines."""

from passat.passmgr import (
    FunctionPass,
    ModulePass,
    Pass,
    PassContext,
    PassInfo,
    PrimFuncPass,
    PrintIR,
    Sequential,
    function_pass,
    list_configs,
    module_pass,
    prim_func_pass,
)

__all__ = [
    "FunctionPass",
    "ModulePass",
    "Pass",
    "PassContext",
    "PassInfo",
    "PrimFuncPass",
    "PrintIR",
    "Sequential",
    "function_pass",
    "list_configs",
    "module_pass",
    "prim_func_pass",
]
