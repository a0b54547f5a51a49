"""The README is true: its commands run in an empty folder and print what it shows. Run as a program, this file writes the output into it.

A line `$ command` of a console block is run where everything above it has been done: files are made of the Python blocks that
begin with `# name.py`, other Python blocks are run. Times are not compared. `pip` and `make` are left out.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

HOME: Final = Path(__file__).resolve().parents[2]
README: Final = HOME / "README.md"
BLOCK: Final = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES: Final = re.compile(r"\b\d+(\.\d+)? (s|ms|us)\b|\b\d\.\de-\d\d\b| \([+-]\d+ %\)|\s+")
LEFT_OUT: Final = ("pip", "make")


def run(command: str, folder: Path) -> str:
    """What a command prints: `passat` is that of this Python."""
    words = shlex.split(command)
    assert words[0] == "passat", f"the README runs {words[0]}"
    words[:1] = [sys.executable, "-c", "from passat.cli import main; main()"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=folder, check=False, env={**os.environ, "COLUMNS": "120"})
    return done.stdout + done.stderr


def rewritten(text: str) -> str:
    """The README with the output that its commands print now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(HOME / "examples")

        def replace(found: re.Match[str]) -> str:
            kind, body = found[1], found[2]
            if kind == "python":
                title = re.match(r"# (\w+\.py)\n", body)
                if title:
                    (folder / title[1]).write_text(body)
                else:
                    subprocess.run([sys.executable, "-c", body], cwd=folder, check=True, capture_output=True)
                return found[0]
            lines = []
            for command in re.findall(r"^\$ (.*)$", body, re.MULTILINE):
                lines.append(f"$ {command}\n")
                if shlex.split(command)[0] not in LEFT_OUT:
                    lines.append(run(command, folder))
            return f"```console\n{''.join(lines)}```"

        return BLOCK.sub(replace, text)


def test_the_readme_shows_what_its_commands_print() -> None:
    text = README.read_text()
    assert TIMES.sub(" ", rewritten(text)) == TIMES.sub(" ", text), "make readme brings the README up to date"


if __name__ == "__main__":
    README.write_text(rewritten(README.read_text()))
