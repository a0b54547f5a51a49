"""Processes that have already imported Passat and compiled its rules, which takes longer than most commands: a server forks them. With
PASSAT_SOAK=1, and where the path of the temporary folder is long, they are new ones."""

import multiprocessing
import os
import runpy
import sys
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from types import ModuleType
from typing import Final

from tests.share import SOAK

_LONGEST: Final = 70
"""The longest path of a temporary folder in which the server's socket has a name: that of a socket has about a hundred characters."""
PROCESSES: Final = (
    multiprocessing.get_context("spawn")
    if SOAK or len(os.fsencode(tempfile.gettempdir())) > _LONGEST
    else multiprocessing.get_context("forkserver")
)
PROCESSES.set_forkserver_preload(["tests.warm"])


def run(words: Sequence[str], folder: Path, variables: Mapping[str, str] = os.environ) -> CompletedProcess[str]:
    """Runs `passat ...`, `python FILE ...` or `python -c PROGRAM ...` in a folder, with these environment variables beside those of the
    server. `-W` is the only option of Python."""
    with tempfile.TemporaryDirectory() as name:
        printed = [Path(name, stream) for stream in ("stdout", "stderr")]
        process = PROCESSES.Process(target=_run, args=(words, printed, folder, {**variables}))
        process.start()
        process.join()
        assert process.exitcode is not None
        return CompletedProcess(words, process.exitcode, *[path.read_text() for path in printed])


def enter(folder: Path, variables: Mapping[str, str]) -> None:
    """Makes this process one that started in a folder, with these environment variables."""
    os.chdir(folder)
    os.environ.update(variables)


def _run(words: Sequence[str], printed: Sequence[Path], folder: Path, variables: Mapping[str, str]) -> None:
    for path, stream in zip(printed, (sys.stdout, sys.stderr), strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), stream.fileno())
    enter(folder, variables)
    if words[0] == "passat":
        from passat.cli import main  # a new process imports it only here

        sys.argv = [*words]
        main()
    else:
        assert words[0] == "python"
        _program(words[1:])


def _program(words: Sequence[str]) -> None:
    """Runs the program of a file, or with `-c` of a text, as the main module."""
    if words[0] == "-W":
        assert words[1] == "error"
        warnings.simplefilter("error")
        words = words[2:]
    if words[0] == "-c":
        sys.argv = ["-c", *words[2:]]
        sys.path.insert(0, "")
        module = sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(words[1], "<string>", "exec"), vars(module))
    else:
        sys.argv = [*words]
        sys.path.insert(0, str(Path(words[0]).resolve().parent))
        runpy.run_path(words[0], run_name="__main__")
