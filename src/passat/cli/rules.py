"""`passat rules list`, `passat rules check`, `passat rules doc`, `passat rules why-not`, and `passat explain`, which shows the effect of
rules."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from passat.cli import completion
from passat.cli.app import FAILURE, USAGE, app, console, end, errors, fail, interruption, rules_app
from passat.cli.arguments import JsonOption, PassOptions, RulesOption, check_ending, check_outputs, load
from passat.cli.command import command
from passat.cli.options import JobOptions, working
from passat.ir.similar_names import did_you_mean

if TYPE_CHECKING:
    from passat.rules.checking.check_sets import RuleCheck
    from passat.rules.rule import Rule
    from passat.rules.rule_set import RuleSet


SetsArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[FILE.py|SET]...",
        autocompletion=completion.rule_sets,
        help="Rule files, and sets of the library by name (default: the whole library)",
        show_default=False,
    ),
]


@command(rules_app, "list")
def list_rules(
    what: SetsArgument = None,
    rules: RulesOption = None,
    as_json: JsonOption = False,
) -> None:
    """List rules: those of the library, of some of its sets, or of your files.

    --json has a list of objects: `name`, `rule`, `kind` (reducing, exploring, joining, multi-pattern, lowering or eager), `kind_in` (its
    kinds in passes that use it as another one), `holes`, `guards`, `math`, `nonfinite`, `note`, `source` and `passes`.
    """
    with errors(as_json):
        from passat.catalog import rule_rows, rules_text

        rows = rule_rows([*(rule_sets(what) if what else ()), *load(rules)] if what or rules else None)
        print(json.dumps(rows, indent=2) if as_json else rules_text(rows))


@command(rules_app, "check")
def check_rules(
    what: SetsArgument = None,
    *,
    options: JobOptions,
    instances: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Minimum number of instances that each rule is compared on")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the random instances")] = 0,
    rule: Annotated[
        list[str] | None, typer.Option(metavar="SET.RULE", autocompletion=completion.rules, help="Rule to check (repeatable; default: all)")
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show how sound rules were tested")] = False,
    as_json: JsonOption = False,
) -> None:
    """Test rules on random well-typed instances: exact rules bit for bit, others up to rounding.

    A wrong rule is shown with the smallest counterexample found, and with a guard that fixes it if there is one.
    Exit codes: 0 all rules are sound, 1 some are not. Ctrl-C prints the results so far, with exit code 130.
    """
    with errors(as_json):
        from passat.render import ProgressLine
        from passat.rule_checks import check_each
        from passat.rules.checking.check_sets import related
        from passat.rules.checking.report import reports_text
        from passat.rules.rule_set import types_unchecked

        checked: dict[int, RuleCheck] = {}
        stopped: KeyboardInterrupt | None = None
        with types_unchecked():
            chosen = _chosen(rule_sets(what or []), rule or [])
        with ProgressLine(console(stderr=True), enabled=not as_json, lines=True) as progress, options.executor() as executor:
            each = check_each(chosen, instances=instances, seed=seed, processes=options.jobs, executor=executor)
            try:
                while len(checked) < len(chosen):
                    done = f"{len(checked)} of {len(chosen)} rules are checked"
                    progress(done if options.apart else f"checking {chosen[len(checked)][0].name}, {len(checked) + 1} of {len(chosen)}")
                    outcome = next(each, None)
                    if outcome is None:  # a check was interrupted elsewhere
                        raise KeyboardInterrupt
                    checked[outcome[0]] = outcome[1]
            except KeyboardInterrupt as error:
                stopped = error
            reports = related([checked[number] for number in sorted(checked)], progress)
        print(json.dumps([report.data() for report in reports], indent=2) if as_json else reports_text(reports, verbose=verbose))
        if stopped is not None:
            said, code = interruption(stopped)
            end(f"{said}; {len(reports)} of {len(chosen)} rules were checked", code)
        if not all(report.ok for report in reports):
            raise typer.Exit(FAILURE)


@command(rules_app, "doc")
def rules_doc(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py|SET]...",
            autocompletion=completion.rule_sets,
            help="Rule files, and sets of the library by name (default: a table of all sets of the library)",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File to write the page to (default: standard output)")
    ] = None,
) -> None:
    """Print a Markdown page on rules: equations, explained guards, kinds, effects on values, operators."""
    with errors(as_json=False):
        check_outputs({"-o": output}, {"the command": [name for name in what or () if name.endswith(".py")]})
        check_ending("-o", output, ".md", ".markdown", ".txt")
        from passat.catalog import subjects_of
        from passat.rule_pages import library_table, page

        text = page(subjects_of(rule_sets(what))) if what else library_table()
        if output is None:
            print(text, end="")
        else:
            from passat.ir.whole_file import write_whole

            write_whole(output, text.encode("utf-8", "backslashreplace"))
            print(f"{output} was written")


def rule_sets(what: list[str]) -> "list[type[RuleSet]]":
    """The named sets of the library and of plug-ins, and those of files; the whole library if nothing is named."""
    from passat.catalog import plugin_sets
    from passat.rules import library

    known = library.rule_sets()
    files = [name for name in what if name.endswith(".py") or "/" in name or Path(name).exists()]
    if not {*what} <= {*files, *known}:
        known = {**plugin_sets(), **known}
    for name in what:
        if name.endswith(".onnx"):
            fail(f"{name} is a model, not a rule file; `passat rules why-not RULE {name}` explains why a rule does not fire on it", USAGE)
        if name not in files and name not in known:
            of = name.split(".")[0]
            if name in {rule.name for rule in (known[of].rules if of in known else ())}:
                fail(
                    f"{name} is a rule of the set {of}: name the set; `passat rules check {of} --rule {name}` checks this rule alone", USAGE
                )
            hint = did_you_mean(name, known) or "; `passat rules doc` lists the sets of the library"
            fail(f"{name} is neither a rule file nor a set of the library or of a plug-in{hint}", USAGE)
    sets = [cast("type[RuleSet]", known[name]) for name in (what or known) if name not in files]
    return sets + (load([Path(name) for name in files]) if files else [])


def _chosen(sets: "list[type[RuleSet]]", names: list[str]) -> "list[tuple[Rule, type[RuleSet]]]":
    """The rules of these names, or all rules, each with its set."""
    known = {rule.name: (rule, rules) for rules in sets for rule in rules.rules}
    for name in names:
        if name not in known:
            fail(f"no checked set has a rule {name}{did_you_mean(name, known) or '; `passat rules list` lists the rules'}", USAGE)
    return [known[name] for name in dict.fromkeys(names)] if names else list(known.values())


def _sets_of_pass(name: str) -> str:
    """A sentence that names the rule sets of a pass; empty if the name is not that of a pass with rules."""
    from passat.passmgr import PassOptionError, UnknownPassError, get_pass
    from passat.rules.rule_pass import RulePass

    try:
        made = get_pass(name)
    except (UnknownPassError, PassOptionError):
        return ""
    if not isinstance(made, RulePass):
        return ""
    return (
        f"{name} is a pass, not a rule; ask about one of its rule sets: {', '.join(dict.fromkeys(rules.__name__ for rules in made.sets))}"
    )


@command(app)
def explain(
    model: Annotated[
        Path | None, typer.Argument(metavar="[OUT]", help="Model that `passat optimize --explain` wrote", show_default=False)
    ] = None,
    *,
    node: Annotated[
        str | None, typer.Option(metavar="NAME", help="Name of a node, of one of its outputs, or of an input node that it comes from")
    ] = None,
    check: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate to check, which `passat optimize --certificate FILE` wrote")
    ] = None,
    before: Annotated[Path | None, typer.Option(metavar="IN", help="With --check: the model that was optimized")] = None,
    after: Annotated[Path | None, typer.Option(metavar="OUT", help="With --check: the result")] = None,
    rules: RulesOption = None,
    trust: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PASS",
            help="With --check: pass to accept although the certificate does not cover it; only passes without rules (repeatable)",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show for each node of a result which rules led to it, back to nodes of the input; or check a certificate.

    Exit codes of a check: 0 all steps are proved or trusted, 1 a step is wrong or not covered, 2 invalid command.
    """
    with errors(as_json):
        if check is None:
            if model is None:
                fail("give a model that `passat optimize --explain` wrote, or a certificate with --check", USAGE)
            if before is not None or after is not None or rules or trust:
                fail("--before, --after, --rules and --trust require --check", USAGE)
            _explain(model, node, as_json)
        else:
            if model is not None and after is not None:
                fail("the result is given twice, as OUT and with --after", USAGE)
            if node is not None:
                fail("--node applies to a model, not to a certificate", USAGE)
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

    sets = load(rules)
    with working(f"checking {certificate}", enabled=not as_json):
        verdict = check_certificate(certificate, before=before, after=after, rules=sets, trust=trust)
    compared = {"before": before is not None, "after": after is not None}
    if as_json:
        print(json.dumps({"schema": "certificate-check-1", **asdict(verdict), "compared": compared}, indent=2))
        return
    print(verdict)
    for what, done in compared.items():
        if not done:
            print(f"not compared with a file: the program {what} (--{what})")


@command(rules_app, "why-not")
def why_not(
    rule: Annotated[
        str,
        typer.Argument(
            metavar="RULE",
            autocompletion=completion.rules,
            help="Rule, such as Arithmetic.add_negative, rule set, or pass without rules",
            show_default=False,
        ),
    ],
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Model on which it did not fire", show_default=False)],
    asked: PassOptions,
    node: Annotated[str | None, typer.Option(metavar="NAME", help="Name of the node to examine, or of its first output")] = None,
    nearest: Annotated[int, typer.Option(min=1, metavar="N", help="Number of the nearest matches to show")] = 3,
    as_json: JsonOption = False,
) -> None:
    """Explain why a rule did not fire on a model: what rejected it, which limit stopped it, what it would have cost, or what it nearly
    matched.

    Exit codes: 0 explained, 1 the model or the rules cannot be used, 2 invalid command.
    """
    with errors(as_json):
        from passat.bisection import AS_GIVEN, read_leniently
        from passat.passmgr import PassContext
        from passat.pipelines import build_pipeline
        from passat.rules.why_not import Inquiry, WhyNotError, set_text

        with asked.entered() as (text, sets), working(f"looking for {rule} in {model}", enabled=not as_json):
            try:
                given = read_leniently(os.fspath(model), AS_GIVEN.in_context(PassContext.current()))
                inquiry = Inquiry(given.module, build_pipeline(text, sets))
                whole = inquiry.is_set(rule)
                answers = [inquiry.answer(name, node, nearest) for name in (inquiry.rules_of(rule) if whole else [rule])]
            except WhyNotError as error:
                fail(_sets_of_pass(rule) or str(error), USAGE)
        if as_json:
            head = {"schema": "why-not-1", "model": str(model), "set": rule if whole else None}
            print(json.dumps({**head, "rules": [answer.to_dict() for answer in answers]}, indent=2))
        else:
            print(set_text(rule, answers) if whole else answers[0])
