"""`passat inspect` and `passat diff`: what a model consists of, and how two differ."""

from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app, errors, show
from passat.cli.arguments import CustomOpsOption, JsonOption, RulesOption, load


@app.command()
def inspect(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model.", show_default=False)],
    *,
    rules: RulesOption = None,
    custom_ops: CustomOpsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a model consists of: inputs, outputs, operators, weights, which nodes rules do not look into and why, and what ONNX Runtime
    fuses."""
    with errors(as_json):
        from passat.model_summary import inspect as inspect_model

        load(rules)  # which may declare operators
        summary = inspect_model(model, custom_ops=custom_ops or ())
        if as_json:
            print(summary.to_json())
        else:
            from passat.summary_text import render_summary

            show(render_summary(summary))


@app.command()
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="A model.", show_default=False)],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another model.", show_default=False)],
    as_json: JsonOption = False,
) -> None:
    """Show how two models differ: by operator, and which nodes of one stand instead of which of the other. Names and the order of nodes
    make no difference."""
    with errors(as_json):
        from passat.model_diff import diff as diff_models

        found = diff_models(before, after)
        if as_json:
            print(found.to_json())
        else:
            from passat.summary_text import render_diff

            show(render_diff(found))
