"""`passat order`, `passat passes` and `passat config`: the plan, the registered passes, and their options."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, get_args
from typing import Any as AnyValue

import typer

from passat.cli import completion
from passat.cli.app import USAGE, Group, app, errors, fail, show
from passat.cli.arguments import JsonOption, PassOptions, RulesOption, check_names, check_outputs, config_message, load
from passat.cli.command import command

if TYPE_CHECKING:
    from passat.passmgr import Plan

config_app = typer.Typer(cls=Group, no_args_is_help=True, help="List and explain the options of the passes, which --config KEY=VALUE sets")
app.add_typer(config_app, name="config")

_IN_CODE: Final = frozenset({"Trace"})
"""Types of values that can only be created in Python."""


Format = Literal["text", "json", "svg"]
"""The output form of a plan."""
_ENDINGS: Final[Mapping[str, Format]] = {".txt": "text", ".json": "json", ".svg": "svg"}
_FORMS: Final = ", ".join(get_args(Format))

FormatOption = Annotated[
    Format | None,
    typer.Option("--format", metavar="FORM", help=f"Format: {_FORMS} (default: by the ending of FILE; text without a FILE)"),
]
FileOption = Annotated[
    Path | None, typer.Option("-o", "--output", metavar="FILE", help="File to write to (default: standard output)", show_default=False)
]


@command(app)
def order(
    asked: PassOptions,
    format: FormatOption = None,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which passes would run, in which order, and why."""
    with errors(as_json):
        from passat.pipelines import EMPTY_PIPELINE, build_pipeline
        from passat.rules.planned_rules import disabled_in_vain

        check_outputs({"-o": output}, asked.files)
        form = _form(format, output, as_json)
        with asked.context() as ctx:  # with passmgr.resolve=relay, the pipeline is also built as in TVM
            plan = build_pipeline(asked.text(), load(asked.rules)).plan(ctx)
            empty = [] if plan.steps else [EMPTY_PIPELINE]
            for note in (*empty, *check_names(plan, asked.rules or ()), *disabled_in_vain(plan, ctx)):
                print(f"note: {note}", file=sys.stderr)
        _put(plan, form, output)
        if output is not None and not as_json:
            print(f"{output} was written")


@command(app)
def passes(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", autocompletion=completion.passes, help="Pass to show in full", show_default=False)
    ] = None,
    rules: Annotated[
        list[Path] | None, typer.Option(metavar="FILE.py", help="Python file with your own rules or passes (repeatable)")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """List the passes, or show one of them in full."""
    with errors(as_json):
        from passat.catalog import details_text, pass_details, pass_rows, passes_table

        load(rules)
        if name is not None:
            details = pass_details(name)
            print(json.dumps(details, indent=2) if as_json else details_text(details))
        elif as_json:
            print(json.dumps(pass_rows(), indent=2))
        else:
            show(passes_table(pass_rows()))


def _form(format: Format | None, output: Path | None, as_json: bool) -> Format:
    """The requested format. Ends the command if two were requested, or the file name has no known ending."""
    if as_json and format not in (None, "json"):
        fail(f"--json and --format {format} contradict each other", USAGE)
    by_ending = None if output is None else _ENDINGS.get(output.suffix.lower())
    if as_json and by_ending not in (None, "json"):
        fail(f"--json and -o {output} contradict each other", USAGE)
    if output is not None:
        format = format or ("json" if as_json else by_ending)
        if format is None:
            endings = ", ".join(_ENDINGS)
            fail(f"-o {output}: the file ending is not one of {endings}; use one of these, or --format: {_FORMS}", USAGE)
    return format or ("json" if as_json else "text")


def _put(plan: "Plan", format: Format, output: Path | None) -> None:
    forms = {"text": plan.to_text, "json": plan.to_json, "svg": plan.to_svg}
    text = forms[format]().rstrip("\n") + "\n"
    if output is None:
        print(text, end="")
    else:
        from passat.ir.whole_file import write_whole

        write_whole(output, text.encode("utf-8", "backslashreplace"))


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
