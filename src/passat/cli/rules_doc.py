"""`passat rules doc`."""

from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import rules_app
from passat.cli.arguments import check_outputs
from passat.cli.errors import errors


@rules_app.command("doc")
def rules_doc(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py|SET]...",
            help="Rule files, and sets of the library by name. Default: the whole library, with the passes that run it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the page into a file.")] = None,
) -> None:
    """Print a page in Markdown on rules: equations, guards in words, kinds, what they may do to values, operators."""
    with errors(as_json=False):
        check_outputs({"-o": output}, {"the command": [name for name in what or () if name.endswith(".py")]})
        text = _page(what or [])
        if output is None:
            print(text, end="")
        else:
            output.write_text(text, encoding="utf-8")


def _page(what: list[str]) -> str:
    from passat.cli.check import rule_sets
    from passat.rule_pages.catalogue import subjects_of
    from passat.rule_pages.markdown import library_page, page

    return page(subjects_of(rule_sets(what))) if what else library_page()
