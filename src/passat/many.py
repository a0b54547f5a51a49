"""`passat.optimize_many`: several models, one after the other, in processes of this machine, or on a cluster."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any as AnyValue
from typing import Final

from passat.ir import argument_checks
from passat.ir.argument_checks import ArgumentError
from passat.ir.counting import counted
from passat.ir.long_words import short_repr
from passat.jobs import Executor, run_jobs
from passat.optimizer import Result, optimize
from passat.passmgr import PassContext
from passat.report import Report
from passat.settings import LOG, settings_of
from passat.source import IN_MEMORY, ModelLike, open_source

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class Optimized:
    """The outcome for one of several models: the report and the result, or the error. `result` is None if results are written to files."""

    source: str
    report: Report | None = None
    result: Result | None = None
    error: Exception | None = None


def optimize_many(
    models: Iterable[ModelLike],
    *,
    output: PathLike | Sequence[PathLike] | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    **keywords: AnyValue,
) -> list[Optimized]:
    """Optimizes several models. A model that cannot be optimized does not stop the others.

    * `models`: models as `passat.optimize` takes them.
    * `output`: a folder, in which each result gets the name of its model's file, or a path for each result. A missing folder is created,
      unless all models fail. Without `output`, results stay in memory.
    * `jobs`: the number of processes. With more than one, a script needs `if __name__ == "__main__":` around its calls, as with
      `multiprocessing`.
    * `executor`: runs the jobs instead: an executor of `concurrent.futures`, a `dask.distributed.Client`, or anything with a method
      `submit(function, *args)` that returns futures with `result` and `add_done_callback`. Its workers import passat, and see files under
      the same paths.
    * All other keywords are those of `passat.optimize`. They go to other processes, so that rules are given as files or importable classes.
      `progress` is called here, with a line for each model that is done. `folder` is for the models in memory among several.

    Settings of a `with PassContext(...)` around the call hold for all models, without its instruments. Returns an `Optimized` for each
    model, in order. Raises ArgumentError and TypeError for invalid arguments, before anything runs.
    """
    if not argument_checks.is_sequence(models) and not isinstance(models, Iterator):
        raise TypeError(f"models must be a list of models, not {short_repr(models)}")
    given = list(models)
    found: list[Optimized | None] = [None] * len(given)
    progress = settings_of("optimize_many", {"progress": keywords.pop("progress", None)}).progress  # checked
    for done, (number, one) in enumerate(optimize_each(given, output=output, jobs=jobs, executor=executor, **keywords), 1):
        found[number] = one
        if progress is not None:
            progress(f"{one.source} {'failed' if one.error else 'is done'}, {done} of {len(given)}")
    return [one for one in found if one is not None]


def optimize_each(
    models: Sequence[ModelLike],
    *,
    output: PathLike | Sequence[PathLike] | None = None,
    jobs: int = 1,
    executor: Executor | None = None,
    **keywords: AnyValue,
) -> Iterator[tuple[int, Optimized]]:
    """The results of `optimize_many`, each with its number, in order of completion. Checks the arguments at the first one."""
    argument_checks.integer(1)("jobs", jobs)
    if executor is not None:
        argument_checks.executor("executor", executor)
    if jobs > 1 and executor is not None:
        raise ArgumentError(f"jobs={jobs} starts processes here, and executor runs the jobs elsewhere; drop one of the two")
    settings_of("optimize_many", keywords)  # raises for invalid ones
    traced = [name for name in ("record", "explain", "certificate") if keywords.get(name)]
    if traced and jobs > 1 and output is None:
        raise ArgumentError(f"{traced[0]}=True makes results that cannot come back from another process; give output=, or jobs=1")
    outputs = output_paths(models, output)
    entered = PassContext.entered()
    context = None if entered is None else entered.with_instruments()
    targets = outputs
    if executor is not None:  # its workers may be in other folders
        keywords, targets = _absolute(keywords), [path and os.path.abspath(path) for path in outputs]
    tasks: dict[int, _Task] = {}
    apart = executor is not None or jobs > 1
    in_files = sum(isinstance(model, argument_checks.PATH) for model in models)
    for number, (model, path, target) in enumerate(zip(models, outputs, targets, strict=True)):
        try:
            given = _portable(model, keywords.get("folder"), absolute=executor is not None) if apart else model
        except Exception as error:  # of this model
            yield number, Optimized(_name(model), error=error)
            continue
        own = {**keywords, "folder": None} if in_files < len(models) and isinstance(model, argument_checks.PATH) else keywords
        tasks[number] = _Task(_name(model), given, path, target, context, own)
    with created([output] if isinstance(output, (str, os.PathLike)) else []):
        for number, outcome in run_jobs(tasks, processes=jobs, executor=executor):
            yield number, Optimized(tasks[number].name, error=outcome) if isinstance(outcome, Exception) else outcome


@contextlib.contextmanager
def created(folders: Iterable[PathLike]) -> Iterator[None]:
    """Creates the folders that do not exist, and removes those into which nothing was written. Raises ArgumentError if one cannot be
    created."""
    new = [folder for folder in folders if not os.path.isdir(folder)]
    for folder in new:
        try:
            os.makedirs(folder, exist_ok=True)
        except OSError as error:
            raise ArgumentError(f"the folder {os.fsdecode(folder)} of the results cannot be created: {error.strerror or error}") from error
    try:
        yield
    finally:
        for folder in new:
            with contextlib.suppress(OSError):
                os.rmdir(folder)


def output_paths(models: Sequence[ModelLike], output: PathLike | Sequence[PathLike] | None) -> list[str | None]:
    """The paths of the results. Raises ArgumentError if two results have the same path, or a result would replace a model."""
    if output is None:
        return [None] * len(models)
    if isinstance(output, (str, os.PathLike)):
        folder = os.fsdecode(output)
        if not folder:
            raise ArgumentError("output is empty; it names the folder of the results")
        if any(not isinstance(model, (str, os.PathLike)) for model in models):
            raise ArgumentError("output is a folder, and a model in memory has no file name: give a path for each result")
        paths = [os.path.join(folder, os.path.basename(os.fsdecode(model))) for model in models]  # type: ignore[arg-type]  # they are paths
    else:
        argument_checks.sequence(argument_checks.PATH, "a folder, or a list of paths")("output", output)
        paths = [os.fsdecode(path) for path in output]
        if len(paths) != len(models):
            raise ArgumentError(f"output has {counted(len(paths), 'path')} for {counted(len(models), 'model')}")
    read = {os.path.realpath(model): os.fsdecode(model) for model in models if isinstance(model, (str, os.PathLike))}
    taken: dict[str, int] = {}
    for number, path in enumerate(paths):
        place = os.path.realpath(path)
        if place in read:
            raise ArgumentError(f"the result {path} would replace the model {read[place]}; give another folder or other names")
        other = taken.setdefault(place, number)
        if other != number:
            both = f"{_name(models[other])} and {_name(models[number])}"
            raise ArgumentError(f"{both} would both be written to {path}; rename one of them, or optimize them separately")
    return list(paths)


def _name(model: ModelLike) -> str:
    return os.fsdecode(model) if isinstance(model, (str, os.PathLike)) else IN_MEMORY


def _portable(model: ModelLike, folder: PathLike | None, *, absolute: bool) -> AnyValue:
    """The form of a model that is sent to another process: its path, or a ModelProto. Raises OnnxError."""
    if isinstance(model, (str, os.PathLike)):
        return os.path.abspath(model) if absolute else model
    return open_source(model, folder).proto


def _absolute(keywords: dict[str, AnyValue]) -> dict[str, AnyValue]:
    """The keywords for a process that may be in another folder."""

    def absolute(value: AnyValue) -> AnyValue:
        if isinstance(value, (str, os.PathLike)):
            return os.path.abspath(os.fsdecode(value))
        return [absolute(each) for each in value] if argument_checks.is_sequence(value) else value

    return {name: absolute(value) if name in _PATHS else value for name, value in keywords.items()}


_PATHS: Final = ("rules", "inputs", "custom_ops", "folder", "reproducer")
"""The keywords that are paths, or lists of them."""


@dataclass(frozen=True, eq=False)
class _Task:
    """A model to be optimized, in this process or another one."""

    name: str
    model: AnyValue
    output: str | None
    target: str | None
    """Where the output is for the process that writes it."""
    context: PassContext | None
    keywords: dict[str, AnyValue]

    def __call__(self) -> Optimized:
        """Optimizes the model, and writes the result if it has a path."""
        LOG.info("optimizing %s", self.name)
        with contextlib.nullcontext() if self.context is None else self.context:
            result = optimize(self.model, **self.keywords)
        if self.target is not None:
            result.save(self.target)
            if result.former_data and isinstance(self.model, (str, os.PathLike)):  # the caller may need the data of a model in memory
                from passat.ir.onnx.files import remove_former  # needs onnx

                result.report.warnings += remove_former(result.former_data, self.target)
        result.report.source, result.report.output = self.name, self.output or ""
        return Optimized(self.name, result.report, None if self.output is not None else result)
