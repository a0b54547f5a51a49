"""`passat config`: lists and explains options."""

import json
from pathlib import Path

from typer.testing import CliRunner

from passat.cli.app import app
from passat.passmgr import PassContext

OWN = '''
from passat.passmgr import FunctionPass, PassInfo, register_option, register_pass

register_option("mine.level", int, 3, "How far mine goes.")


@register_pass("WithAnOptionOfItsOwn")
class WithAnOptionOfItsOwn(FunctionPass):
    """Does nothing."""

    info = PassInfo(1, "WithAnOptionOfItsOwn", [])

    def transform_function(self, func, mod, ctx):
        return func
'''


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["config", *map(str, arguments)])
    assert result.exit_code == code, result.output
    return result.output


def test_all_options_are_listed() -> None:
    listed = json.loads(run("list", "--json"))
    assert {each["key"]: each["default"] for each in listed} == {key: each["default"] for key, each in PassContext.list_configs().items()}
    text = run("list")
    assert all(each["key"] in text for each in listed)


def test_one_option_in_full() -> None:
    assert run("explain", "rules.nodes") == (
        "rules.nodes: Maximum number of nodes that one saturation adds to the program's.\n\n"
        "type     int\n"
        "default  200000\n\n"
        "set by   --config 'rules.nodes=VALUE', where VALUE is JSON, or a plain string\n"
        "         PassContext(config={'rules.nodes': VALUE}) or optimize(..., config={'rules.nodes': VALUE}) in Python\n"
    )
    assert "--config" not in run("explain", "rules.trace")
    assert json.loads(run("explain", "rules.math", "--json"))["default"] == "reassociate"


def test_options_of_passes_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    assert run("explain", "mine.level", "--rules", file).startswith("mine.level: How far mine goes.\n\ntype     int\ndefault  3\n")


def test_an_unknown_option_gets_a_suggestion() -> None:
    assert "did you mean rules.math?" in run("explain", "rules.mth", code=2)
