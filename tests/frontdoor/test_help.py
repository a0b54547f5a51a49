"""The output of `--help`: phrases, and options in groups."""

import re

import pytest
from typer.testing import CliRunner

from passat.cli.app import app
from passat.cli.command import GROUPS
from tests.frontdoor.test_bad_values import commands

COMMANDS = dict(commands())


@pytest.mark.parametrize("name", COMMANDS)
def test_each_option_is_explained_by_a_phrase(name: str) -> None:
    command = COMMANDS[name]
    for parameter in command.params:
        assert re.fullmatch(r"[A-Z].*[^.]", parameter.help or ""), f"{name} {parameter.name}: {parameter.help!r}"
        assert ". " not in parameter.help, f"{name} {parameter.name}"
    assert not re.search(r"[.]$|[.] ", command.help.partition("\n\n")[0]), name


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_options_are_shown_without_the_types_of_python(name: str) -> None:
    shown = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "120"}).output
    assert not re.search(r"--.*<(bool|int|str|float)", shown)


@pytest.mark.parametrize("name", ["optimize", "order", "profile", "bisect", "rules bisect", "rules why-not"])
def test_options_are_in_groups(name: str) -> None:
    panels = [parameter.rich_help_panel for parameter in COMMANDS[name].params if parameter.param_type_name == "option"]
    assert set(panels) <= set(GROUPS)
    assert panels == sorted(panels, key=GROUPS.index)
    shown = CliRunner().invoke(app, [*name.split(), "--help"]).output
    assert re.findall(r"─ (\w+) ─", shown.replace("Arguments", "-")) == list(dict.fromkeys(panels))


def test_optimize_has_all_groups() -> None:
    assert {parameter.rich_help_panel for parameter in COMMANDS["optimize"].params} == {None, *GROUPS}


def test_the_main_command_comes_first() -> None:
    names = re.findall(r"^│ ([a-z]+) ", CliRunner().invoke(app, ["--help"]).output, re.MULTILINE)
    assert names[:2] == ["optimize", "inspect"]
    assert set(names) == {name.partition(" ")[0] for name in COMMANDS}
