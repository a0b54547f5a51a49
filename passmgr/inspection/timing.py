"""`PassTimingInstrument`: how long each pass took, and the passes inside it."""

import threading
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.passmgr.inspection.run_tree import RunTree
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.pass_info import PassInfo

if TYPE_CHECKING:
    from passat.ir.module import IRModule


class PassTime(NamedTuple):
    """A run of a pass: its name, the seconds it took with all inside it, how deep it is nested, and whether it raised."""

    name: str
    seconds: float
    depth: int
    failed: bool = False


class _Run:
    __slots__ = ("children", "end", "failed", "name", "start")

    def __init__(self, name: str) -> None:
        self.name = name
        self.children: list[_Run] = []
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
    >>> from passat.passmgr.standard.infer_type import InferType
    >>> with PassContext(instruments=[timing := PassTimingInstrument()]):
    ...     mod = InferType()(IRModule())
    >>> [run.name for run in timing.timings]
    ['InferType']
    """

    def __init__(self) -> None:
        self._profile: RunTree[_Run] = RunTree()
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
        run = _Run(info.name)
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
