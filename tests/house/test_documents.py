"""The examples of README and docs are executed in an empty folder and print what the pages show. Run as a program, this file writes their
output into the pages, or into those that are named.

The blocks of a page are executed in their order, in one folder:

* `console`: each line `$ command`, with the output below it. `passat`, `python` and a few commands of the shell run; `pip` and `make` do not.
  Where the output shown ends with a line `...`, what follows is not compared.
* `pycon`: all blocks of a page are one session.
* `python`: a program, which has to end without an error.
* A block that begins with a comment `# name.py` (or `.toml`, `.yaml` ...) is a file, and is written there.

Times are not compared. What cannot run here (TVM's own scripts) has a line `<!-- not run: REASON -->` above it. Blocks in languages that
look like examples and are none of these are errors. The page on rules is the output of a command as a whole.
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
PAGES: Final = {"docs/rules.md": "passat rules doc"}
DOCUMENTS: Final = ("README.md", *sorted({str(path.relative_to(HOME)) for path in (HOME / "docs").rglob("*.md")} - {*PAGES}))
BLOCK: Final = re.compile(r"(^<!-- not run: .+ -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE: Final = re.compile(r"^ *(?:`{3,}|~{3,}|:{3,})(\S*)", re.MULTILINE)
SHOWN: Final = ("text", "json", "toml", "yaml", "ini", "make", "diff", "html", "cpp", "mlir", "c", "dockerfile", "mermaid")
"""Languages that are not executed. Directives of the site have names in braces."""
TITLE: Final = re.compile(r"# ([\w./-]+\.\w+)\n")
TIMES: Final = re.compile(r"\b\d+(\.\d+)? ?(s|ms|us)\b|\b\d\.\de-\d\d\b| \([+-]\d+ %\)|\(\d+\.\d+%; \d+\.\d+%\)|\s+")
LEFT_OUT: Final = ("pip", "make")
COMMANDS: Final = ("passat", "python", "cat", "cp", "echo", "head", "ls", "mkdir", "rm")
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
    """Runs a command with this Python's `passat` and returns what it prints, without the lines of progress that slow machines print."""
    words = shlex.split(command)
    assert words[0] in COMMANDS, f"a document runs {words[0]}"
    if words[0] == "passat" and not re.search(r"[|;&<>*?$]", command):
        printed = [folder / name for name in (".stdout", ".stderr")]
        process = FORKS.Process(target=command_line, args=(words, folder, *printed, environment(folder)))
        process.start()
        process.join()
        output = "".join(path.read_text() for path in printed)
    else:
        done = subprocess.run(command, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
    return re.sub(r"^(checking|looking) .* \.\.\.\n", "", output, flags=re.MULTILINE)


def command_line(words: list[str], folder: Path, out: Path, err: Path, variables: dict[str, str]) -> None:
    """Passat's command line in this process, which is its own, with what it prints in files."""
    os.chdir(folder)
    os.environ.update(variables)
    for path, stream in ((out, sys.stdout), (err, sys.stderr)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream.fileno())
    sys.argv = words
    main()


def environment(folder: Path) -> dict[str, str]:
    """The variables of the examples' processes: this Python's commands come first, and what is measured is kept in the folder."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PASSAT_CACHE": str(folder / ".cache"), "COLUMNS": "120"}


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
        sessions_now = iter(sessions([body for skip, kind, body in BLOCK.findall(text) if kind == "pycon" and not skip], folder))

        def replace(found: re.Match[str]) -> str:
            skip, kind, body = found.groups()
            title = TITLE.match(body)
            if skip:
                return found[0]
            if title and kind not in ("console", "pycon"):
                path = folder / title[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body)
            elif kind == "python":
                subprocess.run([sys.executable, "-c", body], cwd=folder, check=True, capture_output=True, env=environment(folder))
            if kind not in ("console", "pycon"):
                return found[0]
            return f"```{kind}\n{console(body, folder) if kind == 'console' else next(sessions_now)}```".replace(name, "/tmp/here")

        return BLOCK.sub(replace, text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_what_its_commands_print(document: str) -> None:
    text = (HOME / document).read_text()
    assert TIMES.sub(" ", rewritten(text)) == TIMES.sub(" ", text), "make documents brings them up to date"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_example_is_executed(document: str) -> None:
    text = (HOME / document).read_text()
    executed = [kind for _, kind, _ in BLOCK.findall(text)]
    for kind in {kind for kind in FENCE.findall(text) if kind and not kind.startswith("{")}:
        assert kind in (*SHOWN, "console", "pycon", "python"), f"{kind}: examples are console, pycon or python; other texts are {SHOWN}"
        fences = re.findall(rf"^ *[`~:]{{3,}}{kind}$", text, re.MULTILINE)
        assert len(fences) == executed.count(kind), f"an example of {kind} has to begin and end with ``` at the start of a line"
    for _, kind, body in BLOCK.findall(text):
        assert kind in ("console", "pycon", "python") or not re.search(
            r"^(>>> |\$ passat |import passat|from passat)", body, re.MULTILINE
        ), f"an example is shown as {kind}:\n{body}"


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
    for document in sys.argv[1:] or (*DOCUMENTS, *PAGES):
        path = HOME / document
        path.write_text(printed_page(document) if document in PAGES else rewritten(path.read_text()))
