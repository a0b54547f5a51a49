"""The examples of README and docs are executed in an empty folder and print what the pages show. Run as a program, this file updates the
output in the pages, or in the named ones.

The blocks of a page are executed in order, in one folder:

* `console`: each line `$ command`, with its output below it. `passat`, `python` and a few shell commands run; `pip` and `make` do not. A
  line `...` in the output stands for all lines up to the next one that is shown. Python and Passat run in forked processes, and with
  PASSAT_SOAK=1 in new ones.
* `pycon`: all blocks of a page are one session.
* `python`: a program, which must end without an error.
* A block that begins with a comment `# name.py` (or `.toml`, `.yaml` ...) is a file, and is written there.

Times are not compared, but estimates are. A block that cannot run here (TVM's own scripts) has a line `<!-- not run: REASON -->` above it.
Blocks in languages that look like examples and are none of these are errors. The page on rules is the output of one command.
"""

import contextlib
import doctest
import io
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

import pytest

from tests import processes
from tests.processes import PROCESSES, enter

HOME: Final = Path(__file__).resolve().parents[2]
PAGES: Final = {"docs/rules.md": "passat rules doc"}
DOCUMENTS: Final = ("README.md", *sorted({str(path.relative_to(HOME)) for path in (HOME / "docs").rglob("*.md")} - {*PAGES}))
BLOCK: Final = re.compile(r"(^<!-- not run: [^\n]+ -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FENCE: Final = re.compile(r"^ *(?:`{3,}|~{3,}|:{3,})(\S*)", re.MULTILINE)
SHOWN: Final = ("text", "json", "toml", "yaml", "ini", "make", "diff", "html", "cpp", "mlir", "c", "dockerfile", "mermaid")
"""Languages that are not executed."""
DIRECTIVES: Final = ("{include}", "{toctree}", "{figure}", "{image}", "{note}", "{tip}", "{warning}", "{admonition}")
EXAMPLE: Final = re.compile(r"^ *(>>> |\$ passat |import passat|from passat)", re.MULTILINE)
TITLE: Final = re.compile(r"# ([\w./-]+\.\w+)\n")
TIMES: Final = re.compile(r"\b\d+(\.\d+)? ?(s|ms|us)\b|\b\d\.\de-\d\d\b| \([+-]\d+ %\)|\(\d+\.\d+%; \d+\.\d+%\)|\s+")
ESTIMATES: Final = re.compile(r"(\b(?:estimated|costs?) [\d.]+ (?:s|ms|us)(?: became [\d.]+ (?:s|ms|us)(?: \([+-][\d.]+ %\))?)?)")
LEFT_OUT: Final = ("pip", "make")
COMMANDS: Final = ("passat", "python", "cat", "cp", "echo", "head", "ls", "mkdir", "rm")
SHELL: Final = re.compile(r"[|;&<>*?$]")


def run(command: str, folder: Path) -> str:
    """Runs a command with this Python's `passat` and returns its output, without the progress lines of slow machines."""
    words = shlex.split(command)
    assert words[0] in COMMANDS, f"a document runs {words[0]}"
    if words[0] in ("passat", "python") and not SHELL.search(command):
        done = processes.run(words, folder, environment(folder))
    else:
        done = subprocess.run(command, shell=True, cwd=folder, env=environment(folder), capture_output=True, text=True, check=False)
    return re.sub(r"^(checking|looking) .* \.\.\.\n", "", done.stdout + done.stderr, flags=re.MULTILINE)


def environment(folder: Path) -> dict[str, str]:
    """The environment variables of the examples' processes: this Python's commands come first, and measurements are cached in the
    folder."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return {**os.environ, "PATH": path, "PASSAT_CACHE": str(folder / ".cache"), "COLUMNS": "120"}


def without_times(text: str) -> str:
    """The text without what may differ from one run to the next: times, and the space that aligns them. Estimates stay."""
    return "".join(TIMES.sub(" ", part) if index % 2 == 0 else part for index, part in enumerate(ESTIMATES.split(text)))


def shortened(output: str, shown: str) -> str:
    """The output without the parts that the document omits: a line `...` stands for all lines up to the next one that is shown."""
    if "..." not in shown.splitlines():
        return output
    lines, made = output.splitlines(), list[str]()
    *middle, last = (text.splitlines() for text in re.split(r"^\.\.\.\n", shown, flags=re.MULTILINE))
    for part in middle:
        lines = _from(lines, part)
        made += [*lines[: len(part)], "..."]
        lines = lines[len(part) :]
    made += _from(lines, last) if last else []
    return "".join(f"{line}\n" for line in made)


def _from(lines: list[str], part: list[str]) -> list[str]:
    """The lines starting with the first line of a part, apart from times; all of them if it does not occur."""
    texts = [without_times(line) for line in lines]
    first = without_times(part[0]) if part else None
    return lines[texts.index(first) :] if first in texts else lines


def console(body: str, folder: Path) -> str:
    """A console block with the current output of its commands."""
    lines = []
    for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", body, re.MULTILINE):
        lines.append(f"$ {command}\n")
        if shlex.split(command)[0] not in LEFT_OUT:
            lines.append(shortened(run(command, folder), shown))
    return "".join(lines)


def answer(requests: "Connection[list[str], list[str]]", folder: Path, variables: dict[str, str]) -> None:
    """A Python session: answers each list of lines with their output, until the other side closes the connection."""
    enter(folder, variables)
    sys.path.insert(0, "")
    namespace: dict[str, object] = {"__name__": "session"}
    with contextlib.suppress(EOFError):
        while True:
            requests.send([printed_by(source, namespace) for source in requests.recv()])


def printed_by(source: str, namespace: dict[str, object]) -> str:
    """The output of a line of a session."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            exec(compile(source, "session", "single"), namespace)
        except Exception as error:
            notes = "".join(f"{note}\n" for note in getattr(error, "__notes__", ()))
            print(f"Traceback (most recent call last):\n    ...\n{type(error).__name__}: {error}\n{notes}", end="")
    return out.getvalue()


@contextmanager
def session(folder: Path) -> Iterator[Callable[[str], str]]:
    """A Python session: a function that returns a block with the current output of its lines."""
    here, there = PROCESSES.Pipe()
    process = PROCESSES.Process(target=answer, args=(there, folder, environment(folder)))
    process.start()
    there.close()

    def block(body: str) -> str:
        examples = doctest.DocTestParser().get_examples(body)
        here.send([example.source for example in examples])
        lines = []
        for example, output in zip(examples, here.recv(), strict=True):
            first, *rest = example.source.splitlines()
            lines += [f">>> {first}\n", *(f"... {line}".rstrip() + "\n" for line in rest), output]
        return "".join(lines)

    try:
        yield block
    finally:
        here.close()
        process.join()


def rewritten(text: str) -> str:
    """A document with the current output of its commands."""
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        (folder / "examples").symlink_to(HOME / "examples")
        python: Callable[[str], str] | None = None

        def replace(found: re.Match[str]) -> str:
            nonlocal python
            skip, kind, body = found.groups()
            title = TITLE.match(body)
            if skip:
                return found[0]
            if title and kind not in ("console", "pycon"):
                path = folder / title[1]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(body)
            elif kind == "python":
                done = processes.run(["python", "-c", body], folder, environment(folder))
                assert done.returncode == 0, done.stderr
            if kind == "pycon":
                python = python or stack.enter_context(session(folder))
                printed = python(body)
            elif kind == "console":
                printed = console(body, folder)
            else:
                return found[0]
            printed = re.sub(rf"'({re.escape(name)}\S*)'", r"\1", printed)  # quoted if the temporary folder has a space
            return f"```{kind}\n{printed}```".replace(name, "/tmp/here")

        return BLOCK.sub(replace, text)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_documents_show_the_output_of_their_commands(document: str) -> None:
    text = (HOME / document).read_text()
    assert without_times(rewritten(text)) == without_times(text), "make documents brings them up to date"


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_example_is_executed(document: str) -> None:
    text = (HOME / document).read_text()
    for kind in filter(None, FENCE.findall(BLOCK.sub("", text))):
        assert kind in DIRECTIVES, f"{kind}: a block begins with ``` and its language alone, at the start of a line"
    for skipped, kind, body in BLOCK.findall(text):
        assert kind in (*SHOWN, "console", "pycon", "python"), f"{kind}: examples are console, pycon or python; other texts are {SHOWN}"
        assert skipped or kind not in SHOWN or not EXAMPLE.search(body), f"an example is shown as {kind}:\n{body}"
    assert not EXAMPLE.search(BLOCK.sub("", text)), "an example stands outside of blocks that are executed"


def printed_page(page: str) -> str:
    """A page as its command prints it. Raises AssertionError with the output if that is not a page."""
    with tempfile.TemporaryDirectory() as name:
        text = run(PAGES[page], Path(name))
    assert text.startswith("# "), text
    return text


@pytest.mark.parametrize("page", PAGES)
def test_generated_pages_are_up_to_date(page: str) -> None:
    """They do not depend on the order of hashes, which is another one in each run."""
    shown, printed = (HOME / page).read_text(), printed_page(page)
    differ = [line for line in printed.splitlines() if line not in set(shown.splitlines())]
    assert shown == printed, f"make documents brings it up to date; new: {differ[:3]}"


if __name__ == "__main__":
    for document in sys.argv[1:] or (*DOCUMENTS, *PAGES):
        path = HOME / document
        path.write_text(printed_page(document) if document in PAGES else rewritten(path.read_text()))
