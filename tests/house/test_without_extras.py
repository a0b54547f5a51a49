"""The command line without onnx and ONNX Runtime, as after `pip install passat`: it works, or names the missing extra."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.main import get_command

from passat.cli.app import app

MODEL = str(Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx")
NEEDS_ONNX: Final = (
    *(("optimize", MODEL, "--dry-run"), ("optimize", MODEL, "--dry-run", "--no-verify")),
    *(("inspect", MODEL), ("diff", MODEL, MODEL), ("profile", MODEL), ("profile", MODEL, MODEL)),
    *(("bisect", MODEL), ("rules", "bisect", MODEL), ("rules", "why-not", "Arithmetic.where_false", MODEL), ("explain", MODEL)),
    ("run", MODEL),
)
NEEDS_RUNTIME: Final = (
    *(("optimize", MODEL, "--dry-run"), ("optimize", MODEL, "--dry-run", "--cost", "measured"), ("profile", MODEL, MODEL)),
    *(("bisect", MODEL), ("run", MODEL)),
)
NEEDS_NOTHING: Final = (
    *(("order", "-O1"), ("passes",), ("passes", "FoldConstant"), ("config", "list"), ("config", "explain", "rules.math")),
    *(("rules", "list"), ("rules", "doc", "Arithmetic"), ("rules", "check", "Views", "--instances", "1"), ("--version",)),
)
CODE: Final = """
import contextlib, io, json, sys
missing, commands = json.loads(sys.argv[1])
sys.modules.update(dict.fromkeys(missing))  # which makes their import fail
from passat.cli import main
for command in commands:
    out, err = io.StringIO(), io.StringIO()
    sys.argv = ["passat", *command]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
            code = 0
        except SystemExit as error:
            code = error.code or 0
    print(json.dumps([code, out.getvalue(), err.getvalue()]))
"""


def run(missing: tuple[str, ...], commands: tuple[tuple[str, ...], ...]) -> list[tuple[int, str, str]]:
    """The exit code, output and error output of commands in a process that cannot import some packages."""
    command = [sys.executable, "-c", CODE, json.dumps([missing, commands])]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(json.loads(line)) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("missing", "commands", "what"),
    [
        (("onnx", "onnxruntime"), NEEDS_ONNX, "requires the onnx package"),
        (("onnxruntime",), NEEDS_RUNTIME, "ONNX Runtime, which is not installed"),
    ],
    ids=["onnx", "onnxruntime"],
)
def test_a_command_that_needs_an_extra_names_it(missing: tuple[str, ...], commands: tuple[tuple[str, ...], ...], what: str) -> None:
    found = run(missing, commands)
    assert len(found) == len(commands)
    for code, out, err in found:
        assert (code, out) == (1, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert what in err
        assert "pip install 'passat[onnx]'" in err


def test_every_command_is_tried() -> None:
    """Except those that read the folder of a failure, or an e-graph."""
    tried = {
        (group, command) if group in ("rules", "config") else (group,) for group, command, *_ in map(padded, NEEDS_ONNX + NEEDS_NOTHING)
    }
    assert set(leaves(get_command(app))) == tried - {("--version",)} | {("replay",), ("extract",)}


def padded(command: tuple[str, ...]) -> tuple[str, ...]:
    return (*command, "")


def leaves(command: Any, *names: str) -> Iterator[tuple[str, ...]]:
    """The words of all commands that have no commands of their own."""
    inner = getattr(command, "commands", {})
    yield from [] if inner else [names]
    for name, each in inner.items():
        yield from leaves(each, *names, name)


def test_other_commands_work_without_extras() -> None:
    for (code, out, err), command in zip(run(("onnx", "onnxruntime"), NEEDS_NOTHING), NEEDS_NOTHING, strict=True):
        assert (code, err) == (0, ""), command
        assert out
