"""The notebook under `examples/` runs. Its cells run in every test; `make notebook` runs it as Jupyter does."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
(NOTEBOOK,) = EXAMPLES.glob("*.ipynb")


def test_its_cells_run_one_after_the_other() -> None:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    program = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, cwd=EXAMPLES, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_it_is_stored_without_output() -> None:
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"])


@pytest.mark.filterwarnings("ignore")  # of Jupyter, about itself
def test_jupyter_shows_tables_and_pictures() -> None:
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": str(EXAMPLES)}}).execute()
    shown = [set(output.get("data", {})) for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [kinds & {"text/html", "image/svg+xml"} for kinds in shown] == [
        *({"text/html"}, {"text/html"}, {"text/html"}, {"image/svg+xml"}, {"text/html"}, set(), {"text/html"}, {"text/html"}),
    ]
