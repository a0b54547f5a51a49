"""`passat replay`."""

import contextlib
import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from passat.cli.app import app
from passat.cli.arguments import JsonOption, RulesOption, load
from passat.cli.errors import USAGE, CommandError, errors, explain

DIFFERENT = 3


@app.command()
def replay(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder that --reproducer wrote.", show_default=False)],
    *,
    rules: RulesOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pass again that raised, from the folder that `passat optimize --reproducer DIR` wrote.

    Exit codes: 0 it does not fail, 1 it fails the same way, 2 the folder cannot be used, 3 it fails in another way.
    Nothing in the folder is run; rules of your own have to be given again.
    """
    with errors(as_json):
        try:
            from passat.crash import replay_folder

            sets = load(rules)
            with contextlib.redirect_stdout(sys.stderr):
                found = replay_folder(folder, sets)
        except Exception as error:  # 1 says that it fails the same way, so nothing else may
            sentence, _ = explain(error)
            raise CommandError(sentence, USAGE) from error
        last = found[-1]
        if as_json:
            failure = None if last.error is None else f"{type(last.error).__name__}: {last.error}"
            print(
                json.dumps({"failed": last.error is not None, "same": last.same, "error": failure, "said": list(map(str, found))}, indent=2)
            )
        else:
            print("\n".join(map(str, found)))
    raise typer.Exit(0 if last.error is None else 1 if last.same else DIFFERENT)
