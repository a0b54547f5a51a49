"""`tvm.contrib.debugger`: the executor with times by node."""

from passat.contrib.debugger import debug_executor
from passat.contrib.debugger import debug_executor as debug_runtime

__all__ = ["debug_executor", "debug_runtime"]
