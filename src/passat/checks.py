"""Questions about a module that a bisection asks: whether its values are wrong, it is slower or larger, it crashes, or a command fails.

Each is a predicate over modules: True, False, or None where a module cannot tell, as when it is in a form that ONNX does not have.
A module that is not well-formed or not well-typed, so that no model can be made of it, is bad by every check. `why` is a sentence about
the last True, `unclear` about the last None.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from statistics import median
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, check, load, save, to_onnx
from passat.passmgr import AlreadyTrueError, BisectError, Pass, PassContext, bisect_passes
from passat.passmgr.inspection.verify_each import module_flaws
from passat.report import bytes_of, histogram, node_count
from passat.runner import ModelSource, Runner, VerifyError, sentence_of
from passat.sessions.apart import EndedError, RefusedError, error_stream, show_code
from passat.turns import NothingToTimeError, choose_feed, take_turns, time_of
from passat.verify import AS_USUAL, Comparing, Reference

if TYPE_CHECKING:
    from onnx import ModelProto

READ_AND_WRITTEN: Final = "(reading and writing)"
"""Names the stage before all passes."""
CANNOT_TELL: Final = 125
"""The exit code of a command that cannot tell, as in `git bisect run`."""


class CheckError(ValueError):
    """A check that cannot be made at all: its command does not exist, or the original does not run. The message is a sentence."""


class Check:
    """What the checks share. `folder` is where the external data of the model lies."""

    why = ""
    """What was wrong with the last module of which the check was true."""
    unclear = ""
    """Why the check could not tell for the last module for which it could not."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder

    def __call__(self, mod: IRModule) -> bool | None:
        """Whether the module is bad; None where it cannot tell."""
        try:
            model = to_onnx(mod)
        except OnnxError as error:
            flaws = module_flaws(mod)
            if flaws:
                self.why = f"the module is broken: {flaws[0]}"
                return True
            self.unclear = f"it cannot be written as ONNX: {error.args[0]}"
            return None
        found = self.judge(model)
        if found:
            self.why = found
        return None if found is None else bool(found)

    def judge(self, model: "ModelProto") -> str | None:
        """What is wrong with a model, "" for nothing, None where that cannot be told: then `unclear` says why."""
        raise NotImplementedError


class WrongValue(Check):
    """Whether a model computes something else than the original."""

    def __init__(self, reference: Reference) -> None:
        super().__init__()
        if reference.skipped:
            raise CheckError(f"there is nothing to compare with: {reference.skipped}")
        self._reference = reference

    def judge(self, model: "ModelProto") -> str | None:
        """The first difference."""
        report = self._reference.check(model)
        self.unclear = report.skipped
        return None if report.equal is None else report.mismatch


class Slower(Check):
    """Whether a model takes longer on ONNX Runtime, with its optimisations on and one thread, than the original.

    Both run in turns on the same inputs; the medians are compared, and the model is slower where its is above the original's by more than
    `margin` of it. Within `doubt` of that limit, as a part of the original's time too, it cannot be told: noise would decide. Symbolic
    dimensions get the largest of a few sizes on which the original runs.
    """

    ROUNDS: Final = (15, 200)
    """The least and the largest number of turns."""
    SECONDS: Final = 1.0
    """How long turns are taken, within these numbers."""
    SLICE: Final = 0.002
    """Seconds that one turn takes at least: a fast model runs several times in it."""

    def __init__(
        self, original: ModelSource, folder: str | None = None, *, margin: float = 0.1, how: Comparing = AS_USUAL, doubt: float = 0.0
    ) -> None:
        super().__init__(folder)
        self._margin = margin
        self._doubt = doubt
        self._feed = self._choose(original, how)
        self._original = self._runner(original)

    def _runner(self, model: ModelSource, *, apart: bool = False) -> Runner:
        """A model to be timed, which is not done `apart`: there it is run once before, since ONNX Runtime may end the process over it."""
        return Runner(model, folder=self._folder, threads=1, optimise=True, apart=apart)

    def _choose(self, original: ModelSource, how: Comparing) -> dict[str, AnyValue]:
        try:
            return choose_feed(self._runner(original, apart=True), how)
        except NothingToTimeError as error:
            raise CheckError(f"there is nothing to measure: the original {error}") from error
        except (RefusedError, EndedError) as error:
            raise CheckError(f"there is nothing to measure: ONNX Runtime does not load the original: {sentence_of(error)}") from error

    def judge(self, model: "ModelProto") -> str | None:
        """The times, where the model is slower."""
        try:
            self._runner(model, apart=True).run(self._feed)
            candidate = self._runner(model)
            candidate.run(self._feed)
        except VerifyError:
            raise
        except Exception as error:  # a model that does not run has no time
            self.unclear = f"it does not run on ONNX Runtime: {sentence_of(error)}"
            return None
        before, after = self._times(candidate)
        times = f"it takes {after * 1e3:.3g} ms where the original takes {before * 1e3:.3g} ms, {after / before:.2f} times as long"
        if abs(after / before - 1 - self._margin) < self._doubt:
            self.unclear = f"{times}, which is near the limit of {1 + self._margin:g} times"
            return None
        return times if after > before * (1 + self._margin) else ""

    def _times(self, candidate: Runner) -> tuple[float, float]:
        runners = (self._original, candidate)
        before, after = take_turns(
            lambda which, repeat: self._time(runners[which], repeat), 2, rounds=self.ROUNDS, seconds=self.SECONDS, turn=self.SLICE
        )
        return median(before), median(after)

    def _time(self, runner: Runner, repeat: int) -> float:
        return time_of(runner, self._feed, repeat)


class Larger(Check):
    """Whether a model has more nodes than the original, or takes more bytes, by more than `margin` of them.

    The original is taken as Passat writes it, so that only what passes do to it counts. Raises OnnxError.
    """

    def __init__(self, original: str, folder: str | None = None, *, margin: float = 0.1) -> None:
        super().__init__(folder)
        self._margin = margin
        self._nodes, self._bytes = _size(to_onnx(load(original, lenient=True)))

    def judge(self, model: "ModelProto") -> str | None:
        """The sizes, where the model is larger."""
        nodes, size = _size(model)
        if nodes > self._nodes:
            return f"it has {nodes} nodes where the original has {self._nodes}"
        if size > self._bytes * (1 + self._margin):
            return f"it takes {size} bytes where the original takes {self._bytes}"
        return ""


def _size(model: "ModelProto") -> tuple[int, int]:
    return node_count(histogram(model)), bytes_of(model)


class Crash(Check):
    """Whether ONNX Runtime fails on a model, in loading it or in running it on random inputs, or ends the process that does so."""

    def judge(self, model: "ModelProto") -> str | None:
        """How it fails."""
        return _on_file(model, self._folder, self._fail)

    def _fail(self, path: str) -> str:
        reference = Reference(path)
        complaint = reference.complaint and f"ONNX Runtime does not load the model: {reference.complaint}"
        return (reference.ended or reference.skipped or complaint).replace("the original", "the model")


class Command(Check):
    """Whether a command fails on a model. It gets the path of a file in place of `{}`, or else as its last argument.

    Its exit code says what it found, as in `git bisect run`: 0 is good, 125 cannot tell, any other, and a signal, is bad. What it prints
    goes to the error stream. No shell is involved. Raises CheckError where the command does not exist.
    """

    def __init__(self, command: Sequence[str], folder: str | None = None) -> None:
        super().__init__(folder)
        if not command:
            raise CheckError("the command to check with is empty")
        if shutil.which(command[0]) is None:
            known = os.path.exists(command[0])
            raise CheckError(
                f"the command {command[0]!r} to check with {'is no program that can be run' if known else 'does not exist'}; "
                "--check takes wrong, slower, larger, crash, or a command"
            )
        self._command = list(command)

    def judge(self, model: "ModelProto") -> str | None:
        """Its exit code."""
        return _on_file(model, self._folder, self._run)

    def _run(self, path: str) -> str | None:
        arguments = [part.replace("{}", path) for part in self._command]
        if arguments == self._command:
            arguments.append(path)
        sys.stderr.flush()
        try:
            code = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=error_stream(), check=False).returncode
        except OSError as error:
            raise CheckError(f"the command {arguments[0]!r} to check with does not run: {error.strerror}") from error
        if code == CANNOT_TELL:
            self.unclear = f"the command says so, by ending with exit code {CANNOT_TELL}"
            return None
        return "" if code == 0 else f"the command ends with {show_code(code)}"


def _on_file(model: "ModelProto", folder: str | None, judge: Callable[[str], str | None]) -> str | None:
    """What a judge of files says of a model. A model that `onnx.checker` refuses is bad."""
    try:
        check(model)
    except OnnxError as error:
        return str(error)
    with tempfile.TemporaryDirectory(prefix="passat-") as temporary:
        path = os.path.join(temporary, "model.onnx")
        save(model, path, folder=folder)
        return judge(path)


def find_guilty(reference: Reference, pipeline: Pass, module: IRModule, ctx: PassContext) -> str:
    """The name of the pass after which a model first differs from the original, in a logarithmic number of comparisons.

    `READ_AND_WRITTEN` where it differs before all passes, "" where the run of the pipeline for this shows no difference, or a pass raises.
    """
    try:
        found = bisect_passes(pipeline, module, WrongValue(reference), ctx, confirm=False)
    except AlreadyTrueError:
        return READ_AND_WRITTEN
    except BisectError:
        return ""
    return " or ".join(dict.fromkeys(one.name for one in found.candidates))
