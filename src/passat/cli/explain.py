"""`passat explain`."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, RulesOption, load
from passat.cli.errors import USAGE, errors, fail


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
