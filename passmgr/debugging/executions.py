"""Executions: the runs of passes in a pipeline, numbered. What counts the passes of a run, or finds one of them, builds on this."""

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.ir.diagnostics import DiagnosticError
from passat.passmgr.inspection.immutable import ModuleChangedError
from passat.passmgr.inspection.verify_each import BrokenModuleError
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule


_UNNAMED: Final = "sequential"
"""What a Sequential is called that was given no name."""


class Execution(NamedTuple):
    """One run of a pass: its number, from 1, the name of the pass, the names of the pipelines around it, outermost first, and its data."""

    number: int
    name: str
    path: tuple[str, ...]
    info: PassInfo

    @property
    def place(self) -> str:
        """The pass with the named pipelines that are nested around it: `cleanup / FoldConstant`. The outermost goes without saying."""
        return " / ".join((*(name for name in self.path[1:] if name != _UNNAMED), self.name))


def is_analysis(info: PassInfo) -> bool:
    """Whether a pass establishes facts and changes no program, such as InferType: nothing is gained, and much lost, by leaving it out."""
    return bool(info.provides) and EVERYTHING in info.preserves


class ExecutionTracker(PassInstrument):
    """Numbers the passes that run. Pipelines do not count, and passes that a pass itself runs belong to that pass.

    A pass also fails where a check behind it (`VerifyEach`, `testing.immutable_module`) refuses what it did. The tracker starts anew
    whenever its context is entered, and is for one thread.
    """

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        """Those of this context so far, or of the last one."""
        self.pipelines: list[tuple[PassInfo, list[PassInfo]]] = []
        """The pipelines that are running, outermost first, each with the passes that began in it."""
        self._nested = 0
        self._given: IRModule | None = None

    def enter_pass_ctx(self) -> None:
        """Starts anew."""
        ExecutionTracker.__init__(self)

    @property
    def running(self) -> Execution | None:
        """The execution that goes on now."""
        return self.executions[-1] if self._nested else None

    def execution_begins(self, mod: "IRModule", execution: Execution) -> None:
        """Is called before each execution, with the module that it gets."""

    def execution_ends(self, mod: "IRModule", execution: Execution) -> None:
        """Is called after each execution that did not raise, with the module that it returned."""

    def execution_fails(self, mod: "IRModule", execution: Execution, error: BaseException) -> None:
        """Is called where an execution raised, with the module that it got."""

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Counts the pass."""
        if self._nested:
            self._nested += 1
            return
        if self.pipelines:
            self.pipelines[-1][1].append(info)
        if isinstance(info, PipelineInfo):
            self.pipelines.append((info, []))
            return
        self._nested = 1
        execution = Execution(len(self.executions) + 1, info.name, tuple(outer.name for outer, _ in self.pipelines), info)
        self.executions.append(execution)
        self._given = mod
        self.execution_begins(mod, execution)

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Closes what `run_before_pass` opened."""
        if self._closes_execution():
            self.execution_ends(mod, self.executions[-1])

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Closes what `run_before_pass` opened."""
        if not self._nested and self._given is not None and _accuses(error, self.executions[-1]):
            self.execution_fails(self._given, self.executions[-1], error)  # an instrument raised that comes after this one
            self._given = None
        if self._closes_execution():
            self._given = None
            self.execution_fails(mod, self.executions[-1], error)

    def _closes_execution(self) -> bool:
        if self._nested:
            self._nested -= 1
            return not self._nested
        if self.pipelines:  # empty where the instrument was put in while the pipeline was running
            self.pipelines.pop()
        return False


def _accuses(error: BaseException, execution: Execution) -> bool:
    """Whether an exception is that of a check which refuses what an execution did."""
    return isinstance(error, (BrokenModuleError, ModuleChangedError)) and error.pass_name == execution.name


def show_error(error: BaseException) -> str:
    """An exception in a few words: its type and its message on one line, of several the first.

    >>> show_error(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(message_of(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def message_of(error: BaseException) -> str:
    """The message of an exception; where it tells of several errors, or shows expressions, the first sentence."""
    return str(error.args[0] if isinstance(error, DiagnosticError) else error)


_FUNCTION_NOTE: Final = re.compile(r"in the .*pass .*, function @(.*)", re.DOTALL)


def function_of(error: BaseException) -> str | None:
    """The function that a function pass was at when it raised, as its note on the exception says."""
    found = (_FUNCTION_NOTE.fullmatch(note) for note in getattr(error, "__notes__", ()))
    return next((match[1] for match in found if match), None)
