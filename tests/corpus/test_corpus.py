"""The corpus: the models and operator tests of the onnx package, those in `examples/models`, and any further folders.

CI takes a share; `make nightly` takes all, with every model below the folders that PASSAT_MODELS names (separated by colons).
`benchmarks/corpus.py` does the same from the command line and prints a table.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.corpus import DATA, Case, differing, examine, files, operator_tests
from tests.share import SOAK, share

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = [Path(name) for name in os.environ.get("PASSAT_MODELS", "").split(":") if name] if SOAK else []


def problems(cases: list[Case]) -> list[str]:
    rows = [examine(case) for case in cases]
    assert any(row.nodes_after < row.nodes_before for row in rows)
    return [str(row) for row in rows if row.problem]


@pytest.mark.parametrize("kind", ["light", "pytorch-converted", "pytorch-operator", "simple"])
def test_models_of_the_onnx_package(kind: str) -> None:
    cases = list(files(DATA / kind))
    assert len(cases) > 5
    share = {"light": slice(1, None, 4), "pytorch-converted": slice(60, None)}.get(kind, slice(None, None, 5))
    rows = [examine(case) for case in (cases if SOAK else cases[share])]
    assert not [str(row) for row in rows if row.problem]
    assert all(row.compared for row in rows)
    assert all(row.nodes_after <= row.nodes_before for row in rows)


def test_operator_tests_of_the_onnx_package() -> None:
    cases = list(operator_tests(share(75, 1)))
    assert len(cases) > share(60, 5000)
    assert problems(cases) == []


def test_results_are_compared_by_their_element_type() -> None:
    """ONNX Runtime does not run the model, and onnx.reference rounds after each node."""
    (case,) = [case for case in operator_tests() if case.name == "test_attention_4d_causal_bf16_expanded"]
    assert not examine(case).problem


def test_example_models() -> None:
    assert problems(list(files(ROOT / "examples" / "models"))) == []


@pytest.mark.skipif(not FOLDERS, reason="PASSAT_SOAK=1 PASSAT_MODELS=FOLDER:FOLDER runs it")
@pytest.mark.parametrize("folder", FOLDERS or [None], ids=str)
def test_models_of_one_s_own(folder: Path) -> None:
    assert problems(list(files(folder))) == []


def test_two_processes_write_the_same_bytes() -> None:
    folders = [str(ROOT / "examples" / "models"), str(DATA / "light"), *map(str, FOLDERS)]
    assert differing([*(folders if SOAK else folders[:1]), "--only"]) == []


def test_the_command_reports_faults(tmp_path: Path) -> None:
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    command = [sys.executable, str(ROOT / "benchmarks" / "corpus.py"), str(tmp_path), "--only"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "broken" in done.stdout
    assert "1 models: 0 compared, 1 could not be run, 1 with problems" in done.stdout
