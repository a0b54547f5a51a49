"""Replays crash reproducers (`passat.passmgr.debugging.reproducer`): validates the folder and runs the pass again."""

import base64
import json
import math
import os
import re
import stat
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir.argument_checks import FOLDER
from passat.ir.bounded_read import decode_json, read_bounded
from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.module import IRModule
from passat.ir.text import ParseError, parse
from passat.ir.text.metadata import CONSTANT
from passat.passmgr.context import PassContext
from passat.passmgr.debugging.executions import ExecutionTracker, message_of, show_error
from passat.passmgr.debugging.reproducer import FORMAT, JSON_NAME, MODULE_NAME, TEXT_LIMIT, ReproducerError, stage_of, type_name
from passat.passmgr.inspection.checks import BrokenModuleError, KeptFunctionsCheck, ModuleChangedError, VerifyEach
from passat.passmgr.instruments import PassInstrument
from passat.passmgr.passes import Pass
from passat.passmgr.sequential import PipelineError, Sequential, parse_pipeline

_SECTION: Final = "\n#[metadata]\n"
_JSON_LIMIT: Final = 1 << 26
"""Maximum size in bytes of the JSON of a folder."""
_CONSTANT_FILE: Final = re.compile(r"constant-\d+\.bin")


@dataclass(frozen=True)
class Reproducer:
    """The validated contents of `reproducer.json`: the pass that raised, its position, its exception, and the settings.

    `pipeline` and `pass_text` are None if they have no text form. `step` is the number of the pass in the plan of the pipeline. `data` is
    the whole file, including additional entries.
    """

    folder: str
    pass_name: str
    pass_text: str | None
    step: str | None
    pipeline: str | None
    not_registered: tuple[str, ...]
    error_type: str
    message: str
    opt_level: int
    required_pass: tuple[str, ...]
    disabled_pass: tuple[str, ...]
    config: Mapping[str, AnyValue]
    data: Mapping[str, AnyValue]

    def context(self, tracker: ExecutionTracker | None = None) -> PassContext:
        """The context in which the pass raised, with the check that raised. Raises ReproducerError for unknown options."""
        instruments: list[PassInstrument] = [] if tracker is None else [tracker]
        if instruments and self.error_type in _CHECKS:
            instruments.insert(0, _CHECKS[self.error_type]())  # before the tracker, which then sees its exception even for a lone pass
        try:
            return PassContext(self.opt_level, self.required_pass, self.disabled_pass, instruments, self.config)
        except AttributeError as error:
            raise ReproducerError(f"{self.folder}: invalid settings: {error}") from error


@dataclass(frozen=True)
class Replay:
    """The result of a replay. `error` is the exception, or None; `where` describes what was run.

    `same` is whether the same pass raised an exception of the same class. Messages may differ, for example in locations.
    """

    recorded: Reproducer
    where: str
    pass_name: str | None
    error: Exception | None

    @property
    def same(self) -> bool:
        """Whether it fails as recorded."""
        return self.error is not None and self.pass_name == self.recorded.pass_name and type_name(self.error) == self.recorded.error_type

    @property
    def failure(self) -> str | None:
        """A description of the exception; None if there is none."""
        return None if self.error is None else f"{type(self.error).__name__}: {self.error}"

    def __str__(self) -> str:
        if self.error is None:
            return f"{self.where} does not fail"
        if not self.same:
            there = "outside of any pass" if self.pass_name is None else f"in the pass {self.pass_name}"
            was = f"{self.recorded.error_type} in the pass {self.recorded.pass_name}"
            return f"{self.where} fails, but differently: {show_error(self.error)} {there}; it was {was}"
        message = "" if message_of(self.error)[:TEXT_LIMIT] == self.recorded.message else " (with a different message)"
        return f"{self.where} fails the same way{message}: {show_error(self.error)}"


def read_reproducer(folder: str | os.PathLike[str]) -> Reproducer:
    """Reads a reproducer folder. Raises ReproducerError for missing or invalid contents."""
    FOLDER("folder", folder)
    folder = os.fspath(folder)
    if not os.path.isdir(folder):
        raise ReproducerError(f"{folder} is not a folder" if os.path.lexists(folder) else f"there is no folder {folder}")
    form = read_form(folder, JSON_NAME, FORMAT, ", so it is not a crash reproducer")
    optional = (str, type(None))
    made = Reproducer(
        folder=folder,
        pass_name=form.get("pass.name", str),
        pass_text=form.get("pass.text", *optional),
        step=form.get("pass.step", *optional),
        pipeline=form.get("pipeline", *optional),
        not_registered=form.names("not_registered"),
        error_type=form.get("error.type", str),
        message=form.get("error.message", str),
        opt_level=form.get("context.opt_level", int),
        required_pass=form.names("context.required_pass"),
        disabled_pass=form.names("context.disabled_pass"),
        config=form.get("context.config", dict),
        data=form.data,
    )
    made.context()
    return made


class Form:
    """The untrusted JSON of a file, with checked access. Raises ReproducerError."""

    def __init__(self, file: str, data: AnyValue) -> None:
        self._file, self.data = file, data

    def get(self, path: str, *kinds: type) -> AnyValue:
        """The value at a path of keys, which must be of one of the kinds."""
        value = self.data
        for key in path.split("."):
            if not isinstance(value, dict) or key not in value:
                raise ReproducerError(f"{self._file} has no {path!r}")
            value = value[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise ReproducerError(f"{self._file}: {path!r} must be {kinds[0].__name__}, not {type(value).__name__}")
        return value

    def names(self, path: str) -> tuple[str, ...]:
        """The names at a path of keys."""
        values = self.get(path, list)
        if not all(isinstance(value, str) for value in values):
            raise ReproducerError(f"{self._file}: {path!r} must be a list of names")
        return tuple(values)


def read_form(folder: str, name: str, format: int, so: str = "") -> Form:
    """The JSON of a file in a folder, which must be of a format. `so` says what its absence means. Raises ReproducerError."""
    content = _read(folder, name, so, _JSON_LIMIT)
    try:
        form = Form(f"{folder}/{name}", decode_json(content))
    except ValueError as error:
        raise ReproducerError(f"{folder}/{name} is not valid JSON: {error}") from None
    if (found := form.get("format", int)) != format:
        raise ReproducerError(f"{folder} has format {found}; this version of Passat reads format {format}")
    return form


def replay(folder: "str | os.PathLike[str] | Reproducer", pipeline: Pass | None = None) -> Replay:
    """Runs the pass that raised on its input module, with the same settings.

    `pipeline` is the recorded pipeline, created again by the caller; without it the pass is created from text, which requires that it is
    registered. Raises ReproducerError for an unusable folder.
    """
    recorded = folder if isinstance(folder, Reproducer) else read_reproducer(folder)
    pass_ = failing_pass(recorded, pipeline)
    where = f"the pass {recorded.pass_name} on the saved module"
    try:
        mod = _read_module(recorded)
    except ReproducerError:
        raise
    except Exception as error:  # the module is ill-typed, which may also be why the pass raised
        found = Replay(recorded, where, recorded.pass_name, error)
        if found.same:
            return found
        raise ReproducerError(f"{recorded.folder}/{MODULE_NAME} cannot be used: {show_error(error)}") from error
    return attempt(recorded, where, pass_, mod)


def attempt(recorded: Reproducer, where: str, pass_: Pass, mod: IRModule) -> Replay:
    """Runs a pass with the settings of a reproducer on a module, and reports the result."""
    tracker = ExecutionTracker()
    try:
        with recorded.context(tracker):
            pass_(mod)
    except Exception as error:
        return Replay(recorded, where, tracker.failed and tracker.failed.name, error)
    return Replay(recorded, where, None, None)


_CHECKS: Final[dict[str, type[PassInstrument]]] = {
    type_name(BrokenModuleError("")): VerifyEach,
    type_name(ModuleChangedError("")): KeptFunctionsCheck,
}
"""The checks that raise an exception, by its class."""


def failing_pass(recorded: Reproducer, pipeline: Pass | None = None) -> Pass:
    """The pass that raised: at its position in the pipeline, or created from its text. Raises ReproducerError."""
    if pipeline is None and recorded.pipeline is not None and recorded.step:
        try:
            pipeline = parse_pipeline(recorded.pipeline)
        except PipelineError:
            pipeline = None  # another pass of the pipeline may be the unknown one
    if pipeline is not None:
        found = _at_step(pipeline, recorded)
        if found is not None:
            return found
    if recorded.pass_text is None:
        raise ReproducerError(f"{recorded.folder}: the pass {recorded.pass_name} cannot be made from text; {_HOW}")
    try:
        made = parse_pipeline(recorded.pass_text)
    except PipelineError as error:
        reason = str(error).split("\n", 1)[0]
        raise ReproducerError(f"{recorded.folder}: the pass {recorded.pass_name} cannot be made here: {reason}; {_HOW}") from error
    return made.members[0] if len(made.members) == 1 else made


_HOW: Final = "register it, or hand the pipeline to passat.passmgr.replay(folder, pipeline)"


def _at_step(pipeline: Pass, recorded: Reproducer) -> Pass | None:
    """The pass with the recorded name at the recorded position, or its stage, or else the only pass with that name."""
    if not isinstance(pipeline, Sequential):
        return pipeline if pipeline.info.name == recorded.pass_name else None
    steps = list(pipeline.plan(recorded.context()).walk())
    if together := [step for step in steps if step.stage and step.stage == recorded.step]:
        return stage_of(together, together[0].stage)
    runs = [step for step in steps if step.runs and step.name == recorded.pass_name]
    return next((step.pass_ for step in runs if step.number == recorded.step), runs[0].pass_ if len(runs) == 1 else None)


def _read_module(recorded: Reproducer) -> IRModule:
    folder = recorded.folder
    text = _read(folder, MODULE_NAME).decode("utf-8", "replace")
    at = text.rfind(_SECTION)
    if at >= 0 and '"file"' in text[at:]:
        try:
            tables = json.loads(text[at + len(_SECTION) :])
            for form in tables.get(CONSTANT, ()):
                if "file" in form:
                    form["data"] = base64.b64encode(_elements(folder, form)).decode()
                    del form["splat"]
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if isinstance(error, ReproducerError):
                raise
            raise ReproducerError(f"{folder}/{MODULE_NAME}: invalid metadata section: {show_error(error)}") from None
        text = text[: at + len(_SECTION)] + json.dumps(tables)
    try:
        return parse(text, f"{folder}/{MODULE_NAME}")
    except ParseError as error:
        raise ReproducerError(str(error).split("\n", 1)[0]) from error


def _elements(folder: str, form: Mapping[str, AnyValue]) -> bytes:
    name = form["file"]
    if not isinstance(name, str) or not _CONSTANT_FILE.fullmatch(name):
        raise ReproducerError(f"{folder}/{MODULE_NAME} names the file {name!r}, which does not belong to a reproducer")
    data = _read(folder, name)
    wanted = math.prod(map(int, form["shape"])) * to_numpy(form["dtype"]).itemsize
    if len(data) != wanted:
        raise ReproducerError(f"{folder}/{name} has {counted(len(data), 'byte')}, but {form['dtype']}{form['shape']} requires {wanted}")
    return data


def _read(folder: str, name: str, so: str = "", limit: int = sys.maxsize) -> bytes:
    """The contents of a regular file in the folder; links, pipes and devices are rejected."""
    path = os.path.join(folder, name)
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            raise ReproducerError(f"{path} is not a regular file")
        return read_bounded(path, limit)
    except FileNotFoundError:
        raise ReproducerError(f"{folder} has no {name}{so}") from None
    except OSError as error:
        raise ReproducerError(f"{path} cannot be read: {error.strerror}") from error
