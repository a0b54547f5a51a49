"""Executions: numbered runs of passes in a pipeline, the base of instruments that count passes or find one of them.

`PassLimit` supports manual bisection, like LLVM's `-opt-bisect-limit`.
"""

import operator
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, SupportsIndex

from passat.ir.diagnostics import DiagnosticError
from passat.passmgr.inspection.checks import BrokenModuleError, ModuleChangedError
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import EVERYTHING, PassInfo, PipelineInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule

_UNNAMED: Final = "sequential"
"""The default name of a Sequential."""


class Execution(NamedTuple):
    """One run of a pass: its number, from 1, its name, the names of the enclosing pipelines, outermost first, and its metadata."""

    number: int
    name: str
    path: tuple[str, ...]
    info: PassInfo

    @property
    def place(self) -> str:
        """The pass with its enclosing named pipelines, without the outermost one: `cleanup / FoldConstant`."""
        return " / ".join((*(name for name in self.path[1:] if name != _UNNAMED), self.name))


def is_analysis(info: PassInfo) -> bool:
    """Whether a pass only establishes facts and changes no program, such as InferType; skipping it gains nothing."""
    return bool(info.provides) and EVERYTHING in info.preserves


class ExecutionTracker(PassInstrument):
    """Numbers the passes that run. Pipelines, and passes run by another pass, are not counted.

    A pass also fails if a later check (`VerifyEach`, `testing.immutable_module`) rejects its result. The tracker starts again when its
    context is entered, and must be used in one thread only.
    """

    def __init__(self) -> None:
        self.executions: list[Execution] = []
        """The executions of the current or last context."""
        self.pipelines: list[tuple[PassInfo, list[PassInfo]]] = []
        """The running pipelines, outermost first, each with the passes that started in it."""
        self.failed: Execution | None = None
        """The execution that raised; None once another pass begins, since the exception was caught."""
        self._contexts = 0
        self._nested = 0
        self._given: IRModule | None = None

    def enter_pass_ctx(self) -> None:
        """Starts again, except for a context that a pass enters."""
        if not self._contexts:
            ExecutionTracker.__init__(self)
        self._contexts += 1

    def exit_pass_ctx(self) -> None:
        """Counts the contexts that are entered."""
        self._contexts -= 1

    @property
    def running(self) -> Execution | None:
        """The current execution."""
        return self.executions[-1] if self._nested else None

    def execution_begins(self, mod: "IRModule", execution: Execution) -> None:
        """Called before each execution, with its input module."""

    def execution_ends(self, mod: "IRModule", execution: Execution) -> None:
        """Called after each successful execution, with its result."""

    def execution_fails(self, mod: "IRModule", execution: Execution, error: BaseException) -> None:
        """Called when an execution raised, with its input module."""

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Counts the pass."""
        if self._nested:
            self._nested += 1
            return
        self.failed = None
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
        """Closes the pass or pipeline."""
        if self._closes_execution():
            self.execution_ends(mod, self.executions[-1])

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Closes the pass or pipeline."""
        rejected = isinstance(error, (BrokenModuleError, ModuleChangedError)) and error.pass_name  # the pass whose result a check rejects
        if not self._nested and self._given is not None and rejected == self.executions[-1].name:
            self._fail(self._given, self.executions[-1], error)
        if self._closes_execution():
            # The last one, or that of its stage which the exception names. A stage works in its last pass.
            last, named = self.executions[-1], getattr(error, "pass_name", "")
            failing = (one for one in reversed(self.executions) if one.name == named and one.path == last.path)
            self._fail(mod, next(failing, last), error)

    def _fail(self, mod: "IRModule", execution: Execution, error: BaseException) -> None:
        self._given, self.failed = None, execution
        self.execution_fails(mod, execution, error)

    def _closes_execution(self) -> bool:
        if self._nested:
            self._nested -= 1
            return not self._nested
        if self.pipelines:  # empty if the instrument was added while the pipeline was running
            self.pipelines.pop()
        return False


def show_error(error: BaseException) -> str:
    """A short description of an exception: its type and message on one line. Shows only the first of several errors.

    >>> show_error(KeyError("x"))
    "KeyError: 'x'"
    """
    text = " ".join(message_of(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def message_of(error: BaseException) -> str:
    """The message of an exception; only the first sentence if it has several errors or shows expressions."""
    return str(error.args[0] if isinstance(error, DiagnosticError) else error)


_FUNCTION_NOTE: Final = re.compile(r"in the .*pass .*, function @(.*)", re.DOTALL)


def function_of(error: BaseException) -> str | None:
    """The function that a function pass was processing when it raised, from the note on the exception."""
    found = (_FUNCTION_NOTE.fullmatch(note) for note in getattr(error, "__notes__", ()))
    return next((match[1] for match in found if match), None)


class PassLimit(ExecutionTracker):
    """Runs the first `limit` executions and vetoes later ones; a negative limit vetoes none.

    Pipelines are not counted. Passes that only establish facts, such as InferType, are counted but never vetoed, and passes in the
    context's `required_pass` cannot be. `tell` is called with a line for each execution, in LLVM's format.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr import PassContext, Sequential, module_pass
    >>> passes = [module_pass(lambda mod, ctx: mod, opt_level=0, name=name) for name in "AB"]
    >>> with PassContext(instruments=[PassLimit(1, tell=print)]):
    ...     mod = Sequential(passes)(IRModule())
    BISECT: running pass (1) A
    BISECT: NOT running pass (2) B
    """

    def __init__(self, limit: SupportsIndex, *, tell: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self.limit = operator.index(limit)
        self.vetoed: list[str] = []
        """The names of the vetoed passes."""
        self._tell = tell

    def enter_pass_ctx(self) -> None:
        """Starts again."""
        super().enter_pass_ctx()
        if not self.executions:
            self.vetoed = []

    def should_run(self, mod: "IRModule", info: PassInfo) -> bool:
        """Whether the limit has not been reached."""
        if self.running or isinstance(info, PipelineInfo) or is_analysis(info) or self.limit < 0 or len(self.executions) < self.limit:
            return True
        self.vetoed.append(info.name)
        if self._tell:
            self._tell(f"BISECT: NOT running pass ({len(self.executions) + len(self.vetoed)}) {info.name}")
        return False

    def execution_begins(self, mod: "IRModule", execution: Execution) -> None:
        """Reports the execution."""
        if self._tell:
            self._tell(f"BISECT: running pass ({execution.number}) {execution.place}")
