"""Libraries of compiled functions, and their files.

A file is a ZIP archive of texts in JSON and of parameters in TVM's binary format, uncompressed. Functions are saved as programs
and compiled again when they are loaded: nothing in a file is executed or unpickled.
"""

import os
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any as AnyValue

from passat.ir.bounded_read import decode_json, read_bounded
from passat.ir.expr import Function
from passat.ir.graph_json import load_json, save_json
from passat.ir.infer import infer_module
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.runtime.devices import Target
from passat.runtime.graph.archive import FUNCTIONS, GRAPH, LARGEST, LOOPS, PARAMS, PROGRAM, named, read_archive, write_archive
from passat.runtime.graph.compile_engine import CachedFunc, compile_together
from passat.runtime.graph.external import NoCodegenError, compile_external
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.graph.params import ParamsError, load_param_dict, save_param_dict
from passat.runtime.graph.primitive import flat_function
from passat.runtime.module import Module
from passat.runtime.values import NDArray


class Library(Module):
    """Compiled functions by name. Called as functions of the module, they take arrays: the inputs, then those for the results."""

    def __init__(self, compiled: Iterable[CachedFunc], target: Target) -> None:
        self.compiled = {func.func_name: func for func in compiled}
        self.target = target
        compile_together(list(self.compiled.values()))
        super().__init__({name: func.packed_func for name, func in self.compiled.items()}, "library")

    def implementations(self) -> dict[str, str]:
        """What computes each function: `llvm`, `c`, `onnxruntime`, `kernels`, or the name of an external code generator."""
        return {name: func.primitive.implementation for name, func in self.compiled.items()}

    @property
    def program(self) -> IRModule:
        """The functions."""
        return IRModule({name: func.funcs[0] for name, func in self.compiled.items()})

    def get_source(self, fmt: str = "") -> str:
        """The functions in Relay's text format."""
        return str(self.program)

    def export_library(self, file_name: "str | os.PathLike[str]", **options: AnyValue) -> None:
        """Writes the library to a file that `load_library` reads. TVM's options for compilers are ignored.

        Raises GraphError for functions and arrays that cannot be written to a file, and OSError.
        """
        export(file_name, self)


def export(
    file_name: "str | os.PathLike[str]",
    library: Library,
    graph: str | None = None,
    params: Mapping[str, NDArray] | None = None,
    name: str = "default",
    program: str | None = None,
) -> None:
    """Writes a library to a file atomically, with its graph and parameters, or with a program. Raises GraphError and OSError."""
    try:
        parts = {FUNCTIONS: save_json(library.program).encode()}
        if program is not None:
            parts[PROGRAM] = program.encode()
        if graph is not None:
            parts[GRAPH] = graph.encode()
        if params:
            parts[PARAMS] = bytes(save_param_dict(params))
    except (TypeError, ParamsError) as error:
        raise GraphError(f"the library cannot be saved: {error}") from error
    write_archive(file_name, library.target, library.compiled, name, parts)


@dataclass(frozen=True)
class LoadedFile:
    """The contents of a file: the library, and the graph, the parameters, the program and functions of loops as texts, if it has them."""

    library: Library
    graph: str | None
    params: Mapping[str, NDArray]
    name: str
    program: str | None
    loops: Mapping[str, str] | None = None


def load_library(path: "str | os.PathLike[str]") -> LoadedFile:
    """Reads a file that `export` has written. Raises GraphError that names the file, NoCodegenError, OSError, and TypeError for what is not
    a path."""
    with named(path, "read"):
        content = read_bounded(path, LARGEST)
    try:
        return _loaded(content)
    except NoCodegenError:
        raise  # the file is as it should be
    except (PassatError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise GraphError(f"{os.fspath(path)} is not a library that export_library has written: {str(error) or 'it ends early'}") from error


def _loaded(content: bytes) -> LoadedFile:
    target, name, parts = read_archive(content)
    if LOOPS in parts:
        texts = decode_json(parts[LOOPS])
        if not isinstance(texts, dict) or not texts or not all(isinstance(text, str) for text in texts.values()):
            raise GraphError(f"its part {LOOPS} has no functions")
        return LoadedFile(Library((), target), None, {}, name, None, texts)
    if FUNCTIONS not in parts:
        raise GraphError(f"it has no part {FUNCTIONS}")
    functions = load_json(parts[FUNCTIONS].decode())
    if not isinstance(functions, IRModule):
        raise GraphError(f"its part {FUNCTIONS} is not a module")
    infer_module(functions)
    compiled = [_compiled(var.name_hint, function, target) for var, function in functions.functions.items()]
    params = load_param_dict(parts[PARAMS]) if PARAMS in parts else {}
    graph = parts[GRAPH].decode() if GRAPH in parts else None
    program = parts[PROGRAM].decode() if PROGRAM in parts else None
    return LoadedFile(Library(compiled, target), graph, params, name, program)


def _compiled(name: str, function: object, target: Target) -> CachedFunc:
    if not isinstance(function, Function):
        raise GraphError(f"its function {name} is not a program")
    if "Compiler" in function.attrs:
        return compile_external(function, target)
    return CachedFunc(flat_function(function), name, target)
