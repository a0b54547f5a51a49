"""ONNX Runtime reports nothing about the models that Passat loads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, sys, passat
from passat.ir.onnx_runtime import onnx_runtime

report = passat.optimize(sys.argv[1]).report
assert "verified on ONNX Runtime" in str(report)
onnx_runtime()
print(os.environ["ORT_DISABLE_TELEMETRY"])
"""
MODEL = Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx"


def run(home: Path, **variables: str) -> str:
    """What the program prints, with an empty home folder, as on a machine that is not one of CI."""
    surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("CI", "ORT_", "XDG_", "COV"))}
    surroundings |= {"HOME": str(home), "TMPDIR": str(home)} | variables
    command = [sys.executable, "-c", PROGRAM, str(MODEL)]
    return subprocess.run(command, env=surroundings, check=True, capture_output=True, text=True).stdout.strip()


def test_optimizing_leaves_no_telemetry(tmp_path: Path) -> None:
    """Neither this process nor the one that compares the results starts the reporter, which keeps its queue in the home folder."""
    assert run(tmp_path) == "1"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("value", ["0", "1"])
def test_the_choice_of_the_user_stays(tmp_path: Path, value: str) -> None:
    assert run(tmp_path, ORT_DISABLE_TELEMETRY=value) == value


def test_an_empty_variable_is_no_choice(tmp_path: Path) -> None:
    assert run(tmp_path, ORT_DISABLE_TELEMETRY="") == "1"
