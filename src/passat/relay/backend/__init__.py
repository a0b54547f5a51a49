"""`tvm.relay.backend`: what compiles and runs programs."""

from passat.relay.backend import _backend, compile_engine, graph_executor_codegen, interpreter, te_compiler, vm
from passat.relay.backend.registered import Executor, Runtime

__all__ = [
    "Executor",
    "Runtime",
    "_backend",
    "compile_engine",
    "graph_executor_codegen",
    "interpreter",
    "te_compiler",
    "vm",
]
