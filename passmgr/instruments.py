"""Instruments: objects with hooks that a context calls around passes. `PassProgress` reports the progress of a pipeline to a function."""

import threading
from collections.abc import Callable
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, TypeVar, overload
from typing import Any as AnyValue

from passat.passmgr.pass_info import PassInfo, PipelineInfo, StageInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule
    from passat.passmgr.planning.plan import Plan


_T = TypeVar("_T", bound=type)
_R = TypeVar("_R")


class PassInstrument:
    """Base class of instruments. Override the methods you need; others cost nothing.

    * `enter_pass_ctx` and `exit_pass_ctx` run when the context is entered and exited; `PassContext.current()` is the outer context in both.
    * `should_run` may veto a pass: the pass runs if all instruments agree. Not called for passes in the context's `required_pass`.
    * `run_before_pass` and `run_after_pass` run around a pass that runs; the second one does not if the pass raised.
    * `pass_failed` (not in TVM) runs instead of `run_after_pass` if something raised since `run_before_pass`. Its own exceptions become
      notes.

    Exceptions in the other methods propagate.
    """

    @cached_property  # so that derived classes may set their own name
    def name(self) -> str:
        """The name of the instrument, by default that of its class."""
        return type(self).__name__

    def enter_pass_ctx(self) -> None:
        """Called when a context with the instrument is entered."""

    def exit_pass_ctx(self) -> None:
        """Called when a context with the instrument is exited."""

    def should_run(self, mod: "IRModule", info: PassInfo) -> bool:
        """Whether the pass should run on the module."""
        return True

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Called before a pass, with its input module."""

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Called after a pass, with its output module."""

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Called when a pass, or an instrument around it, raised; with the input module of the pass."""

    def __repr__(self) -> str:
        return self.name


@overload
def pass_instrument(pi_cls: _T) -> _T: ...
@overload
def pass_instrument(pi_cls: None = None) -> Callable[[_T], _T]: ...
def pass_instrument(pi_cls: AnyValue = None) -> AnyValue:
    """Class decorator, with or without `()`: turns a class with some of the methods of `PassInstrument` into an instrument.

    The result derives from the class and from PassInstrument, so methods are inherited and `super()` works. A class that derives from
    PassInstrument already is returned unchanged. Raises TypeError for values that are not classes.
    """

    def decorate(cls: type) -> type:
        if not isinstance(cls, type):
            raise TypeError("pi_cls must be a class")
        if issubclass(cls, PassInstrument):
            return cls
        return type(
            cls.__name__, (cls, PassInstrument), {"__module__": cls.__module__, "__doc__": cls.__doc__, "__qualname__": cls.__qualname__}
        )

    return decorate if pi_cls is None else decorate(pi_cls)


Hook = Callable[["IRModule", PassInfo], AnyValue]


class Hooks:
    """The hook methods that some instruments define, in call order."""

    __slots__ = ("after", "after_at", "before", "before_at", "failed", "should")

    def __init__(self, instruments: tuple[PassInstrument, ...]) -> None:
        self.should = tuple(instrument.should_run for instrument in instruments if defines(instrument, "should_run"))
        before = [(at, instrument.run_before_pass) for at, instrument in enumerate(instruments) if defines(instrument, "run_before_pass")]
        after = [(at, instrument.run_after_pass) for at, instrument in enumerate(instruments) if defines(instrument, "run_after_pass")]
        self.before: tuple[Hook, ...] = tuple(hook for _, hook in before)
        self.after: tuple[Hook, ...] = tuple(hook for _, hook in after)
        # The index of the instrument of each hook, to find instruments that have seen the start of a pass but not its end.
        self.before_at = tuple(at for at, _ in before)
        self.after_at = tuple(at for at, _ in after)
        self.failed = tuple((at, instrument.pass_failed) for at, instrument in enumerate(instruments) if defines(instrument, "pass_failed"))

    def fail(self, mod: "IRModule", info: PassInfo, error: BaseException, begun: int, ended: int) -> None:
        """Calls `pass_failed` of the instruments that have seen the start of the pass but not its end.

        `begun` hooks before the pass have returned; the hook after the pass at index `ended` was called last (-1: none).
        """
        first_not_begun = self.before_at[begun] if begun < len(self.before) else None
        last_ended = self.after_at[ended] if ended >= 0 else -1
        interrupt: BaseException | None = None
        for at, hook in self.failed:
            if (first_not_begun is None or at < first_not_begun) and at > last_ended:
                try:
                    hook(mod, info, error)
                except Exception as second:
                    error.add_note(f"and an instrument's pass_failed raised {type(second).__name__}: {second}")
                except BaseException as second:  # let every instrument close its resources before Ctrl-C propagates
                    interrupt = interrupt or second
        if interrupt is not None:
            raise interrupt


def defines(instrument: PassInstrument, method: str) -> bool:
    """Whether an instrument overrides a method of the base class."""
    return method in getattr(instrument, "__dict__", ()) or getattr(type(instrument), method) is not getattr(PassInstrument, method)


class PassEvent(NamedTuple):
    """A pass starts, finishes or fails.

    `depth` is the number of enclosing passes and pipelines, `number` the position among the planned passes, from 1; both are 0 for an
    unplanned pass, such as one that another pass runs. A stage covers the positions of its passes, from `number` to `last`, and does their
    work; `stage` is its name in their events. `planned` is the number of planned passes, 0 without a plan. `seconds` is the duration, 0.0
    at the start.
    """

    kind: Literal["begun", "finished", "failed"]
    name: str
    depth: int
    number: int
    planned: int
    seconds: float = 0.0
    pipeline: bool = False
    """Whether the pass is a pipeline or a stage. They are not counted."""
    last: int = 0
    stage: str = ""

    def __str__(self) -> str:
        positions = f"{self.number} to {self.last}" if self.last > self.number else str(self.number)
        place = f" ({positions} of {self.planned})" if self.number else ""
        return f"{'running' if self.kind == 'begun' else self.kind} {self.name}{place}"


class ThreadState(threading.local):
    """What an instrument knows of the running passes of a thread. Its copy in another process begins without."""

    def __reduce__(self) -> tuple[AnyValue, ...]:
        return type(self), ()


class _Running(ThreadState, Generic[_R]):
    def __init__(self) -> None:
        self.open: list[_R] = []
        self.around: list[int] = []
        """For each entered context, how many passes ran when it was entered: a pass may enter one with the instruments around it."""
        self.done = 0
        """The position in a plan of the last pass that started."""


class RunInstrument(PassInstrument, Generic[_R]):
    """Base class of instruments that keep something of each running pass: `begin` makes it when the pass starts, and `end` gets it with the
    result of the pass, or with its input module and the exception. Threads are separate. An instrument that was added while a pass was
    running does not see its end."""

    def __init__(self) -> None:
        self._running: _Running[_R] = _Running()

    def begin(self, mod: "IRModule", info: PassInfo) -> _R:
        """Called before a pass."""
        raise NotImplementedError

    def end(self, run: _R, mod: "IRModule", info: PassInfo, error: BaseException | None) -> None:
        """Called after a pass."""

    def enter_pass_ctx(self) -> None:
        """Remembers the passes of this thread that run around the context."""
        self._running.around.append(len(self._running.open))

    def exit_pass_ctx(self) -> None:
        """Forgets the passes of this thread that run in the context."""
        del self._running.open[self._running.around.pop() if self._running.around else 0 :]

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Begins a run."""
        self._running.open.append(self.begin(mod, info))

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Ends the run."""
        if self._running.open:
            self.end(self._running.open.pop(), mod, info, None)

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Ends the run."""
        if self._running.open:
            self.end(self._running.open.pop(), mod, info, error)


class PassProgress(RunInstrument[tuple[PassEvent, float, bool]]):
    """Calls `tell` with a `PassEvent` when a pass starts, finishes or fails.

    With the plan of the pipeline (`Sequential.plan`), passes are numbered; vetoed ones are skipped. Threads are reported separately, each
    from the start of the plan. Exceptions in `tell` end the pipeline.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr import InferType, PassContext, Sequential
    >>> both = Sequential([InferType(), Sequential([InferType()])])
    >>> with PassContext(instruments=[PassProgress(lambda event: print("  " * event.depth + str(event)), both.plan())]):
    ...     mod = both(IRModule())
    running sequential
      running InferType (1 of 2)
      finished InferType (1 of 2)
      running sequential
        running InferType (2 of 2)
        finished InferType (2 of 2)
      finished sequential
    finished sequential
    """

    def __init__(self, tell: Callable[[PassEvent], object], plan: "Plan | None" = None) -> None:
        super().__init__()
        self._tell = tell
        self._planned = [] if plan is None else plan.order
        self._stages = {} if plan is None else plan.stages

    def enter_pass_ctx(self) -> None:
        """Resets the position in the plan, except for a context that a pass enters."""
        super().enter_pass_ctx()
        if not self._running.open:
            self._running.done = 0

    def begin(self, mod: "IRModule", info: PassInfo) -> tuple[PassEvent, float, bool]:
        """Reports that a pass starts."""
        running = self._running
        pipeline = isinstance(info, PipelineInfo)
        inside = any(not event.pipeline for event, _, _ in running.open)  # a pass that another pass runs
        number, last, stage = 0, 0, ""
        is_stage = isinstance(info, StageInfo)
        if is_stage:
            number, last = self._stages.get(info.name, (0, 0))
        elif not pipeline and not inside:
            number = self._number(info.name)
            stage = next((event.name for event, _, around in running.open[-1:] if around), "")
        event = PassEvent("begun", info.name, len(running.open), number, len(self._planned), 0.0, pipeline, last, stage)
        self._tell(event)
        return event, perf_counter(), is_stage

    def end(self, run: tuple[PassEvent, float, bool], mod: "IRModule", info: PassInfo, error: BaseException | None) -> None:
        """Reports that a pass finished or failed."""
        event, start, _ = run
        self._tell(event._replace(kind="finished" if error is None else "failed", seconds=perf_counter() - start))

    def _number(self, name: str) -> int:
        """The position in the plan of the next pass of that name; 0 where there is none."""
        running = self._running
        place = next((at for at in range(running.done, len(self._planned)) if self._planned[at] == name), None)
        if place is None:
            return 0
        running.done = place + 1
        return running.done
