"""`tvm.transform`: contexts, passes and pipelines."""

from typing import TYPE_CHECKING

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
from passat.relay.names import missing_name

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


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("transform", __all__)
