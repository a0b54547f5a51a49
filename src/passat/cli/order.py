"""`passat order` and `passat passes`: what would run, and what there is."""

import enum
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from passat.cli.app import app
from passat.cli.arguments import (
    ConfigOption,
    DisableOption,
    JsonOption,
    LevelOption,
    PassesOption,
    RequireOption,
    RulesOption,
    check_names,
    check_outputs,
    load,
    parse_config,
    pipeline_file,
    read_pipeline,
)
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


_ENDINGS: Final = {
    ".txt": Format.TEXT,
    ".dot": Format.DOT,
    ".gv": Format.DOT,
    ".mmd": Format.MERMAID,
    ".json": Format.JSON,
    ".svg": Format.SVG,
}

FormatOption = Annotated[
    Format | None,
    typer.Option("--format", metavar="FORM", help=f"{', '.join(Format)}. Default: what the ending of FILE says; without a FILE text."),
]
FileOption = Annotated[Path | None, typer.Option("-o", "--output", metavar="FILE", help="Write it into a file.", show_default=False)]


@app.command()
def order(
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    disable: DisableOption = None,
    require: RequireOption = None,
    config: ConfigOption = None,
    format: FormatOption = None,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show which passes would run, in which order, and why."""
    with errors(as_json):
        from passat.passmgr import PassContext
        from passat.pipelines import build_pipeline

        check_outputs({"-o": output}, {"--rules": rules or (), "--passes": [pipeline_file(passes)]})
        form = _form(format, output, as_json)
        ctx = PassContext(opt_level, require, disable, config=parse_config(config))
        with ctx:  # under passmgr.resolve=relay the pipeline is made as in TVM as well
            plan = build_pipeline(read_pipeline(passes), load(rules)).plan(ctx)
            for note in check_names(plan, rules or ()):
                print(f"note: {note}", file=sys.stderr)
        _put(plan, form, output)


@app.command()
def passes(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="A pass to show in full.", show_default=False)] = None,
    graph: Annotated[
        bool, typer.Option("--graph", metavar="", help="Show which pass requires which: all passes, or those of --passes and --rules.")
    ] = False,
    passes: Annotated[
        str | None, typer.Option("--passes", metavar="TEXT", help="With --graph: a pipeline, or @FILE to read one from a file.")
    ] = None,
    rules: Annotated[
        list[Path] | None,
        typer.Option("--rules", metavar="FILE.py", help="A Python file with rules or passes of your own. May be repeated."),
    ] = None,
    format: FormatOption = None,
    output: FileOption = None,
    as_json: JsonOption = False,
) -> None:
    """List the passes, show one of them in full, or show which pass requires which."""
    with errors(as_json):
        from passat.listing import details_text, pass_details, pass_rows, passes_table
        from passat.passmgr import PassContext, requirement_graph
        from passat.pipelines import build_pipeline

        if not graph and (passes is not None or output or format):
            fail("--passes, --format and -o go with --graph", USAGE)
        sets = load(rules)
        if graph:
            if name is not None:
                fail("--graph takes no NAME; --graph --passes NAME shows what one pass requires", USAGE)
            check_outputs({"-o": output}, {"--rules": rules or (), "--passes": [pipeline_file(passes)]})
            form = _form(format, output, as_json)
            with PassContext(config={"passmgr.resolve": "relay"}):  # then cycles and unknown names are not refused, and can be shown
                chosen = None if passes is None and not rules else build_pipeline(read_pipeline(passes), sets).members
            _put(requirement_graph(chosen), form, output)
        elif name is not None:
            details = pass_details(name)
            print(json.dumps(details, indent=2) if as_json else details_text(details))
        elif as_json:
            print(json.dumps(pass_rows(), indent=2))
        else:
            show(passes_table(pass_rows()))


def _form(format: Format | None, output: Path | None, as_json: bool) -> Format:
    """The form that was asked for. Ends the command where two were, or the file's name says none."""
    if as_json and format not in (None, Format.JSON):
        fail(f"--json and --format {format} contradict each other", USAGE)
    if output is not None:
        format = format or (Format.JSON if as_json else _ENDINGS.get(output.suffix.lower()))
        if format is None:
            endings = ", ".join(_ENDINGS)
            fail(f"-o {output}: the ending says no form; it is one of {endings}, or --format says the form: {', '.join(Format)}", USAGE)
    return format or (Format.JSON if as_json else Format.TEXT)


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
        from passat.ir.whole_file import write_whole

        write_whole(output, text.encode("utf-8", "backslashreplace"))
