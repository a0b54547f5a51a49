"""The command line: `passat optimize`, `profile`, `inspect`, `diff`, `bisect`, `replay`, `order`, `passes`, `extract`, `explain`, and the
commands of `passat rules`: `list`, `check`, `doc`, `why-not`, `bisect`.

One file for each group of commands; Passat itself is imported when a command runs, so that `--help` answers at once.
"""

from passat.cli import bisect, extract, inspect, optimize, order, rules  # noqa: F401  # they register their commands
from passat.cli.app import main

__all__ = ["main"]
