"""How long each pass took, and how much memory, and the passes inside it: `PassTimingInstrument` and `PassMemoryInstrument`."""

import os
import sys
import threading
import tracemalloc
import warnings
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, Self, TypeVar

from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import PassInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule


class Run(Protocol):
    """One run of a pass, with those inside it."""

    children: list[Self]


_R = TypeVar("_R", bound=Run)


class RunTree(threading.local, Generic[_R]):
    """What one thread has measured: the runs of this context, those that are going on, and the runs of the context left last."""

    def __init__(self) -> None:
        self.runs: list[_R] = []
        self.open: list[_R] = []
        self.finished: list[_R] = []

    def begin(self, run: _R) -> None:
        """A run begins, inside the one that is going on."""
        (self.open[-1].children if self.open else self.runs).append(run)
        self.open.append(run)

    def leave(self) -> None:
        """The context is left; its runs are kept until the next."""
        self.finished, self.runs, self.open = self.runs, [], []

    def walk(self) -> Iterator[tuple[_R, int]]:
        """The runs of the context entered now, or else of the last one, in the order in which they began; and how deep each is nested."""
        stack = [(run, 0) for run in reversed(self.runs or self.finished)]
        while stack:
            run, depth = stack.pop()
            yield run, depth
            stack.extend((child, depth + 1) for child in reversed(run.children))


class PassTime(NamedTuple):
    """A run of a pass: its name, the seconds it took with all inside it, how deep it is nested, and whether it raised."""

    name: str
    seconds: float
    depth: int
    failed: bool = False


class _TimedRun:
    __slots__ = ("children", "end", "failed", "name", "start")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[_TimedRun] = []
        self.failed = False
        self.end = 0.0
        self.start = perf_counter()

    @property
    def seconds(self) -> float:
        return self.end - self.start


class _Latest(threading.local):
    def __init__(self) -> None:
        self.instrument: PassTimingInstrument | None = None


_LATEST: Final = _Latest()


class _Render:
    """A method that can be called on the class as well, as TVM's static `render`."""

    def __get__(self, instrument: "PassTimingInstrument | None", owner: type) -> Callable[[], str]:
        return partial(_render, instrument or _LATEST.instrument)


def _render(instrument: "PassTimingInstrument | None") -> str:
    profile = None if instrument is None else instrument._profile
    if instrument is None or profile is None or not profile.runs:
        warnings.warn("no passes have been profiled, did you enable pass profiling?", stacklevel=2)
        return ""
    if profile.open:
        raise RuntimeError("cannot print pass profile while still in a pass!")
    return render_times(instrument.timings)


def render_times(times: Sequence[PassTime]) -> str:
    """TVM's text of measured runs, as `PassTimingInstrument.timings` lists them; for after the context was left.

    >>> render_times([PassTime("outer", 4e-6, 0), PassTime("inner", 3e-6, 1)])
    'outer: 4us [1us] (100.00%; 100.00%)\\n\\tinner: 3us [3us] (75.00%; 75.00%)\\n'
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
        indent = "\t" * run.depth
        lines.append(
            f"{indent}{run.name}: {run.seconds * 1e6:.0f}us [{(run.seconds - inner) * 1e6:.0f}us] ({of_total:.2f}%; {of_parent:.2f}%)\n"
        )
    return "".join(lines)


class PassTimingInstrument(PassInstrument):
    """Measures every pass. `render()` gives TVM's text and, as there, is for before the context is left; `timings` may be read later.

    A pass that raised is measured up to there. Threads are measured apart.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr.context import PassContext
    >>> from passat.passmgr.standard import InferType
    >>> with PassContext(instruments=[timing := PassTimingInstrument()]):
    ...     mod = InferType()(IRModule())
    >>> [run.name for run in timing.timings]
    ['InferType']
    """

    def __init__(self) -> None:
        self._profile: RunTree[_TimedRun] = RunTree()
        _LATEST.instrument = self

    @property
    def timings(self) -> list[PassTime]:
        """This thread's finished runs in the order in which they began: of the context entered now, or else of the last one."""
        return [PassTime(run.name, run.seconds, depth, run.failed) for run, depth in self._profile.walk() if run.end]

    render = _Render()
    """`render() -> str`: one line per run, nested ones indented by tabs: `name: total [without nested] (% of all; % of the run around it)`.

    May be called on the class: then it renders the instrument that was made or entered last in this thread. Warns, and returns "",
    where nothing was measured; raises RuntimeError inside a pass.
    """

    def enter_pass_ctx(self) -> None:
        """Becomes the instrument that `PassTimingInstrument.render()` means."""
        _LATEST.instrument = self

    def exit_pass_ctx(self) -> None:
        """Ends the measurement; `timings` keeps it until the next."""
        self._profile.leave()

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Starts the clock of a run."""
        profile = self._profile  # RunTree.begin written out: the call would take a tenth of what a pass costs
        run = _TimedRun(info.name)
        (profile.open[-1].children if profile.open else profile.runs).append(run)
        profile.open.append(run)

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Stops it."""
        now = perf_counter()
        opened = self._profile.open
        if opened:  # empty where the instrument was put in while the pass was running
            opened.pop().end = now

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Stops it for a run that raised."""
        opened = self._profile.open
        if opened:
            opened[-1].failed = True
            opened.pop().end = perf_counter()


class PassMemory(NamedTuple):
    """A run of a pass: its name, bytes, how deep it is nested, and whether it raised.

    `resident` is by how much the process grew, `resident_peak` by how much its record did (both as the system counts, 0 where it does
    not tell). `allocated` is by how much what Python and NumPy hold grew, `peak` the most they held above the beginning; None where
    tracemalloc was off.
    """

    name: str
    resident: int
    resident_peak: int
    allocated: int | None
    peak: int | None
    depth: int
    failed: bool = False


class _SizedRun:
    __slots__ = ("allocated", "children", "done", "failed", "name", "peak", "record", "resident", "traced")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[_SizedRun] = []
        self.done = self.failed = False
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
"""The runs that are going on, of all instruments and threads. tracemalloc knows one peak for all: whoever sets it back tells them first."""


def _note_peak() -> None:
    """Tells all runs that are going on the peak since the last time, and sets it back. To be called with the lock held."""
    if tracemalloc.is_tracing():
        peak = tracemalloc.get_traced_memory()[1]
        for run in _OPEN.values():
            run.peak = max(run.peak, peak)
        tracemalloc.reset_peak()


class PassMemoryInstrument(PassInstrument):
    """Measures the memory that passes take; threads have their own runs, though memory is that of the whole process.

    What Python and NumPy allocate is measured where `tracemalloc` is on; with `trace=True` it is on while a context with the instrument is
    entered, which makes passes several times slower. Else only the size of the process is known, which is coarse.

    >>> from passat.ir.module import IRModule
    >>> from passat.passmgr.context import PassContext
    >>> from passat.passmgr.standard import InferType
    >>> with PassContext(instruments=[memory := PassMemoryInstrument()]):
    ...     mod = InferType()(IRModule())
    >>> [run.name for run in memory.runs]
    ['InferType']
    """

    def __init__(self, trace: bool = False) -> None:
        self._trace = trace
        self._entered = 0
        self._started = False
        self._profile: RunTree[_SizedRun] = RunTree()

    @property
    def runs(self) -> list[PassMemory]:
        """This thread's finished runs in the order in which they began: of the context entered now, or else of the last one."""
        found: list[PassMemory] = []
        for run, depth in self._profile.walk():
            if run.done:
                allocated, peak = (run.allocated, run.peak) if run.traced else (None, None)
                found.append(PassMemory(run.name, run.resident, run.record, allocated, peak, depth, run.failed))
        return found

    def render(self) -> str:
        """One line per run, nested ones indented by tabs: `name: allocated +1.2 MiB, peak +3.4 MiB; process +2.0 MiB, record +2.0 MiB`.

        May be called after the context was left; "" where nothing was measured.
        """
        return "".join(_line(run) for run in self.runs)

    def enter_pass_ctx(self) -> None:
        """Starts tracemalloc, where that is wanted and it is off."""
        with _LOCK:
            if self._trace and not self._entered and not tracemalloc.is_tracing():
                tracemalloc.start()
                self._started = True
            self._entered += 1

    def exit_pass_ctx(self) -> None:
        """Ends the measurement, and tracemalloc where it was started for it; `runs` keeps the numbers until the next."""
        with _LOCK:
            for run in self._profile.open:
                _OPEN.pop(id(run), None)
            self._entered = max(0, self._entered - 1)
            if self._started and not self._entered:
                tracemalloc.stop()
                self._started = False
        self._profile.leave()

    def run_before_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Begins to measure a run."""
        with _LOCK:
            _note_peak()
            run = _SizedRun(info.name)
            _OPEN[id(run)] = run
        self._profile.begin(run)

    def run_after_pass(self, mod: "IRModule", info: PassInfo) -> None:
        """Ends it."""
        self._end(False)

    def pass_failed(self, mod: "IRModule", info: PassInfo, error: BaseException) -> None:
        """Ends it for a run that raised."""
        self._end(True)

    def _end(self, failed: bool) -> None:
        if self._profile.open:  # empty where the instrument was put in while the pass was running
            run = self._profile.open.pop()
            with _LOCK:
                _note_peak()
                _OPEN.pop(id(run), None)
                run.end(failed)


def _line(run: PassMemory) -> str:
    parts = [] if run.allocated is None or run.peak is None else [f"allocated {_size(run.allocated)}, peak {_size(run.peak)}"]
    parts.append(f"process {_size(run.resident)}, record {_size(run.resident_peak)}")
    indent = "\t" * run.depth
    return f"{indent}{run.name}: {'; '.join(parts)}{' (failed)' if run.failed else ''}\n"


def _size(count: int) -> str:
    """Bytes for people, with their sign.

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
    """The memory of the process that is in the machine now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


def record_bytes() -> int:
    """The most memory that the process ever had in the machine; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:  # not on Windows
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
