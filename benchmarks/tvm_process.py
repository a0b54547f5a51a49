"""An interpreter with TVM beside this one: it runs a program that answers each line with a line of JSON.

python -m venv TVM && TVM/bin/pip install apache-tvm==0.27.0
"""

import argparse
import json
import subprocess
import sys
from typing import Any


class Tvm:
    """A process of another interpreter. `version` is that of its TVM, or None if it has none that runs."""

    def __init__(self, python: str, program: str) -> None:
        head = "import json, sys, time\nimport tvm\nprint(json.dumps(tvm.__version__), flush=True)\n"
        self.process = subprocess.Popen(
            [python, "-c", head + program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.version: str | None = json.loads(self._line() or "null")

    def ask(self, line: str) -> Any:
        """The answer of the program to a line."""
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def add_option(parser: argparse.ArgumentParser) -> None:
    """Adds the option that names the interpreter."""
    parser.add_argument("--tvm", default=sys.executable, metavar="PYTHON", help="an interpreter that has apache-tvm")
