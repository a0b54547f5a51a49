"""`PassProgress`: tells a function which pass begins, ends or fails, how deep it is nested, and how many are planned."""

import threading
from collections.abc import Callable
from time import perf_counter
from typing import TYPE_CHECKING, Literal, NamedTuple

from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import PassInfo, PipelineInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule
    from passat.passmgr.planning.plan import Plan


class PassEvent(NamedTuple):
    """A pass begins, is finished, or failed.

    `depth` is the number of passes and pipelines around it, `number` its place among those that are planned, from 1; both 0 for one that
    no plan has, such as a pass that another one runs. `planned` is the number of planned passes, 0 without a plan. `seconds` is how
    long it took, 0.0 when it begins.
    """

    kind: Literal["begun", "finished", "failed"]
    name: str
    depth: int
    number: int
    planned: int
    seconds: float = 0.0
    pipeline: bool = False
    """Whether it is a pipeline rather than a pass that does something itself. Pipelines are not counted."""

    def __str__(self) -> str:
        place = f" ({self.number} of {self.planned})" if self.number else ""
        return f"{'running' if self.kind == 'begun' else self.kind} {self.name}{place}"


class _Running(threading.local):
    def __init__(self) -> None:
        self.open: list[tuple[PassEvent, float]] = []
        self.done = 0


class PassProgress(PassInstrument):
    """Calls `tell` with a `PassEvent` when a pass begins, and when it ends. With the plan of the pipeline that is going to run
    (`Sequential.plan`), passes are numbered; those that an instrument vetoes are skipped in the count.

    Threads are told of apart, each from the beginning of the plan. What `tell` raises ends the pipeline.

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
        self._tell = tell
        self._planned = [] if plan is None else plan.order
        self._running = _Running()

    def enter_pass_ctx(self) -> None:
        """Starts from the beginning of the plan."""
        self._running.done = 0

    def exit_pass_ctx(self) -> None:
        """Forgets the passes that were running."""
        self._running.open.clear()

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Tells that a pass begins."""
        running = self._running
        pipeline = isinstance(info, PipelineInfo)
        inside = any(not event.pipeline for event, _ in running.open)  # a pass that another one runs
        number = 0 if pipeline or inside else self._number(info.name)
        event = PassEvent("begun", info.name, len(running.open), number, len(self._planned), 0.0, pipeline)
        self._tell(event)
        running.open.append((event, perf_counter()))

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Tells that it is finished."""
        self._end("finished")

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Tells that it failed."""
        self._end("failed")

    def _number(self, name: str) -> int:
        """The place in the plan of the next pass of that name; 0 where no such is to come."""
        running = self._running
        place = next((at for at in range(running.done, len(self._planned)) if self._planned[at] == name), None)
        if place is None:
            return 0
        running.done = place + 1
        return running.done

    def _end(self, kind: Literal["finished", "failed"]) -> None:
        if self._running.open:  # empty where the instrument was put in while the pass was running
            event, start = self._running.open.pop()
            self._tell(event._replace(kind=kind, seconds=perf_counter() - start))
