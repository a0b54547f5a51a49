"""`passat config`: the options of the passes."""

import json
from pathlib import Path
from typing import Annotated, Final
from typing import Any as AnyValue

import typer

from passat.cli import completion
from passat.cli.app import USAGE, Group, app, errors, fail, show
from passat.cli.arguments import JsonOption, RulesOption, config_message, load
from passat.cli.command import command

config_app = typer.Typer(cls=Group, no_args_is_help=True, help="List and explain the options of the passes, which --config KEY=VALUE sets")
app.add_typer(config_app, name="config")

_IN_CODE: Final = frozenset({"Trace"})
"""Types of values that can only be created in Python."""


@command(config_app, "list")
def list_options(rules: RulesOption = None, as_json: JsonOption = False) -> None:
    """List all options with type, default and meaning."""
    with errors(as_json):
        known = _known(rules)
        if as_json:
            print(json.dumps([{"key": key, **option} for key, option in known.items()], indent=2))
            return
        from rich.text import Text

        from passat.render import plain_table

        table = plain_table("option", "default", "meaning")
        for key, option in known.items():
            table.add_row(Text(key), Text(_value(option["default"])), Text(option["doc"]))
        show(table)


@command(config_app, "explain")
def explain_option(
    key: Annotated[
        str, typer.Argument(metavar="KEY", autocompletion=completion.options, help="Option, such as rules.math", show_default=False)
    ],
    rules: RulesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Explain what an option does, which values it takes, and how to set it."""
    with errors(as_json):
        known = _known(rules)
        if key not in known:
            from passat.passmgr import ConfigError, PassContext

            try:
                PassContext(config={key: None})  # raises the error that names similar options
            except ConfigError as error:
                fail(config_message(str(error)), USAGE)
        option = known[key]
        if as_json:
            print(json.dumps({"key": key, **option}, indent=2))
            return
        print(f"{key}: {option['doc']}\n\ntype     {option['type']}\ndefault  {_value(option['default'])}")
        print()
        if option["type"] not in _IN_CODE:
            print(f"set by   --config '{key}=VALUE', where VALUE is JSON, or a plain string")
            if option["type"] == "list[str]":
                print(f"         for example --config '{key}=[\"{'com.microsoft' if key == 'rules.domains' else 'NAME'}\"]'")
        print(f"         PassContext(config={{{key!r}: VALUE}}) or optimize(..., config={{{key!r}: VALUE}}) in Python")


def _known(rules: list[Path] | None) -> dict[str, dict[str, AnyValue]]:
    """All options, including those that user passes register."""
    import passat.rules.passes  # noqa: F401  # importing registers options
    from passat.passmgr import PassContext

    load(rules)
    return PassContext.list_configs()


def _value(value: AnyValue) -> str:
    return "-" if value is None else value if isinstance(value, str) else json.dumps(value, default=str)
