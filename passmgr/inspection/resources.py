"""Time and memory of each pass, with nesting: `PassTimingInstrument` and `PassMemoryInstrument`."""

import contextlib
import os
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from passat.passmgr.instruments import RunInstrument, ThreadState
from passat.passmgr.pass_info import PassInfo, StageInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule


class _Run:
    """A run of a pass inside of others: its depth, and the stage that it is directly in; whether it has ended, and by an exception."""

    __slots__ = ("depth", "done", "failed", "info", "stage")

    def __init__(self, info: PassInfo, around: "Sequence[_Run]") -> None:
        self.info = info
        self.depth = len(around)
        self.stage = around[-1].info.name if around and isinstance(around[-1].info, StageInfo) else ""
        self.done = self.failed = False


class _Started(ThreadState):
    """The runs of the current context in a thread, and those of the last one, in the order of their start."""

    def __init__(self) -> None:
        self.runs: list[AnyValue] = []
        self.last: list[AnyValue] = []


class _Measurement(RunInstrument[AnyValue]):
    """Base class of instruments that measure each run of a pass."""

    def __init__(self) -> None:
        super().__init__()
        self._started = _Started()

    def exit_pass_ctx(self) -> None:
        """Ends the measurement; its runs are kept until the next one."""
        super().exit_pass_ctx()
        if not self._running.around:
            self._started.runs, self._started.last = [], self._started.runs

    def _ended(self) -> list[AnyValue]:
        """The finished runs of the current context, or of the last one."""
        return [run for run in self._started.runs or self._started.last if run.done]


class PassTime(NamedTuple):
    """A run of a pass: its name, its total seconds, its nesting depth, and whether it raised.

    The passes of a `stage` run as one: the stage has the total seconds, and each of its passes 0.0.
    """

    name: str
    seconds: float
    depth: int
    failed: bool = False
    stage: str = ""


class _TimedRun(_Run):
    __slots__ = ("seconds", "start")

    def __init__(self, info: PassInfo, around: Sequence[_Run]) -> None:
        super().__init__(info, around)
        self.seconds = 0.0
        self.start = perf_counter()


class _Latest(threading.local):
    def __init__(self) -> None:
        self.instrument: PassTimingInstrument | None = None


_LATEST: Final = _Latest()


class _Render:
    """A method that can also be called on the class, like TVM's static `render`."""

    def __get__(self, instrument: "PassTimingInstrument | None", owner: type) -> Callable[[], str]:
        return partial(_render, instrument or _LATEST.instrument)


def _render(instrument: "PassTimingInstrument | None") -> str:
    if instrument is None or not instrument._started.runs:
        said = "no passes have been profiled, did you enable pass profiling? Leaving the context clears what render() prints"
        warnings.warn(f"{said}; render_times(instrument.timings) prints it then", stacklevel=2)
        return ""
    if instrument._running.open:
        raise RuntimeError("cannot print pass profile while still in a pass!")
    return render_times(instrument.timings)


def _microseconds(value: float) -> str:
    return f"{value * 1e6:.0f}us"


def render_times(times: Sequence[PassTime], show: Callable[[float], str] = _microseconds) -> str:
    """Formats measured runs (`PassTimingInstrument.timings`) as TVM does, after the context was exited. The passes of a stage, which TVM
    does not have, are listed without a time. `show` formats seconds.

    >>> render_times([PassTime("outer", 4e-6, 0), PassTime("inner", 3e-6, 1)])
    'outer: 4us [1us] (100.00%; 100.00%)\\n\\tinner: 3us [3us] (75.00%; 75.00%)\\n'
    >>> render_times([PassTime("stage 1", 4e-6, 0), PassTime("FoldConstant", 0.0, 1, stage="stage 1")])
    'stage 1: 4us [4us] (100.00%; 100.00%)\\n\\tFoldConstant: in stage 1\\n'
    """
    nested = [0.0] * len(times)
    around: list[int] = []
    above: list[float] = []
    total = sum(run.seconds for run in times if not run.depth)
    for i, run in enumerate(times):
        del around[run.depth :]
        above.append(times[around[-1]].seconds if around else total)
        if around:
            nested[around[-1]] += run.seconds
        around.append(i)
    lines = []
    for run, inner, parent in zip(times, nested, above, strict=True):
        of_total, of_parent = (100 * run.seconds / whole if whole else 0.0 for whole in (total, parent))
        figures = f"{show(run.seconds)} [{show(run.seconds - inner)}] ({of_total:.2f}%; {of_parent:.2f}%)"
        indent = "\t" * run.depth
        lines.append(f"{indent}{run.name}: {f'in {run.stage}' if run.stage else figures}\n")
    return "".join(lines)


class PassTimingInstrument(_Measurement):
    """Measures the time of every pass. `render()` returns TVM's text; as in TVM, call it before the context is exited. `timings` remain
    available.

    A pass that raised is measured up to the exception. Threads are measured separately.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr.context import PassContext
    >>> from passat.passmgr.standard import InferType
    >>> with PassContext(instruments=[timing := PassTimingInstrument()]):
    ...     mod = InferType()(IRModule())
    >>> [run.name for run in timing.timings]
    ['InferType']
    """

    def __init__(self) -> None:
        super().__init__()
        _LATEST.instrument = self

    @property
    def timings(self) -> list[PassTime]:
        """This thread's finished runs of the current or last context, in the order of their start."""
        return [PassTime(run.info.name, 0.0 if run.stage else run.seconds, run.depth, run.failed, run.stage) for run in self._ended()]

    render = _Render()
    """`render() -> str`: one line per run, nested ones indented by tabs: `name: total [without nested] (% of all; % of the enclosing run)`.

    On the class, it renders the instrument that was created or entered last in this thread. Warns and returns an empty string
    if nothing was measured; raises RuntimeError inside a pass.
    """

    def enter_pass_ctx(self) -> None:
        """Makes this the instrument of `PassTimingInstrument.render()`."""
        super().enter_pass_ctx()
        _LATEST.instrument = self

    def begin(self, mod: "IRModule", info: PassInfo) -> _TimedRun:
        """Starts timing a run."""
        run = _TimedRun(info, self._running.open)
        self._started.runs.append(run)
        return run

    def end(self, run: _TimedRun, mod: "IRModule", info: PassInfo, error: BaseException | None) -> None:
        """Stops timing the run."""
        run.seconds = perf_counter() - run.start
        run.done, run.failed = True, error is not None


class PassMemory(NamedTuple):
    """A run of a pass: its name, bytes, nesting depth, and whether it raised.

    `resident` is the growth of the process's memory and `resident_peak` the growth of its peak (as reported by the system, 0 if
    unavailable). `allocated` is the growth of memory allocated by Python and NumPy, and `peak` its maximum above the start; None without
    tracemalloc. The passes of a `stage` run as one: the stage has the total figures, and each of its passes 0.
    """

    name: str
    resident: int
    resident_peak: int
    allocated: int | None
    peak: int | None
    depth: int
    failed: bool = False
    stage: str = ""


class _SizedRun(_Run):
    __slots__ = ("allocated", "peak", "record", "resident", "traced")

    def __init__(self, info: PassInfo, around: Sequence[_Run]) -> None:
        super().__init__(info, around)
        self.traced = tracemalloc.is_tracing()
        self.allocated = tracemalloc.get_traced_memory()[0] if self.traced else 0
        self.peak = self.allocated
        self.resident, self.record = resident_bytes(), record_bytes()

    def end(self, failed: bool) -> None:
        self.traced = self.traced and tracemalloc.is_tracing()
        if self.traced:
            self.peak -= self.allocated
            self.allocated = tracemalloc.get_traced_memory()[0] - self.allocated
        self.resident, self.record = resident_bytes() - self.resident, record_bytes() - self.record
        self.done, self.failed = True, failed


_LOCK: Final = threading.RLock()
_OPEN: Final[dict[int, _SizedRun]] = {}
"""The open runs of all instruments and threads. tracemalloc has a single peak, so they are updated before it is reset."""


def _note_peak() -> None:
    """Updates all open runs with the current peak and resets it. The lock must be held."""
    if tracemalloc.is_tracing():
        peak = tracemalloc.get_traced_memory()[1]
        for run in _OPEN.values():
            run.peak = max(run.peak, peak)
        tracemalloc.reset_peak()


class PassMemoryInstrument(_Measurement):
    """Measures the memory of passes. Runs are recorded per thread, but memory is that of the whole process.

    Allocations by Python and NumPy are measured if `tracemalloc` is running. With `trace=True` it is started while a context with the
    instrument is entered, which makes passes several times slower. Otherwise only the size of the process is known, which is coarse.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr.context import PassContext
    >>> from passat.passmgr.standard import InferType
    >>> with PassContext(instruments=[memory := PassMemoryInstrument()]):
    ...     mod = InferType()(IRModule())
    >>> [run.name for run in memory.runs]
    ['InferType']
    """

    def __init__(self, trace: bool = False) -> None:
        super().__init__()
        self._trace = trace
        self._entered = 0
        self._traces = False

    @property
    def runs(self) -> list[PassMemory]:
        """This thread's finished runs of the current or last context, in the order of their start."""
        found: list[PassMemory] = []
        for run in self._ended():
            resident, record, allocated, peak = (0, 0, 0, 0) if run.stage else (run.resident, run.record, run.allocated, run.peak)
            allocated, peak = (allocated, peak) if run.traced else (None, None)
            found.append(PassMemory(run.info.name, resident, record, allocated, peak, run.depth, run.failed, run.stage))
        return found

    def render(self) -> str:
        """One line per run, nested ones indented by tabs: `name: allocated +1.2 MiB, peak +3.4 MiB; process +2.0 MiB, record +2.0 MiB`.

        Can be called after the context was exited; empty if nothing was measured.
        """
        return "".join(_line(run) for run in self.runs)

    def enter_pass_ctx(self) -> None:
        """Starts tracemalloc if requested and not running."""
        super().enter_pass_ctx()
        with _LOCK:
            if self._trace and not self._entered and not tracemalloc.is_tracing():
                tracemalloc.start()
                self._traces = True
            self._entered += 1

    def exit_pass_ctx(self) -> None:
        """Ends the measurement, and tracemalloc if it was started for it; `runs` are kept until the next measurement."""
        open_ = list(self._running.open)
        super().exit_pass_ctx()
        with _LOCK:
            for run in open_[len(self._running.open) :]:
                _OPEN.pop(id(run), None)
            self._entered = max(0, self._entered - 1)
            if self._traces and not self._entered:
                tracemalloc.stop()
                self._traces = False

    def begin(self, mod: "IRModule", info: PassInfo) -> _SizedRun:
        """Starts measuring a run."""
        with _LOCK:
            _note_peak()
            run = _SizedRun(info, self._running.open)
            _OPEN[id(run)] = run
        self._started.runs.append(run)
        return run

    def end(self, run: _SizedRun, mod: "IRModule", info: PassInfo, error: BaseException | None) -> None:
        """Stops measuring the run."""
        with _LOCK:
            _note_peak()
            _OPEN.pop(id(run), None)
            run.end(error is not None)


def _line(run: PassMemory) -> str:
    parts = [] if run.allocated is None or run.peak is None else [f"allocated {_size(run.allocated)}, peak {_size(run.peak)}"]
    parts.append(f"process {_size(run.resident)}, record {_size(run.resident_peak)}")
    indent = "\t" * run.depth
    return f"{indent}{run.name}: {f'in {run.stage}' if run.stage else '; '.join(parts)}{' (failed)' if run.failed else ''}\n"


def _size(count: int) -> str:
    """Formats bytes with sign and unit.

    >>> _size(0), _size(-2048), _size(3 << 20)
    ('+0 B', '-2.0 KiB', '+3.0 MiB')
    """
    size, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB"):
        if abs(size) < 1024:
            break
        size, unit = size / 1024, larger
    return f"{size:+.0f} B" if unit == "B" else f"{size:+.1f} {unit}"


def resident_bytes() -> int:
    """The resident memory of the process; 0 if unavailable."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def record_bytes() -> int:
    """The peak resident memory of the process; 0 if unavailable."""
    with contextlib.suppress(OSError, StopIteration), open("/proc/self/status", "rb") as file:
        return int(next(line.split()[1] for line in file if line.startswith(b"VmHWM:"))) * 1024
    try:  # on Linux, this peak may be that of the process that started this one
        import resource
    except ImportError:  # not available on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
