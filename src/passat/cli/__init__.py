"""The command line: `passat optimize`, `profile`, `inspect`, `diff`, `bisect`, `replay`, `order`, `passes`, `extract`, `explain`,
`run`; for rules `passat rules` with `list`, `check`, `doc`, `why-not`, `bisect`; for options `passat config` with `list`, `explain`.

There is one file for each group of commands. Passat itself is imported when a command runs, so that `--help` is fast.
"""

from passat.cli import bisect, inspect, optimize, passes, rules  # noqa: F401  # they register their commands
from passat.cli.app import main

__all__ = ["main"]
