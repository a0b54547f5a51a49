"""`passat rules bisect`."""

from pathlib import Path
from typing import Annotated
from typing import Any as AnyValue

import typer

from passat.cli.app import rules_app
from passat.cli.arguments import (
    AtolOption,
    CheckOption,
    ConfigOption,
    CustomOpsOption,
    DisableOption,
    InputsOption,
    JsonOption,
    LevelOption,
    MarginOption,
    PassesOption,
    RequireOption,
    RtolOption,
    RulesOption,
    SeedOption,
    check_output_folder,
    in_settings,
)
from passat.cli.bisecting import report_finding, written_lines
from passat.cli.errors import errors
from passat.cli.output import console


@rules_app.command("bisect")
def bisect_rules(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model whose optimisation goes wrong.", show_default=False)],
    *,
    check: CheckOption = "wrong",
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    disable: DisableOption = None,
    require: RequireOption = None,
    rules: RulesOption = None,
    config: ConfigOption = None,
    margin: MarginOption = 0.1,
    seed: SeedOption = 0,
    inputs: InputsOption = None,
    rtol: RtolOption = None,
    atol: AtolOption = None,
    custom_ops: CustomOpsOption = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the models before and after the application, and a reproducer, into this folder."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the rule, and the one application of it, that makes a model wrong, slower, larger or crash, in a logarithmic number of runs.

    Exit codes: 0 it was found, 1 there is none, or it cannot be told, 2 the command makes no sense.
    """
    with errors(as_json):
        from passat.progress import ProgressLine
        from passat.rule_bisection import bisect_rules as bisect
        from passat.rule_reproducer import save_bisection
        from passat.runner import custom_operators
        from passat.verify import comparing

        if save is not None:
            check_output_folder(save, "--save")
        with (
            custom_operators(custom_ops or ()),
            in_settings(passes, opt_level, disable, require, rules, config) as (text, sets),
            ProgressLine(console(stderr=True), enabled=not as_json) as progress,
        ):
            found = bisect(model, check, passes=text, rules=sets, how=comparing(seed, inputs, rtol, atol), margin=margin, progress=progress)

        def write() -> tuple[dict[str, AnyValue], str]:
            saved = save_bisection(found, str(save))
            again = f"to see it again{' on the matched part alone' if saved.smallest else ''}: {saved.command}\n"
            return {"saved": saved.paths, "replay": saved.command}, written_lines(saved.paths) + again

        report_finding(found, None if save is None else write, {"saved": [], "replay": None}, as_json=as_json)
