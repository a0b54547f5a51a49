"""`passat optimize` with several models: one line for each, and a failure does not stop the others."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any as AnyValue

from passat.cli.app import FAILURE, USAGE, end, explain, fail, interruption
from passat.cli.arguments import check_output_folder, check_outputs
from passat.cli.options import JobOptions, VerbosityOptions

if TYPE_CHECKING:
    from passat.many import Optimized


def check_single(rejected: Mapping[str, bool]) -> None:
    """Ends the command for options that apply to one model only."""
    for option, given in rejected.items():
        if given:
            fail(f"{option} applies to one model, and several are given", USAGE)


def result_paths(models: Sequence[Path], folder: Path | None, beside: Callable[[Path], Path]) -> list[Path]:
    """The paths of the results: in a folder under the names of the models, or beside these. Ends the command, before any work is done, if
    two results had the same path, or one would replace a model."""
    if folder is not None:
        what = f"with several models, here {models[0]} and {models[1]}," if len(models) > 1 else "with --cluster"
        several = f"{what} it names the folder of the results"
        if folder.is_file():
            fail(f"-o {folder} is a file; {several}", USAGE)
        if folder.suffix == ".onnx" and not folder.is_dir():
            fail(f"-o {folder} names a file; {several}, so give one without .onnx", USAGE)
        check_output_folder(folder, "-o")
    paths = [beside(model) if folder is None else folder / model.name for model in models]
    taken: dict[str, Path] = {}
    read = {os.path.realpath(model) for model in models}
    for model, path in zip(models, paths, strict=True):
        place = os.path.realpath(path)
        if place in read:
            fail(f"-o would overwrite {path}, which is one of the models; choose another folder", USAGE)
        if place in taken:
            fail(f"{taken[place]} and {model} would both be written to {path}; rename one of them, or optimize them separately", USAGE)
        taken[place] = model
        if folder is None or folder.is_dir():
            check_outputs({"-o": path}, {})
    return paths


def optimize_several(
    models: Sequence[Path],
    paths: Sequence[Path] | None,
    options: JobOptions,
    said: VerbosityOptions,
    settings: Mapping[str, AnyValue],
    *,
    as_json: bool,
) -> None:
    """Optimizes models, prints a line for each, and ends the command with exit code 1 if one of them failed. Without `paths` nothing is
    written."""
    from passat.many import created, optimize_each
    from passat.render import report_line

    out = sys.stdout
    found: dict[int, Optimized] = {}
    with (
        contextlib.redirect_stdout(sys.stderr),
        options.executor() as executor,
        created([] if paths is None else dict.fromkeys(path.parent for path in paths)),
        said.progress(enabled=not as_json) as progress,
    ):

        def tell(text: str = "") -> None:
            progress(f"{len(found)} of {len(models)} models are done{text and f', {text}'}")

        tell()
        here = {} if options.apart else {"progress": tell}
        each = optimize_each(models, output=paths, jobs=options.jobs, executor=executor, **settings, **here)
        stopped: KeyboardInterrupt | None = None
        try:
            for number, one in each:
                found[number] = one
                tell()
                if not as_json:
                    with progress.paused():
                        _show(one, report_line, out, quiet=said.quiet)
                if one.report is not None and one.report.interrupted and not options.apart:
                    stopped = KeyboardInterrupt()
                    break
        except KeyboardInterrupt as error:
            stopped = error
    if as_json:
        print(json.dumps([_data(found[number]) for number in sorted(found)], indent=2))
    failed = sum(one.error is not None for one in found.values())
    if stopped is not None:
        how, code = interruption(stopped)
        end(f"{how}; {_part(len(found) - failed, models)} optimized", code)
    if failed:
        end(f"{_part(failed, models)} not optimized", FAILURE)


def _part(count: int, models: Sequence[Path]) -> str:
    return f"{count} of {len(models)} models {'was' if count == 1 else 'were'}"


def _show(one: "Optimized", line: Callable[[AnyValue], AnyValue], out: AnyValue, *, quiet: bool) -> None:
    """Prints the line of a model."""
    if one.error is not None:
        print(f"error: {_sentence(one)}", file=sys.stderr, flush=True)
    elif not quiet:
        from rich.console import Console

        Console(file=out, highlight=False).print(line(one.report), soft_wrap=True)  # in color on a terminal
        out.flush()


def _sentence(one: "Optimized") -> str:
    assert one.error is not None
    sentence = explain(one.error)[0].split("\n", 1)[0]
    return sentence if sentence.startswith(one.source) else f"{one.source}: {sentence}"


def _data(one: "Optimized") -> dict[str, AnyValue]:
    return {"source": one.source, "error": _sentence(one)} if one.report is None else one.report.to_dict()
