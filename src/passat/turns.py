"""Timing models fairly: they run in turns on the same inputs, so that what else the machine does meets all of them alike."""

import itertools
import time
from collections.abc import Callable
from typing import Any as AnyValue

from passat.feeds import Trial, make_feed, size_assignments, symbols
from passat.runner import Runner, sentence_of
from passat.sessions.apart import EndedError
from passat.verify import Comparing


class NothingToTimeError(ValueError):
    """A model that does not run, so that there is nothing to time. The message says how it fails, without a subject."""


def choose_feed(runner: Runner, how: Comparing) -> dict[str, AnyValue]:
    """Inputs on which a model runs: the user's own, or random ones, where named dimensions get the largest of a few sizes that do.
    Raises NothingToTimeError, InputsError."""
    if how.given is not None:
        how.given.sizes(runner.inputs)
        return how.given.feed(runner.inputs)
    names = symbols(runner.inputs)
    sizes = [dict.fromkeys(names, size) for size in (64, 32, 16, 8, 4)] if names else []
    reason = ""
    for attempt, assignment in enumerate([*sizes, *itertools.islice(size_assignments(names), 7)]):
        for rank in (0, 1, 2, 4):
            try:
                feed = make_feed(runner.inputs, Trial(how.seed + attempt, assignment, rank=rank))
                runner.run(feed)
            except EndedError as error:
                raise NothingToTimeError(f"does not run on random inputs: {error}") from error
            except Exception as error:  # ONNX Runtime has no common base of its errors
                reason = reason or sentence_of(error)
            else:
                return feed
    raise NothingToTimeError(f"does not run on random inputs: {reason}")


def time_of(runner: Runner, feed: dict[str, AnyValue], repeat: int, clock: Callable[[], float] = time.perf_counter) -> float:
    """Seconds of one run, of so many."""
    start = clock()
    for _ in range(repeat):
        runner.run(feed)
    return (clock() - start) / repeat


def take_turns(run: Callable[[int, int], float], count: int, *, rounds: tuple[int, int], seconds: float, turn: float) -> list[list[float]]:
    """The times of so many contestants in each round; who begins changes from round to round.

    `run` runs one of them, by number, so often, and says how long one run took. There are at least and at most so many `rounds`, within
    these `seconds`; a contestant that is fast runs several times, until its turn is `turn` seconds long.
    """
    repeats = [max(1, round(turn / max(1e-7, min(run(which, 1) for _ in range(3))))) for which in range(count)]
    times: list[list[float]] = [[] for _ in range(count)]
    least, most = rounds
    end = time.perf_counter() + seconds
    while len(times[0]) < least or (len(times[0]) < most and time.perf_counter() < end):
        first = len(times[0]) + 1
        for which in range(first, first + count):
            times[which % count].append(run(which % count, repeats[which % count]))
    return times
