"""`passat bisect`."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, LevelOption, PassesOption, RulesOption, load, parse_config
from passat.cli.errors import errors
from passat.cli.output import console


@app.command()
def bisect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model whose optimisation goes wrong.", show_default=False)],
    *,
    check: Annotated[
        str,
        typer.Option(
            metavar="wrong|slower|crash|CMD",
            help="What is bad: other values than the original's, more time, a pass or ONNX Runtime that fails, or a command that fails. "
            "CMD runs without a shell, with the path of a model for {} or as last argument; 0 is good, 125 cannot tell, the rest bad.",
        ),
    ] = "wrong",
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="An option of the passes. May be repeated.")
    ] = None,
    margin: Annotated[float, typer.Option(min=0, help="Of slower: by which part of the time a model has to be slower.")] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the random inputs.")] = 0,
    save: Annotated[Path | None, typer.Option(metavar="DIR", help="Write the models before and after the pass there.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Find the pass that makes a model wrong, slower or crash, in a logarithmic number of runs.

    Exit codes: 0 it was found, 1 there is none, or the check flaps, 2 the command makes no sense.
    """
    with errors(as_json):
        from passat.bisection import bisect_model
        from passat.progress import ProgressLine

        settings = parse_config(config or [])
        sets = load(rules)
        with contextlib.redirect_stdout(sys.stderr), ProgressLine(console(stderr=True), enabled=not as_json) as progress:
            found = bisect_model(
                model,
                check,
                passes=passes,
                rules=sets,
                opt_level=opt_level,
                config=settings,
                seed=seed,
                margin=margin,
                progress=progress,
            )
            written = found.save(save) if save else []
        if as_json:
            print(json.dumps({**found.to_dict(), "saved": written}, indent=2))
        else:
            print(found)
            for path in written:
                print(f"{path} was written")
