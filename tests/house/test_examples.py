"""Every example runs, prints something, and causes no warnings."""

from pathlib import Path

import pytest

from tests import processes

EXAMPLES = sorted((Path(__file__).resolve().parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_example(path: Path, tmp_path: Path) -> None:
    done = processes.run(["python", "-W", "error", str(path)], tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout


def test_examples_exist() -> None:
    assert EXAMPLES
