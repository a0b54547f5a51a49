"""`tvm.contrib`: executors of graphs, and helpers for scripts."""

from passat.contrib import debugger, graph_executor, utils
from passat.contrib import graph_executor as graph_runtime

__all__ = ["debugger", "graph_executor", "graph_runtime", "utils"]
