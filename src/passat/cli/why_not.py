"""`passat rules why-not`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import rules_app
from passat.cli.arguments import JsonOption, PassOptions, command
from passat.cli.errors import USAGE, errors, fail


@command(rules_app, "why-not")
def why_not(
    rule: Annotated[
        str, typer.Argument(metavar="RULE", help="A rule, such as Arithmetic.add_negative, or a whole set of rules.", show_default=False)
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The model on which it did not fire.", show_default=False)],
    asked: PassOptions,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Why not at the node of this name, or with this first output.", show_default=False)
    ] = None,
    nearest: Annotated[int, typer.Option(min=1, metavar="N", help="So many of the nearest matches are shown.")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Say why a rule did not fire on a model: what refused it, which limit cut it, what it would have cost, or what it nearly matched.

    Exit codes: 0 it was said, 1 the model or the rules cannot be used, 2 the command makes no sense.
    """
    with errors(as_json):
        from passat.ir.onnx import load as read
        from passat.pipelines import build_pipeline
        from passat.rules.why_not import Inquiry, WhyNotError, set_text

        with asked.entered() as (text, sets):
            try:
                inquiry = Inquiry(read(model, lenient=True), build_pipeline(text, sets))
                whole = inquiry.is_set(rule)
                if whole and node is not None:
                    fail(f"--node goes with one rule, and {rule} is a set", USAGE)
                answers = [inquiry.answer(name, node, nearest) for name in (inquiry.rules_of(rule) if whole else [rule])]
            except WhyNotError as error:
                fail(str(error), USAGE)
        if as_json:
            found = [answer.to_dict() for answer in answers]
            print(json.dumps({"model": str(model), "set": rule, "rules": found} if whole else {"model": str(model), **found[0]}, indent=2))
        else:
            print(set_text(rule, answers) if whole else answers[0])
