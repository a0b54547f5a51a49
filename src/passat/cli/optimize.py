"""`passat optimize`."""

import contextlib
import enum
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import CompareOptions, JsonOption, PassOptions, check_outputs, check_settings, command, load, not_nan
from passat.cli.errors import INTERRUPTED, USAGE, end, errors, fail
from passat.cli.inspection import Inspection, InspectionOptions
from passat.cli.output import console, show
from passat.ir.collector import collector_paused


class CostChoice(enum.StrEnum):
    """The cost models that have a name."""

    ROOFLINE = "roofline"
    NODES = "nodes"
    MEASURED = "measured"


class MathChoice(enum.StrEnum):
    """What rules may do to floating-point values."""

    EXACT = "exact"
    REASSOCIATE = "reassociate"
    FINITE = "finite"


class Choose(enum.StrEnum):
    """What decides between programs in the end."""

    COST = "cost"
    TIME = "time"


@dataclass(frozen=True, kw_only=True)
class SettingOptions:
    """The options that are keywords of `passat.optimize` as they are."""

    time_limit: Annotated[
        float | None, typer.Option(min=0, callback=not_nan, metavar="S", help="Seconds for all saturation; then the best so far is taken.")
    ] = None
    verify: Annotated[bool, typer.Option("--verify/--no-verify", metavar="", help="Compare the result with the input on ONNX Runtime.")] = (
        True
    )
    allow_unverified: Annotated[
        bool, typer.Option("--allow-unverified", metavar="", help="Write the result although nothing could be compared.")
    ] = False
    choose: Annotated[
        Choose, typer.Option(help="What decides in the end: the cost, or the time of several candidates and the input on ONNX Runtime.")
    ] = Choose.COST
    candidates: Annotated[int, typer.Option(min=1, metavar="K", help="With --choose time: how many candidates there are at most.")] = 4
    opset: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The opset of OUT, where that is later than the opset of IN.", show_default=False)
    ] = None
    explain: Annotated[
        bool, typer.Option("--explain", metavar="", help="Write into OUT where its nodes come from, for `passat explain OUT`.")
    ] = False


@command(app)
def optimize(
    model: Annotated[Path, typer.Argument(metavar="IN", help="The model to optimise.", show_default=False)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.", show_default=False)],
    asked: PassOptions,
    wanted: SettingOptions,
    compared: CompareOptions,
    inspected: InspectionOptions,
    cost: Annotated[
        CostChoice | None, typer.Option(help="What makes a program cheaper. measured: seconds of each operator on ONNX Runtime.")
    ] = None,
    math: Annotated[
        MathChoice | None,
        typer.Option(
            help="What rules may do to floating-point values (rules.math): nothing; change rounding, and where they group sums otherwise "
            "which of infinities and NaN a result is (the default); or also assume that none is infinite or NaN."
        ),
    ] = None,
    stats: Annotated[
        bool, typer.Option("--stats", metavar="", help="Tell of each rule the time, why it refused, and how much of the result it made.")
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE.html",
            help="Write what happened as a page: programs before and after, rules, e-graphs, times.",
            show_default=False,
        ),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE.json", help="Write a proof that OUT computes what IN does.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Optimise an ONNX model, compare the result with it, and write it."""
    with errors(as_json, "nothing was written"):
        with collector_paused():  # of what is imported nothing goes
            from passat.certificates import write_certificate
            from passat.optimizer import optimize_with
            from passat.progress import ProgressLine
            from passat.settings import Settings

        read = {**asked.files, "--inputs": [compared.inputs], "--custom-ops": compared.custom_ops or ()}
        check_outputs({"-o": output, "--certificate": certificate, "--report": page}, read)  # OUT may be IN, which it replaces whole
        check_outputs({"--certificate": certificate, "--report": page}, {"the command": [model]})
        _check_comparison(wanted, compared)
        choices = {"rules.cost": cost, "rules.math": math}
        context = asked.context({key: choice.value for key, choice in choices.items() if choice is not None}, apart=inspected.apart)
        text, sets, inspection = asked.text(), load(asked.rules), Inspection(inspected)
        shows = not as_json and not inspection.prints
        # What rules of the user's own print would stand in the way of who reads the report.
        with (
            contextlib.redirect_stdout(sys.stderr),
            context,
            inspection,
            ProgressLine(console(stderr=True), enabled=shows) as progress,
        ):
            idle = check_settings(text, sets, asked.rules or (), inspection.printed)
            settings = Settings(
                **{**vars(compared), "custom_ops": compared.custom_ops or (), **vars(wanted)},
                passes=text,
                rules=sets,
                instruments=inspection.instruments,
                reproducer=inspected.reproducer,
                progress=progress,
                record=stats or page is not None,
                certificate=certificate is not None,
            )
            result = optimize_with(model, settings)
            result.report.warnings += idle
            progress(f"writing {output}")
            result.save(output)
            if certificate is not None:
                write_certificate(result.certificate, certificate)
    with errors(as_json, f"{output} was written"):
        if page is not None:
            result.write_report(page)
        if as_json:
            print(result.report.to_json())
        else:
            from passat.render import render_report

            show(render_report(result.report))
            if page is not None:
                print(f"the page is in {page}")
        if result.report.interrupted:
            best = "nothing better was found so far, and the input" if result.report.kept else "the best so far"
            end(f"interrupted; {best} was written to {output}", INTERRUPTED)


def _check_comparison(wanted: SettingOptions, compared: CompareOptions) -> None:
    """Ends the command where an option says how the result is compared although it is not."""
    allowed, inputs = wanted.allow_unverified or None, None if wanted.choose is Choose.TIME else compared.inputs
    for option, given in (("--rtol", compared.rtol), ("--atol", compared.atol), ("--allow-unverified", allowed), ("--inputs", inputs)):
        if not wanted.verify and given is not None:
            fail(f"{option} says how the result is compared with the input, and --no-verify that it is not", USAGE)
