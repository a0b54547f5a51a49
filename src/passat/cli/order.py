"""`passat order` and `passat passes`: what would run, and what there is."""

import enum
import json
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, LevelOption, PassesOption, RulesOption, load
from passat.cli.errors import errors
from passat.cli.output import show


class PlanFormat(enum.StrEnum):
    """How a plan is shown."""

    TEXT = "text"
    DOT = "dot"
    MERMAID = "mermaid"
    JSON = "json"


@app.command()
def order(
    passes: PassesOption = None,
    opt_level: LevelOption = 3,
    rules: RulesOption = None,
    format: Annotated[PlanFormat, typer.Option("--format", help="How to show it.")] = PlanFormat.TEXT,
) -> None:
    """Show which passes would run, in which order, and why."""
    with errors():
        from passat.passmgr import PassContext
        from passat.pipelines import build_pipeline

        plan = build_pipeline(passes, load(rules)).plan(PassContext(opt_level))
        shown = {
            PlanFormat.TEXT: plan.to_text,
            PlanFormat.DOT: plan.to_dot,
            PlanFormat.MERMAID: plan.to_mermaid,
            PlanFormat.JSON: plan.to_json,
        }
        print(shown[format]().rstrip("\n"))


@app.command()
def passes(as_json: JsonOption = False) -> None:
    """List the passes."""
    with errors(as_json):
        from passat.listing import pass_rows, passes_table

        rows = pass_rows()
        if as_json:
            print(json.dumps(rows, indent=2))
        else:
            show(passes_table(rows))
