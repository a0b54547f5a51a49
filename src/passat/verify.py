"""Comparing two models by running them: random inputs, symbolic dimensions at several sizes, ONNX Runtime with its optimisations off.

This is the one module that knows ONNX Runtime, which is imported when a model is first run. ONNX Runtime raises a class of its own for
each kind of refusal, with no common base but Exception; that is what is caught here.
"""

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from typing import Any as AnyValue

import numpy as np

from passat.compare import TOLERANCES, UNSTABLE, Difference, Tolerance, difference, finite_share, precision
from passat.feeds import ELEMENT_TYPES, WIDE_RANGE, FeedError, InputSpec, Trial, make_feed, perturbed, size_assignments, symbols
from passat.ir.onnx.errors import raise_interrupt

if TYPE_CHECKING:
    from onnx import ModelProto

ModelSource: TypeAlias = "ModelProto | bytes | str | os.PathLike[str]"
"""A model: in memory, serialised, or in a file. A model beyond 2 GB has to be a file."""

ATTEMPTS: Final = 12
"""Choices of sizes that are tried to find some on which the original runs."""
NOISE_FACTOR: Final = 10
"""A difference may be this many times what rounding alone does to the original."""
_NARROW: Final[Mapping[str, int]] = {"tensor(bfloat16)": 16}
"""Types that ONNX Runtime does not exchange with NumPy, by their numbers in ONNX: they go in and out as raw memory."""


_LOAD: Final = """
import sys
from passat.verify import Runner
Runner(sys.argv[1] or sys.stdin.buffer.read(), folder=sys.argv[2] or None, threads=1)
"""
_LOADING_SECONDS: Final = 600.0


class VerifyError(RuntimeError):
    """Models cannot be compared at all: ONNX Runtime is not installed."""


@dataclass(frozen=True)
class OutputReport:
    """What comparing one output found, over all trials: the largest differences, and whether they pass.

    `relative` is relative to the largest element. `reason` says why the output does not pass, `note` why it passes although it
    differs by more than the usual tolerance. `compared` counts the trials in which a comparison meant something.
    """

    name: str
    type: str
    absolute: float = 0.0
    relative: float = 0.0
    compared: int = 0
    reason: str = ""
    note: str = ""


@dataclass(frozen=True)
class VerifyReport:
    """What verification found. `equal` is None where nothing could be compared; `skipped` then says why.

    `mismatch` is a sentence about the first difference; `guilty` the pass that it comes from, where that was looked for.
    """

    equal: bool | None
    outputs: tuple[OutputReport, ...] = ()
    trials: tuple[Trial, ...] = ()
    skipped: str = ""
    mismatch: str = ""
    guilty: str = ""
    seconds: float = 0.0

    @property
    def relative(self) -> float:
        """The largest difference of all outputs, relative to the size of the output."""
        return max((output.relative for output in self.outputs), default=0.0)


class Runner:
    """A model in ONNX Runtime. Raises VerifyError where that is not installed, and what it raises where the model does not load."""

    def __init__(
        self,
        model: ModelSource,
        *,
        folder: str | None = None,
        threads: int = 0,
        optimise: bool | Literal["all"] = False,
        seed: int | None = None,
        arena: bool = False,
    ) -> None:
        onnxruntime = _onnxruntime()
        if seed is not None:
            onnxruntime.set_seed(seed)  # of operators that draw random numbers and have no seed of their own
        options = onnxruntime.SessionOptions()
        level = onnxruntime.GraphOptimizationLevel
        levels = {False: level.ORT_DISABLE_ALL, True: level.ORT_ENABLE_EXTENDED, "all": level.ORT_ENABLE_ALL}
        options.graph_optimization_level = levels[optimise]
        options.intra_op_num_threads = threads or os.cpu_count() or 1
        options.log_severity_level = 4
        options.enable_cpu_mem_arena = arena  # without it memory goes back at once; with it times are what they are elsewhere
        if folder is not None:
            options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
        self._values = onnxruntime.OrtValue
        self._session = onnxruntime.InferenceSession(_serialised(model), options, providers=["CPUExecutionProvider"])
        self.inputs = tuple(InputSpec(value.name, value.type, tuple(value.shape)) for value in self._session.get_inputs())
        self.outputs = tuple((value.name, value.type) for value in self._session.get_outputs())
        self._narrow = any(kind in _NARROW for kind in (*(spec.type for spec in self.inputs), *(kind for _, kind in self.outputs)))

    def run(self, feed: Mapping[str, AnyValue]) -> list[AnyValue]:
        """The values of all outputs, in order."""
        names = [name for name, _ in self.outputs]
        if not self._narrow:
            values: list[AnyValue] = self._session.run(names, dict(feed))
            return values
        made = {spec.name: self._to_runtime(feed[spec.name], spec) for spec in self.inputs}
        return [_from_runtime(value) for value in self._session.run_with_ort_values(names, made)]

    def _to_runtime(self, value: AnyValue, spec: InputSpec) -> AnyValue:
        if spec.is_sequence:
            raise FeedError(f"the input {spec.name!r} is a sequence, in a model that has inputs or outputs of type bfloat16 too")
        if spec.type in _NARROW:
            return self._values.ortvalue_from_numpy_with_onnx_type(np.require(value, requirements="C").view(np.uint16), _NARROW[spec.type])
        return self._values.ortvalue_from_numpy(value)


def loads(model: ModelSource, folder: str | None = None) -> bool:
    """Whether ONNX Runtime is there, and loads a model. Asks another process: ONNX Runtime ends its own over some invalid models."""
    source = _serialised(model)
    path, data = (source, b"") if isinstance(source, str) else ("", source)
    command = [sys.executable, "-P", "-c", _LOAD, path, folder or ""]
    try:
        return not subprocess.run(command, input=data, capture_output=True, check=False, timeout=_LOADING_SECONDS).returncode
    except (OSError, subprocess.TimeoutExpired):
        return False


def _onnxruntime() -> AnyValue:
    try:
        import onnxruntime
    except ImportError as error:
        raise_interrupt(error)
        raise VerifyError(
            "verification runs the models on ONNX Runtime, which is not installed: pip install 'passat[onnx]' installs it; "
            "--no-verify, or verify=False, does without"
        ) from None
    return onnxruntime


def runtime_version() -> str:
    """The version of ONNX Runtime. Raises VerifyError where it is not installed."""
    return str(_onnxruntime().__version__)


def _serialised(model: ModelSource) -> bytes | str:
    if isinstance(model, bytes):
        return model
    if isinstance(model, (str, os.PathLike)):
        return os.fspath(model)
    data: bytes = model.SerializeToString()
    return data


def _from_runtime(value: AnyValue) -> AnyValue:
    if not value.is_tensor() or value.data_type() not in _NARROW:
        return value.numpy()
    raw = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(raw, ELEMENT_TYPES["bfloat16"]).reshape(value.shape())


class Reference:
    """The original model and what it computes on a few trials, to compare any number of candidates with.

    `trials` is how many choices of sizes to run (without symbolic dimensions two, without inputs one); `threads` how many threads ONNX
    Runtime may use, 0 for all; `folder` where external data of a model in memory lies. `coarsest` is the narrowest floating-point type
    inside the model, where its outputs have a wider one: rounding is then measured by it. The same seed makes the same trials.

    `skipped` says why there is nothing to compare with, where the original does not load or run. Raises VerifyError without ONNX Runtime.
    """

    def __init__(
        self,
        original: ModelSource,
        *,
        seed: int = 0,
        trials: int = 3,
        threads: int = 0,
        folder: str | None = None,
        coarsest: str | None = None,
    ) -> None:
        self._original = original
        self._threads = threads
        self._folder = folder
        self._coarsest = coarsest if coarsest in TOLERANCES else None
        self._noise: dict[tuple[int, int], Difference] = {}
        self.skipped = ""
        self.inputs: tuple[InputSpec, ...] = ()
        self.outputs: tuple[tuple[str, str], ...] = ()
        self.trials: list[Trial] = []
        self.values: list[list[AnyValue]] = []
        started = time.perf_counter()
        try:
            runner = self._runner(original)
        except VerifyError:
            raise
        except Exception as error:
            self.skipped = f"ONNX Runtime does not load the original: {_sentence(error)}"
        else:
            self._run_original(runner, seed, trials)
        self.seconds = time.perf_counter() - started

    def _runner(self, model: ModelSource, *, optimise: bool = False, seed: int | None = None) -> Runner:
        return Runner(model, folder=self._folder, threads=self._threads, optimise=optimise, seed=seed)

    def _run_original(self, runner: Runner, seed: int, wanted: int) -> None:
        self.inputs, self.outputs = runner.inputs, runner.outputs
        names = symbols(self.inputs)
        wanted = wanted if names else min(wanted, 2 if self.inputs else 1)
        ranks = [0, 1, 2, 4] if any(not spec.shape for spec in self.inputs) else [0]
        ranges: Mapping[str, int] = {}
        reason = ""
        for attempt, sizes in zip(range(ATTEMPTS), size_assignments(names), strict=False):
            for rank in ranks:
                trial = Trial(seed + attempt, sizes, rank=rank)
                try:
                    if not self.trials:
                        ranges = _widest_ranges(runner, trial)
                    # Every second trial keeps to the safe range, where masks and flags take all their values.
                    trial, values = _run_or_narrow(runner, replace(trial, ranges={} if attempt % 2 else ranges))
                except Exception as error:
                    reason = reason or _sentence(error)
                    continue
                self.trials.append(trial)
                self.values.append(values)
                ranks = [rank]
                break
            if len(self.trials) == wanted:
                return
        if not self.trials:
            self.skipped = f"the original does not run on random inputs: {reason}"

    def check(self, candidate: ModelSource) -> VerifyReport:
        """Compares a candidate with the original on the same trials. Its external data, where it has any, lies in the same folder."""
        started = time.perf_counter()
        found = VerifyReport(None, skipped=self.skipped) if self.skipped else self._compare(candidate)
        return replace(found, trials=tuple(self.trials), seconds=self.seconds + time.perf_counter() - started)

    def _compare(self, candidate: ModelSource) -> VerifyReport:
        try:
            runner = self._runner(candidate)
        except Exception as error:
            return VerifyReport(False, mismatch=f"ONNX Runtime loads the original, but not the result: {_sentence(error)}")
        changed = self._signature_change(runner)
        if changed:
            return VerifyReport(False, mismatch=changed)
        outputs = [OutputReport(name, kind) for name, kind in self.outputs]
        for t, trial in enumerate(self.trials):
            try:
                values = runner.run(make_feed(self.inputs, trial))
            except Exception as error:
                return VerifyReport(False, mismatch=f"the original runs on {trial}, but the result does not: {_sentence(error)}")
            outputs = [self._judge(output, t, i, values[i]) for i, output in enumerate(outputs)]
        wrong = next((output for output in outputs if output.reason), None)
        if wrong is not None:
            return VerifyReport(False, tuple(outputs), mismatch=f"the output {wrong.name!r} {wrong.reason}")
        if outputs and not any(output.compared for output in outputs):
            return VerifyReport(None, tuple(outputs), skipped="the original's own outputs change from run to run")
        return VerifyReport(True, tuple(outputs))

    def _judge(self, output: OutputReport, trial: int, index: int, value: AnyValue) -> OutputReport:
        expected = self.values[trial][index]
        found = difference(expected, value, coarsest=self._coarsest)
        output = replace(output, absolute=max(output.absolute, found.absolute), relative=max(output.relative, found.relative))
        passes = replace(output, compared=output.compared + 1)
        if not found.reason:
            return passes
        noise = self._noise_of(trial, index)
        floating = precision(expected) > 0
        if (noise.relative if floating else noise.share) > UNSTABLE:
            return replace(output, note="not compared: chance, or rounding alone, changes the original's own output")
        if floating and noise.relative:
            widened = Tolerance(0.0, NOISE_FACTOR * noise.relative)
            if not difference(expected, value, widened).reason:
                return replace(passes, note=f"equal up to {widened.tensor:.0e} of its size: the original is this sensitive to rounding")
        elif noise.share and found.share <= NOISE_FACTOR * noise.share and found.absolute <= NOISE_FACTOR * noise.absolute:
            return replace(passes, note="a few elements differ, as they do in the original when its inputs are rounded")
        return replace(passes, reason=output.reason or f"{found.reason} ({self.trials[trial]})")

    def _noise_of(self, trial: int, index: int) -> Difference:
        """How far an output of the original moves when drawn again, optimised by ONNX Runtime, or given rounded inputs."""
        if (trial, index) not in self._noise:
            expected = self.values[trial]
            feed = make_feed(self.inputs, self.trials[trial])
            epsilon = 4 * max((precision(value, self._coarsest) for value in (*feed.values(), *expected)), default=0.0)
            total = [Difference() for _ in self.outputs]
            variants = [(False, feed), (True, feed), (False, perturbed(feed, epsilon, 1)), (False, perturbed(feed, epsilon, 2))]
            for seed, (optimise, variant) in enumerate(variants):
                try:
                    values = self._runner(self._original, optimise=optimise, seed=seed).run(variant)
                except Exception:  # a variant that does not run says nothing about noise
                    continue
                total = [a.widest(difference(b, c)) for a, b, c in zip(total, expected, values, strict=True)]
            self._noise.update({(trial, i): found for i, found in enumerate(total)})
        return self._noise[trial, index]

    def _signature_change(self, runner: Runner) -> str:
        before = {"inputs": [(spec.name, spec.type) for spec in self.inputs], "outputs": list(self.outputs)}
        after = {"inputs": [(spec.name, spec.type) for spec in runner.inputs], "outputs": list(runner.outputs)}
        for what, values in before.items():
            if values != after[what]:
                shown = [", ".join(f"{name}: {kind}" for name, kind in side) or "none" for side in (values, after[what])]
                return f"the {what} of the model changed from ({shown[0]}) to ({shown[1]})"
        return ""


def compare_models(
    original: ModelSource,
    candidate: ModelSource,
    *,
    seed: int = 0,
    trials: int = 3,
    threads: int = 0,
    folder: str | None = None,
    coarsest: str | None = None,
) -> VerifyReport:
    """Compares two models on random inputs; the arguments are those of `Reference`. Raises VerifyError without ONNX Runtime."""
    return Reference(original, seed=seed, trials=trials, threads=threads, folder=folder, coarsest=coarsest).check(candidate)


def _widest_ranges(runner: Runner, trial: Trial) -> dict[str, int]:
    """For each integer input the wide range, where the model runs on it and its outputs stay as finite as on the safe range."""
    ranges: dict[str, int] = {}
    indices = [spec.name for spec in runner.inputs if spec.is_index][:8]
    if not indices:
        return ranges
    base = finite_share(runner.run(make_feed(runner.inputs, trial)))
    for name in indices:
        wider = {**ranges, name: WIDE_RANGE}
        try:
            share = finite_share(runner.run(make_feed(runner.inputs, replace(trial, ranges=wider))))
        except Exception:  # an index out of range
            continue
        if share >= base:
            ranges = wider
    return ranges


def _run_or_narrow(runner: Runner, trial: Trial) -> tuple[Trial, list[AnyValue]]:
    """Runs a trial; where its wide ranges do not go with its sizes, on the safe ranges."""
    if trial.ranges:
        try:
            return trial, runner.run(make_feed(runner.inputs, trial))
        except Exception:  # an index out of range for these sizes
            trial = replace(trial, ranges={})
    return trial, runner.run(make_feed(runner.inputs, trial))


def _sentence(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 300 else f"{text[:300]} ..."


__all__ = [
    "ModelSource",
    "OutputReport",
    "Reference",
    "Runner",
    "Trial",
    "VerifyError",
    "VerifyReport",
    "compare_models",
    "loads",
    "runtime_version",
]
