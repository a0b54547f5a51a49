"""Executions: the runs of passes in a pipeline, numbered. What counts the passes of a run, or finds one of them, builds on this, as
`PassLimit` does, with which a wrong pass is looked for by hand, as with LLVM's `-opt-bisect-limit`."""

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


class PassLimit(ExecutionTracker):
    """Lets the first `limit` executions run and vetoes those after them; a negative limit vetoes none.

    Pipelines are not counted. Passes that only establish facts, such as InferType, are counted and never vetoed, unless
    `veto_all`; nor are those that the context's `required_pass` names, as instruments are not asked about them. `tell` is called with a
    line for each execution, in LLVM's words.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr import PassContext, Sequential, module_pass
    >>> passes = [module_pass(lambda mod, ctx: mod, opt_level=0, name=name) for name in "AB"]
    >>> with PassContext(instruments=[PassLimit(1, tell=print)]):
    ...     mod = Sequential(passes)(IRModule())
    BISECT: running pass (1) A
    BISECT: NOT running pass (2) B
    """

    def __init__(self, limit: SupportsIndex, *, veto_all: bool = False, tell: Callable[[str], None] | None = None) -> None:
        super().__init__()
        self.limit = operator.index(limit)
        self.veto_all = veto_all
        self.vetoed: list[str] = []
        """The names of the passes that were vetoed."""
        self._tell = tell

    def enter_pass_ctx(self) -> None:
        """Starts anew."""
        super().enter_pass_ctx()
        self.vetoed = []

    def should_run(self, mod: "IRModule", info: PassInfo) -> bool:
        """Whether the limit is not reached yet."""
        if self.running or isinstance(info, PipelineInfo) or self.limit < 0 or len(self.executions) < self.limit:
            return True
        if not self.veto_all and is_analysis(info):
            return True
        self.vetoed.append(info.name)
        if self._tell:
            self._tell(f"BISECT: NOT running pass ({len(self.executions) + len(self.vetoed)}) {info.name}")
        return False

    def execution_begins(self, mod: "IRModule", execution: Execution) -> None:
        """Tells it."""
        if self._tell:
            self._tell(f"BISECT: running pass ({execution.number}) {execution.place}")
