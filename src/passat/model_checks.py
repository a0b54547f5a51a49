"""Checks of models: whether a model is wrong, slower or larger than the original, crashes, or fails a user's command."""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.apart import error_stream, show_code
from passat.choose import NothingToTimeError, Times, race
from passat.given_inputs import FailingInputsError
from passat.ir.argument_checks import ArgumentError
from passat.ir.counting import counted, seconds
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, check, save, to_onnx
from passat.ir.passat_error import PassatError
from passat.job import Given
from passat.passmgr.inspection.checks import module_flaws
from passat.report import bytes_of, histogram, node_count
from passat.runner import ModelSource
from passat.settings import Spelling, as_keyword, check_drawn
from passat.verify import AS_USUAL, Comparing, Reference

if TYPE_CHECKING:
    from onnx import ModelProto

MARGIN: Final = 0.1
"""The smallest bad increase of times and sizes, unless given."""
CANNOT_TELL: Final = 125
"""The exit code of a check command that cannot decide, as in `git bisect run`."""


class CheckError(PassatError, ValueError):
    """A check that cannot run, because its command does not exist. The message is one sentence."""

    exit_code = 2


class NoReferenceError(CheckError):
    """A check that cannot run, because the original does not."""

    exit_code = 1


class Check:
    """The base class of checks. Their `folder` holds the external data of the model."""

    why = ""
    """Why the last bad module was bad."""
    unclear = ""
    """Why the check could not decide on the last unclear module."""

    def __call__(self, mod: IRModule) -> bool | None:
        """True if the module is bad; None if the check cannot decide."""
        try:
            model = to_onnx(mod)
        except (OnnxError, InferError) as error:
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
        """Why a model is bad, "" if it is good, None if the check cannot decide; `unclear` then says why."""
        raise NotImplementedError


@dataclass(eq=False, repr=False)
class WrongValue(Check):
    """True if a model computes other values than the original."""

    reference: Reference

    def __post_init__(self) -> None:
        if self.reference.skipped:
            raise NoReferenceError(f"there is nothing to compare with: {self.reference.skipped}")

    def judge(self, model: "ModelProto") -> str | None:
        """The first difference."""
        report = self.reference.check(model)
        self.unclear = report.skipped
        return None if report.equal is None else report.mismatch


@dataclass(eq=False, repr=False)
class Slower(Check):
    """True if a model takes longer on ONNX Runtime than the original, with all optimizations and one thread.

    Runs both interleaved on the same inputs (`race`) and compares the medians. The model is slower if its median exceeds the original's by
    more than `margin`. Within `doubt` of that limit, also relative to the original's time, the check cannot decide: the difference may be
    noise. Symbolic dimensions get the largest of a few sizes on which the original runs.
    """

    original: ModelSource
    folder: str | None = None
    _: KW_ONLY
    margin: float = MARGIN
    how: Comparing = AS_USUAL
    doubt: float = 0.0

    def judge(self, model: "ModelProto") -> str | None:
        """The times, if the model is slower."""
        try:
            (given, own), _ = race(self.original, 0, [("the model", model)], self.folder, self.how, decided=self._is_clear)
        except NothingToTimeError as error:
            raise NoReferenceError(f"there is nothing to measure: the original {error}") from error
        if own.failed:
            self.unclear = f"it does not run on ONNX Runtime: {own.failed}"
            return None
        before, after = given.seconds, own.seconds
        times = f"it takes {seconds(after)} where the original takes {seconds(before)}, {after / before:.2f} times as long"
        if abs(after / before - 1 - self.margin) < self.doubt:
            self.unclear = f"{times}, which is near the limit of {1 + self.margin:g} times"
            return None
        return times if after > before * (1 + self.margin) else ""

    def _is_clear(self, times: Times) -> bool:
        """True if the model is slower in every round, or in none, and far from the limit."""
        before, *others = times
        differences = [mine / theirs - 1 - self.margin for own in others for theirs, mine in zip(before, own, strict=True)]
        return all(each > self.doubt for each in differences) or all(each < -self.doubt for each in differences)


@dataclass(eq=False, repr=False)
class Larger(Check):
    """True if a model has more nodes than the original, or more bytes by a factor of more than 1 + `margin`.

    Compares with the original as Passat writes it, so that only the effect of passes counts. Raises OnnxError.
    """

    original: InitVar[IRModule]
    folder: str | None = None
    _: KW_ONLY
    margin: float = MARGIN

    def __post_init__(self, original: IRModule) -> None:
        self._nodes, self._bytes = _size(to_onnx(original))

    def judge(self, model: "ModelProto") -> str | None:
        """The sizes, if the model is larger."""
        nodes, size = _size(model)
        if nodes > self._nodes:
            return f"it has {counted(nodes, 'node')} where the original has {self._nodes}"
        if size > self._bytes * (1 + self.margin):
            return f"it takes {counted(size, 'byte')} where the original takes {self._bytes}"
        return ""


def _size(model: "ModelProto") -> tuple[int, int]:
    return node_count(histogram(model)), bytes_of(model)


@dataclass(eq=False, repr=False)
class Crash(Check):
    """True if ONNX Runtime fails on a model, when loading it or running it on random inputs and the user's, or if it ends its process."""

    folder: str | None = None
    how: Comparing = AS_USUAL

    def judge(self, model: "ModelProto") -> str | None:
        """The failure."""
        return _on_file(model, self.folder, self._fail)

    def _fail(self, path: str) -> str:
        try:
            reference = Reference(path, self.how)
        except FailingInputsError as error:
            return str(error)
        complaint = reference.complaint and f"ONNX Runtime does not load the model: {reference.complaint}"
        return (reference.ended or reference.skipped or complaint).replace("the original", "the model")


@dataclass(eq=False, repr=False)
class Command(Check):
    """True if a command fails on a model. The path of the model replaces `{}`, or is the last argument.

    Exit codes have the meaning of `git bisect run`: 0 is good, 125 cannot decide, any other code or a signal is bad. Output goes to the
    error stream. No shell is involved. Raises CheckError if the command does not exist.
    """

    command: Sequence[str]
    folder: str | None = None

    def __post_init__(self) -> None:
        if not self.command:
            raise CheckError("the check command is empty")
        if shutil.which(self.command[0]) is None:
            known = os.path.exists(self.command[0])
            raise CheckError(
                f"the check command {self.command[0]!r} {'is not executable' if known else 'does not exist'}; "
                "--check takes wrong, slower, larger, crash, or a command"
            )

    def judge(self, model: "ModelProto") -> str | None:
        """The exit code."""
        return _on_file(model, self.folder, self._run)

    def _run(self, path: str) -> str | None:
        arguments = [part.replace("{}", path) for part in self.command]
        if arguments == list(self.command):
            arguments.append(path)
        sys.stderr.flush()
        try:
            code = subprocess.run(arguments, stdin=subprocess.DEVNULL, stdout=error_stream(), check=False).returncode
        except OSError as error:
            raise CheckError(f"the check command {arguments[0]!r} does not run: {error.strerror}") from error
        if code == CANNOT_TELL:
            self.unclear = f"the command ended with exit code {CANNOT_TELL}, which means undecided"
            return None
        return "" if code == 0 else f"the command ends with {show_code(code)}"


def _on_file(model: "ModelProto", folder: str | None, judge: Callable[[str], str | None]) -> str | None:
    """The verdict of a check of files on a model. A model that `onnx.checker` rejects is bad."""
    try:
        check(model)
    except OnnxError as error:
        return str(error)
    with tempfile.TemporaryDirectory(prefix="passat-") as temporary:
        path = os.path.join(temporary, "model.onnx")
        save(model, path, folder=folder)
        return judge(path)


CHECKS: Mapping[str, Callable[[Given, Comparing, float], Check]] = {
    "wrong": lambda given, how, _: WrongValue(given.reference(how)),
    "slower": lambda given, how, margin: Slower(given.source.runnable, given.source.folder, margin=margin, how=how, doubt=margin / 4),
    "larger": lambda given, _, margin: Larger(given.module, given.source.folder, margin=margin),
    "crash": lambda given, how, _: Crash(given.source.folder, how),
}
"""The named checks. Each creates a check from a model, comparison settings, and the margin of times and sizes."""
_USED: Final[Mapping[str, Sequence[str]]] = {
    "wrong": ("inputs", "rtol", "atol", "seed"),
    "slower": ("inputs", "seed", "margin"),
    "larger": ("margin",),
    "crash": ("inputs", "seed"),
}
"""The settings that each named check uses."""


def check_used(check: str, given: Mapping[str, AnyValue], spell: Spelling = as_keyword) -> None:
    """Raises ArgumentError for settings of a bisection that its check does not use."""
    for name, value in given.items():
        if value is not None and (name, value) != ("seed", 0) and name not in _USED.get(check, ()):
            uses = " or ".join(spell("check", each) for each, used in _USED.items() if name in used)
            raise ArgumentError(f"{spell(name)} applies to {uses} only, not to {spell('check', check)}")
    if check == "slower":
        check_drawn(given["seed"], given["inputs"], spell)


def make_check(check: str, given: Given, how: Comparing, margin: float = MARGIN) -> Check:
    """The check of this name, or of a command, for results of passes. Raises CheckError, OnnxError, VerifyError."""
    return CHECKS[check](given, how, margin) if check in CHECKS else make_command(check, given.source.folder)


def make_command(check: str, folder: str | None) -> Check:
    """The check that runs a command. Raises CheckError."""
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise CheckError(f"the check command cannot be read: {error}: {check}") from None
    return Command(words, folder)
