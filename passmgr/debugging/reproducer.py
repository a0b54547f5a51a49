"""Crash reproducers: when a pass raises, writes a folder that reproduces the exception (`passat.passmgr.replay`).

The folder contains

* `reproducer.json`: the pass, the pipeline as text, the settings of the context, the error, versions;
* `module.relay`: the module before the pass, in Relay's text format 0.0.5 with metadata;
* `constant-<n>.bin`: the elements of constants of more than 64 KiB, row-major, little-endian. Their metadata entries name the file and
  contain a `splat` of the first element, so that the text can be parsed without these files. When the size limit for files is reached,
  further constants are only kept as splats, which the README states;
* `error.txt`: the traceback; `README.txt`: a description and how to replay.

The folder contains only data. Replaying does not execute code from it.
"""

import contextlib
import dataclasses
import importlib.metadata
import json
import os
import platform
import re
import shlex
import shutil
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.counting import counted
from passat.ir.module import IRModule
from passat.ir.passat_error import PassatError
from passat.ir.tensor import Tensor
from passat.ir.text import astext
from passat.ir.text.metadata import encode
from passat.ir.whole_file import unfinished_folder
from passat.passmgr.context import PassContext
from passat.passmgr.debugging.executions import Execution, ExecutionTracker, function_of, message_of, show_error
from passat.passmgr.inspection.printing import first_element, is_large
from passat.passmgr.pass_info import PassInfo, StageInfo
from passat.passmgr.passes import Pass
from passat.passmgr.planning.plan import Step
from passat.passmgr.registry import is_registered, name_and_options
from passat.passmgr.sequential import Sequential, pipeline_text

FORMAT: Final = 1
"""The format version, in `reproducer.json`."""
DATA_LIMIT: Final = 1 << 28
"""Default maximum total size in bytes of files with constants."""
TEXT_LIMIT: Final = 10_000
"""Maximum length of the error message."""
JSON_NAME: Final = "reproducer.json"
MODULE_NAME: Final = "module.relay"
_OWN_FILES: Final = re.compile(r"reproducer\.json|module\.relay|error\.txt|README\.txt|constant-\d+\.bin|model\.onnx")
_PACKAGES: Final = ("passat", "numpy", "ml_dtypes", "networkx", "egglog", "onnx", "onnxruntime")

Extra = Callable[[str, dict[str, AnyValue]], None]
"""Writes additional files into a folder and extends `reproducer.json`; sentences under `remarks` are added to the README."""


class ReproducerError(PassatError, ValueError):
    """A reproducer cannot be written to a folder, or a folder cannot be replayed. The message names the folder."""

    exit_code = 2


class CrashReproducer(ExecutionTracker):
    """An instrument that writes a reproducer to `folder` when a pass raises, at any depth of nested pipelines.

    The folder is written atomically and replaces an older reproducer. The exception gets a note with the folder, or with the reason why it
    could not be written. `pipeline` is the running pipeline; by default it is taken from the frames of the exception. `extra` writes
    additional files; `arguments` are additional arguments of `passat replay`; `data_limit` limits the size of constants.

    Raises ReproducerError if the folder contains other files or cannot be created.

    >>> import tempfile
    >>> from passat.passmgr import Sequential, module_pass
    >>> @module_pass(opt_level=0)
    ... def Broken(mod, ctx):
    ...     raise ValueError("no luck")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with contextlib.suppress(ValueError), PassContext(instruments=[CrashReproducer(folder + "/crash")]):
    ...         mod = Sequential([Broken])(IRModule())
    ...     sorted(os.listdir(folder + "/crash"))
    ['README.txt', 'error.txt', 'module.relay', 'reproducer.json']
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        pipeline: Pass | None = None,
        *,
        extra: Extra | None = None,
        arguments: Sequence[str] = (),
        data_limit: int = DATA_LIMIT,
    ) -> None:
        super().__init__()
        self.folder = os.path.abspath(folder)
        self.written = False
        """Whether a reproducer has been written."""
        self._arguments = tuple(arguments)
        self._pipeline = pipeline
        self._extra = extra
        self._data_limit = data_limit
        self._before = IRModule()
        """The module before the pass that raised."""
        self._begun: list[list[PassInfo]] = []
        """For each pipeline around it, the passes that had started."""
        check_folder(self.folder)

    @property
    def command(self) -> str:
        """The command that runs the pass again."""
        return _command(self.folder, self._arguments)

    def execution_fails(self, mod: IRModule, execution: Execution, error: BaseException) -> None:
        """Keeps the data to write if the exception is not caught."""
        self._before, self._begun = mod, [list(begun) for _, begun in self.pipelines]

    def pass_failed(self, mod: IRModule, info: PassInfo, error: BaseException) -> None:
        """Writes the reproducer when the exception leaves the outermost pipeline."""
        super().pass_failed(mod, info, error)
        if self.running or self.pipelines or self.failed is None or not isinstance(error, Exception):
            return
        try:
            self._write(self.failed, error)
        except Exception as second:  # failures here must not hide the original exception
            error.add_note(f"a reproducer could not be written to {self.folder}: {show_error(second)}")
        else:
            self.written = True
            error.add_note(f"{self.folder} contains a reproducer: {self.command}")

    def _write(self, execution: Execution, error: Exception) -> None:
        ctx = PassContext.current()
        pipeline = self._pipeline or _outermost_pass(error)
        found = None if pipeline is None else locate(pipeline, ctx, self._begun)
        with _replaced_atomically(self.folder) as folder:
            constants = _Constants(folder, self._data_limit)
            put_file(folder, MODULE_NAME, astext(self._before, form=constants.form))
            data: dict[str, AnyValue] = {
                "format": FORMAT,
                "pass": {
                    "name": execution.name,
                    "text": None if found is None else _text(found[0]),
                    "number": execution.number,
                    "path": list(execution.path),
                    "step": None if found is None else found[1],
                    "function": function_of(error),
                },
                "pipeline": None if pipeline is None else _text(pipeline),
                "rest": None if found is None else _texts(found[2]),
                "not_registered": [] if pipeline is None else _not_registered(pipeline),
                "context": context_data(ctx),
                "error": {
                    "type": type_name(error),
                    "message": message_of(error)[:TEXT_LIMIT],
                    "notes": [str(note)[:TEXT_LIMIT] for note in getattr(error, "__notes__", ())],
                },
                "remarks": [],
                "constants": {"files": constants.files, "bytes": constants.bytes, "left_out": constants.left_out},
                "versions": versions(),
            }
            if self._extra is not None:
                self._extra(folder, data)
            put_file(folder, "error.txt", "".join(traceback.format_exception(error)))
            put_file(folder, "README.txt", _readme(_command(os.path.basename(self.folder), self._arguments), data))
            put_file(folder, JSON_NAME, json.dumps(data, indent=2) + "\n")


def _command(folder: str, arguments: Sequence[str]) -> str:
    return shlex.join(["passat", "replay", folder, *arguments])


def check_folder(folder: str) -> None:
    """Raises ReproducerError if a reproducer cannot be written to a folder, or would overwrite other files."""
    parent = os.path.dirname(folder)
    if not os.path.isdir(parent):
        raise ReproducerError(f"no reproducer can be written to {folder}: there is no folder {parent}")
    if not os.access(parent, os.W_OK):
        raise ReproducerError(f"no reproducer can be written to {folder}: the folder {parent} is read-only")
    if not os.path.lexists(folder):
        return
    if os.path.islink(folder) or not os.path.isdir(folder):
        raise ReproducerError(f"no reproducer can be written to {folder}: it is not a folder")
    names = os.listdir(folder)
    strange = sorted(name for name in names if not _OWN_FILES.fullmatch(name))
    if strange or (names and JSON_NAME not in names):
        raise ReproducerError(f"no reproducer can be written to {folder}: it contains other files, such as {(strange or sorted(names))[0]}")


@contextlib.contextmanager
def _replaced_atomically(folder: str) -> Iterator[str]:
    """Yields a temporary folder that replaces `folder` when complete, and is removed on an exception."""
    check_folder(folder)
    old = f"{folder}.{os.getpid()}.old"
    try:
        with unfinished_folder(folder) as temporary:
            yield temporary
            if os.path.isdir(folder):
                os.rename(folder, old)
            os.rename(temporary, folder)
    finally:
        shutil.rmtree(old, ignore_errors=True)


def put_file(folder: str, name: str, data: str | bytes | memoryview) -> None:
    """Writes a file of a reproducer, and waits until it is on the disk."""
    with open(os.path.join(folder, name), "wb") as file:
        file.write(data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data)
        file.flush()
        os.fsync(file.fileno())


class _Constants:
    """Writes large constants to files as they are encountered."""

    def __init__(self, folder: str, limit: int) -> None:
        self._folder, self._limit = folder, limit
        self.files = self.bytes = self.left_out = 0

    def form(self, tensor: Tensor) -> dict[str, AnyValue]:
        """Encodes a constant for the metadata section."""
        if not is_large(tensor):
            return encode(tensor)
        array = np.ascontiguousarray(tensor.numpy())
        form = first_element(tensor)
        if self.bytes + array.nbytes > self._limit:
            self.left_out += 1
            return form
        form["file"] = f"constant-{self.files}.bin"
        put_file(self._folder, form["file"], array.reshape(-1).view(np.uint8).data)
        self.files += 1
        self.bytes += array.nbytes
        return form


def _outermost_pass(error: BaseException) -> Pass | None:
    """The outermost pass on the stack of an exception. Instruments do not get passes, but the frames of the exception contain them."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        owner = frame.f_locals.get("self")
        if frame.f_code.co_name == "run" and isinstance(owner, Pass):
            return owner
    return None


def locate(pipeline: Pass, ctx: PassContext, begun: Sequence[Sequence[PassInfo]]) -> tuple[Pass, str, list[Pass]] | None:
    """Returns the pass that started last, its number in the plan, and the passes after it. For passes of a stage, which run as one, this is
    a pipeline of them and the name of the stage.

    `begun` lists, for each running pipeline, outermost first, the passes that started in it. Returns None if the plan has no such passes.
    """
    if not isinstance(pipeline, Sequential) or not begun:
        return (pipeline, "", []) if not begun else None
    steps: tuple[Step, ...] = pipeline.plan(ctx).steps
    rest: list[Pass] = []
    step: Step | None = None
    for infos in begun:
        runs = [step for step in steps if step.runs]
        at = -1
        for info in infos:
            at = next((i for i in range(at + 1, len(runs)) if runs[i].pass_.info is info or _is_stage(info, runs[i])), -1)
            if at < 0:
                return None
        step = runs[at]
        if step.stage:
            together = stage_of(runs, step.stage)
            return together, step.stage, [*(later.pass_ for later in runs[at + len(together.members) :]), *rest]
        rest = [*(later.pass_ for later in runs[at + 1 :]), *rest]
        steps = step.steps
    assert step is not None
    return step.pass_, step.number, rest


def _is_stage(info: PassInfo, step: Step) -> bool:
    return isinstance(info, StageInfo) and info.name == step.stage


def stage_of(steps: Sequence[Step], stage: str) -> Sequential:
    """The passes of a stage of a plan, as a pipeline."""
    return Sequential([step.pass_ for step in steps if step.stage == stage and step.runs], name=stage)


def _text(pass_: Pass) -> str | None:
    try:
        return pipeline_text(pass_)
    except ValueError:
        return None


def _texts(passes: Sequence[Pass]) -> str | None:
    texts = [_text(pass_) for pass_ in passes]
    return ",".join(text for text in texts if text) if None not in texts else None


def _not_registered(pipeline: Pass) -> list[str]:
    """The names of passes that cannot be recreated from text: unregistered ones, and those with options without text form."""
    found: dict[str, None] = {}
    stack = [pipeline]
    while stack:
        pass_ = stack.pop()
        if pass_.members is not None and "made_by" not in vars(pass_):
            stack.extend(reversed(pass_.members))
            continue
        name = name_and_options(pass_)[0]
        if not is_registered(name) or _text(pass_) is None:
            found[name] = None
    return list(found)


def context_data(ctx: PassContext) -> dict[str, AnyValue]:
    """The settings of a context as plain data; `config_left_out` lists the options whose values have no JSON form."""
    config: dict[str, AnyValue] = {}
    left_out: dict[str, str] = {}
    for key, value in ctx.config.items():
        plain = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
        try:
            json.dumps(plain)
        except (TypeError, ValueError):
            left_out[key] = type(value).__name__
        else:
            config[key] = plain
    return {
        "opt_level": ctx.opt_level,
        "required_pass": list(ctx.required_pass),
        "disabled_pass": list(ctx.disabled_pass),
        "config": config,
        "config_left_out": left_out,
    }


def type_name(error: BaseException) -> str:
    """The qualified name of an exception class.

    >>> type_name(KeyError("x"))
    'KeyError'
    """
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def versions() -> dict[str, str]:
    """Versions of Python and of the relevant installed packages."""
    found = {"python": platform.python_version(), "system": f"{platform.system()} {platform.machine()}"}
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _readme(command: str, data: Mapping[str, AnyValue]) -> str:
    failed, error = data["pass"], data["error"]
    lines = [
        f"The pass {failed['name']} (pass {failed['number']} of the run) raised {error['type']}.",
        "",
        f"To run it again:    {command}",
        "",
        f"{MODULE_NAME} is the module before the pass, {JSON_NAME} the pipeline and the settings, error.txt the traceback.",
    ]
    if data["not_registered"]:
        names = ", ".join(data["not_registered"])
        lines.append(f"These passes cannot be created from text: {names}. Replay them with passat.passmgr.replay(folder, pipeline).")
    if data["constants"]["left_out"]:
        count = data["constants"]["left_out"]
        were = "was too large to be kept and is replaced by its" if count == 1 else "were too large to be kept and are replaced by their"
        lines.append(f"{counted(count, 'constant')} {were} first element, repeated.")
    if data["context"]["config_left_out"]:
        lines.append(f"These options have values that cannot be written: {', '.join(data['context']['config_left_out'])}.")
    return "\n".join([*lines, *data["remarks"]]) + "\n"
