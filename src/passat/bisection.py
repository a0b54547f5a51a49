"""Bisects the optimization of a model: finds the pass that makes it wrong, slower, larger, crash, or fail a user's command."""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final, NamedTuple

from passat.given_inputs import GivenInputs, write_inputs
from passat.ir.argument_checks import FILE, kind, number
from passat.ir.infer_error import InferError
from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, save, to_onnx
from passat.job import Given
from passat.model_checks import CHECKS, MARGIN, Check, CheckError, WrongValue, check_used, make_check, make_command
from passat.passmgr import AlreadyTrueError, BisectError, NeverTrueError, Pass, PassBisect, PassContext, Sequential, bisect_passes
from passat.passmgr.debugging.bisect import CannotTellError, PassRaisedError
from passat.pipelines import Passes, build_pipeline, check_rule_sets
from passat.rules import RuleSet
from passat.settings import DEFAULT_LEVEL, Variant, check_arguments, telling
from passat.source import open_source
from passat.verify import AS_USUAL, Comparing, Reference

READ_AND_WRITTEN: Final = "(reading and writing)"
"""The name of the stage before all passes."""
INPUTS_NAME: Final = "inputs.npz"
"""The file of the user's inputs in a folder of results."""
AS_GIVEN: Final = Variant()
"""The model as read from its file."""


def find_guilty(reference: Reference, pipeline: Pass, module: IRModule, ctx: PassContext) -> str:
    """The name of the pass after which a model first differs from the original, by binary search.

    The passes run one by one, since a stage has no program in between; together if that shows no difference, and then any pass of a stage
    may be guilty. `READ_AND_WRITTEN` if the model differs before all passes, "" if no run shows a difference, or a pass raises.
    """
    for context in (ctx.inside(config={"rules.joint": False}), ctx):
        try:
            found = bisect_passes(pipeline, module, WrongValue(reference), context, confirm=False)
        except AlreadyTrueError:
            return READ_AND_WRITTEN
        except BisectError:
            continue
        stages = pipeline.plan(context).stages if isinstance(pipeline, Sequential) else {}
        together = [one for one in found.executions if one.path == found.execution.path and stages.keys() & one.path]
        return " or ".join(dict.fromkeys(one.name for one in together or found.candidates))
    return ""


@dataclass(frozen=True, eq=False)
class Bisection:
    """The result of a bisection: the first bad pass, and why the module after it is bad, in one sentence."""

    source: str
    check: str
    found: PassBisect
    why: str
    given: GivenInputs | None = None

    def to_dict(self) -> dict[str, AnyValue]:
        """The result as plain data for JSON. `candidates` has several passes if the check cannot distinguish them."""
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
        ran = f"(the check ran {times(found.calls)})"
        if len(found.candidates) > 1:
            return f"{found}\nafter the last of them: {self.why}\n{ran}"
        why = f"\nafter it: {self.why}" if self.why else ""
        return f"the first bad pass is {found}{why}\n{ran}"

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Writes the models before and after the pass, `before.onnx` and `after.onnx`, to a folder, which is created, and the
        user's inputs, `inputs.npz`. Returns their paths. A pass that raised has no model after it. Raises OnnxError, OSError.
        """
        os.makedirs(folder, exist_ok=True)
        paths = save_programs(self.found.before, self.found.after, self.source, folder)
        if self.given is not None:
            paths.append(os.path.join(folder, INPUTS_NAME))
            write_inputs(self.given, paths[-1])
        return paths


def times(count: int) -> str:
    """How often something happened."""
    return "once" if count == 1 else f"{count} times"


def save_programs(before: IRModule | None, after: IRModule | None, source: str, folder: str | os.PathLike[str]) -> list[str]:
    """Writes programs that were made of a model as `before.onnx` and `after.onnx`. Returns the paths. Raises OnnxError, OSError."""
    paths: list[str] = []
    for name, mod in (("before", before), ("after", after)):
        if mod is not None:
            paths.append(os.path.join(folder, f"{name}.onnx"))
            try:
                model = to_onnx(mod)
            except InferError as error:
                raise OnnxError(f"{paths[-1]} cannot be written: {error.args[0]}") from error
            save(model, paths[-1], folder=os.path.dirname(source) or ".")
    return paths


def bisect_model(
    model: str | os.PathLike[str],
    check: str,
    *,
    passes: Passes = None,
    rules: Sequence[type[RuleSet]] = (),
    how: Comparing = AS_USUAL,
    margin: float | None = None,
    variant: Variant = AS_GIVEN,
    progress: Callable[[str], None] | None = None,
) -> Bisection:
    """The first pass of an optimization after which a model is bad, by binary search over intermediate models.

    `check` defines what is bad: "wrong" (other values than the original), "slower" (by more than `margin` of the time, by default 0.1),
    "larger" (more nodes, or more than `margin` of the bytes), "crash" (the pass raises, or ONNX Runtime fails on the model), or a
    command, which gets the path of a model (`passat.model_checks.Command`). `passat.verify.comparing` sets how models are compared;
    `passat.settings.Variant` sets the opset, sizes and outputs of the bisected model. Other arguments, and the settings of a
    surrounding context, are as in `passat.optimize`, except that adjacent passes do not share an e-graph unless `rules.joint` is set: a
    shared e-graph has no intermediate program. A setting that the check does not use is an error.

    Raises BisectError if no pass is bad, CheckError for a check that cannot run, ArgumentError, OnnxError, PipelineError, RuleError,
    SpecializeError, VerifyError, InputsError.
    """
    check_arguments(progress=progress)
    tell = telling(progress)
    source, module, settings, pipeline, asked = open_subject(model, check, passes, rules, how, margin, variant, tell)
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
        which = source if error.what == "the input" else f"the optimized {source}"
        raise CannotTellError(f"the check cannot tell whether {which} is bad: {asked.unclear}", error.what) from None
    except PassRaisedError as error:
        raise PassRaisedError(f"{error.found}; --check crash looks for that", error.found) from error.__cause__
    except NeverTrueError as error:
        ran = str(error).rpartition("(")[2].removesuffix(")")
        raise NeverTrueError(f"{source} is good after all passes, so no pass is to blame ({ran})") from None
    return Bisection(source, check, found, "" if found.error else asked.why, how.given)


class Subject(NamedTuple):
    """The subject of a bisection: the path of a model, its module, the settings, the pipeline, and the check."""

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
    margin: float | None,
    variant: Variant,
    tell: Callable[[str], None],
) -> Subject:
    """Reads the subject of a bisection. Raises ArgumentError, CheckError, OnnxError, PipelineError, RuleError, SpecializeError,
    VerifyError."""
    FILE("model", model)
    kind(str, "the name of a check, or a command")("check", check)
    kind(Comparing, "made by passat.verify.comparing")("how", how)
    kind(Variant, "a passat.settings.Variant")("variant", variant)
    if margin is not None:
        number("finite number", sys.float_info.max)("margin", margin)
    check_rule_sets(rules)
    rtol, atol = how.closeness or (0, 0)
    check_used(check, {"margin": margin, "inputs": how.given, "rtol": rtol or None, "atol": atol or None, "seed": how.seed})
    source = os.fspath(model)
    if os.path.exists(source) and not os.path.isfile(source) and not os.path.isdir(source):
        raise CheckError(f"{source} is a pipe or a device; a bisection reads the model several times, so save it to a file first")
    command = None if check in CHECKS else make_command(check, os.path.dirname(source) or ".")  # reports its errors before any work
    settings = (PassContext.entered() or PassContext(DEFAULT_LEVEL)).with_instruments()
    tell("reading the model")
    given = read_leniently(source, variant.in_context(settings))
    pipeline = settings.run(build_pipeline, passes, rules)
    return Subject(source, given.module, settings, pipeline, command or make_check(check, given, how, MARGIN if margin is None else margin))


def read_leniently(path: str, variant: Variant = AS_GIVEN) -> Given:
    """Reads a variant of a model. The model may contradict itself. Raises OnnxError, SpecializeError."""
    source = open_source(path, None).specialized(variant)
    return Given(source, *source.read(variant.opset, lenient=True))
