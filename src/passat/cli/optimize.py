"""`passat optimize`."""

import contextlib
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, LevelOption, PassesOption, RulesOption, check_output, load, parse_config
from passat.cli.errors import errors
from passat.cli.inspection import (
    DumpOption,
    Inspection,
    MemoryOption,
    PrintAfterOption,
    PrintBeforeOption,
    PrintChangedOption,
    TimeOption,
    VerifyEachOption,
)
from passat.cli.output import console, show


@app.command()
def optimize(
    model: Annotated[Path, typer.Argument(metavar="IN", help="The model to optimise.", show_default=False)],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.", show_default=False)],
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0, metavar="S", help="Seconds for all saturation; then the best so far is taken.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare the result with the input on ONNX Runtime.")] = True,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="KEY=VALUE",
            help="An option of the passes, such as rules.math=exact. An unknown KEY lists them all. May be repeated.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the random inputs that the models are compared on.")] = 0,
    reproducer: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Where a pass raises, write what `passat replay DIR` needs to do it again.")
    ] = None,
    as_json: JsonOption = False,
    print_ir_before: PrintBeforeOption = None,
    print_ir_after: PrintAfterOption = None,
    print_ir_changed: PrintChangedOption = False,
    dump_ir: DumpOption = None,
    verify_each: VerifyEachOption = False,
    time_passes: TimeOption = False,
    memory_passes: MemoryOption = False,
) -> None:
    """Optimise an ONNX model, compare the result with it, and write it."""
    with errors(as_json, "nothing was written"):
        import passat.optimizer
        from passat.progress import ProgressLine

        check_output(output)
        settings = parse_config(config or [])
        sets = load(rules)
        inspection = Inspection(
            before=print_ir_before,
            after=print_ir_after,
            changed=print_ir_changed,
            dump=dump_ir,
            verify_each=verify_each,
            time=time_passes,
            memory=memory_passes,
        )
        shows = not as_json and not inspection.prints
        # What rules of the user's own print would stand in the way of who reads the report.
        with contextlib.redirect_stdout(sys.stderr), inspection, ProgressLine(console(stderr=True), enabled=shows) as progress:
            result = passat.optimizer.optimize(
                model,
                passes=passes,
                rules=sets,
                opt_level=opt_level,
                verify=verify,
                time_limit=time_limit,
                config=settings,
                seed=seed,
                reproducer=reproducer,
                instruments=inspection.instruments,
                progress=progress,
            )
            progress(f"writing {output}")
            result.save(output)
    with errors(as_json, f"{output} was written"):
        if as_json:
            print(result.report.to_json())
        else:
            from passat.render import render_report

            show(render_report(result.report))
