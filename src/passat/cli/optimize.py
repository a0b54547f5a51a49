"""`passat optimize`, and the options by which it lets one look into the passes: what they print goes to the error stream."""

import contextlib
import enum
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from passat.cli.app import INTERRUPTED, USAGE, app, console, end, errors, fail, show
from passat.cli.arguments import (
    CompareOptions,
    JsonOption,
    PassOptions,
    check_output_folder,
    check_outputs,
    check_settings,
    command,
    load,
    not_nan,
)
from passat.cli.sizes import SizeOptions
from passat.ir.collector import collector_paused

if TYPE_CHECKING:
    from passat.passmgr import PassInstrument

_PANEL: Final = "Looking into the passes (with --print-ir-... and --dump-ir they run one by one, without stages)"
_NAMES: Final = "names or patterns such as 'Fold*', separated by commas; '*' is all."


@dataclass(frozen=True, kw_only=True)
class InspectionOptions:
    """What is to be seen of the passes."""

    print_ir_before: Annotated[
        list[str] | None,
        typer.Option("--print-ir-before", metavar="NAMES", help=f"Print the program before these passes: {_NAMES}", rich_help_panel=_PANEL),
    ] = None
    print_ir_after: Annotated[
        list[str] | None,
        typer.Option("--print-ir-after", metavar="NAMES", help=f"Print the program after these passes: {_NAMES}", rich_help_panel=_PANEL),
    ] = None
    print_ir_changed: Annotated[
        bool, typer.Option("--print-ir-changed", metavar="", help="Print what each pass changes, as a diff.", rich_help_panel=_PANEL)
    ] = False
    dump_ir: Annotated[
        Path | None,
        typer.Option(
            "--dump-ir",
            metavar="DIR",
            help="Write the program to DIR/NNN_pass.relay after every pass, without the contents of large constants. "
            "An earlier dump there is replaced.",
            rich_help_panel=_PANEL,
        ),
    ] = None
    verify_each: Annotated[
        bool,
        typer.Option(
            "--verify-each",
            metavar="",
            help="Check after every pass that the program is well-formed and well-typed.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    time_passes: Annotated[
        bool, typer.Option("--time-passes", metavar="", help="Print how long each pass took.", rich_help_panel=_PANEL)
    ] = False
    memory_passes: Annotated[
        bool,
        typer.Option(
            "--memory-passes",
            metavar="",
            help="Print how much memory each pass took. Measuring it makes them slower.",
            rich_help_panel=_PANEL,
        ),
    ] = False
    pass_limit: Annotated[
        int | None,
        typer.Option(
            "--pass-limit", metavar="N", min=0, help="Run the first N passes only, and say which those are.", rich_help_panel=_PANEL
        ),
    ] = None
    reproducer: Annotated[
        Path | None,
        typer.Option(
            "--reproducer",
            metavar="DIR",
            help="Where a pass fails, write a folder with which `passat replay DIR` runs it again.",
            rich_help_panel=_PANEL,
        ),
    ] = None

    @property
    def apart(self) -> bool:
        """Whether programs between passes are to be seen: passes that share an e-graph have none between them."""
        return bool(self.print_ir_before or self.print_ir_after or self.print_ir_changed or self.dump_ir)


class Inspection:
    """The instruments that were asked for. Leaving it (`with`) prints what they found, also where the passes failed."""

    def __init__(self, asked: InspectionOptions) -> None:
        from passat import passmgr

        if asked.dump_ir is not None:
            check_output_folder(asked.dump_ir, "--dump-ir")
        self._time = passmgr.PassTimingInstrument() if asked.time_passes else None
        self._memory = passmgr.PassMemoryInstrument(trace=True) if asked.memory_passes else None
        self._names: list[tuple[str, passmgr.PrintIRBefore | passmgr.PrintIRAfter]] = []
        if asked.print_ir_before:
            self._names.append(("--print-ir-before", passmgr.PrintIRBefore(_split("--print-ir-before", asked.print_ir_before))))
        if asked.print_ir_after:
            self._names.append(("--print-ir-after", passmgr.PrintIRAfter(_split("--print-ir-after", asked.print_ir_after))))
        color = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        self.printed = [(option, printing.names) for option, printing in self._names]
        """The names of the passes that are printed, by the options that give them."""
        self.prints = bool(self._names or asked.print_ir_changed or asked.pass_limit is not None)
        """Whether something is printed while the passes run."""
        wanted: list[PassInstrument | None] = [
            self._time,
            self._memory,
            *(printing for _, printing in self._names),
            passmgr.PrintIRChanged(mode="cdiff" if color else "diff") if asked.print_ir_changed else None,
            passmgr.DumpIR(asked.dump_ir, refresh=True, initial=True, strip_constants=True) if asked.dump_ir is not None else None,
            passmgr.VerifyEach() if asked.verify_each else None,
            passmgr.PassLimit(asked.pass_limit, tell=lambda line: print(line, file=sys.stderr)) if asked.pass_limit is not None else None,
        ]
        self.instruments = [instrument for instrument in wanted if instrument is not None]

    def __enter__(self) -> "Inspection":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        from passat.passmgr import render_times

        if kind is None:
            for option, printing in self._names:
                for name in printing.names.unused:
                    print(f"note: {option} {name}: no pass of that name ran", file=sys.stderr)
        if self._time is not None and self._time.timings:
            slowed = ", slowed down by measuring memory" if self._memory is not None else ""
            head = f"time of each pass [without the passes in it] (part of the whole; of the pipeline around it){slowed}"
            print(f"{head}:\n{render_times(self._time.timings)}", file=sys.stderr)
        if self._memory is not None and self._memory.runs:
            head = "memory of each pass: what stays allocated after it, the most while it ran; by how much the process and its record grew"
            print(f"{head}:\n{self._memory.render()}", file=sys.stderr)


def _split(option: str, given: Sequence[str]) -> list[str]:
    names = [name.strip() for text in given for name in text.split(",") if name.strip()]
    if not names:
        fail(f"{option} takes names of passes, separated by commas; '*' stands for all", USAGE)
    return names


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
    model: Annotated[Path, typer.Argument(metavar="IN", help="The model to optimize.", show_default=False)],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="OUT", help="Where the result goes. Default: beside IN, as NAME.optimized.onnx.", show_default=False
        ),
    ] = None,
    *,
    sizes: SizeOptions,
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
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Do all but write OUT.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Optimize an ONNX model, compare the result with it, and write it."""
    out = output or model.with_name(f"{model.stem}.optimized{model.suffix or '.onnx'}")
    with errors(as_json, "nothing was written"):
        with collector_paused():  # of what is imported nothing goes
            from passat.certificates import write_certificate
            from passat.optimizer import optimize_with
            from passat.render import ProgressLine
            from passat.settings import Settings

        read = {**asked.files, "--inputs": [compared.inputs], "--custom-ops": compared.custom_ops or ()}
        if dry_run and output is not None:
            fail(f"--dry-run writes no model, and -o {output} asks for one", USAGE)
        named = {"-o": None if dry_run else out, "--certificate": certificate, "--report": page}
        check_outputs(named, read)  # OUT may be IN, which it replaces whole
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
                **{**vars(compared), "custom_ops": compared.custom_ops or (), **vars(wanted), **sizes.settings},
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
            if not dry_run:
                progress(f"writing {out}")
                result.save(out)
            if certificate is not None:
                write_certificate(result.certificate, certificate)
    with errors(as_json, "" if dry_run else f"{out} was written"):
        if page is not None:
            result.write_report(page)
        if as_json:
            print(result.report.to_json())
        else:
            from passat.render import render_report

            show(render_report(result.report))
            if dry_run:
                print("no model was written (--dry-run)")
            if page is not None:
                print(f"the page is in {page}")
        if result.report.interrupted:
            best = "nothing better was found so far, and the input" if result.report.kept else "the best so far"
            end(f"interrupted; {best} {'is what was found' if dry_run else f'was written to {out}'}", INTERRUPTED)


def _check_comparison(wanted: SettingOptions, compared: CompareOptions) -> None:
    """Ends the command where an option says how the result is compared although it is not."""
    allowed, inputs = wanted.allow_unverified or None, None if wanted.choose is Choose.TIME else compared.inputs
    for option, given in (("--rtol", compared.rtol), ("--atol", compared.atol), ("--allow-unverified", allowed), ("--inputs", inputs)):
        if not wanted.verify and given is not None:
            fail(f"{option} says how the result is compared with the input, and --no-verify that it is not", USAGE)
