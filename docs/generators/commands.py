"""The command line, from the help of its commands."""

import re
from typing import Any as AnyValue
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
    return "\n".join(_with_groups(_with_links(section, helps), command) for section in sections[1:])


def _with_links(section: str, helps: dict[str, str]) -> str:
    """A section with links in its list of commands, and their full help."""
    name = section.split("`")[1]
    head, listed, tail = section.partition("**Commands**:")
    linked = _CUT_SHORT.sub(lambda found: _entry(f"{name} {found[1]}", helps), tail)
    return f"{head}{listed}{linked}".replace("```console", "```text")


def _entry(name: str, helps: dict[str, str]) -> str:
    return f"* [`{name}`](#{name.replace(' ', '-')}): {' '.join(helps[name].split())}"


def _with_groups(section: str, command: AnyValue) -> str:
    """A section with its options in the groups of `--help`."""
    for word in section.split("`")[1].split()[1:]:
        command = command.commands[word]
    groups = {option: getattr(each, "rich_help_panel", None) or "Options" for each in command.params for option in each.opts}
    head, _, listed = section.partition("**Options**:\n\n")
    listed, title, below = listed.partition("**Commands**:")
    found: dict[str, list[str]] = {}
    for line in re.findall(r"^\* .+(?:\n(?!\* |\n).+)*", listed, re.MULTILINE):
        first = re.split(r"[ `,]", line.partition("`")[2], maxsplit=1)[0]
        if first == "--help":
            continue
        found.setdefault(groups.get(first, "Options"), []).append(line)
    shown = "\n\n".join(f"**{group}**:\n\n" + "\n".join(lines) for group, lines in found.items())
    return f"{head}{shown}\n\n{title}{below}"
