"""`passat rules check`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import typer

from passat.cli.app import rules_app
from passat.cli.arguments import JsonOption, load
from passat.cli.errors import FAILURE, USAGE, end, errors, fail, interruption
from passat.cli.output import console

if TYPE_CHECKING:
    from passat.rules.checking.trying import Checked
    from passat.rules.rule import Rule, RuleSet


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
        from passat.progress import ProgressLine
        from passat.rules.checking.check_sets import check_each, related
        from passat.rules.checking.text import reports_text

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


def rule_sets(what: list[str]) -> "list[type[RuleSet]]":
    """The sets of the library that are named, and those of files; the whole library where nothing is."""
    from difflib import get_close_matches

    from passat.rules import library

    known = library.rule_sets()
    files = [name for name in what if name.endswith(".py") or "/" in name or Path(name).exists()]
    for name in what:
        if name not in files and name not in known:
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"the library has {', '.join(known)}"
            fail(f"{name} is neither a rule file nor a set of the library; {hint}", USAGE)
    sets = [cast("type[RuleSet]", known[name]) for name in (what or known) if name not in files]
    return sets + (load([Path(name) for name in files]) if files else [])


def _chosen(rules: "list[Rule]", names: list[str]) -> "list[Rule]":
    from difflib import get_close_matches

    known = {rule.name: rule for rule in rules}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3)
            fail(f"there is no rule {name} here{'; did you mean ' + ' or '.join(near) + '?' if near else ''}", USAGE)
    return [known[name] for name in dict.fromkeys(names)] if names else rules
