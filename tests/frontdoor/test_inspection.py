"""Looking into the passes: instruments given to `optimize`, and the options of `passat optimize` for them. All goes to the error stream."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from passat import optimize
from passat.cli.app import app
from passat.ir.expr import Function, Tuple, Var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import PassContext, PassInfo, PassInstrument, PassTimingInstrument
from passat.rules import RulePass
from passat.rules.passes import default_pipeline
from passat.rules.rule_pass import COUNTERS

BERT = Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx"


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["optimize", str(BERT), "-o", "out.onnx", "--no-verify", *options])


def test_printing_before_and_after() -> None:
    result = run("--print-ir-before", "FoldBatchNorm,Simplify*", "--print-ir-after", "FoldBatchNorm", "--print-ir-after", "NoSuchPass")
    assert result.exit_code == 0
    assert [line for line in result.stderr.split("\n") if line.startswith(("***", "note"))] == [
        "*** IR Dump Before SimplifyInference ***",
        "*** IR Dump Before FoldBatchNorm ***",
        "*** IR Dump After FoldBatchNorm ***",
        "*** IR Dump Before SimplifyExpr ***",
        "note: --print-ir-after NoSuchPass: no pass of that name ran",
    ]
    assert "IR Dump" not in result.stdout
    assert "nodes became" in result.stdout


def test_printing_changes() -> None:
    result = run("--print-ir-changed")
    assert "*** IR Dump After FoldBatchNorm on @main ***\n--- @main\n+++ @main\n@@ " in result.stderr
    assert "*** IR Dump After InferType omitted because no change ***" in result.stderr
    assert "\x1b" not in result.stderr


def test_dump() -> None:
    result = run("--dump-ir", "dump", "--json", "--passes", "FoldConstant")
    assert result.exit_code == 0
    assert result.stderr == ""
    json.loads(result.stdout)
    names = sorted(path.name for path in Path("dump").iterdir())
    assert names[:3] == ["000_input.relay", "001_InferType.relay", "002_FoldConstant.relay"]
    for name in names:
        assert len(parse(Path("dump", name).read_text())) == 1
    again = run("--dump-ir", "dump")
    assert again.exit_code == 1
    assert again.stderr == "error: dump: holds the files of an earlier dump; empty it, or name another folder; nothing was written\n"


def test_time_memory_and_verify_each() -> None:
    result = run("--time-passes", "--memory-passes", "--verify-each", "--json", "--passes", "FoldConstant")
    assert result.exit_code == 0
    json.loads(result.stdout)
    lines = result.stderr.split("\n")
    assert lines[0].startswith("time of the passes")
    assert [line.split(":")[0] for line in lines if "us [" in line or "allocated" in line] == 2 * [
        "sequential",
        "\tInferType",
        "\tFoldConstant",
    ]


def test_what_was_measured_is_shown_where_a_pass_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(RulePass, "transform_function", fail)
    result = run("--time-passes", "--memory-passes", "--passes", "FoldConstant")
    assert result.exit_code == 1
    assert "\n\tFoldConstant: " in result.stderr
    assert result.stderr.count("(failed)") == 2
    assert "error: the pass FoldConstant failed" in result.stderr
    assert not Path("out.onnx").exists()


def test_a_pass_that_breaks_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_(self: RulePass, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, Tuple([Var("lost"), func.body]))

    monkeypatch.setattr(RulePass, "transform_function", break_)
    result = run("--verify-each", "--passes", "FoldConstant")
    assert result.exit_code == 1
    assert "the pass FoldConstant broke the module: in @main: the variable %lost is free" in result.stderr
    assert "(%lost, " in result.stderr
    assert not Path("out.onnx").exists()


@pytest.mark.parametrize("names", ["", " , "])
def test_no_names(names: str) -> None:
    result = run("--print-ir-after", names)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --print-ir-after takes names of passes, separated by commas; '*' stands for all; nothing was written\n"
    )


def test_instruments_of_optimize() -> None:
    seen: list[str] = []

    class Seen(PassInstrument):
        def run_after_pass(self, mod: object, info: PassInfo) -> None:
            seen.append(info.name)

    timing = PassTimingInstrument()
    result = optimize(BERT, instruments=[Seen(), timing], verify=False)
    assert {member.info.name for member in default_pipeline().members} <= set(seen)
    assert sorted(run.name for run in timing.timings) == sorted(seen)
    assert result.report.passes


def test_an_instrument_that_raises_is_not_taken_for_a_pass() -> None:
    class Angry(PassInstrument):
        def run_after_pass(self, mod: object, info: PassInfo) -> None:
            raise LookupError(info.name)

    with pytest.raises(LookupError, match=r"^InferType\b"):
        optimize(BERT, instruments=[Angry()], passes="FoldConstant")


def test_counters_are_listed() -> None:
    rows = {row["name"]: row for row in json.loads(CliRunner().invoke(app, ["passes", "--json"]).stdout)}
    assert rows["FoldConstant"]["counters"] == COUNTERS
    assert rows["InferType"]["counters"] == {}
