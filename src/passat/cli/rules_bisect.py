"""`passat rules bisect`."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import rules_app
from passat.cli.arguments import (
    CheckOption,
    ConfigOption,
    DisableOption,
    JsonOption,
    LevelOption,
    MarginOption,
    PassesOption,
    RequireOption,
    RulesOption,
    SeedOption,
    check_output_folder,
    load,
    parse_config,
    read_pipeline,
    warn_of_names,
)
from passat.cli.errors import end, errors, explain
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
        from passat.ir.onnx import OnnxError
        from passat.passmgr import PassContext
        from passat.progress import ProgressLine
        from passat.rule_bisection import bisect_rules as bisect
        from passat.rule_reproducer import save_bisection

        if save is not None:
            check_output_folder(save, "--save")
        settings = PassContext(opt_level, require, disable, config=parse_config(config))
        text = read_pipeline(passes)
        sets = load(rules)
        with contextlib.redirect_stdout(sys.stderr), settings, ProgressLine(console(stderr=True), enabled=not as_json) as progress:
            warn_of_names(text, sets)
            found = bisect(model, check, passes=text, rules=sets, seed=seed, margin=margin, progress=progress)
        if not as_json:
            print(found)
        try:
            saved = None if save is None else save_bisection(found, save)
        except (OSError, OnnxError) as error:
            if as_json:  # what was found with much work is told all the same
                sentence, code = explain(error)
                print(json.dumps({**found.to_dict(), "saved": [], "replay": None, "error": sentence}, indent=2))
                end(sentence, code, as_json=False)
            raise
        if as_json:
            written = {"saved": saved.paths if saved else [], "replay": saved.command if saved else None}
            print(json.dumps({**found.to_dict(), **written}, indent=2))
        elif saved is not None:
            print("".join(f"{path} was written\n" for path in saved.paths), end="")
            print(f"to see it again{' on the matched part alone' if saved.smallest else ''}: {saved.command}")
