"""The command line: `passat optimize`, `passat bisect`, `passat replay`, `passat order`, `passat passes`, `passat rules list`,
`passat rules check`, `passat rules doc`, `passat rules why-not`, `passat rules bisect`, `passat extract`, `passat explain`.

One file for each group of commands; Passat itself is imported when a command runs, so that `--help` answers at once.
"""

from passat.cli import bisect, explain, extract, optimize, order, rules  # noqa: F401  # they register their commands
from passat.cli.app import main

__all__ = ["main"]
