"""The command line, from the help of its commands."""

import re
from typing import Final

import typer
from typer.cli import get_docs_for_click
from typer.main import get_command

import passat.cli  # noqa: F401  # importing registers the commands
from passat.cli.app import app

_CUT_SHORT: Final = re.compile(r"^\* `([\w-]+)`: .*$", re.MULTILINE)
"""A command in the list of commands, with the beginning of its help."""


def commands() -> str:
    """Returns a section for each command."""
    command = get_command(app)
    text: str = get_docs_for_click(obj=command, ctx=typer.Context(command, info_name="passat"), name="passat")
    sections = re.split(r"^(?=#+ `passat)", text, flags=re.MULTILINE)[1:]
    helps = {section.split("`")[1]: section.split("\n\n")[1] for section in sections}
    return "\n".join(_with_links(section, helps) for section in sections[1:])


def _with_links(section: str, helps: dict[str, str]) -> str:
    name = section.split("`")[1]
    head, listed, tail = section.partition("**Commands**:")
    linked = _CUT_SHORT.sub(lambda found: _entry(f"{name} {found[1]}", helps), tail)
    return f"{head}{listed}{linked}".replace("```console", "```text")


def _entry(name: str, helps: dict[str, str]) -> str:
    return f"* [`{name}`](#{name.replace(' ', '-')}): {' '.join(helps[name].split())}"
