"""`passat order` and `passat passes`: settings, formats, files, one pass in full, the graph of requirements."""

import json
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app
from passat.ir.whole_file import UnfinishedFile
from passat.passmgr import PassContext, list_passes

BERT = Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_order_takes_the_settings_of_a_context() -> None:
    passes = ("--passes", "FoldConstant,SimplifyExpr,FoldBatchNorm")
    assert run("order", *passes, "-O", "1", "--disable", "SimplifyExpr", "--require", "FoldBatchNorm").stdout == (
        "sequential at opt_level 1\n"
        "  -  FoldConstant   does not run: its level 2 > 1\n"
        "  -  SimplifyExpr   does not run: it is disabled\n"
        "  1  InferType      required by FoldBatchNorm\n"
        "  2  FoldBatchNorm  listed, and enabled by name (its level 2 > 1)\n"
    )
    as_in_tvm = run("order", *passes, "--config", "passmgr.resolve=relay", "--format", "json")
    assert json.loads(as_in_tvm.stdout)["order"].count("InferType") == 3


def test_order_writes_files(empty: Path) -> None:
    for form in ("text", "json", "svg"):
        result = run("order", "--format", form, "-o", f"plan.{form}")
        assert (result.exit_code, result.output) == (0, f"plan.{form} was written\n")
        assert Path(f"plan.{form}").read_text() == run("order", "--format", form).stdout
    assert ET.parse("plan.svg").getroot().tag.endswith("svg")
    assert run("order", "-o", "nowhere/plan.txt").exit_code == 2
    strange = run("order", "-o", "plan.gif")
    assert strange.exit_code == 2
    assert strange.stderr == (
        "error: -o plan.gif: the file ending is not one of .txt, .json, .svg; use one of these, or --format: text, json, svg\n"
    )
    assert not Path("plan.gif").exists()
    assert run("order", "-o", "plan.gif", "--format", "json").exit_code == 0


def test_a_pipeline_in_a_file(empty: Path) -> None:
    Path("mine.passes").write_text("# mine\nInferType,  # types\nFoldConstant\n")
    assert json.loads(run("order", "--passes", "@mine.passes", "--format", "json").stdout)["order"] == ["InferType", "FoldConstant"]
    Path("mine.passes").write_text("InferType,\nFoldConstan")
    result = run("order", "--passes", "@mine.passes")
    assert result.exit_code == 2
    assert "did you mean FoldConstant or UnfoldConstant? (line 2, column 1)" in result.stderr
    Path("binary").write_bytes(b"\xff\xfe")
    for name, why in (("@nowhere", "No such file or directory"), ("@binary", "it is not text")):
        result = run("order", "--passes", name)
        assert (result.exit_code, result.stderr) == (2, f"error: the pipeline {name} cannot be read: {why}\n")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("order", "--config", "x=y"), "there is no config option 'x'; `passat config list` shows all options"),
        (("order", "--config", "rules.domains=a.b"), "config rules.domains takes list[str], not 'a.b': --config 'rules.domains=[\"a.b\"]'"),
        (("order", "--config", "passmgr.resolve=tvm"), "config passmgr.resolve takes one of 'graph', 'relay', not 'tvm'"),
        (("order", "--config", "passmgr.resolve"), "--config takes KEY=VALUE, not 'passmgr.resolve'"),
        (("passes", "FoldConstan"), "did you mean FoldConstant or UnfoldConstant?"),
        (("order", "--passes", "Sequential{required=[Nope]}()", "--config", "passmgr.resolve=relay"), ""),
        (
            ("order", "--passes", "Sequential{required=[Nope]}(),InferType", "--config", "passmgr.resolve=relay"),
            "there is no pass Nope",
        ),
    ],
)
def test_errors(arguments: tuple[str, ...], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == (2 if text else 0)
    assert text in result.stderr
    assert "Traceback" not in result.output


def test_an_empty_pipeline_is_mentioned() -> None:
    assert run("order", "--passes", "").stderr == "note: no pass runs: the pipeline is empty\n"


def test_one_pass_in_full() -> None:
    text = run("passes", "SimplifyTupleGet").stdout
    assert text.startswith(
        "SimplifyTupleGet\n  registered as  relay._transform.SimplifyTupleGet\n  kind           function\n  level          1\n"
    )
    for line in ("options        none", "requires       InferType", "provides       types", "preserves      types"):
        assert f"  {line}\n" in text
    assert "Replaces projections of tuples by their fields." in text
    data = json.loads(run("passes", "InferType", "--json").stdout)
    assert (data["level"], data["kind"], data["provides"], data["preserves"]) == (0, "module", ["types"], ["*"])
    assert {"FoldConstant", "SimplifyExpr"} <= set(data["required_by"])
    assert run("passes", "relay._transform.InferType").stdout == run("passes", "InferType").stdout


def test_options_of_a_pass() -> None:
    data = json.loads(run("passes", "PrintIR", "--json").stdout)
    assert data["options"][0] == {"name": "header", "type": "str", "default": '""', "needed": False}
    assert '  options        header: str = ""\n' in run("passes", "PrintIR").stdout


def test_the_extension_of_a_file_selects_the_format(empty: Path) -> None:
    for name, form in (("a.SVG", "svg"), ("a.json", "json"), ("a.txt", "text")):
        assert run("order", "-o", name).exit_code == 0
        assert Path(name).read_text() == run("order", "--format", form).stdout
    run("order", "-o", "b.svg", "--format", "json")
    assert Path("b.svg").read_text().startswith("{")


def test_json_is_a_format(empty: Path) -> None:
    assert json.loads(run("order", "--json").stdout) == json.loads(run("order", "--format", "json").stdout)
    result = run("order", "--json", "--format", "svg")
    assert result.exit_code == 2
    assert json.loads(result.stdout) == {"error": "--json and --format svg contradict each other"}
    missing = run("order", "--json", "--passes", "@nowhere")
    assert json.loads(missing.stdout) == {"error": "the pipeline @nowhere cannot be read: No such file or directory"}


def test_a_file_that_cannot_be_written_stays_as_it_was(empty: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: UnfinishedFile, data: bytes) -> None:
        raise OSError(28, "No space left on device")

    Path("plan.svg").write_text("mine")
    monkeypatch.setattr(UnfinishedFile, "write", full)
    result = run("order", "-o", "plan.svg")
    assert (result.exit_code, result.stderr) == (1, "error: plan.svg: the disk is full\n")
    assert [(path.name, path.read_text()) for path in Path().iterdir()] == [("plan.svg", "mine")]


def test_a_pass_whose_rules_run_elsewhere_is_disabled_in_vain() -> None:
    said = (
        "FoldConstant is disabled, but other passes run its rules, too (DynamicToStatic, FoldBatchNorm, SimplifyExpr ...): disable the rules or "
        "their sets (ConstantFolding)"
    )
    assert run("order", "--disable", "FoldConstant").stderr == f"note: {said}\n"
    assert run("order", "--disable", "FoldConstant", "--disable", "ConstantFolding").stderr == ""
    assert run("order", "--disable", "FoldConstant", "--passes", "FoldConstant").stderr == ""
    assert run("order", "--disable", "LinearAlgebra").stderr == ""
    with PassContext(3, disabled_pass=["FoldConstant"]):
        assert said in passat.optimize(BERT, verify=False).report.warnings


def test_a_pass_that_another_requires_is_disabled_in_vain() -> None:
    said = "InferType is disabled, but runs, because ReadOpaque requires it"
    assert run("order", "--disable", "InferType").stderr == f"note: {said}\n"
    assert run("order", "--disable", "InferType", "--passes", "InferType").stderr == ""
    with PassContext(3, disabled_pass=["InferType"]):
        assert said in passat.optimize(BERT, verify=False).report.warnings


def test_passes_of_ones_own_are_shown(empty: Path) -> None:
    Path("mine.py").write_text(
        "from passat.passmgr import function_pass, register_pass\n"
        "from passat.rules import RuleSet, op, tensor\n"
        "x = tensor('x')\n"
        "class Mine(RuleSet):\n"
        "    twice = op.negative(op.negative(x)) >> x\n"
        "@register_pass('Own', override=True)\n"
        "@function_pass(opt_level=2, name='Own')\n"
        "def own(func, mod, ctx):\n"
        "    return func\n"
    )
    assert run("passes", "Own", "--rules", "mine.py").stdout.startswith("Own\n  registered as  transform.Own\n")
    assert "\nOwn " in run("passes", "--rules", "mine.py").stdout


def test_passes_fit_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = run("passes").stdout.splitlines()
    assert len(lines) < 5 * len(list_passes())
    assert all(len(line) <= 80 for line in lines)
    assert any(line.split("  ")[-1].strip().startswith("options: header: str = ''") for line in lines)
