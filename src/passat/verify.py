"""Compares two models by running them: on random inputs, with several sizes of symbolic dimensions, and with ONNX Runtime's optimizations
off; quantized models also once with these, which may take scales of a DequantizeLinear for those of another axis.

ONNX Runtime's errors have no common base class but Exception, which is what is caught here.
"""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial, reduce
from typing import TYPE_CHECKING, Final, Literal
from typing import Any as AnyValue

from passat.apart import EndedError, LateError
from passat.feeds import InputSpec, Trial
from passat.given_inputs import GivenInputs, read_inputs
from passat.ir.custom_ops import declared_op
from passat.judging import NOISE_FACTOR, Closeness, is_far, is_unscanned, judge, without_elements
from passat.runner import ModelSource, Runner, VerifyError, loadable, sentence_of
from passat.settings import check_arguments
from passat.trials import ComparedModel, ComparedSession, Trials

if TYPE_CHECKING:
    from onnx import ModelProto

    from passat.ir.onnx.cutting import Cut
    from passat.ir.onnx.random_seeds import Seeds

DRAWS: Final = (1, 2, 4, 6, 12, 18)
"""Numbers of noise samples after which values are judged: until the samples explain all differences. What passes with some samples would
pass with more, too."""
_ENOUGH: Final = 6
"""The number of samples after which more are drawn only if a few elements differ. Of a hundred thousand elements, one may well have little
noise in each of six samples."""
_FEW: Final = 1e-3
"""The share of elements that counts as few."""
_AGAIN: Final = 5_000_011
"""The seed of the random operators of samples: large, so that no random operator is likely to have it."""
_REPEATED: Final = 3
"""Number of runs in which the original may end ONNX Runtime's process, too."""
_SHOWN: Final = 3
"""Number of branches that a report names."""
_OTHER_INPUTS: Final = "--inputs FILE.npz, or inputs=, compares on your own inputs"
_EMPTY: Final = "it has no elements on these inputs, so only its shape was compared"
_LIBRARY: Final = "--custom-ops LIB, or custom_ops=, registers a library that has the operators"


@dataclass(frozen=True)
class OutputReport:
    """The comparison of one output over all trials: the largest differences, and whether it passes.

    `relative` is relative to the largest element. `reason` says why the output fails, `note` why it passes despite a larger difference, or
    why it is inconclusive. `compared` counts the conclusive trials.
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
    """The result of verification. `equal` is None if nothing could be compared; `skipped` then says why.

    `trials` are the inputs, up to the first on which values differ. `mismatch` describes this difference; `guilty` is the pass that
    caused it, if searched. `parts` says where the models were cut to compare them in parts.
    """

    equal: bool | None
    outputs: tuple[OutputReport, ...] = ()
    trials: tuple[Trial, ...] = ()
    skipped: str = ""
    parts: str = ""
    mismatch: str = ""
    guilty: str = ""
    seconds: float = 0.0

    @property
    def relative(self) -> float:
        """The largest difference of all outputs, relative to the size of the output."""
        return max((output.relative for output in self.outputs), default=0.0)

    @property
    def differs_when_fused(self) -> bool:
        """True if the models differ only when ONNX Runtime optimizes them."""
        return self.equal is False and bool(self.outputs) and not any(output.reason for output in self.outputs)


@dataclass(frozen=True, eq=False)
class Comparing:
    """The user's comparison settings: the `seed` of random inputs, given inputs, and tolerances."""

    seed: int = 0
    given: GivenInputs | None = None
    closeness: Closeness | None = None


AS_USUAL: Final = Comparing()


def comparing(
    seed: int = 0,
    inputs: "Mapping[str, AnyValue] | str | os.PathLike[str] | None" = None,
    rtol: float | None = None,
    atol: float | None = None,
) -> Comparing:
    """Comparison settings: random inputs from a seed, inputs by name or from a file of `numpy.savez`, and tolerances.

    Raises InputsError for the inputs, ArgumentError for a negative or non-finite tolerance.
    """
    check_arguments(seed=seed, inputs=inputs, rtol=rtol, atol=atol)
    given = None
    if inputs is not None:
        given = GivenInputs("the inputs given", dict(inputs)) if isinstance(inputs, Mapping) else read_inputs(inputs)
    closeness = None if rtol is None and atol is None else Closeness(rtol or 0.0, atol or 0.0)
    return Comparing(seed, given, closeness)


class Reference:
    """The original model and its results on a few trials, for comparison with any number of candidates.

    `trials` is the number of size assignments to run (two without symbolic dimensions, one without inputs); `threads` is for ONNX Runtime,
    0 for all; `folder` holds the external data of a model in memory; `proto` is a model that is given as a file, if it has been read. Equal
    seeds give equal trials; the user's inputs come first. Without the user's tolerances, values may differ by what rounding explains.

    A model with operators unknown to ONNX Runtime is cut at them, and compared in parts (`passat.ir.onnx.cutting`). Models with random
    operators are compared on equal random numbers (`passat.ir.onnx.random_seeds`).

    `skipped` says why nothing can be compared, if the original does not load or run. Raises VerifyError without ONNX Runtime, InputsError
    if the given inputs do not fit the model.
    """

    def __init__(
        self,
        original: ModelSource,
        how: Comparing = AS_USUAL,
        *,
        trials: int = 3,
        threads: int = 0,
        folder: str | None = None,
        proto: "ModelProto | None" = None,
    ) -> None:
        self._original = ComparedModel(original, folder, proto)
        self._threads = threads
        self._folder = folder
        self._closeness = how.closeness
        self._cut: Cut | None = None
        self._seeds: Seeds | None = None
        self._alike = False
        """True if random operators were given seeds."""
        self._noisy: ComparedSession | None = None
        self._noise: dict[int, list[list[AnyValue]] | None] = {}
        """For each trial, the outputs under noise, in as many runs as were needed; None if unavailable."""
        self.skipped = ""
        self.complaint = ""
        """Why ONNX Runtime does not load the original as a whole."""
        self.outputs: tuple[tuple[str, str], ...] = ()
        self._trials = Trials(())
        started = time.perf_counter()
        try:
            session = self._load()
        except VerifyError:
            raise
        except Exception as error:
            said = sentence_of(error)
            if "Invalid tensor data type" in said:  # ONNX Runtime does not name the value
                from passat.ir.onnx.undeclared import without_element_type  # needs onnx

                said = without_element_type(self._original.proto) or said
            self.skipped = f"ONNX Runtime does not load the original: {said}{f'; {_LIBRARY}' if self._cut is not None else ''}"
        else:
            self.outputs = session.runner.outputs
            made = () if self._cut is None else self._cut.made
            self._trials = Trials(self._with_compared(session.runner.inputs), how.given, made)
            if reason := self._trials.find(session.runner, how.seed, trials):
                said = f"not run on random inputs: {reason}"
                whole = f"the original does {said}; {_OTHER_INPUTS}"
                parts = f"ONNX Runtime does not load the original: {self.complaint}; its parts do {said}; {_LIBRARY}"
                self.skipped = whole if self._cut is None else parts
        self.seconds = time.perf_counter() - started

    @property
    def trials(self) -> list[Trial]:
        """The inputs on which the models are compared."""
        return self._trials.each

    @property
    def ended(self) -> str:
        """How ONNX Runtime ended its process on the original, for inputs that are not a trial."""
        return self._trials.ended

    def _load(self) -> ComparedSession:
        """The original, cut at operators unknown to ONNX Runtime. Raises ONNX Runtime's error if the rest does not load."""
        unknown: set[tuple[str, str]] = set()
        while True:
            try:
                return self._session(self._original)
            except VerifyError:
                raise
            except Exception as error:
                from passat.ir.onnx.cutting import Cut, unknown_operators

                found = unknown_operators(str(error), self._original.proto)
                if found <= unknown:
                    raise
                unknown |= found
                self.complaint = sentence_of(error)
                self._cut = Cut(self._original.proto, unknown)

    def _session(
        self,
        model: ComparedModel,
        change: "Callable[[ModelProto], ModelProto] | None" = None,
        *,
        seed: int | None = None,
        optimize: bool | Literal["all"] = False,
    ) -> ComparedSession:
        """A model prepared for comparison: cut, and with the same random numbers; `change` modifies it. ONNX Runtime may `optimize` it."""
        changes: list[Callable[[ModelProto], ModelProto]] = [] if self._cut is None else [self._cut.like]
        changes += [self._seeds.given_to] if self._alike and self._seeds is not None else []
        changes += [] if change is None else [change]
        made = reduce(lambda changed, each: each(changed), changes, model.proto) if changes else model.runnable
        make = partial(Runner, made, folder=model.folder, threads=self._threads, optimize=optimize, seed=seed, apart=True)
        return ComparedSession(make, anew=self._alike)

    def _with_compared(self, inputs: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
        """The inputs, with the integers that the model compares them with."""
        names = [spec.name for spec in inputs if spec.is_choice and spec.is_index]
        if not names:
            return inputs
        from passat.ir.onnx.compared import compared_integers  # needs onnx

        compared = compared_integers(self._original.proto, names)
        return tuple(replace(spec, compared=compared.get(spec.name, ())) for spec in inputs)

    # ---- candidates

    def check(self, candidate: ModelSource) -> VerifyReport:
        """Compares a candidate with the original on the same trials. External data is in the same folder."""
        with loadable(candidate, self._folder) as source:
            return self._check(ComparedModel(source, self._folder))

    def _check(self, model: ComparedModel) -> VerifyReport:
        started = time.perf_counter()
        found = VerifyReport(None, skipped=self.skipped) if self.skipped else self._compare(model)
        if found.equal and (mismatch := self._mismatch_when_fused(model)):
            found = replace(found, equal=False, mismatch=mismatch)
        if found.equal is False and not self._alike and self._is_random():
            self._alike = True
            try:
                original = self._session(self._original)
                self._trials.values = [original.run(self._trials.feed(trial)) for trial in self.trials]
                found = self._compare(model)
            except EndedError as error:
                found = VerifyReport(None, skipped=f"a second run of the original fails: {error}")
        parts = "" if self._cut is None or self.skipped else self._cut.where
        return replace(found, trials=found.trials or tuple(self.trials), parts=parts, seconds=self.seconds + time.perf_counter() - started)

    def unrun(self, candidate: "ModelProto") -> str:
        """The branches of the original's If nodes that no trial runs, so that they are not compared: of those nodes that a candidate has by
        the same name. Empty if the conditions cannot be computed."""
        from passat.ir.onnx.branches import branch_names, computed_ifs, conditions_of, if_names  # needs onnx

        if self._cut is not None or self.skipped or not if_names(candidate):
            return ""
        nodes = computed_ifs(self._original.proto)
        if not nodes:
            return ""
        try:
            session = self._session(self._original, conditions_of)
            taken = [list(map(bool, session.run(self._trials.feed(trial)))) for trial in self.trials]
            unrun = branch_names(nodes, taken, candidate)
        except Exception:  # ONNX Runtime may not load a part of a model; one with random operators is inlined, and may have more nodes
            return ""
        rest = len(unrun) - _SHOWN
        return ", ".join(unrun[:_SHOWN] + ([f"{rest} more"] if rest > 0 else []))

    def differs_from_itself(self, report: VerifyReport) -> bool:
        """True if the original differs from itself about as much as a candidate differs from it, in the same outputs, when ONNX Runtime
        optimizes it: then rounding decides which values it has, such as which elements a TopK chooses."""
        wrong = [index for index, output in enumerate(report.outputs) if output.reason]
        if not wrong or self._closeness is not None:
            return False
        try:
            optimized = self._session(self._original, optimize=True)
            runs = [optimized.run(self._trials.feed(trial)) for trial in report.trials]
        except Exception:  # ONNX Runtime may not run what it optimizes
            return False
        for index in wrong:  # a report of a difference has the first trials only
            found = [judge(values[index], run[index], tuple) for values, run in zip(self._trials.values, runs, strict=False)]
            if not any(one.reason and NOISE_FACTOR * one.absolute >= report.outputs[index].absolute for one in found):
                return False
        return True

    def _is_random(self) -> bool:
        if self._seeds is None:
            from passat.ir.onnx.random_seeds import Seeds  # needs onnx

            original = self._original.proto
            self._seeds = Seeds(original if self._cut is None else self._cut.like(original))
        return bool(self._seeds)

    def _compare(self, candidate: ComparedModel) -> VerifyReport:
        from passat.ir.onnx.cutting import CutError, unknown_operators

        try:
            session = self._session(candidate)
        except CutError as error:
            return VerifyReport(None, skipped=f"the models can only be compared in parts, and these do not correspond: {error}; {_LIBRARY}")
        except LateError as error:
            return VerifyReport(None, skipped=f"{error}: the result")
        except Exception as error:
            unknown = sorted(f"{domain}.{op_type}" for domain, op_type in unknown_operators(str(error), candidate.proto))
            if unknown and all(declared_op(name) is not None for name in unknown):
                return VerifyReport(None, skipped=f"ONNX Runtime does not know {', '.join(unknown)}, which rules created; {_LIBRARY}")
            return VerifyReport(False, mismatch=f"ONNX Runtime loads the original, but not the result: {sentence_of(error)}")
        changed = self._signature_change(session.runner)
        if changed:
            return VerifyReport(False, mismatch=changed)
        outputs = [OutputReport(name, kind) for name, kind in self.outputs]
        for t, trial in enumerate(self.trials):
            try:
                values = session.run(self._trials.feed(trial))
            except LateError as error:
                return VerifyReport(None, skipped=f"{error}: the result, on {trial}; {_OTHER_INPUTS}")
            except EndedError as error:
                if self._ends(trial):
                    return VerifyReport(None, skipped=f"{error} on the result with {trial}, and sometimes on the original")
                return VerifyReport(False, mismatch=f"the original runs on {trial}, but on the result {error}")
            except Exception as error:
                return VerifyReport(False, mismatch=f"the original runs on {trial}, but the result does not: {sentence_of(error)}")
            outputs = [self._judge(output, t, i, values[i]) for i, output in enumerate(outputs)]
            if (wrong := next((output for output in outputs if output.reason), None)) is not None:
                run = tuple(self.trials[: t + 1])
                return VerifyReport(False, tuple(outputs), run, mismatch=f"the output {wrong.name!r} {wrong.reason}")
        silent = next((output for output in outputs if not output.compared), None)
        if silent is not None:
            return VerifyReport(None, tuple(outputs), skipped=f"the output {silent.name!r} is inconclusive: {silent.note}; {_OTHER_INPUTS}")
        empty = [all(without_elements(values[i]) for values in self._trials.values) for i in range(len(outputs))]
        return VerifyReport(
            True, tuple(replace(one, note=one.note or _EMPTY) if none else one for one, none in zip(outputs, empty, strict=True))
        )

    def _mismatch_when_fused(self, candidate: ComparedModel) -> str:
        """Why a quantized candidate is wrong when ONNX Runtime optimizes it, as it does by default: it does not run on the first trial, or
        its values are far off, and those of the original are not. Empty otherwise."""
        if self._alike or "DequantizeLinear" not in candidate.operators:
            return ""
        fused = self._fused
        if fused is None:
            return ""
        where = f"when ONNX Runtime optimizes them, the original runs on {self.trials[0]}"
        try:
            values = self._session(candidate, optimize="all").run(self._trials.feed(self.trials[0]))
        except LateError:
            return ""
        except Exception as error:
            return f"{where}, but the result does not: {sentence_of(error)}"
        for (name, _), *parts in zip(self.outputs, self._trials.values[0], fused, values, strict=True):
            if is_far(*parts):
                return f"{where}, but the output {name!r} of the result is far off"
        return ""

    @cached_property
    def _fused(self) -> list[AnyValue] | None:
        """The values of the original on the first trial when ONNX Runtime optimizes it; None if it does not run then."""
        try:
            return self._session(self._original, optimize="all").run(self._trials.feed(self.trials[0]))
        except Exception:  # ONNX Runtime may not run what it optimizes
            return None

    def _ends(self, trial: Trial) -> bool:
        """True if ONNX Runtime also ends its process on the original, which ran before: it reads invalid memory."""
        original = self._session(self._original)
        try:
            for _ in range(_REPEATED):
                original.run(self._trials.feed(trial))
        except EndedError:
            return True
        return False

    def _judge(self, output: OutputReport, trial: int, index: int, value: AnyValue) -> OutputReport:
        expected = self._trials.values[trial][index]
        if is_unscanned(expected, value) and "Loop" in self._original.operators:
            value = expected  # the result may have sizes that ONNX Runtime does not infer for the original
        for draws in DRAWS:
            found = judge(expected, value, partial(self._samples, trial, index, draws), self._closeness)
            if not found.reason or not self._noise.get(trial) or (draws >= _ENOUGH and not 0 < found.share <= _FEW):
                break
        relative = max(output.relative, found.relative)
        output = replace(output, absolute=max(output.absolute, found.absolute), relative=relative)
        if found.reason:
            return replace(output, reason=output.reason or f"{found.reason} ({self.trials[trial]})")
        if not found.compared:
            return replace(output, note=output.note or "randomness or rounding alone changes it in the original")
        note = f"equal up to {relative:.0e} of its size: the original is this sensitive to rounding" if found.moved else output.note
        return replace(output, compared=output.compared + 1, note=note)

    def _samples(self, trial: int, index: int, draws: int) -> list[AnyValue] | None:
        """The outputs of the original under noise; None if unavailable."""
        if not self._alike and self._is_random():
            return []  # repeated, with the same random numbers
        try:
            drawn = self._draw(trial, draws)
        except Exception:  # ONNX Runtime may not load or run a model with noise
            drawn = self._noise[trial] = None
        return None if drawn is None else [values[index] for values in drawn]

    def _draw(self, trial: int, draws: int) -> list[list[AnyValue]] | None:
        from passat.ir.onnx.noise import draws_anew, noisy  # needs onnx

        drawn = self._noise.setdefault(trial, [])
        if drawn is None:
            return None
        while len(drawn) < draws:
            if self._alike or not draws_anew(self._original.proto):  # new sessions draw the same noise from the same seed
                session = self._session(self._original, partial(noisy, seed=1 + len(drawn)), seed=_AGAIN)
            else:
                self._noisy = session = self._noisy or self._session(self._original, noisy, seed=_AGAIN)
            drawn.append(session.run(self._trials.feed(self.trials[trial])))
        return drawn

    def _signature_change(self, runner: Runner) -> str:
        before = {"inputs": [(spec.name, spec.type) for spec in self._trials.inputs], "outputs": list(self.outputs)}
        after = {"inputs": [(spec.name, spec.type) for spec in runner.inputs], "outputs": list(runner.outputs)}
        for what, values in before.items():
            if values != after[what]:
                shown = [", ".join(f"{name}: {kind}" for name, kind in side) or "none" for side in (values, after[what])]
                return f"the {what} of the model changed from ({shown[0]}) to ({shown[1]})"
        return ""
