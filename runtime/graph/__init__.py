"""Programs as graphs of primitive functions: building, files, and executors.

* `build` optimizes a module, fuses it, and compiles its primitive functions (`relay.build`), for a `factory` of executors.
* `primitive` and `onnx_primitive` run one primitive function; `compile_engine` names and caches them; `external` asks code generators.
* `codegen` writes main as a graph in TVM's JSON, with storage by `memory_plan`; `graph` reads such a text.
* `executor` and `debug_executor` run graphs.
* `library` holds compiled functions and writes them to files; `params` reads and writes TVM's files of parameters.

The passes, and ONNX Runtime, are imported on first use.
"""

from passat.runtime.graph.codegen import GraphRuntimeCodegen
from passat.runtime.graph.compile_engine import CachedFunc, CCacheKey, CCacheValue, CompileEngine
from passat.runtime.graph.debug_executor import DebugExecutor
from passat.runtime.graph.executor import GraphExecutor
from passat.runtime.graph.factory import ExecutorFactory, load_module
from passat.runtime.graph.graph import Graph, read_graph
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library
from passat.runtime.graph.params import ParamsError, load_param_dict, save_param_dict

__all__ = [
    "CCacheKey",
    "CCacheValue",
    "CachedFunc",
    "CompileEngine",
    "DebugExecutor",
    "ExecutorFactory",
    "Graph",
    "GraphError",
    "GraphExecutor",
    "GraphRuntimeCodegen",
    "Library",
    "ParamsError",
    "load_module",
    "load_param_dict",
    "read_graph",
    "save_param_dict",
]
