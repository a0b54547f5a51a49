"""Compiles functions of the loop IR with the C compiler, and loads them into this process."""

import ctypes
import os
import tempfile
from collections.abc import Callable, Mapping

from passat.ir.tir.function import PrimFunc
from passat.runtime.jit.signature import explicit
from passat.runtime.kernels.emit_c import module_source
from passat.runtime.kernels.toolchain import build_library, compiler


def compile_with_c(functions: Mapping[str, PrimFunc]) -> dict[str, Callable[..., None]]:
    """Python functions that run functions of loops on arrays, by name.

    Raises NoCompilerError, CompilerError, and TirError for what C cannot express, such as vectors.
    """
    found = {name: explicit(function.with_attr("global_symbol", name)) for name, function in functions.items()}
    symbols = {name: f"passat_function_{place}" for place, name in enumerate(found)}  # names may be words of C, or no names in C
    plain = [function.with_attr("global_symbol", symbols[name]) for name, (_, function) in found.items()]
    binary = build_library(module_source(plain), compiler(this_machine=True))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "functions.so")
        with open(path, "wb") as file:
            file.write(binary)
        library = ctypes.CDLL(path)
    made: dict[str, Callable[..., None]] = {}
    for name, (signature, _) in found.items():
        function = library[symbols[name]]
        function.argtypes, function.restype = signature.c_types, None
        made[name] = signature.caller(function, library)
    return made
