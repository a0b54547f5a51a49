"""`passat diff`."""

from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app, errors, show
from passat.cli.arguments import JsonOption


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
            from passat.diff_text import render_diff

            show(render_diff(found))
