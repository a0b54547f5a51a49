"""The plug-in under `examples/`, installed by pip as users do: its passes run, and its rules are found."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed plug-in, for the module path."""
    copy, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLES / "plugin", copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)]
    subprocess.run(pip, check=True, capture_output=True)
    return target


def run(installed: Path, *arguments: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(installed), "COLUMNS": "120"}
    command = [sys.executable, "-m", "passat", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment, cwd=installed).stdout


def test_its_pass_runs_in_the_default_pipeline(installed: Path) -> None:
    said = run(installed, "optimize", str(EXAMPLES / "models" / "resnet_tiny.onnx"), "--dry-run")
    fired = [line.split() for line in said.splitlines() if line.startswith("Pooling.relu_last")]
    assert fired == [["Pooling.relu_last", "1", "1", "0"]]
    assert "verified on ONNX Runtime" in said


def test_its_rules_are_checked_by_name(installed: Path) -> None:
    assert run(installed, "rules", "check", "Pooling", "--instances", "5") == "1 rule checked on 5 instances, 1 sound\n"


def test_a_pass_without_a_place_runs_where_listed(installed: Path) -> None:
    assert "CountOperators  listed, level 0" in run(installed, "order", "--passes", "CountOperators, FoldConstant")
