"""Shell completion of `passat`."""

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from passat.cli.app import app


def completed(words: str) -> list[str]:
    """The completions that bash receives for the last of some words."""
    environment = {"_PASSAT_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split(" ")) - 1)}
    return CliRunner().invoke(app, [], prog_name="passat", env=environment).stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("passat opt", {"optimize"}),
        ("passat optimize --input", {"--input-shape", "--inputs"}),
        ("passat optimize in.onnx --cost m", {"measured"}),
        ("passat optimize --disable FoldC", {"FoldConstant"}),
        ("passat optimize --disable Arithmetic.add_zero", {"Arithmetic.add_zero"}),
        ("passat optimize --passes FoldConstant,DeadC", {"FoldConstant,DeadCodeElimination"}),
        ("passat optimize --print-ir-after DeadC", {"DeadCodeElimination"}),
        ("passat order --config rules.math", {"rules.math="}),
        ("passat order --config rules.math=e", {"rules.math=exact"}),
        ("passat order --config rules.joint=", {"rules.joint=true", "rules.joint=false"}),
        ("passat order --config rules.cost=n", {"rules.cost=nodes"}),
        ("passat order --config rules.rounds=", set()),
        ("passat order --config rules.no=", set()),
        ("passat order --config rules.math =", {"exact", "reassociate", "finite"}),  # as bash splits it
        ("passat order --config rules.rounds = 3 --config rules.math = e", {"exact"}),
        ("passat config explain rules.math", {"rules.math"}),
        ("passat passes FoldC", {"FoldConstant"}),
        ("passat rules check Win", {"Windows"}),
        ("passat rules why-not Arithmetic.add_zero", {"Arithmetic.add_zero"}),
        ("passat optimize in", set()),
    ],
)
def test_names_are_completed(words: str, found: set[str]) -> None:
    assert set(completed(words)) == found


def test_completion_can_be_installed() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "120"}).output
    assert "--install-completion" in shown
    assert "--show-completion" in shown


def test_names_of_commands_and_options_need_no_import_of_passes() -> None:
    code = (
        "import sys, passat.cli; sys.exit(any(name.startswith(('passat.rules', 'passat.passmgr', 'onnx', 'rich')) for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
