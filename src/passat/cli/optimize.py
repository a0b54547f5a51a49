"""`passat optimize`."""

import contextlib
import enum
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import (
    AtolOption,
    ConfigOption,
    CustomOpsOption,
    DisableOption,
    InputsOption,
    JsonOption,
    LevelOption,
    PassesOption,
    RequireOption,
    RtolOption,
    RulesOption,
    SeedOption,
    check_outputs,
    check_settings,
    load,
    not_nan,
    parse_config,
    pipeline_file,
    read_pipeline,
)
from passat.cli.errors import INTERRUPTED, USAGE, end, errors, fail
from passat.cli.inspection import (
    DumpOption,
    Inspection,
    MemoryOption,
    PassLimitOption,
    PrintAfterOption,
    PrintBeforeOption,
    PrintChangedOption,
    ReproducerOption,
    TimeOption,
    VerifyEachOption,
)
from passat.cli.output import console, show


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


@app.command()
def optimize(
    model: Annotated[Path, typer.Argument(metavar="IN", help="The model to optimise.", show_default=False)],
    *,
    output: Annotated[Path, typer.Option("-o", "--output", metavar="OUT", help="Where the result goes.", show_default=False)],
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    disable: DisableOption = None,
    require: RequireOption = None,
    rules: RulesOption = None,
    time_limit: Annotated[
        float | None, typer.Option(min=0, callback=not_nan, metavar="S", help="Seconds for all saturation; then the best so far is taken.")
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify/--no-verify", metavar="", help="Compare the result with the input on ONNX Runtime.")
    ] = True,
    allow_unverified: Annotated[
        bool, typer.Option("--allow-unverified", metavar="", help="Write the result although nothing could be compared.")
    ] = False,
    inputs: InputsOption = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    custom_ops: CustomOpsOption = None,
    config: ConfigOption = None,
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
    choose: Annotated[
        Choose, typer.Option(help="What decides in the end: the cost, or the time of several candidates and the input on ONNX Runtime.")
    ] = Choose.COST,
    candidates: Annotated[int, typer.Option(min=1, metavar="K", help="With --choose time: how many candidates there are at most.")] = 4,
    opset: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The opset of OUT, where that is later than the opset of IN.", show_default=False)
    ] = None,
    seed: SeedOption = 0,
    as_json: JsonOption = False,
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
    print_ir_before: PrintBeforeOption = None,
    print_ir_after: PrintAfterOption = None,
    print_ir_changed: PrintChangedOption = False,
    dump_ir: DumpOption = None,
    verify_each: VerifyEachOption = False,
    time_passes: TimeOption = False,
    memory_passes: MemoryOption = False,
    pass_limit: PassLimitOption = None,
    reproducer: ReproducerOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", metavar="", help="Write into OUT where its nodes come from, for `passat explain OUT`.")
    ] = False,
    certificate: Annotated[
        Path | None, typer.Option("--certificate", metavar="FILE.json", help="Write a proof that OUT computes what IN does.")
    ] = None,
) -> None:
    """Optimise an ONNX model, compare the result with it, and write it."""
    with errors(as_json, "nothing was written"):
        import passat.optimizer
        from passat.certificates import write_certificate
        from passat.passmgr import PassContext
        from passat.progress import ProgressLine

        other = {"--rules": rules or (), "--inputs": [inputs], "--custom-ops": custom_ops or (), "--passes": [pipeline_file(passes)]}
        check_outputs({"-o": output, "--certificate": certificate, "--report": page}, other)  # OUT may be IN, which it replaces whole
        check_outputs({"--certificate": certificate, "--report": page}, {"the command": [model]})
        for option, given in (("--rtol", rtol), ("--atol", atol), ("--allow-unverified", allow_unverified or None), ("--inputs", inputs)):
            if not verify and given is not None and not (option == "--inputs" and choose is Choose.TIME):
                fail(f"{option} says how the result is compared with the input, and --no-verify that it is not", USAGE)
        prices = {} if cost is None else {"rules.cost": cost.value}
        allowed = {} if math is None else {"rules.math": math.value}
        settings = PassContext(opt_level, require, disable, config={**parse_config(config), **prices, **allowed})
        text = read_pipeline(passes)
        sets = load(rules)
        inspection = Inspection(
            before=print_ir_before,
            after=print_ir_after,
            changed=print_ir_changed,
            dump=dump_ir,
            verify_each=verify_each,
            time=time_passes,
            memory=memory_passes,
            limit=pass_limit,
        )
        shows = not as_json and not inspection.prints
        # What rules of the user's own print would stand in the way of who reads the report.
        with (
            contextlib.redirect_stdout(sys.stderr),
            settings,
            inspection,
            ProgressLine(console(stderr=True), enabled=shows) as progress,
        ):
            idle = check_settings(text, sets, rules or (), inspection.printed)
            result = passat.optimizer.optimize(
                model,
                passes=text,
                rules=sets,
                verify=verify,
                allow_unverified=allow_unverified,
                inputs=inputs,
                rtol=rtol,
                atol=atol,
                custom_ops=custom_ops or (),
                time_limit=time_limit,
                choose=choose.value,
                candidates=candidates,
                opset=opset,
                seed=seed,
                reproducer=reproducer,
                instruments=inspection.instruments,
                progress=progress,
                record=stats or page is not None,
                explain=explain,
                certificate=certificate is not None,
            )
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
