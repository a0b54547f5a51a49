"""`PrintIRChanged` prints what passes change, like LLVM's `-print-changed`."""

import threading
from collections.abc import Iterable
from typing import Literal, TextIO, get_args

from passat.ir.module import IRModule
from passat.passmgr.inspection.ir_diff import CONTEXT, Section, color_diff, sections, unified
from passat.passmgr.inspection.printing import NameFilter, cut_lines, emit
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import PassInfo, PipelineInfo

Mode = Literal["full", "diff", "cdiff"]


class _Run:
    """A running pass: its nesting depth, and the module at the time of the last report."""

    __slots__ = ("info", "seen")

    def __init__(self, info: PassInfo, seen: IRModule) -> None:
        self.info = info
        self.seen = seen


class _Runs(threading.local):
    def __init__(self) -> None:
        self.open: list[_Run] = []
        self.last: IRModule | None = None


class PrintIRChanged(PassInstrument):
    """Prints the functions that a pass changed: in full, as a diff, or as a colored diff (`mode`).

    * `names` selects passes, `functions` selects functions; all by default. Patterns such as `Fold*` are supported.
    * A pass without changes gets a line that says so, unless `quiet`. Inferred types and renumbered temporaries are not changes. Changes
      made by nested passes are reported for the nested passes only.
    * In mode "full" the initial module is also printed. `context` is the number of context lines around changes.
    * `file` is stderr by default. Lines after the first `max_lines` of an output are counted.

    Raises ValueError for an unknown mode.
    """

    def __init__(
        self,
        names: str | Iterable[str] = (),
        *,
        functions: str | Iterable[str] = (),
        mode: Mode = "diff",
        quiet: bool = False,
        context: int = CONTEXT,
        file: TextIO | None = None,
        max_lines: int | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, not {mode!r}")
        self.names = NameFilter(names)
        self.functions = NameFilter(functions)
        self._mode = mode
        self._quiet = quiet
        self._context = context
        self._file = file
        self._max_lines = max_lines
        self._runs = _Runs()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Records the module; reports what the enclosing pass has changed so far."""
        runs = self._runs
        if runs.open:
            around = runs.open[-1]
            self._tell(around, mod, f"{around.info.name} up to {info.name}", quiet=True)
        elif self._mode == "full" and (runs.last is None or mod.functions != runs.last.functions):
            emit(f"*** IR Dump At Start ***\n{cut_lines(str(mod), self._max_lines)}\n", self._file)
        runs.open.append(_Run(info, mod.shallow_copy()))

    def run_after_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Reports what the pass changed."""
        runs = self._runs
        if not runs.open:  # added while the pass was running
            return
        run = runs.open.pop()
        self._tell(run, mod, info.name, quiet=self._quiet or isinstance(info, PipelineInfo))
        if runs.open:
            runs.open[-1].seen = run.seen
        runs.last = run.seen

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        """Drops the record of the pass."""
        if self._runs.open:
            self._runs.open.pop()

    def exit_pass_ctx(self) -> None:
        """Releases the modules of this thread."""
        self._runs.open.clear()
        self._runs.last = None

    def _tell(self, run: _Run, mod: IRModule, title: str, *, quiet: bool) -> None:
        before, run.seen = run.seen, mod.shallow_copy()
        if not self.names(run.info.name) or (before.functions == mod.functions and before.type_definitions == mod.type_definitions):
            found: list[Section] = []
        else:
            found = [section for section in sections(before, mod) if self.functions(section.name)]
        if found:
            on = ", ".join(_about(section) for section in found)
            text = self._full(found, mod) if self._mode == "full" else self._diff(found)
            emit(f"*** IR Dump After {title} on {on} ***\n{text}\n", self._file)
        elif not quiet and self.names(run.info.name):
            emit(f"*** IR Dump After {title} omitted because no change ***\n", self._file)

    def _full(self, found: list[Section], mod: IRModule) -> str:
        names = {section.name for section in found}
        part = IRModule(type_definitions=mod.type_definitions if "" in names else None)
        part.functions = {var: function for var, function in mod.functions.items() if var.name_hint in names}
        return cut_lines(str(part), self._max_lines)

    def _diff(self, found: list[Section]) -> str:
        text = cut_lines("\n".join(line for section in found for line in unified(section, self._context)), self._max_lines)
        return color_diff(text) if self._mode == "cdiff" else text


def _about(section: Section) -> str:
    name = f"@{section.name}" if section.name else "the type definitions"
    return name if section.kind == "changed" else f"{name} ({section.kind})"
