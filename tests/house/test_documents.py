"""The documents are true: their commands run in an empty folder and print what they show. Run as a program, this file writes the output
into them.

A line `$ command` of a console block is run where everything above it has been done: files are made of the Python blocks that
begin with `# name.py`, other Python blocks are run. Blocks of `pycon` are one session. Times are not compared. `pip` and `make` are left
out, and of a long output the lines from the one that is shown as `...` on. The page on rules is the output of a command as a whole.
"""

import doctest
import json
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

import pytest

from passat.cli import main

HOME: Final = Path(__file__).resolve().parents[2]
DOCUMENTS: Final = ("README.md", "docs/analyses.md", "docs/custom-operators.md", "docs/passes.md", "docs/search-and-cost.md", "docs/trust.md")
PAGES: Final = {"docs/rules.md": "passat rules doc"}
BLOCK: Final = re.compile(r"^```(console|python|pycon)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TIMES: Final = re.compile(r"\b\d+(\.\d+)? ?(s|ms|us)\b|\b\d\.\de-\d\d\b| \([+-]\d+ %\)|\(\d+\.\d+%; \d+\.\d+%\)|\s+")
LEFT_OUT: Final = ("pip", "make")
FORKS: Final = multiprocessing.get_context("forkserver")
"""Processes that have imported Passat when they start: that takes longer than most commands of the documents."""
FORKS.set_forkserver_preload(
    [
        *(
            "passat.cli",
            "passat.rules.passes",
            "passat.rules.library",
            "passat.optimizer",
            "passat.certificates",
            "passat.catalog",
            "passat.render",
        ),
        *("passat.ir.onnx.importer", "passat.ir.onnx.exporter", "networkx", "typer.main", "pydantic.fields", "pydantic.type_adapter"),
        *("pydantic.json_schema", "rich.console", "onnx", "onnxruntime", __name__),
    ]
)


def run(command: str, folder: Path) -> str:
    """What a command prints: `passat` is that of this Python. Left out are lines that say what it is at, which slow machines print."""
    words = shlex.split(command)
    assert words[0] == "passat", f"a document runs {words[0]}"
    printed = [folder / name for name in (".stdout", ".stderr")]
    process = FORKS.Process(target=command_line, args=(words, folder, *printed, {**environment(folder), "COLUMNS": "120"}))
    process.start()
    process.join()
    return re.sub(r"^(checking|looking) .* \.\.\.\n", "", "".join(path.read_text() for path in printed), flags=re.MULTILINE)


def command_line(words: list[str], folder: Path, out: Path, err: Path, variables: dict[str, str]) -> None:
    """Passat's command line in this process, which is its own, with what it prints in files."""
    os.chdir(folder)
    os.environ.update(variables)
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    sys.argv = words
    main()


def environment(folder: Path) -> dict[str, str]:
    """What is measured is measured anew, and kept in the folder."""
    return {**os.environ, "PASSAT_CACHE": str(folder / ".cache")}


def shortened(output: str, shown: str) -> str:
    """The output, where the document leaves the end of it out as far as it shows it."""
    lines = shown.rstrip("\n").split("\n")
    return "".join(output.splitlines(keepends=True)[: len(lines) - 1]) + "...\n" if lines[-1] == "..." else output


def console(body: str, folder: Path) -> str:
    """A console block with the output that its commands print now."""
    lines = []
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        lines.append(f"$ {command}\n")
        if shlex.split(command)[0] not in LEFT_OUT:
            lines.append(shortened(run(command, folder), shown))
    return "".join(lines)


SESSION: Final = """
import contextlib, io, json, sys
namespace = {"__name__": "session"}
outputs = []
for source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(source, "session", "single"), namespace)
        except Exception as error:
            notes = "".join(f"{note}\\n" for note in getattr(error, "__notes__", ()))
            print(f"Traceback (most recent call last):\\n    ...\\n{type(error).__name__}: {error}\\n{notes}", end="")
    outputs.append(out.getvalue())
json.dump(outputs, sys.stdout)
"""


def sessions(bodies: list[str], folder: Path) -> list[str]:
    """The blocks of a Python session with what its lines print now."""
    parsed = [doctest.DocTestParser().get_examples(body) for body in bodies]
    sources = [example.source for examples in parsed for example in examples]
    done = subprocess.run(
        [sys.executable, "-c", SESSION],
        input=json.dumps(sources),
        capture_output=True,
        text=True,
        cwd=folder,
        check=True,
        env=environment(folder),
    )
    outputs = iter(json.loads(done.stdout))
    made = []
    for examples in parsed:
        lines = []
        for example in examples:
            first, *rest = example.source.splitlines()
            lines += [f">>> {first}\n", *(f"... {line}".rstrip() + "\n" for line in rest), next(outputs)]
        made.append("".join(lines))
    return made


def rewritten(text: str) -> str:
    """A document with the output that its commands print now."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "examples").symlink_to(HOME / "examples")
        sessions_now = iter(sessions([found[2] for found in BLOCK.finditer(text) if found[1] == "pycon"], folder))

        def replace(found: re.Match[str]) -> str:
            kind, body = found[1], found[2]
            if kind == "python":
                title = re.match(r"# (\w+\.py)\n", body)
                if title:
                    (folder / title[1]).write_text(body)
                else:
                    subprocess.run([sys.executable, "-c", body], cwd=folder, check=True, capture_output=True)
                return found[0]
            return f"```{kind}\n{console(body, folder) if kind == 'console' else next(sessions_now)}```".replace(name, "/tmp/here")

        return BLOCK.sub(replace, text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_commands_print(document: str) -> None:
    text = (HOME / document).read_text()
    assert TIMES.sub(" ", rewritten(text)) == TIMES.sub(" ", text), "make documents brings them up to date"


def printed_page(page: str) -> str:
    """A page as its command prints it now. AssertionError with what it prints where that is none."""
    with tempfile.TemporaryDirectory() as name:
        text = run(PAGES[page], Path(name))
    assert text.startswith("# "), text
    return text


@pytest.mark.parametrize("page", PAGES)
def test_a_page_is_what_its_command_prints(page: str) -> None:
    shown, printed = (HOME / page).read_text(), printed_page(page)
    differ = [line for line in printed.splitlines() if line not in set(shown.splitlines())]
    assert shown == printed, f"make documents brings it up to date; new: {differ[:3]}"


if __name__ == "__main__":
    for document in DOCUMENTS:
        path = HOME / document
        path.write_text(rewritten(path.read_text()))
    for page in PAGES:
        (HOME / page).write_text(printed_page(page))
