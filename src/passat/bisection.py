"""Bisecting the optimisation of a model: which pass makes it wrong, slower, larger, crash, or fail a command of the user's."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue

from passat.checks import Check, CheckError, Command, Crash, Larger, Slower, WrongValue
from passat.ir.module import IRModule
from passat.ir.onnx import load, save, to_onnx
from passat.passmgr import AlreadyTrueError, NeverTrueError, PassBisect, PassContext, bisect_passes
from passat.passmgr.debugging.bisect import CannotTellError, PassRaisedError
from passat.pipelines import Passes, build_pipeline
from passat.rules import RuleSet
from passat.settings import DEFAULT_LEVEL
from passat.verify import AS_USUAL, Comparing, Reference


@dataclass(frozen=True, eq=False)
class Bisection:
    """What bisecting the optimisation of a model found: the pass, and what is wrong after it, in a sentence."""

    source: str
    check: str
    found: PassBisect
    why: str

    def to_dict(self) -> dict[str, AnyValue]:
        """The finding as plain data for JSON. `candidates` are several where the check cannot tell between them."""
        found = self.found
        candidates = [{"number": one.number, "pass": one.name, "pipelines": list(one.path)} for one in found.candidates]
        return {
            "source": self.source,
            "check": self.check,
            "number": found.execution.number,
            "pass": found.execution.name,
            "pipelines": list(found.execution.path),
            "function": found.function,
            "why": self.why,
            "crashed": found.error is not None,
            "candidates": candidates,
            "passes": [one.name for one in found.executions],
            "calls": found.calls,
        }

    def __str__(self) -> str:
        found = self.found
        times = "once" if found.calls == 1 else f"{found.calls} times"
        if len(found.candidates) > 1:
            return f"{found}\nafter the last of them: {self.why}\n(the check ran {times})"
        why = f"\nafter it: {self.why}" if self.why else ""
        return f"the first bad pass is {found}{why}\n(the check ran {times})"

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Writes the models before and after the pass, `before.onnx` and `after.onnx`, into a folder, which is made. Returns their paths.

        There is no model after a pass that raised. Raises OnnxError.
        """
        os.makedirs(folder, exist_ok=True)
        paths = []
        for name, mod in (("before", self.found.before), ("after", self.found.after)):
            if mod is not None:
                paths.append(os.path.join(folder, f"{name}.onnx"))
                save(to_onnx(mod), paths[-1], folder=os.path.dirname(self.source) or ".")
        return paths


def bisect_model(
    model: str | os.PathLike[str],
    check: str,
    *,
    passes: Passes = None,
    rules: Sequence[type[RuleSet]] = (),
    opt_level: int | None = None,
    config: Mapping[str, AnyValue] | None = None,
    how: Comparing = AS_USUAL,
    margin: float = 0.1,
    progress: Callable[[str], None] | None = None,
) -> Bisection:
    """The first pass of an optimisation after which a model is bad, by running a logarithmic number of models in between.

    `check` says what bad is: "wrong" (it computes something else than the original), "slower" (by more than `margin` of the time),
    "larger" (more nodes, or by more than `margin` of the bytes), "crash" (the pass raises, or ONNX Runtime fails on the model), or a
    command, which gets the path of a model (`passat.checks.Command`). `passat.verify.comparing` says how
    models are compared. The rest, and the settings of a context around the call, are as in
    `passat.optimize`.

    Raises BisectError where there is no such pass, CheckError for a check that cannot be made, OnnxError, PipelineError, RuleError,
    VerifyError, InputsError.
    """
    source = os.fspath(model)
    refuse_pipe(source)
    tell = progress or (lambda _: None)
    command = None if check in CHECKS else read_command(check, os.path.dirname(source) or ".")
    tell("reading the model")
    module = load(source, lenient=True)
    settings = (PassContext.entered() or PassContext(DEFAULT_LEVEL)).inside(opt_level, config).with_instruments()
    pipeline = settings.run(build_pipeline, passes, rules)
    asked = command or CHECKS[check](source, how, margin)
    calls = 0

    def ask(mod: IRModule) -> bool | None:
        nonlocal calls
        calls += 1
        tell(f"checking a model ({calls})")
        return asked(mod)

    tell("running the passes")
    try:
        found = bisect_passes(pipeline, module, ask, settings, crashes=check == "crash")
    except AlreadyTrueError:
        raise AlreadyTrueError(f"{source} is bad before any pass ran: {asked.why}") from None
    except CannotTellError as error:
        which = source if error.what == "the input" else f"what the passes make of {source}"
        raise CannotTellError(f"the check cannot tell whether {which} is bad: {asked.unclear}", error.what) from None
    except PassRaisedError as error:
        raise PassRaisedError(f"{error.found}; --check crash looks for that", error.found) from error.__cause__
    except NeverTrueError as error:
        ran = str(error).rpartition("(")[2].removesuffix(")")
        raise NeverTrueError(f"{source} is good after all passes, so none is to blame ({ran})") from None
    return Bisection(source, check, found, "" if found.error else asked.why)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError as error:
        raise CheckError(f"the command to check with cannot be read: {error}: {command}") from None


def _wrong(source: str, how: Comparing, margin: float) -> Check:
    folder = os.path.dirname(source) or "."
    return WrongValue(Reference(source, how, folder=folder), folder)


def _slower(source: str, how: Comparing, margin: float) -> Check:
    return Slower(source, os.path.dirname(source) or ".", margin=margin, how=how, doubt=margin / 4)


def _larger(source: str, how: Comparing, margin: float) -> Check:
    return Larger(source, os.path.dirname(source) or ".", margin=margin)


def _crash(source: str, how: Comparing, margin: float) -> Check:
    return Crash(os.path.dirname(source) or ".")


CHECKS: Mapping[str, Callable[[str, Comparing, float], Check]] = {"wrong": _wrong, "slower": _slower, "larger": _larger, "crash": _crash}
"""The checks that have a name: what makes one of the path of a model, how it is compared, and the margin of times and sizes."""


def make_check(check: str, source: str, how: Comparing, margin: float = 0.1) -> Check:
    """The check of a name, or of a command, for models made of the one at a path. Raises CheckError, OnnxError, VerifyError."""
    return CHECKS[check](source, how, margin) if check in CHECKS else read_command(check, os.path.dirname(source) or ".")


def read_command(check: str, folder: str) -> Command:
    """The check of a command line. Raises CheckError where it is none."""
    return Command(_words(check), folder)


def refuse_pipe(source: str) -> None:
    """Raises CheckError for what can be read once only."""
    if os.path.exists(source) and not os.path.isfile(source) and not os.path.isdir(source):
        raise CheckError(f"{source} is a pipe or a device; a bisection reads the model several times, so save it to a file first")
