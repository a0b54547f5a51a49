"""What a comparison runs: models as given or in memory, on ONNX Runtime, and the trials: inputs on which a model runs, with its results."""

import contextlib
import functools
import itertools
import os
import shutil
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.apart import EndedError, LateError
from passat.feeds import WIDE_RANGES, InputSpec, Trial, empty_last, first_axes, make_feed, namings, size_assignments, symbols
from passat.given_inputs import FailingInputsError, GivenInputs
from passat.judging import finite_share
from passat.runner import ModelSource, Runner, sentence_of, uninterrupted

if TYPE_CHECKING:
    from onnx import ModelProto

ATTEMPTS: Final = 50
"""Maximum number of size assignments tried until the model runs."""
_ENDINGS: Final = 3
"""Number of crashes of ONNX Runtime's process on a model after which no other inputs are tried. A run that takes too long counts as all."""
_MOST_COMPARED: Final = 8
"""Maximum number of trials for the sake of the integers that a model compares an input with."""
_MOST_INDICES: Final = 8
"""Maximum number of integer inputs that get wide ranges."""


class ComparedModel:
    """A model as given, and in memory. Of the model in memory, large weights are in a temporary file, which its variants share."""

    def __init__(self, source: ModelSource, folder: str | None, proto: "ModelProto | None" = None) -> None:
        self.source = source
        self._read = proto
        """The model of a file, if it has been read."""
        self.folder = folder
        """The folder of the external data."""
        self._is_lean = False

    @functools.cached_property
    def proto(self) -> "ModelProto":
        """The model in memory, without its external data."""
        from passat.ir.onnx.files import in_memory  # needs onnx
        from passat.ir.onnx.lean import lean_model

        if isinstance(self.source, (str, os.PathLike)):
            self.folder = os.path.dirname(os.fspath(self.source)) or "."
        model = in_memory(self.source) if self._read is None else self._read
        with contextlib.suppress(OSError):  # without space for a file, the weights stay in memory
            if (lean := lean_model(model)) is not None:
                model, self.folder = lean
                weakref.finalize(self, uninterrupted, shutil.rmtree, self.folder, True)  # ignoring errors
                self._is_lean = True
        return model

    @functools.cached_property
    def operators(self) -> frozenset[str]:
        """The operators in the model, its subgraphs and functions."""
        from passat.ir.onnx.scope import nodes_of  # needs onnx

        return frozenset(node.op_type for node in nodes_of(self.proto))

    @property
    def runnable(self) -> ModelSource:
        """The model to load: as given if that is a file, otherwise in memory."""
        is_stored = isinstance(self.source, (bytes, str, os.PathLike))
        return self.source if is_stored and not self._is_lean else self.proto


class ComparedSession:
    """A model on ONNX Runtime. A model with random operators gets a new session for each run, since their state persists between runs."""

    def __init__(self, make: Callable[[], Runner], *, anew: bool) -> None:
        self._make = make
        self._anew = anew
        self.runner = make()

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs."""
        return (self._make() if self._anew else self.runner).run(feed)


class Trials:
    """The trials on which a model runs, and its results on each. `inputs` are those of the model; the user may have `given` some, except
    those `made` by nodes that ONNX Runtime does not know, which are random."""

    def __init__(self, inputs: tuple[InputSpec, ...], given: GivenInputs | None = None, made: Collection[str] = ()) -> None:
        self.inputs = inputs
        self.each: list[Trial] = []
        self.values: list[list[AnyValue]] = []
        self.ended = ""
        """How ONNX Runtime ended its process, for inputs that are not a trial."""
        self._given = given
        self._made = made

    def feed(self, trial: Trial) -> dict[str, AnyValue]:
        """The values of all inputs."""
        if not trial.source or self._given is None:
            return make_feed(self.inputs, trial)
        return {**make_feed([spec for spec in self.inputs if spec.name not in self._given.arrays], trial), **self._given.feed(self.inputs)}

    def find(self, runner: Runner, seed: int, wanted: int) -> str:
        """Adds the user's inputs, and up to as many trials as `wanted` on random ones. Returns why the model does not run on these, if it
        runs on none at all. Raises InputsError."""
        if self._given is not None:
            self._add_given(runner, self._given, seed)
        own = len(self.each)
        reason = ""
        for named in namings(self.inputs):
            self.inputs = named
            failed = self._add_random(runner, seed, wanted)
            reason = reason or failed
            if len(self.each) > own or self.ended:
                break
        return "" if self.each else self.ended or reason

    def _add_given(self, runner: Runner, given: GivenInputs, seed: int) -> None:
        trial = Trial(seed, given.sizes([spec for spec in self.inputs if spec.name not in self._made]), source=given.name)
        try:
            self.values.append(runner.run(self.feed(trial)))
        except Exception as error:
            raise FailingInputsError(f"the model does not run on {given.name}: {sentence_of(error)}") from error
        self.each.append(trial)

    def _add_random(self, runner: Runner, seed: int, wanted: int) -> str:
        """Adds up to as many trials as wanted on random inputs. Returns why the first one that failed did, or ""."""
        names = symbols(self.inputs)
        if not names:  # trials differ only in the values
            choices = [spec for spec in self.inputs if spec.is_choice]
            wanted = min(wanted, 3 if choices else 2 if self.inputs else 1)
        compared = max((len(spec.compared) for spec in self.inputs), default=0)
        wanted = max(wanted, min(1 + compared, _MOST_COMPARED)) if compared else wanted
        ranks = [0, 1, 2, 4] if any(spec.of_any_rank for spec in self.inputs) else [0]
        ranges: Mapping[str, range] = {}
        reason = ""
        own = len(self.each)
        endings = 0
        assignments = itertools.islice(size_assignments(names, first_axes(self.inputs)), ATTEMPTS)
        for attempt, sizes in enumerate(empty_last(self.inputs, assignments)):
            if endings >= _ENDINGS:
                break
            for rank in ranks:
                trial = Trial(seed + attempt, sizes, rank=rank)
                in_safe_ranges = attempt % 2 == 1  # in which masks and flags take all their values
                try:
                    if len(self.each) == own:
                        widest, values = _widest(runner, self.inputs, trial)
                        ranges = widest.ranges
                    if len(self.each) > own or (in_safe_ranges and ranges):
                        trial, values = _run_or_narrow(runner, self.inputs, replace(trial, ranges={} if in_safe_ranges else ranges))
                    else:
                        trial = widest
                except Exception as error:
                    reason = reason or sentence_of(error)
                    endings += _ENDINGS if isinstance(error, LateError) else isinstance(error, EndedError)
                    self.ended = self.ended or (str(error) if isinstance(error, EndedError) else "")
                    continue
                self.each.append(trial)
                self.values.append(values)
                ranks = [rank]
                break
            if len(self.each) - own == wanted:
                break
        return reason


def _widest(runner: Runner, inputs: Sequence[InputSpec], trial: Trial) -> tuple[Trial, list[AnyValue]]:
    """A trial with the widest range of each integer input on which the model runs and stays as finite as on the safe ranges, and the
    results on it."""

    @functools.cache
    def on_safe_ranges() -> list[AnyValue]:
        return runner.run(make_feed(inputs, trial))

    def on(ranges: Mapping[str, range]) -> list[AnyValue] | None:
        try:
            values = runner.run(make_feed(inputs, replace(trial, ranges=ranges)))
        except Exception:  # an index out of range, unless the model does not run on these sizes at all
            on_safe_ranges()
            return None
        share = finite_share(values)
        return values if share == 1 or share >= finite_share(on_safe_ranges()) else None

    among = {spec.name: _wide_ranges(spec) for spec in inputs if spec.is_index}
    among = dict(itertools.islice(among.items(), _MOST_INDICES))
    ranges, values = {name: wide[0] for name, wide in among.items()}, None
    if len(ranges) > 1:  # most models run on all of them, which takes one run
        values = on(ranges)
    if values is None:
        ranges = {}
        for name, wide in among.items():
            for each in wide:
                if (found := on({**ranges, name: each})) is not None:
                    ranges[name], values = each, found
                    break
    return replace(trial, ranges=ranges), on_safe_ranges() if values is None else values


def _wide_ranges(spec: InputSpec) -> list[range]:
    return [among for among in WIDE_RANGES if among.start >= 0 or not spec.element_type.startswith("u")]


def _run_or_narrow(runner: Runner, inputs: Sequence[InputSpec], trial: Trial) -> tuple[Trial, list[AnyValue]]:
    """Runs a trial; falls back to the safe ranges if its wide ranges do not fit its sizes."""
    if trial.ranges:
        try:
            return trial, runner.run(make_feed(inputs, trial))
        except Exception:  # an index out of range for these sizes
            trial = replace(trial, ranges={})
    return trial, runner.run(make_feed(inputs, trial))
