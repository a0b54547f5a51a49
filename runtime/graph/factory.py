"""Built modules, which create executors, and their files."""

import os
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any as AnyValue

from passat.ir.module import IRModule
from passat.runtime.devices import Device
from passat.runtime.graph.executor import GraphExecutor
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.library import Library, export, load_library
from passat.runtime.graph.params import save_param_dict
from passat.runtime.graph.virtual_machine import Executable
from passat.runtime.module import Module
from passat.runtime.values import NDArray


class ExecutorFactory(Module):
    """A built module: its graph, its compiled functions and its parameters. `factory["default"](device)` creates an executor.

    Can be unpacked as the graph's JSON, the library and the parameters, as TVM's scripts do (deprecated there).
    """

    def __init__(self, graph_json: str, lib: Library, params: Mapping[str, NDArray], name: str, ir_mod: IRModule | None = None) -> None:
        self.graph_json, self.lib, self.params, self.libmod_name = graph_json, lib, dict(params), name
        self.ir_mod, self.target = ir_mod, lib.target
        functions: dict[str, Callable[..., AnyValue]] = {
            name: self.create,
            "get_graph_json": self.get_graph_json,
            "get_graph_params": self.get_params,
            "remove_params": self.remove_params,
            "debug_create": self.debug_create,
        }
        super().__init__(functions, "GraphExecutorFactory")
        self.import_module(lib)

    def create(self, *devices: Device) -> GraphExecutor:
        """An executor with the parameters set."""
        return self._with_params(GraphExecutor(self.graph_json, self.lib, *devices[:1]))

    def debug_create(self, name: str, *devices: Device) -> GraphExecutor:
        """An executor with times by node; `name` is that of the module."""
        from passat.runtime.graph.debug_executor import DebugExecutor

        if name != self.libmod_name:
            raise GraphError(f"the module is called {self.libmod_name!r}, not {name!r}")
        return self._with_params(DebugExecutor(self.graph_json, self.lib, *devices[:1]))

    def _with_params(self, made: GraphExecutor) -> GraphExecutor:
        for name, value in self.params.items():
            made.set_input(name, value)
        return made

    def remove_params(self) -> "ExecutorFactory":
        """The module without its parameters, which are then set by `load_params`."""
        return ExecutorFactory(self.graph_json, self.lib, {}, self.libmod_name, self.ir_mod)

    def get_graph_json(self) -> str:
        """The graph in TVM's JSON."""
        return self.graph_json

    get_executor_config = get_graph_json

    def get_params(self) -> dict[str, NDArray]:
        """The parameters: constants by name."""
        return dict(self.params)

    def get_lib(self) -> Library:
        """The compiled functions."""
        return self.lib

    def export_library(self, file_name: "str | os.PathLike[str]", fcompile: AnyValue = None, **options: AnyValue) -> None:
        """Writes the module to a file that `load_module` reads. TVM's options for compilers are ignored. Raises GraphError and OSError."""
        export(file_name, self.lib, self.graph_json, self.params, self.libmod_name)

    def save_params(self) -> bytearray:
        """The parameters in TVM's binary format."""
        return save_param_dict(self.params)

    def __iter__(self) -> Iterator[AnyValue]:
        warnings.warn("unpacking a built module is deprecated: use GraphModule(lib['default'](device))", DeprecationWarning, stacklevel=2)
        return iter((self.graph_json, self.lib, self.params))


def load_module(path: "str | os.PathLike[str]", fmt: str = "") -> Module:
    """Reads a file that `export_library` has written: a factory for one with a graph, an executable for one with a program, or a library
    (of functions of loops, if they were built from a schedule).

    Nothing in the file is executed; its functions are compiled again. Raises GraphError that names the file, OSError, and for
    functions of loops NoLlvmError or NoCompilerError.
    """
    loaded = load_library(path)
    if loaded.program is not None:
        return Executable.load_exec(loaded.program.encode(), loaded.library)
    if loaded.loops is not None:
        from passat.runtime.graph.loop_library import LoopLibrary

        return LoopLibrary.of_texts(loaded.loops, loaded.library.target)
    if loaded.graph is None:
        return loaded.library
    return ExecutorFactory(loaded.graph, loaded.library, loaded.params, loaded.name)
