"""Chooses the result by time: runs candidates as whole models on ONNX Runtime, interleaved with the input.

A cost model adds up operators; the time of a model also depends on ONNX Runtime's fusions and on caches. So the pipeline runs several times
to produce different programs: under the requested cost model; with one pass extracting its second or third best program (`rules.pick`);
under the other cost models; and under the first one with operator prices scaled by up to a factor of two, the typical error of such models.
"""

import contextlib
import hashlib
import itertools
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from statistics import median
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NamedTuple
from typing import Any as AnyValue

from passat.apart import EndedError
from passat.feeds import Trial, first_axes, make_feed, namings, size_assignments, symbols
from passat.given_inputs import InputsError
from passat.ir.attrs import Attrs
from passat.ir.equality import structural_equal, structural_hash
from passat.ir.module import IRModule
from passat.ir.op import Op
from passat.ir.passat_error import PassatError
from passat.ir.types import Type
from passat.measure import Measured
from passat.passmgr import Pass, PassContext, Statistics
from passat.report import Timing, histogram, node_count
from passat.rules.cost import ConstantAware, CostModel, cost_model, price
from passat.rules.engine.limits import interrupted
from passat.runner import ModelSource, Runner, VerifyError, loadable, sentence_of
from passat.trials import ATTEMPTS
from passat.verify import Comparing

if TYPE_CHECKING:
    from onnx import ModelProto


_ITERATIONS: Final = range(8, 9)
"""The value of inputs of one integer, which may be the number of iterations of a loop: with 0 or 1, the body would not be timed."""


class NothingToTimeError(PassatError, ValueError):
    """A model that does not run, so that it cannot be timed. The message says how it fails, without a subject."""

    exit_code = 1


def choose_feed(runner: Runner, how: Comparing, given: Mapping[str, int] = MappingProxyType({})) -> dict[str, AnyValue]:
    """Inputs on which a model runs: the user's own, or random ones. Named dimensions have the sizes `given`; others get the largest of a
    few sizes that work. Raises NothingToTimeError, InputsError."""
    if how.given is not None:
        sizes = how.given.sizes(runner.inputs)
        for name, size in given.items():
            if sizes.get(name, size) != size:
                raise InputsError(f"{how.given.name}: the size {name} is {sizes[name]}, not {size}")
        return how.given.feed(runner.inputs)
    reason = ""
    for inputs in namings(runner.inputs):
        names = [name for name in symbols(inputs) if name not in given]
        equal = [dict.fromkeys(names, size) for size in (64, 32, 16, 8, 4)] if names else []
        others = itertools.islice(size_assignments(names, first_axes(inputs)), ATTEMPTS if names else 7)
        repeated = {spec.name: _ITERATIONS for spec in inputs if spec.is_choice and spec.is_index}
        for attempt, assignment in enumerate([*equal, *others]):
            for rank, ranges in itertools.product((0, 1, 2, 4), [repeated, {}] if repeated else [{}]):
                try:
                    feed = make_feed(inputs, Trial(how.seed + attempt, {**assignment, **given}, ranges, rank=rank))
                    runner.run(feed)
                except EndedError as error:
                    raise NothingToTimeError(f"does not run on random inputs: {error}") from error
                except Exception as error:  # ONNX Runtime's errors have no common base class
                    reason = reason or sentence_of(error)
                else:
                    return feed
    raise NothingToTimeError(f"does not run on random inputs: {reason}")


def feed_of_sizes(name: str, runner: Runner, how: Comparing, given: Mapping[str, int]) -> dict[str, AnyValue]:
    """Inputs on which a model with a name runs, with the sizes that the user gave. Raises NothingToTimeError, InputsError, and
    SpecializeError for dimensions that the model does not have; all name the model."""
    from passat.ir.onnx.specialize import SpecializeError, check_dims  # needs onnx

    try:
        check_dims(given, symbols(runner.inputs))
        return choose_feed(runner, how, given)
    except NothingToTimeError as error:
        raise NothingToTimeError(f"{name} {error}") from error
    except SpecializeError as error:
        raise SpecializeError(f"{name}: {error}") from error


def time_of(runner: Runner, feed: dict[str, AnyValue], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds per run, averaged over `repeat` runs."""
    start = clock()
    for _ in range(repeat):
        runner.run(feed)
    return (clock() - start) / repeat


Times = list[list[float]]
"""The times of each contestant in each round."""


def take_turns(
    run: Callable[[int, int], float],
    count: int,
    *,
    rounds: tuple[int, int],
    seconds: float,
    turn: float,
    decided: Callable[[Times], bool] = lambda times: False,
    lost: Callable[[Times], bool] = lambda times: False,
) -> Times:
    """The times of each contestant in each round; the order alternates between rounds.

    `run` runs a contestant, by number, a number of times, and returns the seconds per run. There are between `rounds[0]` and `rounds[1]`
    rounds, within `seconds` and until the times so far are `decided`; fewer if these seconds are over and all is `lost`. A fast contestant
    runs repeatedly until its turn takes `turn` seconds.
    """

    def repeats_of(which: int) -> int:
        once = run(which, 1)
        return 1 if once >= _SLOW * turn else max(1, round(turn / max(1e-7, min(once, run(which, 1), run(which, 1)))))

    repeats = [repeats_of(which) for which in range(count)]
    times: Times = [[] for _ in range(count)]
    least, most = rounds
    end = time.perf_counter() + seconds
    while len(times[0]) < most:
        is_over = time.perf_counter() >= end
        if (len(times[0]) >= least and (is_over or decided(times))) or (is_over and lost(times)):
            break
        first = len(times[0]) + 1
        for which in range(first, first + count):
            times[which % count].append(run(which % count, repeats[which % count]))
    return times


MARGIN: Final = 0.03
"""Minimum relative speedup over the input for a candidate to count as faster."""
SURE: Final = 0.75
"""Minimum share of rounds in which a faster candidate beats the input."""
ROUNDS: Final = (11, 101)
SECONDS: Final = 2.0
TURN: Final = 0.002
_SLOW: Final = 10
"""A model whose first run takes as many turns is slow, and not measured again before its turns. A first run may take several times as
long as others."""
NAMED: Final = ("roofline", "measured", "nodes", "roofline of this machine")


class Moved:
    """A cost model with each operator's price scaled by a random factor between 0.5 and 2, determined by the seed."""

    def __init__(self, base: CostModel, seed: int) -> None:
        self._base = base
        self._seed = seed

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The scaled price."""
        return self.call_on(op, types, result, attrs, (False,) * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """The scaled price of a call with some constant operands."""
        digest = hashlib.sha256(f"{self._seed} {op.name}".encode()).digest()
        factor = math.exp2(int.from_bytes(digest[:4], "big") / 2**31 - 1)
        return price(self._base, op, types, result, attrs, constants if isinstance(self._base, ConstantAware) else ()) * factor


class Candidate(NamedTuple):
    """A program, its origin (a cost model, and the pass whose next best program was extracted), and the settings."""

    name: str
    module: IRModule
    settings: PassContext


def programs(
    pipeline: Pass,
    before: IRModule,
    after: IRModule,
    settings: PassContext,
    count: int,
    *,
    statistics: Statistics,
    tell: Callable[[str], None],
    notes: list[str],
) -> list[Candidate]:
    """At most `count` different programs that the pipeline makes from `before`, starting with `after`, whose passes recorded `statistics`.
    Alternates between next best programs of passes and other cost models, with at most `count` and twice as many attempts.
    `rules.time_limit` applies to all together. Programs that have the structure of `before`, or of an earlier one, are omitted. `notes`
    receives the measuring model's notes."""
    named = settings.get_config("rules.cost")
    first = Candidate(named if isinstance(named, str) else type(named).__name__, after, settings)
    found = [] if after is before else [first]
    seen = [before, after]
    limit = settings.get_config("rules.time_limit")
    made = {first.name: _main_hash(after)}
    others = _next_best(settings, statistics, first.name, count, made)
    for name, options in _in_turns(others, _models(settings, 2 * count - 1, first.name)):
        if len(found) >= count or (limit is not None and limit <= 0):
            break
        if interrupted():
            notes.append("interrupted: fewer candidates were tried")
            break
        tell(f"looking for another program: {name}")
        context = settings.inside(None, options if limit is None else {**options, "rules.time_limit": limit})
        model = options.get("rules.cost")
        if isinstance(model, Measured):
            model.begin()
        with context:
            module = pipeline(before)
        if isinstance(model, Measured):
            notes += model.notes()
        if limit is not None:
            limit -= sum(counters.get("seconds", 0.0) for counters in context.statistics.counters.values())
        made[name] = _main_hash(module)
        if not any(module is other or structural_equal(module["main"], other["main"]) for other in seen):
            seen.append(module)
            found.append(Candidate(name, module, context.with_instruments()))
    return found


_Options = Mapping[str, AnyValue]
"""Settings that produce another program."""


def _main_hash(module: IRModule) -> int:
    return structural_hash(module["main"])


def _in_turns(*sources: Iterator[tuple[str, _Options]]) -> Iterator[tuple[str, _Options]]:
    waiting = deque(sources)
    while waiting:
        source = waiting.popleft()
        one = next(source, None)
        if one is not None:
            yield one
            waiting.append(source)


def _next_best(
    settings: PassContext, statistics: Statistics, first: str, count: int, made: Mapping[str, int]
) -> Iterator[tuple[str, _Options]]:
    """Settings for the next best programs of single passes: first the second best of each pass whose e-graphs had alternatives, then the
    third. Passes that changed something come first, in run order. `made` has the results so far: a result equal to that of the previous
    rank means that the pass has no more."""
    counters = statistics.counters
    able = [name for name in counters if counters[name].get("alternatives")]
    able.sort(key=lambda name: not counters[name].get("changed"))
    pick = settings.get_config("rules.pick")
    queue = deque((name, pick.get(name, 0) + 1, first) for name in able)
    while queue and count:
        name, rank, before = queue.popleft()
        said = f"{first}, {_ordinal(rank + 1)} of {name}"
        yield said, {"rules.pick": {**pick, name: rank}}
        count -= 1
        if made.get(said) != made[before]:
            queue.append((name, rank + 1, said))


def _ordinal(number: int) -> str:
    """An ordinal number as text.

    >>> _ordinal(2), _ordinal(3), _ordinal(11), _ordinal(21)
    ('2nd', '3rd', '11th', '21st')
    """
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def _models(settings: PassContext, count: int, first: str) -> Iterator[tuple[str, _Options]]:
    for name in NAMED[: count + 1]:
        if name != first and count > 0:
            count -= 1
            if name == "roofline of this machine":
                yield name, {"rules.cost": cost_model("roofline", "this")}
            else:
                yield name, {"rules.cost": cost_model(name)}  # type: ignore[arg-type]  # the other three are names of models
    base = cost_model(settings.get_config("rules.cost"), settings.get_config("rules.machine"))
    for seed in range(1, count + 1):
        yield f"{first}, moved ({seed})", {"rules.cost": Moved(base, seed)}


def race(
    original: ModelSource,
    nodes: int,
    candidates: "Sequence[tuple[str, ModelProto]]",
    folder: str | None,
    how: Comparing,
    threads: int = 1,
    decided: Callable[[Times], bool] | None = None,
) -> tuple[list[Timing], int | None]:
    """The times of the input and of the candidates, models with names, and the number of the fastest; None if no candidate is faster.

    `nodes` is the node count of the input. All models run with all optimizations of ONNX Runtime, on one thread or the `threads` given (0
    for all), until the times are `decided`, by default until no candidate can be faster. A candidate is faster if its median is below the
    input's by more than `MARGIN` and its time is below the input's in `SURE` of the rounds; among those within the margin of the fastest,
    the first wins. Raises NothingToTimeError if the input does not load or run.
    """
    with contextlib.ExitStack() as stack:
        try:
            tried, runners = _runner(original, folder, apart=True), [_runner(original, folder, threads)]
        except VerifyError:
            raise
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise NothingToTimeError(f"is not loaded by ONNX Runtime: {sentence_of(error)}") from error
        feed = choose_feed(tried, how)
        del tried  # with its weights
        numbers: dict[int, int] = {}
        failed: dict[int, str] = {}
        for number, (_, model) in enumerate(candidates):
            try:
                source = stack.enter_context(loadable(model, folder))
                _runner(source, folder, apart=True).run(feed)
                runner = _runner(source, folder, threads)
                runner.run(feed)
            except (VerifyError, MemoryError):
                raise
            except Exception as error:  # a program that ONNX Runtime rejects is not a candidate
                failed[number] = sentence_of(error)
                continue
            numbers[number] = len(runners)
            runners.append(runner)
        times = take_turns(
            lambda which, repeat: time_of(runners[which], feed, repeat),
            len(runners),
            rounds=ROUNDS,
            seconds=SECONDS,
            turn=TURN,
            **({"lost": _is_lost} if decided is None else {"decided": decided}),
        )
    timings = [Timing("the input", median(times[0]), len(times[0]), nodes=nodes)]
    for number, (name, model) in enumerate(candidates):
        if number in failed:
            timings.append(Timing(name, failed=failed[number]))
        else:
            own = times[numbers[number]]
            below = sum(a < b for a, b in zip(own, times[0], strict=True)) / len(own)
            timings.append(Timing(name, median(own), len(own), below, node_count(histogram(model))))
    best = fastest(timings)
    winner = 0 if best is None else best + 1
    timings[winner] = replace(timings[winner], chosen=True)
    return timings, best


def _is_lost(times: Times) -> bool:
    """True if each candidate was slower than the input in more rounds than a faster one may be."""
    given, *others = times
    return all(sum(a >= b for a, b in zip(own, given, strict=True)) > ROUNDS[0] * (1 - SURE) for own in others)


def fastest(timings: Sequence[Timing]) -> int | None:
    """The number of the winning candidate, given timings that start with the input's; None if the input wins.

    >>> fastest([Timing("the input", 1.0, 11), Timing("a", 0.98, 11, 1.0), Timing("b", 0.9, 11, 0.5)])
    >>> fastest([Timing("the input", 1.0, 11), Timing("a", 0.91, 11, 1.0), Timing("b", 0.9, 11, 1.0)])
    0
    """
    given, *others = timings
    faster = [
        number
        for number, timing in enumerate(others)
        if not timing.failed and timing.seconds < given.seconds * (1 - MARGIN) and timing.faster >= SURE
    ]
    if not faster:
        return None
    least = min(others[number].seconds for number in faster)
    return next(number for number in faster if others[number].seconds <= least * (1 + MARGIN))


def _runner(model: ModelSource, folder: str | None, threads: int = 1, *, apart: bool = False) -> Runner:
    """A model to be timed. It first runs once `apart`, in a child process, since ONNX Runtime may end the process."""
    return Runner(model, folder=folder, threads=threads, optimize="all", arena=True, apart=apart)
