"""Reports passes that raise during an optimization: the error message, and the reproducer folder."""

import contextlib
import hashlib
import os
import sysconfig
import traceback
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final
from typing import Any as AnyValue

from passat.ir.module import IRModule
from passat.ir.onnx import OnnxError, from_onnx
from passat.ir.passat_error import PassatError
from passat.passmgr import (
    BrokenModuleError,
    CrashReproducer,
    ExecutionTracker,
    Pass,
    PassContext,
    Replay,
    Reproducer,
    ReproducerError,
    Sequential,
    VerifyEach,
    read_reproducer,
    replay,
)
from passat.passmgr.debugging.executions import function_of, show_error
from passat.passmgr.debugging.replaying import attempt
from passat.passmgr.debugging.reproducer import put_file
from passat.passmgr.planning.dependencies import names_in_pass
from passat.passmgr.registry import is_registered
from passat.pipelines import Passes, build_pipeline
from passat.rulefile import file_of, files_registering
from passat.rules import RuleSet

if TYPE_CHECKING:
    from onnx import ModelProto

MODEL_LIMIT: Final = 1 << 26
"""Maximum size in bytes of a model that is copied into a reproducer. For a larger one, or one with external data, the path is recorded."""
MODEL_NAME: Final = "model.onnx"
_LISTED: Final = 12


class PassError(PassatError, RuntimeError):
    """A pass raised. The message names the pass, the function, the exception, and the passes that ran before.  `__cause__` is the exception
    itself."""

    exit_code = 1


class FailureWatch(ExecutionTracker):
    """Identifies the pass that made a pipeline raise."""

    def accuse(self, error: Exception, reproducer: CrashReproducer | None) -> PassError | None:
        """The error for an exception of a pipeline; None if it does not come from a pass."""
        execution = self.failed
        if execution is None:
            return None
        if isinstance(error, BrokenModuleError):
            accusation = str(error.args[0])
        else:
            function = function_of(error)
            where = "" if function is None else f" at the function @{function}"
            accusation = f"the pass {execution.place} failed{where}: {show_error(error)}{place_in_user_code(error)}"
        before = [one.place for one in self.executions[: execution.number - 1]]
        listed = ", ".join([*(["..."] if len(before) > _LISTED else []), *before[-_LISTED:]]) or "nothing"
        kept = f"; {reproducer.command} reproduces it" if reproducer is not None and reproducer.written else ""
        lost = next((f"; {note}" for note in getattr(error, "__notes__", ()) if note.startswith("a reproducer could not be written")), "")
        return PassError(f"{accusation}; before it ran: {listed}{kept}{lost}")


def place_in_user_code(error: BaseException) -> str:
    """The innermost line outside of Passat and installed packages, in parentheses; empty if there is none."""
    installed = (*(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "platstdlib", "purelib", "platlib")), "<frozen ")
    for frame, line in reversed(list(traceback.walk_tb(error.__traceback__))):
        file = frame.f_code.co_filename
        own = frame.f_globals.get("__name__", "").partition(".")[0] == "passat"
        if not own and not file.startswith(installed):
            return f" ({os.path.relpath(file) if file.startswith(os.getcwd() + os.sep) else file}:{line})"
    return ""


def check_passes(pipeline: Pass, module: IRModule, settings: PassContext, reproducer: CrashReproducer | None) -> None:
    """Runs a pipeline again, in a context with the same settings and instruments, and checks the module after every pass.

    Raises PassError for a pass that breaks it; ignores other exceptions.
    """
    watch = FailureWatch()
    instruments = [*settings.instruments, watch, *([reproducer] if reproducer else []), VerifyEach()]
    try:
        with settings.with_instruments(instruments):
            pipeline(module)
    except BrokenModuleError as error:
        accusation = watch.accuse(error, reproducer)
        if accusation is not None:
            raise accusation from error
    except Exception:
        return


def make_reproducer(
    folder: str | os.PathLike[str],
    pipeline: Pass,
    *,
    model: "ModelProto",
    path: str | None,
    passes: Passes,
    rules: Sequence[type[RuleSet]],
) -> CrashReproducer:
    """The instrument that writes a reproducer for a failing `optimize`: the model or its path, the passes as given, and the names of rule
    files. Raises ReproducerError."""
    own: list[dict[str, AnyValue]] = [{"name": one.__name__, "file": file_of(one)} for one in rules]
    files = list(dict.fromkeys([*(one["file"] or "FILE.py" for one in own), *files_registering(names_in_pass(pipeline))]))

    def extra(target: str, data: dict[str, AnyValue]) -> None:
        kept = keep_model(model, path, target)
        remarks = data["remarks"]
        if "path" in kept:
            remarks.append(f"The model is not in this folder; it was read from {kept['path']}.")
        if files:
            remarks.append(f"It ran with user-defined rules or passes, which are not in this folder but in {', '.join(files)}.")
        given_as = "text" if isinstance(passes, str) else "default" if passes is None else "objects"
        stated = {"given_as": given_as, "passes": passes if isinstance(passes, str) else None, "rules": own, "model": kept}
        data["optimize"] = stated
        names = [one["name"] for one in own]
        data["not_registered"] = [name for name in data["not_registered"] if name not in (*names, "+".join(names))]

    return CrashReproducer(folder, pipeline, extra=extra, arguments=[word for file in files for word in ("--rules", file)])


def keep_model(model: "ModelProto", path: str | None, folder: str) -> dict[str, AnyValue]:
    """Writes a model to a folder, or records its path, in the form that `kept_path` reads; neither for a large one in memory."""
    from passat.ir.onnx.sizes import model_bytes

    external = any(tensor.data_location == tensor.EXTERNAL for tensor in model.graph.initializer)
    if not external and model_bytes(model) <= MODEL_LIMIT:
        put_file(folder, MODEL_NAME, model.SerializeToString(deterministic=True))
        return {"file": MODEL_NAME}
    if path is not None and os.path.isfile(path):
        return {"path": os.path.abspath(path), "bytes": os.path.getsize(path), "sha256": _digest(path)}
    return {"missing": "a model in memory that is large, or has external data"}


def _digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def replay_folder(folder: str | os.PathLike[str], rules: Sequence[type[RuleSet]] = ()) -> list[Replay]:
    """Replays a reproducer: the failing pass on the saved module and, if that does not fail the same way and the model is available, the
    whole pipeline on the model. The last attempt decides. `rules` are the user's rule sets of the original run, which the folder does not
    contain.

    Raises ReproducerError for an unusable folder.
    """
    recorded = read_reproducer(folder)
    stated = recorded.data.get("optimize")
    stated = stated if isinstance(stated, dict) else {}
    pipeline = _pipeline(recorded, stated, rules)
    if pipeline is not None and recorded.pass_name not in names_in_pass(pipeline) and not is_registered(recorded.pass_name):
        raise ReproducerError(
            f"{recorded.folder} needs the pass {recorded.pass_name}, which is not registered here: "
            "pass the file that registers it with --rules"
        )
    found: list[Replay] = []
    unusable: ReproducerError | None = None
    try:
        found.append(replay(recorded, pipeline))
    except ReproducerError as error:
        unusable = error
    if found and found[0].same:
        return found
    if pipeline is not None and (path := kept_path(recorded.folder, stated.get("model"))) is not None:
        with contextlib.suppress(OnnxError):
            found.append(attempt(recorded, "the whole pipeline on the model", pipeline, from_onnx(path, lenient=True)))
    if unusable is not None and not found:
        raise unusable
    return found


def _pipeline(recorded: Reproducer, stated: Mapping[str, AnyValue], rules: Sequence[type[RuleSet]]) -> Sequential | None:
    """The pipeline as given to `optimize`, with the user's rules; None if it was not given as text."""
    wanted = stated.get("rules", [])
    require_rules(recorded.folder, wanted, rules)
    exact = stated.get("given_as") in ("text", "default")
    text = stated.get("passes") if exact else recorded.pipeline
    if exact and not isinstance(text, str) and stated["given_as"] == "text":
        raise ReproducerError(f"{recorded.folder}: the text of its pipeline is missing")
    if not exact and (text is None or wanted):
        return None
    try:
        return build_pipeline(text, rules if exact else [one for one in rules if one.__name__ in recorded.not_registered])
    except (ValueError, LookupError) as error:  # a pipeline that does not parse, or incompatible rules
        if not exact:
            return None  # the unknown pass may be another one of the pipeline
        reason = str(error).split("\n", 1)[0]
        raise ReproducerError(f"{recorded.folder}: its pipeline cannot be built here: {reason}") from error


def require_rules(folder: str, wanted: object, rules: Sequence[type[RuleSet]]) -> None:
    """Raises ReproducerError if the user's rules of the original run are missing."""
    names = {one.__name__ for one in rules}
    if not isinstance(wanted, list) or not all(isinstance(one, dict) and isinstance(one.get("name"), str) for one in wanted):
        raise ReproducerError(f"{folder}: the list of its rules is invalid")
    missing = [one for one in wanted if one["name"] not in names]
    if missing:
        file = missing[0].get("file") or "an unknown file"
        raise ReproducerError(
            f"{folder} needs the rules {missing[0]['name']} from {file}, which is a program and not stored in the folder: "
            "pass it with --rules"
        )


def kept_path(folder: str, kept: object) -> str | None:
    """The path of the model that `keep_model` recorded; None if it is gone or has changed."""
    if not isinstance(kept, dict):
        return None
    path = kept.get("path")
    if kept.get("file") == MODEL_NAME:
        path = os.path.join(folder, MODEL_NAME)
        if os.path.islink(path) or not os.path.isfile(path):
            return None
    elif (
        not isinstance(path, str)
        or not os.path.isfile(path)
        or os.path.getsize(path) != kept.get("bytes")
        or _digest(path) != kept.get("sha256")
    ):
        return None
    return path
