"""`passat optimize` with one model, or with several: then one line for each, and a failure does not stop the others."""

import contextlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal
from typing import Any as AnyValue

import typer

from passat.cli.app import FAILURE, INTERRUPTED, USAGE, app, end, errors, explain, fail, interruption, show
from passat.cli.arguments import (
    CompareOptions,
    JsonOption,
    PassOptions,
    as_option,
    check_ending,
    check_output_folder,
    check_outputs,
    check_settings,
    load,
    not_nan,
    parse_config,
)
from passat.cli.command import DEBUGGING, PASSES, SEARCH, TRUST, command
from passat.cli.options import Inspection, InspectionOptions, JobOptions, VariantOptions, VerbosityOptions
from passat.ir.collector import collector_paused

if TYPE_CHECKING:
    from passat.many import Optimized


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """The options that are keywords of `passat.optimize`."""

    time_limit: Annotated[
        float | None,
        typer.Option(
            min=0,
            callback=not_nan,
            metavar="S",
            help="Seconds for all saturation; then the best program so far is extracted",
            rich_help_panel=SEARCH,
        ),
    ] = None
    choose: Annotated[
        Literal["cost", "time"],
        typer.Option(
            help="Criterion of the final choice: the cost, or the time on ONNX Runtime, among several candidates and the input",
            rich_help_panel=SEARCH,
        ),
    ] = "cost"
    candidates: Annotated[
        int | None,
        typer.Option(min=1, metavar="K", help="With --choose time: maximum number of candidates (default: 4)", rich_help_panel=SEARCH),
    ] = None
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", help="Compare the result with the input on ONNX Runtime", rich_help_panel=TRUST)
    ] = True
    allow_unverified: Annotated[
        bool, typer.Option("--allow-unverified", help="Write the result even if it could not be compared", rich_help_panel=TRUST)
    ] = False
    explain: Annotated[
        bool,
        typer.Option(
            "--explain", help="Write the provenance of nodes into the result, for `passat explain OUT`", rich_help_panel=DEBUGGING
        ),
    ] = False
    kernels: Annotated[
        bool,
        typer.Option(
            "--kernels",
            help="Create native kernels for nodes that ONNX Runtime leaves unfused, if the model gets faster: OUT.kernels.so beside OUT",
            rich_help_panel=SEARCH,
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class OptimizeOptions:
    """The options of the command."""

    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="OUT",
            help="File or folder to write the result to; with several models a folder (default: NAME.optimized.onnx beside IN)",
        ),
    ] = None
    variant: VariantOptions
    several: JobOptions
    said: VerbosityOptions
    asked: PassOptions
    wanted: SettingOptions
    compared: CompareOptions
    inspected: InspectionOptions
    cost: Annotated[
        Literal["roofline", "nodes", "measured"] | None,
        typer.Option(help="Cost model; measured: seconds of each operator on ONNX Runtime", rich_help_panel=SEARCH),
    ] = None
    math: Annotated[
        Literal["exact", "reassociate", "finite"] | None,
        typer.Option(
            help="What rules may do to floating-point values (rules.math): exact: nothing; reassociate (the default): change rounding, "
            "and turn infinities and NaN into each other in regrouped sums; finite: also assume that no value is infinite or NaN",
            rich_help_panel=PASSES,
        ),
    ] = None
    stats: Annotated[
        bool,
        typer.Option(
            "--stats",
            help="Print the time of each rule, its reasons for rejecting matches, and its share of the result",
            rich_help_panel=DEBUGGING,
        ),
    ] = False
    page: Annotated[
        Path | None,
        typer.Option("--report", metavar="FILE.html", help="HTML page to write: programs before and after, rules, e-graphs, times"),
    ] = None
    certificate: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.json", help="File to write a proof to that the result is equivalent to the input", rich_help_panel=TRUST
        ),
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Do everything except write the model")] = False
    as_json: JsonOption = False

    @property
    def config(self) -> dict[str, str]:
        """The options of the passes that have options of their own here."""
        choices = {"rules.cost": self.cost, "rules.math": self.math}
        return {key: choice for key, choice in choices.items() if choice is not None}

    @property
    def settings(self) -> dict[str, AnyValue]:
        """The keywords of `passat.optimize`. Ends the command for invalid options."""
        return {**vars(self.compared), "custom_ops": self.compared.custom_ops or (), **vars(self.wanted), **self.variant.settings}


@command(app)
def optimize(
    models: Annotated[list[Path], typer.Argument(metavar="IN", help="Models to optimize", show_default=False)], *, options: OptimizeOptions
) -> None:
    """Optimize ONNX models, compare the results with them, and write the results."""
    output, wanted, said = options.output, options.wanted, options.said
    is_list = len(models) > 1 or options.several.cluster is not None
    with errors(options.as_json, "nothing was written", several=is_list):
        with collector_paused():
            from passat.settings import check_effects

        if options.dry_run and output is not None:
            fail(f"--dry-run writes no model, which contradicts -o {output}", USAGE)
        if options.dry_run and wanted.explain:
            fail("--explain writes into the result, and --dry-run writes none", USAGE)
        if options.stats and said.quiet and not options.as_json:
            fail("--quiet and --stats contradict each other", USAGE)
        check_effects({**vars(wanted), **vars(options.compared), "certificate": options.certificate is not None}, as_option)
        chosen = options.config if wanted.time_limit is None else {**options.config, "rules.time_limit": wanted.time_limit}
        for key, value in parse_config(options.asked.config).items():
            if key in chosen and chosen[key] != value:
                option = as_option(key.removeprefix("rules."), chosen[key])
                fail(f"{option} and --config {key}={value} contradict each other", USAGE)
        settings = options.settings
    if is_list:
        with errors(options.as_json, several=True):
            _several(models, options, settings)
    else:
        _one(models[0], options, settings)


def _beside(model: Path) -> Path:
    """The default path of the result for a model."""
    return model.parent / f"{model.stem}.optimized{model.suffix or '.onnx'}"


def _one(model: Path, options: OptimizeOptions, settings: Mapping[str, AnyValue]) -> None:
    output, page, certificate, dry_run, as_json = options.output, options.page, options.certificate, options.dry_run, options.as_json
    asked, inspected, said = options.asked, options.inspected, options.said
    out = output or _beside(model)
    with errors(as_json, "nothing was written"):
        if os.path.isdir(out):
            output = None
            [out] = _result_paths([model], out)
        with collector_paused():  # imported modules live until the end
            from passat.optimizer import optimize_with
            from passat.settings import Settings

        read = {**asked.files, "--inputs": [settings["inputs"]], "--custom-ops": settings["custom_ops"]}
        unread = output is None and (os.path.isdir(model) or not os.access(model, os.R_OK))  # reading it says why
        check_outputs({"-o": None if dry_run or unread else out, "--certificate": certificate, "--report": page}, read)  # OUT may be IN
        check_outputs({"--certificate": certificate, "--report": page}, {"the command": [model]})
        check_ending("-o", output, *dict.fromkeys((".onnx", model.suffix.lower() or ".onnx")))
        check_ending("--certificate", certificate, ".json", ".certificate")
        check_ending("--report", page, ".html", ".htm")
        context = asked.context(options.config, apart=inspected.apart)
        text, sets, inspection = asked.text(), load(asked.rules), Inspection(inspected)
        shows = not as_json and not inspection.prints
        # output of the user's rules must not mix with the report
        with contextlib.redirect_stdout(sys.stderr), context, inspection, said.progress(enabled=shows) as progress:
            idle = check_settings(text, sets, asked.rules or (), inspection.printed)
            result = optimize_with(
                model,
                Settings(
                    **settings,
                    passes=text,
                    rules=sets,
                    instruments=inspection.instruments,
                    reproducer=inspected.reproducer,
                    progress=progress,
                    record=options.stats or page is not None,
                    certificate=certificate is not None,
                ),
            )
            result.report.warnings += idle
            if not dry_run:
                progress(f"writing {out}")
                result.save(out)
            if certificate is not None:
                from passat.certificates import write_certificate  # builds the rules of its proofs

                write_certificate(result.certificate, certificate)
    with errors(as_json, "" if dry_run else f"{out} was written"):
        if page is not None:
            result.write_report(page)
        if result.former_data:  # nothing reads the model in memory any more
            from passat.ir.onnx.files import remove_former

            result.report.warnings += remove_former(result.former_data, os.fspath(out))
        if as_json:
            print(result.report.to_json())
        elif not said.quiet:
            from passat.render import render_report

            show(render_report(result.report, statistics=options.stats))
            if dry_run:
                print("no model was written (--dry-run)")
            if page is not None:
                print(f"the page is in {page}")
            if certificate is not None:
                print(f"the certificate is in {certificate}")
        if result.report.interrupted:
            best = "nothing better was found so far, so the input" if result.report.kept else "the best so far"
            end(f"interrupted; {best} {'is the result' if dry_run else f'was written to {out}'}", INTERRUPTED)


def _result_paths(models: Sequence[Path], folder: Path | None) -> list[Path]:
    """The paths of the results: in a folder under the names of the models, or beside these. Ends the command, before any work is done, if
    one cannot be written. Raises ArgumentError if two results had the same path, or one would replace a model."""
    from passat.many import output_paths

    if folder is not None:
        what = f"with several models, here {models[0]} and {models[1]}," if len(models) > 1 else "with --cluster"
        several = f"{what} it names the folder of the results"
        if folder.is_file():
            fail(f"-o {folder} is a file; {several}", USAGE)
        if folder.suffix == ".onnx" and not folder.is_dir():
            fail(f"-o {folder} names a file; {several}, so give one without .onnx", USAGE)
        check_output_folder(folder, "-o")
    paths = [_beside(model) if folder is None else folder / model.name for model in models]
    output_paths(models, paths)
    for path in paths if folder is None or folder.is_dir() else ():
        check_outputs({"-o": path}, {})
    return paths


def _several(models: Sequence[Path], options: OptimizeOptions, settings: Mapping[str, AnyValue]) -> None:
    """Optimizes models, prints a line for each, and ends the command with exit code 1 if one of them failed."""
    from passat.many import created, optimize_each
    from passat.render import report_line

    asked, jobs, said, as_json = options.asked, options.several, options.said, options.as_json
    single = {"--report": options.page is not None, "--certificate": options.certificate is not None, "--stats": options.stats}
    for option, given in {**single, **options.inspected.given}.items():
        if given:
            fail(f"{option} applies to one model, and several are given", USAGE)
    paths = None if options.dry_run else _result_paths(models, options.output)
    out = sys.stdout
    found: dict[int, Optimized] = {}
    with asked.context(options.config) as context:
        text, sets = asked.text(), load(asked.rules)
        for note in check_settings(text, sets, asked.rules or ()):
            print(f"note: {note}", file=sys.stderr)
    with (
        context,
        contextlib.redirect_stdout(sys.stderr),
        jobs.executor() as executor,
        created([] if paths is None else dict.fromkeys(path.parent for path in paths)),
        said.progress(enabled=not as_json) as progress,
    ):

        def tell(text: str = "") -> None:
            progress(f"{len(found)} of {len(models)} models are done{text and f', {text}'}")

        tell()
        keywords = {**settings, "passes": text, "rules": asked.rules or (), **({} if jobs.apart else {"progress": tell})}
        each = optimize_each(models, output=paths, jobs=jobs.jobs, executor=executor, **keywords)
        stopped: KeyboardInterrupt | None = None
        try:
            for number, one in each:
                found[number] = one
                tell()
                if not as_json:
                    with progress.paused():
                        _show(one, report_line, out, quiet=said.quiet)
                if one.report is not None and one.report.interrupted and not jobs.apart:
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
