"""Measures two models on ONNX Runtime, and whether they differ by more than noise: `passat.profile` and `passat profile`."""

import contextlib
import json
import math
import os
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from rich.console import Group, RenderableType
from rich.text import Text

from passat.choose import NothingToTimeError, choose_feed, feed_of_sizes, take_turns, time_of
from passat.ir import argument_checks
from passat.ir.argument_checks import ArgumentError
from passat.ir.counting import counted
from passat.ir.counting import seconds as shown_seconds
from passat.render import plain_table
from passat.report import Shown, histogram, node_count
from passat.runner import Runner, VerifyError, custom_operators, loadable, sentence_of
from passat.settings import check_arguments, check_drawn, telling
from passat.source import ModelLike, Source, open_source
from passat.verify import Comparing, comparing

if TYPE_CHECKING:
    from onnx import ModelProto

SETS: Final = 3
"""Sets of sessions that share the rounds: the memory addresses of a session's weights shift all its times by a percent or two."""
ROUNDS: Final = (21, 1001)
"""Minimum and maximum number of rounds of each set."""
TURN: Final = 0.002
"""Minimum seconds of a turn."""
RUNS: Final = 20
"""The number of runs over which the times of operators are averaged."""
LEAST_RUNS: Final = 5
"""The number of runs after which node times of slow models are known well enough."""
SECONDS: Final = 4.0
"""Seconds after which slow models run no more often than that."""
_CONFIDENCE: Final = 1.96
"""The middle 95 % of a normal distribution are within this many standard deviations."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of times: the median over all rounds, with its 95 % confidence interval.

    >>> print(Ratio(0.93412, 0.92, 0.95))
    0.934 (0.920 to 0.950)
    """

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class OperatorTime:
    """The time of one operator in a run: calls and seconds, of both models. The operators are those that ONNX Runtime runs, after its
    fusions."""

    operator: str
    calls_before: float
    seconds_before: float
    calls_after: float
    seconds_after: float


@dataclass
class ModelProfile(Shown):
    """The times of two models on ONNX Runtime with all its optimizations, interleaved on the same inputs.

    `ratio` is the second model's time divided by the first's. `control` is the same for another session of the first model; its distance
    from 1 is noise. `seconds_before` is the median time of the first, `seconds_after` that time multiplied by the ratio: if the machine is
    slower in half of the rounds, the median of the second alone may contradict the ratio. `sizes` are those of named dimensions.
    """

    before: str
    after: str
    nodes_before: int
    nodes_after: int
    sizes: dict[str, int]
    threads: int
    rounds: int
    seconds_before: float
    seconds_after: float
    ratio: Ratio
    control: Ratio
    operators: list[OperatorTime] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        """`faster`, `slower`, or `no different`: neither the confidence interval of the ratio nor noise reaches the other side."""
        if self.ratio.high < min(1.0, self.control.low):
            return "faster"
        return "slower" if self.ratio.low > max(1.0, self.control.high) else "no different"

    def to_dict(self) -> dict[str, AnyValue]:
        """The profile as plain data for JSON."""
        return {"schema": "profile-1", **asdict(self), "verdict": self.verdict}

    def __rich__(self) -> RenderableType:
        table = plain_table("model", "nodes", "time")
        table.add_row(Text(self.before), str(self.nodes_before), shown_seconds(self.seconds_before))
        table.add_row(Text(self.after), str(self.nodes_after), shown_seconds(self.seconds_after))
        sizes = "".join(f", {name}={size}" for name, size in self.sizes.items())
        setting = f"medians of {counted(self.rounds, 'round')} on {counted(self.threads, 'thread')}{sizes}"
        apart = Text("operators: means of separate runs with the profiler of ONNX Runtime", style="dim")
        head = Text(self._said(), style=_STYLES[self.verdict])
        return Group(head, Text(), table, Text(setting, style="dim"), Text(), self._operator_times(), apart)

    def _said(self) -> str:
        """One line that says whether the second model is faster."""
        verdict = "as fast, up to noise" if self.verdict == "no different" else self.verdict
        name = self.after if self.after != self.before else "the second model"
        return f"{name} is {verdict}: {self.ratio} of the time; the first model against itself {self.control}"

    def _operator_times(self) -> RenderableType:
        table = plain_table("operator", "before", "", "after", "", "")
        shown, rest = self.operators[:_TIMED], self.operators[_TIMED:]
        if rest:
            sums = [sum(values) for values in zip(*(astuple(each)[1:] for each in rest), strict=True)]
            shown = [*shown, OperatorTime(f"{len(rest)} others", *sums)]
        for each in shown:
            change = each.seconds_after - each.seconds_before
            sign = "+" if change > 0 else "-"
            both = ((each.seconds_before, each.calls_before), (each.seconds_after, each.calls_after))
            cells = [cell for time, calls in both for cell in (shown_seconds(time) if time else "-", f"{calls:.0f} x" if calls else "")]
            table.add_row(Text(each.operator), *cells, f"{sign}{shown_seconds(abs(change))}")
        return table


_TIMED: Final = 15
"""Operators beyond this number are summed up."""
_STYLES: Final = {"faster": "bold green", "slower": "bold red", "no different": "bold"}


def profile(
    before: ModelLike,
    after: ModelLike,
    *,
    dims: Mapping[str, int] | None = None,
    inputs: Mapping[str, AnyValue] | str | os.PathLike[str] | None = None,
    seed: int = 0,
    threads: int = 1,
    seconds: float = 6.0,
    custom_ops: Sequence[str | os.PathLike[str]] = (),
    folders: tuple[str | os.PathLike[str] | None, str | os.PathLike[str] | None] = (None, None),
    progress: Callable[[str], None] | None = None,
) -> ModelProfile:
    """Measures two models with the same inputs, such as a model before and after optimization.

    Each is any model that `optimize` accepts; `folders` contain the external data of ModelProtos. They run on `inputs` (arrays by name, or
    a file of `numpy.savez`), or on random ones, where named dimensions have the sizes in `dims`, or the largest of 64, 32, 16, 8 and 4 that
    the models accept. Measuring takes about `seconds`, and as long again for the operators of large models; `threads` is for ONNX Runtime;
    `progress` is called with each step that begins.

    Raises OnnxError for a model that cannot be read, ArgumentError, SpecializeError for unknown dimensions, InputsError, CustomOpsError,
    VerifyError without ONNX Runtime, and NothingToTimeError for a model that does not run.
    """
    check_arguments(dims=dims, inputs=inputs, seed=seed, custom_ops=custom_ops, progress=progress)
    argument_checks.folders("folders", folders)
    argument_checks.integer(1, 2**31 - 1)("threads", threads)
    argument_checks.number("finite number of seconds", sys.float_info.max)("seconds", seconds)
    if not seconds:
        raise ArgumentError("seconds must be positive, not 0")
    if empty := [name for name, size in (dims or {}).items() if size == 0]:
        raise ArgumentError(f"the dimension {empty[0]} has size 0, so there is nothing to measure; give it at least 1")
    check_drawn(seed, inputs)
    given: dict[str, int] = argument_checks.plain(dims or {})
    threads = argument_checks.plain(threads)
    how, tell = comparing(seed, inputs), telling(progress)
    tell("reading the models")
    sources = (open_source(before, folders[0]), open_source(after, folders[1]))
    with custom_operators(tuple(custom_ops)):
        feed, named = _feed(sources, how, given)
        times = _times(sources, feed, threads, seconds, tell)
        typical, ratio = median(times[0]), _ratio(times[2], times[0])
        operators = []
        for source in sources:
            tell(f"measuring the operators of {source.name}")
            operators.append(_operators(source, feed, threads, seconds))
    return ModelProfile(
        *(sources[0].name, sources[1].name, _nodes(sources[0]), _nodes(sources[1])),
        sizes=named,
        threads=threads,
        rounds=len(times[0]),
        seconds_before=typical,
        seconds_after=typical * ratio.median,
        ratio=ratio,
        control=_ratio(times[1], times[0]),
        operators=_joined(*operators),
    )


def _nodes(source: Source) -> int:
    return node_count(histogram(source.proto))


def _feed(sources: tuple[Source, Source], how: Comparing, sizes: dict[str, int]) -> tuple[dict[str, AnyValue], dict[str, int]]:
    """The inputs on which both models run, and the sizes of their named dimensions. The models are not in memory at the same time."""
    first, second = sources
    runner = _runner(first, apart=True)
    feed = feed_of_sizes(first.name, runner, how, sizes)
    named = _sizes(runner, feed)
    del runner
    try:
        _runner(second, apart=True).run(feed)
    except (VerifyError, NothingToTimeError):
        raise
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise NothingToTimeError(f"{second.name} does not run on the inputs of the other model: {sentence_of(error)}") from error
    return feed, named


def _runner(source: Source, threads: int = 1, *, apart: bool = False, profile: str | None = None) -> Runner:
    """A model to be timed. It first runs `apart`, since ONNX Runtime may crash on it. Raises NothingToTimeError."""
    try:
        return Runner(
            *(source.runnable,), folder=source.folder, threads=threads, optimize="all", arena=not apart, apart=apart, profile=profile
        )
    except VerifyError:
        raise
    except Exception as error:  # ONNX Runtime's errors have no common base
        raise NothingToTimeError(f"{source.name} is not loaded by ONNX Runtime: {sentence_of(error)}") from error


def _times(
    sources: tuple[Source, Source], feed: dict[str, AnyValue], threads: int, seconds: float, tell: Callable[[str], None]
) -> list[list[float]]:
    """The times of the first model, of the first model once more, and of the second, in each round."""
    times: list[list[float]] = [[], [], []]
    for number in range(SETS):
        tell(f"measuring ({number + 1} of {SETS})")
        order = [0, 1, 2] if number % 2 == 0 else [2, 1, 0]  # sessions are created in it
        for all_of_one, of_one in zip(times, _times_of_set(sources, order, feed, threads, seconds), strict=True):
            all_of_one.extend(of_one)
    return times


def _times_of_set(
    sources: tuple[Source, Source], order: Sequence[int], feed: dict[str, AnyValue], threads: int, seconds: float
) -> list[list[float]]:
    """The times of one set of sessions, which are created in an order, and released: each has its own weights."""
    made = {which: _runner(sources[which // 2], threads) for which in order}
    return take_turns(lambda which, repeat: time_of(made[which], feed, repeat), len(made), rounds=ROUNDS, seconds=seconds / SETS, turn=TURN)


def _ratio(times: Sequence[float], reference: Sequence[float]) -> Ratio:
    """The median ratio of times in the same rounds, with a confidence interval from the order statistics, for any distribution: the number
    of ratios below the median is binomial."""
    ratios = sorted(a / b for a, b in zip(times, reference, strict=True))
    count = len(ratios)
    below = max(0, math.floor((count - _CONFIDENCE * math.sqrt(count)) / 2))
    return Ratio(median(ratios), ratios[below], ratios[count - 1 - below])


def _operators(source: Source, feed: dict[str, AnyValue], threads: int, seconds: float) -> dict[str, tuple[float, float]]:
    """Calls and seconds of each operator in a run."""
    with tempfile.TemporaryDirectory() as folder:
        runner = _runner(source, threads, profile=os.path.join(folder, "profile"))
        for _ in range(2):
            runner.run(feed)  # excludes one-time allocations
        once = time_of(runner, feed, 1)
        runs = max(3, min(RUNS, round(seconds / 2 / max(once, 1e-6))))
        for _ in range(runs):
            runner.run(feed)
        kernels = _kernels(runner)
    per_run = len(kernels) // (runs + 3)
    found: dict[str, list[float]] = defaultdict(lambda: [0, 0.0])
    for event in kernels[3 * per_run :]:
        entry = found[event["args"]["op_name"]]
        entry[0] += 1
        entry[1] += event["dur"] * 1e-6
    return {name: (calls / runs, taken / runs) for name, (calls, taken) in found.items()}


def _kernels(runner: Runner) -> list[dict[str, AnyValue]]:
    """The runs of kernels that ONNX Runtime's profiler has recorded, in order."""
    with open(runner.end_profile(), encoding="utf-8") as file:
        events = json.load(file)
    return [event for event in events if event.get("cat") == "Node" and event.get("name", "").endswith("_kernel_time")]


def node_times(models: "Sequence[ModelProto]", folder: str | None, how: Comparing, threads: int = 1) -> list[dict[str, float]]:
    """The seconds of each named node of models that take the same inputs, on one thread or the `threads` given (0 for all): the median over
    interleaved runs."""
    with tempfile.TemporaryDirectory() as temporary, contextlib.ExitStack() as stack:
        runners = []
        for number, model in enumerate(models):
            source = stack.enter_context(loadable(model, folder))
            prefix = os.path.join(temporary, str(number))
            runners.append(Runner(source, folder=folder, threads=threads, optimize="all", arena=True, profile=prefix))
        feed = choose_feed(runners[0], how)
        end = time.perf_counter() + SECONDS
        for turn in range(RUNS):
            if turn >= LEAST_RUNS and time.perf_counter() >= end:
                break
            for runner in runners:
                runner.run(feed)
        found = []
        for runner in runners:
            times: dict[str, list[float]] = defaultdict(list)
            for event in _kernels(runner):
                times[event["name"].removesuffix("_kernel_time")].append(event["dur"] * 1e-6)
            found.append({name: median(each) for name, each in times.items()})
        return found


def _joined(before: Mapping[str, tuple[float, float]], after: Mapping[str, tuple[float, float]]) -> list[OperatorTime]:
    """The times of operators in both models, slowest first."""
    nothing = (0.0, 0.0)
    joined = [OperatorTime(name, *before.get(name, nothing), *after.get(name, nothing)) for name in {**before, **after}]
    return sorted(joined, key=lambda each: -max(each.seconds_before, each.seconds_after))


def _sizes(runner: Runner, feed: Mapping[str, AnyValue]) -> dict[str, int]:
    """The sizes of named dimensions in inputs."""
    found: dict[str, int] = {}
    for spec in runner.inputs:
        with contextlib.suppress(AttributeError):  # of a sequence
            for dim, size in zip(spec.shape, feed[spec.name].shape, strict=False):
                if isinstance(dim, str):
                    found.setdefault(dim, int(size))
    return found
