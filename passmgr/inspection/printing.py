"""Programs as text on a stream: the pass `PrintIR`, TVM's printing instruments, and printing before and after passes as LLVM does it."""

import sys
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, TextIO

from passat.ir.module import IRModule
from passat.passmgr.context import PassContext
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo
from passat.passmgr.passes import ModulePass
from passat.passmgr.registry import register_pass

_WRITING: Final = threading.Lock()


def emit(text: str, file: TextIO | None) -> None:
    """Writes a text in one go, so that those of several threads do not mix; to the error stream of the moment where no file is given."""
    stream = sys.stderr if file is None else file
    with _WRITING:
        stream.write(text)
        stream.flush()


@register_pass("transform.PrintIR")
@dataclass(frozen=True, repr=False)
class PrintIR(ModulePass):
    """Prints the module to the error stream, under `PrintIR(<header>):`; constants that are no scalars with `show_meta_data` only."""

    header: str = ""
    show_meta_data: bool = False

    info = PassInfo(0, "PrintIR", preserves=EVERYTHING)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Prints the module and returns it."""
        emit(f"PrintIR({self.header}):\n{mod.astext(self.show_meta_data).rstrip()}\n", None)
        return mod


class PrintBeforeAll(PassInstrument):
    """Prints `Before Running Pass: <info>` and the module to the output stream, before each pass, as TVM does."""

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass gets."""
        emit(f"Before Running Pass: {info}\n{mod}\n", sys.stdout)


class PrintAfterAll(PassInstrument):
    """Prints `After Running Pass: <info>` and the module to the output stream, after each pass, as TVM does."""

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass returned."""
        emit(f"After Running Pass: {info}\n{mod}\n", sys.stdout)


class PassPrintingInstrument(PassInstrument):
    """Prints the module to the output stream before and after the passes of some names (exact ones), as TVM does."""

    def __init__(self, print_before_pass_names: Iterable[str], print_after_pass_names: Iterable[str]) -> None:
        self.print_before_pass_names = list(print_before_pass_names)
        self.print_after_pass_names = list(print_after_pass_names)

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass gets, where it is one of those before which it is to be printed."""
        if info.name in self.print_before_pass_names:
            emit(f"Print IR before: {info.name}\n{mod}\n\n\n", sys.stdout)

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass returned, where it is one of those after which it is to be printed."""
        if info.name in self.print_after_pass_names:
            emit(f"Print IR after: {info.name}\n{mod}\n\n\n", sys.stdout)


class NameFilter:
    """Names, or patterns of them with `*`, `?` and `[...]`. Which of them fitted nothing so far is in `unused`. No patterns: all names.

    >>> chosen = NameFilter(["Fold*", "InferType"])
    >>> chosen("FoldConstant"), chosen("SimplifyExpr"), chosen.unused
    (True, False, ['InferType'])
    """

    def __init__(self, patterns: str | Iterable[str]) -> None:
        self.patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
        for pattern in self.patterns:
            if not isinstance(pattern, str):
                raise TypeError(f"names are strings, not {pattern!r}")
        self._used: set[str] = set()

    def __call__(self, name: str) -> bool:
        """Whether the name is one of them."""
        fitting = [pattern for pattern in self.patterns if name == pattern or fnmatchcase(name, pattern)]
        self._used.update(fitting)
        return bool(fitting) or not self.patterns

    @property
    def unused(self) -> list[str]:
        """The patterns that no name has fitted."""
        return [pattern for pattern in self.patterns if pattern not in self._used]

    def of_pass(self, info: PassInfo) -> bool:
        """Whether a pass is meant. A pipeline is by its very name only: what it does, its members do."""
        fits = self(info.name)
        return info.name in self.patterns if isinstance(info, PipelineInfo) else fits


def chosen_functions(mod: IRModule, functions: NameFilter) -> IRModule:
    """The module, with the chosen functions alone where not all are chosen."""
    if not functions.patterns:
        return mod
    part = IRModule()
    part.functions = {var: function for var, function in mod.functions.items() if functions(var.name_hint)}
    return part


def cut_lines(text: str, max_lines: int | None) -> str:
    """The text, or its first lines and how many are left out.

    >>> print(cut_lines("a\\nb\\nc\\nd", 2))
    a
    b
    ... (2 more lines left out)
    """
    if max_lines is None or text.count("\n") < max_lines:
        return text
    lines = text.split("\n")
    return "\n".join([*lines[:max_lines], f"... ({len(lines) - max_lines} more lines left out)"])


class _PrintIR(PassInstrument):
    """What `PrintIRBefore` and `PrintIRAfter` share."""

    def __init__(
        self,
        names: str | Iterable[str] = (),
        *,
        functions: str | Iterable[str] = (),
        file: TextIO | None = None,
        max_lines: int | None = None,
    ) -> None:
        self.names = NameFilter(names)
        self.functions = NameFilter(functions)
        self._file = file
        self._max_lines = max_lines

    def _print(self, when: str, mod: IRModule, info: PassInfo, how: str = "") -> None:
        if not self.names.of_pass(info):
            return
        shown = chosen_functions(mod, self.functions)
        if shown is not mod and not shown.functions:
            return
        on = "" if shown is mod else f" on {', '.join(f'@{var.name_hint}' for var in shown.functions)}"
        emit(f"*** IR Dump {when} {info.name}{on}{how} ***\n{cut_lines(str(shown), self._max_lines)}\n", self._file)


class PrintIRBefore(_PrintIR):
    """Prints the module before passes.

    `names` are those of passes, `functions` those of functions, all where none is given; patterns as `Fold*` are understood. Pipelines
    are printed only where their exact name is given. `file` is the error stream if None; of more than `max_lines` lines the rest is
    counted.
    """

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass gets."""
        self._print("Before", mod, info)


class PrintIRAfter(_PrintIR):
    """Prints the module after passes; the one that a pass got, where the pass raised.

    `names` are those of passes, `functions` those of functions, all where none is given; patterns as `Fold*` are understood. Pipelines
    are printed only where their exact name is given. `file` is the error stream if None; of more than `max_lines` lines the rest is
    counted.
    """

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Prints the module that the pass returned."""
        self._print("After", mod, info)

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        """Prints the module that the pass got."""
        self._print("After", mod, info, f" failed ({type(error).__name__}); what it got")
