"""`passat bisect`."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
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


@app.command()
def bisect(
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
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the models before and after the pass into this folder.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the pass that makes a model wrong, slower, larger or crash, in a logarithmic number of runs.

    Exit codes: 0 it was found, 1 there is none, or it cannot be told, 2 the command makes no sense.
    """
    with errors(as_json):
        from passat.bisection import bisect_model
        from passat.ir.onnx import OnnxError
        from passat.passmgr import PassContext
        from passat.progress import ProgressLine

        if save is not None:
            check_output_folder(save, "--save")
        settings = PassContext(opt_level, require, disable, config=parse_config(config))
        text = read_pipeline(passes)
        sets = load(rules)
        with contextlib.redirect_stdout(sys.stderr), settings, ProgressLine(console(stderr=True), enabled=not as_json) as progress:
            warn_of_names(text, sets)
            found = bisect_model(
                model,
                check,
                passes=text,
                rules=sets,
                seed=seed,
                margin=margin,
                progress=progress,
            )
        if not as_json:
            print(found)
        try:
            saved = found.save(save) if save is not None else []
        except (OSError, OnnxError) as error:
            if as_json:  # what was found with much work is told all the same
                sentence, code = explain(error)
                print(json.dumps({**found.to_dict(), "saved": [], "error": sentence}, indent=2))
                end(sentence, code, as_json=False)
            raise
        if as_json:
            print(json.dumps({**found.to_dict(), "saved": saved}, indent=2))
        else:
            print("".join(f"{path} was written\n" for path in saved), end="")
