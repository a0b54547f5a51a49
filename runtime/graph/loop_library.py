"""Libraries of compiled functions of loops."""

import json
import os
from collections.abc import Mapping
from typing import Any as AnyValue
from typing import Final

from passat.ir.tir.function import PrimFunc
from passat.ir.tir.parser import parse_function
from passat.ir.tir.tokens import TirParseError
from passat.runtime.devices import Target
from passat.runtime.graph.archive import LOOPS, write_archive
from passat.runtime.graph.graph_error import GraphError
from passat.runtime.jit.c_library import compile_with_c
from passat.runtime.jit.engine import compile_functions
from passat.runtime.module import ENTRY, Module

_COMPILERS: Final = {"llvm": compile_functions, "cpu": compile_functions, "c": compile_with_c}
"""What compiles functions of loops, by target."""


class LoopLibrary(Module):
    """Compiled functions of loops by name; the first is the entry function. As functions of the module they take arrays and numbers.

    Raises ValueError for targets without a compiler, and the errors of the compilers.
    """

    def __init__(self, program: Mapping[str, PrimFunc], target: Target | str) -> None:
        self.target = Target(target)
        kind = self.target.kind
        if kind not in _COMPILERS:
            raise ValueError(f"functions of loops are compiled for {', '.join(_COMPILERS)}, not for {kind}")
        self.program = dict(program)
        compiled = _COMPILERS[kind](self.program)
        super().__init__({**compiled, ENTRY: next(iter(compiled.values()))} if len(compiled) > 1 else compiled, kind)

    @classmethod
    def of_texts(cls, texts: Mapping[str, str], target: Target) -> "LoopLibrary":
        """The library of functions as texts, which are compiled. Raises GraphError for other texts, and the errors of the compilers."""
        try:
            program = {name: parse_function(text).with_attr("global_symbol", name) for name, text in texts.items()}
        except TirParseError as error:
            raise GraphError(f"a function of loops in the file cannot be read: {error}") from error
        return cls(program, target)

    def texts(self) -> dict[str, str]:
        """The functions as texts, by name."""
        return {name: function.text() for name, function in self.program.items()}

    def get_source(self, fmt: str = "") -> str:
        """The functions as text."""
        return "\n".join(self.texts().values())

    def export_library(self, file_name: "str | os.PathLike[str]", fcompile: AnyValue = None, **options: AnyValue) -> None:
        """Writes the functions to a file that `load_module` reads, and compiles again. TVM's options for compilers are ignored.

        Raises GraphError for functions that cannot be read back, and OSError.
        """
        try:
            for text in self.texts().values():
                parse_function(text)
        except ValueError as error:
            raise GraphError(f"the library cannot be saved: {error}") from error
        write_archive(file_name, self.target, self.program, "default", {LOOPS: json.dumps(self.texts(), indent=2).encode()})
