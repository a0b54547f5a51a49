"""Bisecting the optimisation of a model: which pass makes it wrong, slower, larger, crash, or fail a command of the user's."""

import os
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import NamedTuple

from passat.checks import Check, CheckError, Command, Crash, Larger, Slower, WrongValue
from passat.ir.module import IRModule
from passat.ir.onnx import load, save, to_onnx
from passat.passmgr import AlreadyTrueError, NeverTrueError, PassBisect, PassContext, Sequential, bisect_passes
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
    how: Comparing = AS_USUAL,
    margin: float = 0.1,
    progress: Callable[[str], None] | None = None,
) -> Bisection:
    """The first pass of an optimisation after which a model is bad, by running a logarithmic number of models in between.

    `check` says what bad is: "wrong" (it computes something else than the original), "slower" (by more than `margin` of the time),
    "larger" (more nodes, or by more than `margin` of the bytes), "crash" (the pass raises, or ONNX Runtime fails on the model), or a
    command, which gets the path of a model (`passat.checks.Command`). `passat.verify.comparing` says how
    models are compared. The rest, and the settings of a context around the call, are as in
    `passat.optimize`, but passes that stand side by side do not share an e-graph unless `rules.joint` is set: there is no program between
    those that do.

    Raises BisectError where there is no such pass, CheckError for a check that cannot be made, OnnxError, PipelineError, RuleError,
    VerifyError, InputsError.
    """
    tell = progress or (lambda _: None)
    source, module, settings, pipeline, asked = open_subject(model, check, passes, rules, how, margin, tell)
    settings = settings.inside(config={"rules.joint": False, **settings.config})
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


class Subject(NamedTuple):
    """What is bisected: the path of a model, its module, the settings of a pipeline, the pipeline, and what is asked about modules."""

    source: str
    module: IRModule
    settings: PassContext
    pipeline: Sequential
    asked: Check


def open_subject(
    model: str | os.PathLike[str],
    check: str,
    passes: Passes,
    rules: Sequence[type[RuleSet]],
    how: Comparing,
    margin: float,
    tell: Callable[[str], None],
) -> Subject:
    """Reads what is bisected. Raises CheckError, OnnxError, PipelineError, RuleError, VerifyError."""
    source = os.fspath(model)
    if os.path.exists(source) and not os.path.isfile(source) and not os.path.isdir(source):
        raise CheckError(f"{source} is a pipe or a device; a bisection reads the model several times, so save it to a file first")
    command = None if check in CHECKS else make_check(check, source, how, margin)  # what is wrong with it is said before any work
    tell("reading the model")
    module = load(source, lenient=True)
    settings = (PassContext.entered() or PassContext(DEFAULT_LEVEL)).with_instruments()
    pipeline = settings.run(build_pipeline, passes, rules)
    return Subject(source, module, settings, pipeline, command or make_check(check, source, how, margin))


CHECKS: Mapping[str, Callable[[str, str, Comparing, float], Check]] = {
    "wrong": lambda source, folder, how, _: WrongValue(Reference(source, how, folder=folder)),
    "slower": lambda source, folder, how, margin: Slower(source, folder, margin=margin, how=how, doubt=margin / 4),
    "larger": lambda source, folder, _, margin: Larger(source, folder, margin=margin),
    "crash": lambda _source, folder, _how, _margin: Crash(folder),
}
"""The checks that have a name: what makes one of the path of a model, its folder, how it is compared, and the margin of times and sizes."""


def make_check(check: str, source: str, how: Comparing, margin: float = 0.1) -> Check:
    """The check of a name, or of a command, for models made of the one at a path. Raises CheckError, OnnxError, VerifyError."""
    folder = os.path.dirname(source) or "."
    if check in CHECKS:
        return CHECKS[check](source, folder, how, margin)
    try:
        words = shlex.split(check)
    except ValueError as error:
        raise CheckError(f"the command to check with cannot be read: {error}: {check}") from None
    return Command(words, folder)
