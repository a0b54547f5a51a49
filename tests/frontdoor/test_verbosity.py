"""Output of a running command: `--quiet`, `--verbose`, and log records under `passat`."""

import logging
import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from onnx import parser
from typer.testing import CliRunner

import passat
from passat.cli.app import app


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = '<ir_version: 9, opset_import: ["" : 20]> g (float[n] x) => (float[n] y) { a = Neg(x) b = Neg(a) y = Relu(b) }'
    onnx.save(parser.parse_model(text), "in.onnx")


def test_steps_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "passat"):
        passat.optimize("in.onnx", verify=False, passes="SimplifyExpr")
    assert {record.name for record in caplog.records} == {"passat"}
    said = [(record.levelname, record.getMessage().partition(" after")[0]) for record in caplog.records]
    assert said[:2] == [("INFO", "reading the model"), ("INFO", "running InferType (1 of 2)")]
    assert ("DEBUG", "finished SimplifyExpr (2 of 2)") in said
    assert said[-1] == ("INFO", "3 nodes became 1")


def test_egglog_does_not_log_its_commands() -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from passat.rules.engine import egraph\n"
        "graph = egraph._make()\n"
        "graph.run_program(*graph.parse_program('(sort E)(constructor A () E)(A)(run 1)'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_limits_are_warnings(caplog: pytest.LogCaptureFixture) -> None:
    passat.optimize("in.onnx", verify=False, passes="SimplifyExpr", time_limit=0)
    assert [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING] == [
        "in.onnx: SimplifyExpr: stopped at the limit of time: more than 0 s; the best program so far was extracted"
    ]


def test_verbose_prints_the_log_and_leaves_no_handler() -> None:
    handlers = list(logging.getLogger("passat").handlers)
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "--verbose", "--passes", "SimplifyExpr"])
    lines = result.stderr.splitlines()
    assert all(re.match(r" *\d+\.\d{3} s  \w", line) for line in lines)
    assert lines[0].endswith(" s  reading the model")
    assert lines[-1].endswith(" s  writing in.optimized.onnx")
    assert logging.getLogger("passat").handlers == handlers


def test_quiet_prints_nothing_and_errors_all_the_same() -> None:
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "--quiet"])
    assert (result.exit_code, result.output) == (0, "")
    result = CliRunner().invoke(app, ["optimize", "none.onnx", "--quiet"])
    assert (result.exit_code, result.stderr) == (1, "error: none.onnx cannot be read: No such file or directory; nothing was written\n")


def test_both_contradict_each_other() -> None:
    for command in (["optimize", "in.onnx"], ["profile", "in.onnx"], ["bisect", "in.onnx"], ["rules", "bisect", "in.onnx"]):
        result = CliRunner().invoke(app, [*command, "-q", "-v"])
        assert (result.exit_code, "--quiet and --verbose contradict each other" in result.stderr) == (2, True)
