"""`passat replay`."""

import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, RulesOption, load
from passat.cli.errors import USAGE, CommandError, errors, explain

if TYPE_CHECKING:
    from passat.passmgr import Replay
    from passat.rule_reproducer import RuleReplay

DIFFERENT = 3


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that --reproducer or --save wrote.", show_default=False)],
    *,
    rules: RulesOption = None,
    check: Annotated[
        str | None, typer.Option(metavar="CMD", help="The command that said what is bad, of a folder that `passat rules bisect` wrote.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pass again that raised, or rules that made a model bad, from the folder that `passat optimize --reproducer DIR` or
    `passat rules bisect --save DIR` wrote.

    Exit codes: 0 it does not fail, 1 it fails the same way, 2 the folder cannot be used, 3 it fails in another way.
    Nothing in the folder is run; rules and commands of your own have to be given again.
    """
    with errors(as_json):
        try:
            from passat.crash import replay_folder
            from passat.rule_reproducer import is_bisection, replay_bisection

            sets = load(rules)
            with contextlib.redirect_stdout(sys.stderr):
                found: Sequence[Replay | RuleReplay]
                found = replay_bisection(folder, sets, check) if is_bisection(folder) else replay_folder(folder, sets)
        except Exception as error:  # 1 says that it fails the same way, so nothing else may
            sentence, _ = explain(error)
            raise CommandError(sentence, USAGE) from error
        last = found[-1]
        if as_json:
            told = {"failed": last.failure is not None, "same": last.same, "error": last.failure, "said": list(map(str, found))}
            print(json.dumps(told, indent=2))
        else:
            print("\n".join(map(str, found)))
    raise typer.Exit(0 if last.failure is None else 1 if last.same else DIFFERENT)
