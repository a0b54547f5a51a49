"""Choosing the program by time: several candidates run as whole models on ONNX Runtime, in turns with the input.

A cost model adds up operators one by one; what a whole model takes depends on what ONNX Runtime fuses, and on caches. So the pipeline runs
under several cost models, under which other programs are the cheapest: the one that was asked for; the others that there are; and the
first one with the prices of each operator moved up or down by up to a factor of two, which is about how far such models are off.
"""

import contextlib
import hashlib
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING, Final, NamedTuple

from passat.checks import PROTOBUF_LIMIT
from passat.ir.attrs import Attrs
from passat.ir.equality import structural_equal
from passat.ir.module import IRModule
from passat.ir.onnx import save, to_onnx
from passat.ir.op import Op
from passat.ir.types import Type
from passat.measure import Measured
from passat.passmgr import Pass, PassContext
from passat.report import Timing, histogram, node_count
from passat.rules.cost import ConstantAware, CostModel, cost_model, price
from passat.turns import NothingToTimeError, choose_feed, take_turns, time_of
from passat.verify import ModelSource, Runner, VerifyError

if TYPE_CHECKING:
    from onnx import ModelProto

MARGIN: Final = 0.03
"""A candidate whose time is below the input's by less than this part of it is no faster."""
SURE: Final = 0.75
"""A candidate that is below the input in a smaller part of the rounds is no faster."""
ROUNDS: Final = (11, 101)
SECONDS: Final = 2.0
TURN: Final = 0.002
NAMED: Final = ("roofline", "measured", "nodes", "roofline of this machine")


class Moved:
    """Another model with the price of each operator times a factor from a half to two: the same one for the same seed."""

    def __init__(self, base: CostModel, seed: int) -> None:
        self._base = base
        self._seed = seed

    def call(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> float:
        """The price, moved."""
        return self.call_on(op, types, result, attrs, (False,) * len(types))

    def call_on(self, op: Op, types: Sequence[Type], result: Type, attrs: Attrs, constants: Sequence[bool]) -> float:
        """The price, moved, of a call of whose operands some may be constants."""
        digest = hashlib.sha256(f"{self._seed} {op.name}".encode()).digest()
        factor = math.exp2(int.from_bytes(digest[:4], "big") / 2**31 - 1)
        return price(self._base, op, types, result, attrs, constants if isinstance(self._base, ConstantAware) else ()) * factor


class Candidate(NamedTuple):
    """A program, the cost model under which it is the cheapest, and the settings that make it."""

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
    tell: Callable[[str], None],
    notes: list[str],
) -> list[Candidate]:
    """At most so many different programs that the pipeline makes of `before`, the first of them `after`. Twice as many cost models are
    tried, at most; `rules.time_limit` holds for all of them together. Those that are `before` itself are left out. `notes` gets what the
    measuring model has to say."""
    named = settings.get_config("rules.cost")
    first = Candidate(named if isinstance(named, str) else type(named).__name__, after, settings)
    found = [] if after is before else [first]
    seen = [before, after]
    limit = settings.get_config("rules.time_limit")
    for name, model in _models(settings, 2 * count - 1, first.name):
        if len(found) >= count or (limit is not None and limit <= 0):
            break
        tell(f"looking for another program: {name}")
        options = {"rules.cost": model} if limit is None else {"rules.cost": model, "rules.time_limit": limit}
        context = settings.inside(None, options)
        if isinstance(model, Measured):
            model.begin()
        with context:
            module = pipeline(before)
        if isinstance(model, Measured):
            notes += model.notes()
        if limit is not None:
            limit -= sum(counters.get("seconds", 0.0) for counters in context.statistics.counters.values())
        if not any(module is other or structural_equal(module["main"], other["main"]) for other in seen):
            seen.append(module)
            found.append(Candidate(name, module, context.with_instruments()))
    return found


def _models(settings: PassContext, count: int, first: str) -> Iterator[tuple[str, CostModel]]:
    for name in NAMED[: count + 1]:
        if name != first and count > 0:
            count -= 1
            if name == "roofline of this machine":
                yield name, cost_model("roofline", "this")
            else:
                yield name, cost_model(name)  # type: ignore[arg-type]  # the other three are names of models
    base = cost_model(settings.get_config("rules.cost"), settings.get_config("rules.machine"))
    for seed in range(1, count + 1):
        yield f"{first}, moved ({seed})", Moved(base, seed)


def race(
    original: ModelSource, nodes: int, candidates: Sequence[Candidate], folder: str | None, seed: int
) -> "tuple[list[Timing], Candidate | None, ModelProto | None]":
    """The times of the input and of the candidates, and the fastest of these with its model: None where the input is as fast.

    `nodes` are those of the input. All run with all optimisations of ONNX Runtime, on one thread. A candidate is faster where its median is
    below the input's by more than `MARGIN` and its time is below the input's in `SURE` of the rounds; of those within the margin of the
    fastest one, the first is taken. Raises NothingToTimeError where the input does not load or run.
    """
    with contextlib.ExitStack() as stack:
        try:
            runners = [_runner(original, folder)]
        except VerifyError:
            raise
        except Exception as error:  # ONNX Runtime has no common base of its errors
            raise NothingToTimeError(f"is not loaded by ONNX Runtime: {_words(error)}") from error
        feed = choose_feed(runners[0], seed)
        models: list[ModelProto | None] = []
        numbers: dict[int, int] = {}
        failed: dict[int, str] = {}
        for number, candidate in enumerate(candidates):
            models.append(None)
            model = to_onnx(candidate.module)
            try:
                runner = _runner(_loadable(model, folder, stack), folder)
                runner.run(feed)
            except (VerifyError, MemoryError):
                raise
            except Exception as error:  # a program that ONNX Runtime does not take is no candidate
                failed[number] = _words(error)
                continue
            models[number] = model
            numbers[number] = len(runners)
            runners.append(runner)
        times = take_turns(
            lambda which, repeat: time_of(runners[which], feed, repeat), len(runners), rounds=ROUNDS, seconds=SECONDS, turn=TURN
        )
    timings = [Timing("the input", median(times[0]), len(times[0]), nodes=nodes)]
    for number, candidate in enumerate(candidates):
        if number in failed:
            timings.append(Timing(candidate.name, failed=failed[number]))
        else:
            own = times[numbers[number]]
            below = sum(a < b for a, b in zip(own, times[0], strict=True)) / len(own)
            made = models[number]
            timings.append(Timing(candidate.name, median(own), len(own), below, 0 if made is None else node_count(histogram(made))))
    best = fastest(timings)
    winner = 0 if best is None else best + 1
    timings[winner] = replace(timings[winner], chosen=True)
    return timings, None if best is None else candidates[best], None if best is None else models[best]


def fastest(timings: Sequence[Timing]) -> int | None:
    """The number of the candidate that wins, of timings whose first is that of the input; None where that does.

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


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300]


def _runner(model: ModelSource, folder: str | None) -> Runner:
    return Runner(model, folder=folder, threads=1, optimise="all", arena=True)


def _loadable(model: "ModelProto", folder: str | None, stack: contextlib.ExitStack) -> ModelSource:
    from passat.ir.onnx.sizes import model_bytes

    if model_bytes(model) < PROTOBUF_LIMIT:
        return model
    path = os.path.join(stack.enter_context(tempfile.TemporaryDirectory()), "candidate.onnx")
    save(model, path, folder=folder)
    return path
