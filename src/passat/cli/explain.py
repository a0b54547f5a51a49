"""`passat explain` and `passat rules why-not`: which rules made the nodes of a result, and why others made none."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import USAGE, app, errors, fail, rules_app
from passat.cli.arguments import JsonOption, PassOptions, RulesOption, command, load


@app.command()
def explain(
    model: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="A model that `passat optimize --explain` has written.", show_default=False)
    ] = None,
    *,
    node: Annotated[
        str | None,
        typer.Option("--node", metavar="NAME", help="Only the node of this name, which makes this value, or comes from this node."),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option("--check", metavar="FILE", help="Check a certificate that `passat optimize --certificate FILE` has written."),
    ] = None,
    before: Annotated[Path | None, typer.Option("--before", metavar="IN", help="With --check: the model that was optimised.")] = None,
    after: Annotated[Path | None, typer.Option("--after", metavar="OUT", help="With --check: the result.")] = None,
    rules: RulesOption = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            "--trust",
            metavar="PASS",
            help="With --check: accept what this pass did although the certificate does not cover it. Only passes without rules can be "
            "trusted. May be repeated.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Tell for each node of a result which rules led to it, back to nodes of the input; or check a certificate.

    Exit codes of a check: 0 every step is proved or trusted, 1 a step does not hold or is not covered, 2 the command makes no sense.
    """
    with errors(as_json):
        if check is None:
            if model is None:
                fail("name a model that `passat optimize --explain` has written, or a certificate with --check", USAGE)
            if before is not None or after is not None or rules or trust:
                fail("--before, --after, --rules and --trust belong to --check", USAGE)
            _explain(model, node, as_json)
        else:
            if model is not None and after is not None:
                fail("the result is given twice, as OUT and with --after", USAGE)
            if node is not None:
                fail("--node belongs to a model, not to a certificate", USAGE)
            _check(check, before, after or model, rules, trust or (), as_json)


def _explain(model: Path, node: str | None, as_json: bool) -> None:
    from passat.explaining import explain_model
    from passat.ir.onnx import read_model

    explanation = explain_model(read_model(model))
    if node is not None:
        explanation = explanation.of(node)
    print(explanation.to_json() if as_json else explanation)


def _check(
    certificate: Path, before: Path | None, after: Path | None, rules: list[Path] | None, trust: Sequence[str], as_json: bool
) -> None:
    from dataclasses import asdict

    from passat.certificates import check_certificate

    verdict = check_certificate(certificate, before=before, after=after, rules=load(rules), trust=trust)
    compared = {"before": before is not None, "after": after is not None}
    if as_json:
        print(json.dumps({**asdict(verdict), "compared": compared}, indent=2))
        return
    print(verdict)
    for what, done in compared.items():
        if not done:
            print(f"not compared with a file: the program {what} (--{what})")


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
