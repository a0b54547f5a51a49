"""Inspecting passes: instruments given to `optimize`, and options of `passat optimize`. All output goes to the error stream."""

import json
import os
import re
import resource
import shlex
import sys
import tempfile
from pathlib import Path

import onnx
import onnx.parser
import pytest
from typer.testing import CliRunner, Result

from passat import optimize
from passat.cli.app import app
from passat.crash import PassError
from passat.ir.expr import Function, Tuple, Var
from passat.ir.module import IRModule
from passat.ir.text import parse
from passat.passmgr import BrokenModuleError, PassContext, PassInfo, PassInstrument, PassTimingInstrument, VerifyEach
from passat.rules import RulePass
from passat.rules.passes import default_pipeline
from passat.rules.rule_pass import COUNTERS
from tests import processes
from tests.frontdoor.small_pipeline import SMALL

BERT = Path(__file__).resolve().parents[2] / "examples" / "models" / "bert_tiny.onnx"


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*options: str) -> Result:
    return CliRunner().invoke(app, ["optimize", str(BERT), "-o", "out.onnx", "--no-verify", *options])


def test_printing_before_and_after() -> None:
    result = run("--print-ir-before", "FoldBatchNorm,Simplify*", "--print-ir-after", "FoldBatchNorm", "--print-ir-after", "Legalize")
    assert result.exit_code == 0
    assert [line for line in result.stderr.split("\n") if line.startswith(("***", "note"))] == [
        "*** IR Dump Before SimplifyInference ***",
        "*** IR Dump Before FoldBatchNorm ***",
        "*** IR Dump After FoldBatchNorm ***",
        "*** IR Dump Before SimplifyExpr ***",
        "*** IR Dump Before SimplifyShapes ***",
        "note: --print-ir-after Legalize: no pass of that name ran",
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


def test_an_earlier_dump_is_replaced_once_a_pass_runs() -> None:
    assert run("--dump-ir", "dump").exit_code == 0
    before = sorted(os.listdir("dump"))
    Path("dump", "notes.txt").write_text("mine")
    assert run("--dump-ir", "dump", "--passes", "Nope").exit_code == 2
    assert sorted(os.listdir("dump")) == [*before, "notes.txt"]
    assert run("--dump-ir", "dump", "--passes", "FoldConstant").exit_code == 0
    assert sorted(os.listdir("dump")) == [
        "000_input.relay",
        "001_InferType.relay",
        "002_FoldConstant.relay",
        "003_sequential.relay",
        "notes.txt",
    ]


def test_folders_to_dump_to_that_cannot_be() -> None:
    Path("file").write_text("mine")
    for place in ("file", "file/dump"):
        result = run("--dump-ir", place)
        assert result.exit_code == 2
        assert result.stderr.startswith(f"error: --dump-ir {place}: ")
        assert result.stderr.endswith("file is not a folder; nothing was written\n")


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on the size of files")
def test_a_full_disk_names_the_file() -> None:
    with tempfile.TemporaryDirectory() as folder:
        code = (
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\nfrom passat.cli import main\nmain()"
        )
        arguments = ["optimize", str(BERT), "-o", "out.onnx", "--no-verify", "--dump-ir", f"{folder}/dump"]
        done = processes.run(["python", "-c", code, *arguments], Path(folder))
        assert done.returncode == 1
        assert done.stderr == f"error: {folder}/dump/000_input.relay: File too large; nothing was written\n"
        assert os.listdir(f"{folder}/dump") == []


def test_time_memory_and_verify_each() -> None:
    result = run("--time-passes", "--memory-passes", "--verify-each", "--json", "--passes", "FoldConstant")
    assert result.exit_code == 0
    json.loads(result.stdout)
    lines = result.stderr.split("\n")
    assert lines[0].startswith("time of each pass")
    assert lines[0].endswith("slowed down by measuring memory:")
    assert [line.split(":")[0] for line in lines[1:] if "s [" in line or "peak +" in line] == 2 * [
        "sequential",
        "  InferType",
        "  FoldConstant",
    ]
    assert all(re.search(r": [\d.]+ (us|ms|s) \[[\d.]+ (us|ms|s)\] \(", line) for line in lines[1:] if "s [" in line), "as in the report"


def test_measurements_are_shown_if_a_pass_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("broken")

    monkeypatch.setattr(RulePass, "transform_function", fail)
    result = run("--time-passes", "--memory-passes", "--passes", "FoldConstant")
    assert result.exit_code == 1
    assert "\n  FoldConstant: " in result.stderr
    assert result.stderr.count("(failed)") == 2
    assert "error: the pass FoldConstant failed" in result.stderr
    assert not Path("out.onnx").exists()


def test_a_pass_that_breaks_the_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_(self: RulePass, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, Tuple([Var("lost"), func.body]))

    monkeypatch.setattr(RulePass, "transform_function", break_)
    result = run("--verify-each", "--passes", "FoldConstant")
    assert result.exit_code == 1
    sentence = "error: the pass FoldConstant broke the module: in @main: the variable %lost is free; before it ran: InferType; nothing"
    assert result.stderr.startswith(sentence)
    assert "Passat itself failed" not in result.stderr
    unasked = run("--passes", "FoldConstant")
    assert (unasked.exit_code, unasked.stderr) == (1, result.stderr)
    with pytest.raises(PassError, match="the pass FoldConstant broke the module") as raised:
        optimize(BERT, passes="FoldConstant", instruments=[VerifyEach()])
    assert isinstance(raised.value.__cause__, BrokenModuleError)
    assert "(%lost, " in result.stderr
    assert not Path("out.onnx").exists()


def test_a_broken_program_is_written_and_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    def break_(self: RulePass, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        return Function(func.params, Tuple([Var("lost"), func.body]))

    with monkeypatch.context() as patched:
        patched.setattr(RulePass, "transform_function", break_)
        for flags in ([], ["--verify-each"]):
            result = run("--passes", "Sequential{name=inner}(FoldConstant)", "--reproducer", "crash", *flags)
            assert f"passat replay {shlex.quote(str(Path('crash').absolute()))} reproduces it; nothing was written" in result.stderr
            again = CliRunner().invoke(app, ["replay", "crash"])
            assert again.exit_code == 1
            assert again.stdout.startswith("the pass FoldConstant on the saved module fails the same way: BrokenModuleError: the pass")
    repaired = CliRunner().invoke(app, ["replay", "crash"])
    assert (repaired.exit_code, repaired.stdout.split("\n")[0]) == (0, "the pass FoldConstant on the saved module does not fail")


def test_a_pass_that_changes_its_input_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(self: RulePass, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        mod.functions[mod.get_global_var("main")] = Function(func.params, Tuple([func.body]))
        return func

    monkeypatch.setattr(RulePass, "transform_function", change)
    result = run("--passes", "FoldConstant")
    assert result.exit_code == 1
    assert result.stderr.startswith(
        "error: the pass FoldConstant failed: ModuleChangedError: it modified its input module; change and return a copy"
    )


def test_a_pass_that_ends_the_process_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def leave(*_: object) -> None:
        sys.exit(0)

    monkeypatch.setattr(RulePass, "transform_function", leave)
    result = run("--passes", "FoldConstant", "--json")
    assert result.exit_code == 1
    sentence = "a rule file or pass ended the command: SystemExit: 0; nothing was written"
    assert json.loads(result.stdout) == {"error": sentence}


def test_no_names_are_reported_missing_if_nothing_ran() -> None:
    result = run("--passes", "Nope", "--print-ir-after", "FoldConstant")
    assert result.exit_code == 2
    assert "note" not in result.stderr


@pytest.mark.parametrize("names", [" ", " , "])
def test_no_names(names: str) -> None:
    result = run("--print-ir-after", names)
    assert result.exit_code == 2
    assert result.stderr == (
        "error: --print-ir-after takes names of passes, separated by commas; '*' stands for all; nothing was written\n"
    )


@pytest.mark.parametrize("option", ["--print-ir-before", "--print-ir-after"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [("FoldConstnt", "; did you mean FoldConstant?"), ("[", ""), ("Fold*Nothing?", ""), ("foldconstant", "; did you mean")],
)
def test_names_that_no_pass_has(option: str, name: str, hint: str) -> None:
    result = run(option, f"SimplifyExpr,{name}")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: {option} names {name!r}, which is neither a pass of this pipeline nor registered{hint}")
    assert not Path("out.onnx").exists()


def test_instruments_of_optimize() -> None:
    seen: list[str] = []

    class Seen(PassInstrument):
        def run_after_pass(self, mod: object, info: PassInfo) -> None:
            seen.append(info.name)

    timing = PassTimingInstrument()
    result = optimize(BERT, instruments=[Seen(), timing], verify=False)
    listed = default_pipeline().members
    names = {pass_.info.name: pass_.info.opt_level for member in listed for pass_ in (member, *(member.members or ()))}
    assert {name for name, level in names.items() if level <= 3} <= set(seen)
    assert {name for name, level in names.items() if level > 3}.isdisjoint(seen)
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


def test_the_first_passes_only() -> None:
    result = run("--pass-limit", "3", "--json", "--passes", SMALL)
    assert result.exit_code == 0
    ran = [name for one in json.loads(result.stdout)["passes"] if (name := one["name"]) != "stage 1"]
    assert ran == ["InferType", "SimplifyInference", "DynamicToStatic"]
    lines = result.stderr.splitlines()
    assert [line.rpartition(" ")[2] for line in lines[:3]] == ran
    assert [line.split(")")[0] for line in lines[:4]] == [
        *(f"BISECT: running pass ({number}" for number in (1, 2, 3)),
        "BISECT: NOT running pass (4",
    ]


def test_the_stages_of_the_default_pipeline_are_gone_through_but_nothing_in_them_runs() -> None:
    ran = [one["name"] for one in json.loads(run("--pass-limit", "2", "--json").stdout)["passes"]]
    assert ran == ["InferType", "ReadOpaque", "stage 1", "stage 2", "stage 3"]


def test_passes_are_disabled_and_required() -> None:
    options = ("-O", "0", "--require", "DeadCodeElimination", "--json", "--passes", SMALL)
    result = run("--disable", "FoldBatchNorm", "--require", "FastMath", *options)
    assert result.exit_code == 0
    ran = [one["name"] for one in json.loads(result.stdout)["passes"]]
    assert ran == ["InferType", "stage 1", "SimplifyInference", "SimplifyExpr", "DeadCodeElimination"]
    assert result.stderr == "note: the required pass FastMath is not part of this pipeline: naming a pass enables it, but does not add it\n"


def test_a_change_below_one_percent_is_not_shown_as_zero() -> None:
    assert "(-0 %)" not in run("--passes", "FoldConstant").stdout


def test_a_change_far_below_one_percent_has_no_exponent(tmp_path: Path) -> None:
    model = onnx.parser.parse_model("""
        <ir_version: 9, opset_import: ["": 17]>
        g (float[2000, 2000] x, float[2000, 2000] y, float[3] z) => (float[2000, 2000] p, float[3] q) {
            p = MatMul(x, y)
            n = Neg(z)
            q = Neg(n)
        }""")
    onnx.save(model, tmp_path / "m.onnx")
    result = CliRunner().invoke(app, ["optimize", "m.onnx", "-o", "out.onnx", "--no-verify"])
    assert "(less than 0.01 %)" in result.stdout
