"""`passat order` and `passat passes`: what would run, and what there is."""

import enum
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, LevelOption, PassesOption, RulesOption, check_output, load, parse_config
from passat.cli.errors import USAGE, errors, fail
from passat.cli.output import show

if TYPE_CHECKING:
    from passat.passmgr import Plan, RequirementGraph


class Format(enum.StrEnum):
    """How a plan or a graph is shown."""

    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"
    JSON = "json"
    SVG = "svg"


FormatOption = Annotated[Format, typer.Option("--format", help="How to show it.")]
FileOption = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it into a file.", show_default=False)]


@app.command()
def order(
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    disable: Annotated[
        list[str] | None, typer.Option("--disable", metavar="NAME", help="A pass that is not to run. May be repeated.")
    ] = None,
    require: Annotated[
        list[str] | None, typer.Option("--require", metavar="NAME", help="A pass of the pipeline that runs at any level. May be repeated.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", metavar="KEY=VALUE", help="An option, such as passmgr.resolve=relay. May be repeated."),
    ] = None,
    format: FormatOption = Format.TEXT,
    output: FileOption = None,
) -> None:
    """Show which passes would run, in which order, and why."""
    with errors():
        from passat.passmgr import PassContext, UnknownPassError
        from passat.pipelines import build_pipeline

        if output is not None:
            check_output(output)
        ctx = PassContext(opt_level, require, disable, config=parse_config(config or []))
        with ctx:  # under passmgr.resolve=relay the pipeline is made as in TVM as well
            try:
                plan = build_pipeline(passes, load(rules)).plan(ctx)
            except UnknownPassError as error:  # as in TVM it is not the pipeline that looks names up
                fail(str(error), USAGE)
        _put(plan, format, output)


@app.command()
def passes(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A pass to show in full.", show_default=False)] = None,
    graph: Annotated[bool, typer.Option("--graph", help="Show which pass requires which.")] = False,
    passes: PassesOption = None,
    rules: RulesOption = None,
    format: FormatOption = Format.TEXT,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the passes, show one of them in full, or the graph of their requirements: of all passes, or with --passes of a pipeline."""
    with errors(as_json):
        from passat.listing import details_text, pass_details, pass_rows, passes_table
        from passat.passmgr import PassContext, UnknownPassError, requirement_graph
        from passat.pipelines import build_pipeline

        if not graph and (passes or rules or output or format is not Format.TEXT):
            fail("--passes, --rules, --format and -o go with --graph", USAGE)
        if graph:
            if name is not None:
                fail("--graph takes no NAME; --graph --passes NAME shows what one pass requires", USAGE)
            if output is not None:
                check_output(output)
            with PassContext(config={"passmgr.resolve": "relay"}):  # then cycles and unknown names are not refused, and can be shown
                chosen = build_pipeline(passes, load(rules)).members if passes or rules else None
            _put(requirement_graph(chosen), Format.JSON if as_json else format, output)
        elif name is not None:
            try:
                details = pass_details(name)
            except UnknownPassError as error:
                fail(str(error), USAGE)
            print(json.dumps(details, indent=2) if as_json else details_text(details))
        elif as_json:
            print(json.dumps(pass_rows(), indent=2))
        else:
            show(passes_table(pass_rows()))


def _put(what: "Plan | RequirementGraph", format: Format, output: Path | None) -> None:
    forms = {
        Format.TEXT: what.to_text,
        Format.DOT: what.to_dot,
        Format.MERMAID: what.to_mermaid,
        Format.JSON: what.to_json,
        Format.SVG: what.to_svg,
    }
    text = forms[format]().rstrip("\n") + "\n"
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
