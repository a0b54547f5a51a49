"""The plug-in under `examples/`, installed by pip as users do: its passes run, and its rules are found."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MODEL: Final = str(EXAMPLES / "models" / "resnet_tiny.onnx")
COMMANDS: Final = {
    "optimize": ("optimize", MODEL, "--dry-run"),
    "certify": ("optimize", MODEL, "-o", "smaller.onnx", "--no-verify", "--certificate", "proof.json"),
    "prove": ("explain", "--check", "proof.json", "--before", MODEL, "--after", "smaller.onnx"),
    "check": ("rules", "check", "Pooling", "--instances", "5"),
    "order": ("order", "--passes", "CountOperators, FoldConstant"),
}
CODE: Final = """
import contextlib, io, json, sys
from passat.cli import main
printed = {}
for name, command in json.loads(sys.argv[1]).items():
    sys.argv = ["passat", *command]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        try:
            main()
        except SystemExit as error:
            assert not error.code, command
    printed[name] = out.getvalue()
print(json.dumps(printed))
"""


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The output of commands, which run one after the other in a process that finds the installed plug-in."""
    copy, target = tmp_path_factory.mktemp("source") / "plugin", tmp_path_factory.mktemp("site")
    shutil.copytree(EXAMPLES / "plugin", copy, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "-q"]
    pip = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), str(copy)]
    subprocess.run(pip, check=True, capture_output=True)
    environment = {**os.environ, "PYTHONPATH": str(target), "COLUMNS": "120"}
    command = [sys.executable, "-c", CODE, json.dumps(COMMANDS)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment, cwd=target)
    outputs: dict[str, str] = json.loads(done.stdout)
    return outputs


def test_its_pass_runs_in_the_default_pipeline(printed: dict[str, str]) -> None:
    fired = [line.split() for line in printed["optimize"].splitlines() if line.startswith("Pooling.relu_last")]
    assert fired == [["Pooling.relu_last", "1", "1", "0"]]
    assert "verified on ONNX Runtime" in printed["optimize"]


def test_its_rules_are_known_where_a_certificate_is_checked(printed: dict[str, str]) -> None:
    assert printed["prove"].startswith("it holds: ")


def test_its_rules_are_checked_by_name(printed: dict[str, str]) -> None:
    assert printed["check"] == "1 rule checked on 5 instances, 1 sound\n"


def test_a_pass_without_a_place_runs_where_listed(printed: dict[str, str]) -> None:
    assert "CountOperators  listed, level 0" in printed["order"]
