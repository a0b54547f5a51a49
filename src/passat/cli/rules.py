"""`passat rules list`, `passat rules check` and `passat rules doc`."""

import json
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from passat.cli.app import FAILURE, USAGE, console, end, errors, fail, interruption, rules_app
from passat.cli.arguments import JsonOption, RulesOption, check_outputs, load

if TYPE_CHECKING:
    from passat.rules.checking.trying import Checked
    from passat.rules.rule import Rule, RuleSet


@rules_app.command("list")
def list_rules(rules: RulesOption = None, as_json: JsonOption = False) -> None:
    """List the rules: those that Passat has, or those of your own files.

    --json has a list of objects: `name`, `rule`, `kind` (reducing, exploring, joining, merging, lowering or eager), `kind_in` (its kinds in
    passes that use it as another one), `holes`, `conditions`, `math`, `nonfinite`, `note`, `source` and `passes`.
    """
    with errors(as_json):
        from passat.catalogue import rule_rows, rules_text

        rows = rule_rows(load(rules) if rules else None)
        print(json.dumps(rows, indent=2) if as_json else rules_text(rows))


@rules_app.command("check")
def check_rules(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py|SET]...", help="Rule files, and sets of the library by name. Default: the whole library.", show_default=False
        ),
    ] = None,
    instances: Annotated[
        int, typer.Option(min=1, max=1_000_000, metavar="N", help="Instances that each rule is compared on, at least.")
    ] = 200,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Of the random instances: the same seed gives the same ones.")] = 0,
    rule: Annotated[list[str] | None, typer.Option("--rule", metavar="SET.RULE", help="Check this rule alone. May be repeated.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Also show how sound rules were tried.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Try rules on random well-typed instances: exact ones bit for bit, others up to rounding.

    A rule that is wrong is shown with the smallest instance found, and with the guard that mends it where there is one.
    Exit code 0 where all are sound, 1 where one is not. Ctrl-C prints what was found so far, with exit code 130.
    """
    with errors(as_json):
        from passat.render import ProgressLine
        from passat.rules.checking.check_sets import check_each, related
        from passat.rules.checking.report import reports_text

        checked: list[Checked] = []
        stopped: KeyboardInterrupt | None = None
        chosen = _chosen([each for rules in rule_sets(what or []) for each in rules.rules], rule or [])
        with ProgressLine(console(stderr=True), enabled=not as_json, lines=True) as progress:
            try:
                checked.extend(check_each(chosen, instances=instances, seed=seed, progress=progress))
            except KeyboardInterrupt as error:
                stopped = error
            reports = related(checked, progress)
        print(json.dumps([report.data() for report in reports], indent=2) if as_json else reports_text(reports, verbose=verbose))
        if stopped is not None:
            said, code = interruption(stopped)
            end(f"{said}; {len(reports)} of {len({each.name for each in chosen})} rules were checked", code)
        if not all(report.ok for report in reports):
            raise typer.Exit(FAILURE)


@rules_app.command("doc")
def rules_doc(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[FILE.py|SET]...",
            help="Rule files, and sets of the library by name. Default: the whole library, with the passes that run it.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the page into a file.")] = None,
) -> None:
    """Print a page in Markdown on rules: equations, guards in words, kinds, what they may do to values, operators."""
    with errors(as_json=False):
        check_outputs({"-o": output}, {"the command": [name for name in what or () if name.endswith(".py")]})
        from passat.catalogue import subjects_of
        from passat.rule_pages import library_page, page

        text = page(subjects_of(rule_sets(what))) if what else library_page()
        if output is None:
            print(text, end="")
        else:
            output.write_text(text, encoding="utf-8")


def rule_sets(what: list[str]) -> "list[type[RuleSet]]":
    """The sets of the library that are named, and those of files; the whole library where nothing is."""
    from passat.rules import library

    known = library.rule_sets()
    files = [name for name in what if name.endswith(".py") or "/" in name or Path(name).exists()]
    for name in what:
        if name not in files and name not in known:
            hint = _nearest(name, known) or f"the library has {', '.join(known)}"
            fail(f"{name} is neither a rule file nor a set of the library; {hint}", USAGE)
    sets = [cast("type[RuleSet]", known[name]) for name in (what or known) if name not in files]
    return sets + (load([Path(name) for name in files]) if files else [])


def _chosen(rules: "list[Rule]", names: list[str]) -> "list[Rule]":
    known = {rule.name: rule for rule in rules}
    for name in names:
        if name not in known:
            fail("; ".join(filter(None, (f"there is no rule {name} here", _nearest(name, known)))), USAGE)
    return [known[name] for name in dict.fromkeys(names)] if names else rules


def _nearest(name: str, known: Iterable[str]) -> str:
    """A question for the names that are nearest to one; nothing where none is near."""
    near = get_close_matches(name, known, 3)
    return f"did you mean {' or '.join(near)}?" if near else ""
