"""ONNX Runtime reports nothing about the models that Passat loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from passat.ir.onnx_runtime import onnx_runtime

PROGRAM = """
import os, sys, passat
from passat.ir.onnx_runtime import onnx_runtime

report = passat.optimize(sys.argv[1]).report
assert "verified on ONNX Runtime" in str(report)
onnx_runtime()
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx"


def run(home: Path) -> str:
    """What the program prints, with an empty home folder, as on a machine that is not one of CI."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "ORT_", "XDG_", "COV"))}
    surroundings |= {"HOME": str(home), "TMPDIR": str(home)}
    command = [sys.executable, "-c", PROGRAM, str(MODEL)]
    return subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True).stdout.strip()


def test_optimizing_leaves_no_telemetry(tmp_path: Path) -> None:
    """Neither this process nor the one that compares the results starts the reporter, which keeps its queue in the home folder."""
    assert run(tmp_path) == "1"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize(("value", "kept"), [("0", "0"), ("1", "1"), ("", "1")])
def test_the_choice_of_the_user_stays_and_an_empty_variable_is_none(monkeypatch: pytest.MonkeyPatch, value: str, kept: str) -> None:
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", value)
    onnx_runtime()
    assert os.environ["ORT_DISABLE_TELEMETRY"] == kept
