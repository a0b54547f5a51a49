"""`PrintIRChanged` prints what passes change, like LLVM's `-print-changed`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TextIO, get_args

from passat.ir.module import IRModule
from passat.passmgr.inspection.ir_diff import CONTEXT, Section, color_diff, sections, unified
from passat.passmgr.inspection.printing import NameFilter, emit
from passat.passmgr.instruments import PassInstrument, ThreadState
from passat.passmgr.pass_info import PassInfo, PipelineInfo

Mode = Literal["diff", "cdiff"]


@dataclass
class _Run:
    """A running pass, and the module at the time of the last report."""

    info: PassInfo
    seen: IRModule


class _Runs(ThreadState):
    def __init__(self) -> None:
        self.open: list[_Run] = []


class PrintIRChanged(PassInstrument):
    """Prints the functions that a pass changed, as a diff or as a colored diff (`mode`).

    * `names` selects passes, all by default. Patterns such as `Fold*` are supported.
    * A pass without changes gets a line that says so, unless `quiet`. Inferred types and renumbered temporaries are not changes. Changes
      made by nested passes are reported for the nested passes only.
    * `context` is the number of context lines around changes. `file` is stderr by default.

    Raises ValueError for an unknown mode.
    """

    def __init__(
        self,
        names: str | Iterable[str] = (),
        *,
        mode: Mode = "diff",
        quiet: bool = False,
        context: int = CONTEXT,
        file: TextIO | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ValueError(f"mode must be one of {', '.join(get_args(Mode))}, not {mode!r}")
        self.names = NameFilter(names)
        self._mode = mode
        self._quiet = quiet
        self._context = context
        self._file = file
        self._runs = _Runs()

    def run_before_pass(self, mod: IRModule, info: PassInfo) -> None:
        """Records the module; reports what the enclosing pass has changed so far."""
        runs = self._runs
        if runs.open:
            around = runs.open[-1]
            self._tell(around, mod, f"{around.info.name} up to {info.name}", quiet=True)
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

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        """Drops the record of the pass."""
        if self._runs.open:
            self._runs.open.pop()

    def exit_pass_ctx(self) -> None:
        """Releases the modules of this thread."""
        self._runs.open.clear()

    def _tell(self, run: _Run, mod: IRModule, title: str, *, quiet: bool) -> None:
        before, run.seen = run.seen, mod.shallow_copy()
        if not self.names(run.info.name):
            return
        same = before.functions == mod.functions and before.type_definitions == mod.type_definitions
        found = [] if same else list(sections(before, mod))
        if found:
            on = ", ".join(_about(section) for section in found)
            text = "\n".join(line for section in found for line in unified(section, self._context))
            emit(f"*** IR Dump After {title} on {on} ***\n{color_diff(text) if self._mode == 'cdiff' else text}\n", self._file)
        elif not quiet:
            emit(f"*** IR Dump After {title} omitted because no change ***\n", self._file)


def _about(section: Section) -> str:
    name = f"@{section.name}" if section.name else "the type definitions"
    return name if section.kind == "changed" else f"{name} ({section.kind})"
