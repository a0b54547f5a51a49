"""A pass that raises: the message of `passat optimize`, the output of `--reproducer`, and `passat replay`."""

import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any as AnyValue

import onnx
import pytest
from typer.testing import CliRunner, Result

import passat
from passat import optimize
from passat.cli.app import app
from passat.crash import PassError, replay_folder
from passat.ir.expr import Function
from passat.ir.module import IRModule
from passat.passmgr import PassContext, ReproducerError, Sequential, function_pass, module_pass, register_pass
from passat.passmgr import registry as passes_known
from passat.rulefile import load_rules

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
RULES = """
from passat.passmgr import function_pass, register_pass
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Fine(RuleSet):
    twice = op.negative(op.negative(x)) >> x

@register_pass("Broken", override=True)
@function_pass(opt_level=0, name="Broken")
def broken(func, mod, ctx):
    return {}[len(func.params)]
"""
PASSES = "SimplifyExpr,Sequential{name=inner}(FoldConstant,Broken),FoldBatchNorm"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty folder with a rule file, and a registry that is restored."""
    entries = dict(passes_known._ENTRIES)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RULES)
    yield
    passes_known._ENTRIES.clear()
    passes_known._ENTRIES.update(entries)
    passes_known._VERSION[0] += 1


def crash(*more: object) -> Result:
    return run("optimize", RESNET, "-o", "out.onnx", "--rules", "mine.py", "--passes", PASSES, *more)


def forget() -> None:
    """Restores the registry of a new process."""
    passes_known._ENTRIES.pop("transform.Broken", None)
    passes_known._VERSION[0] += 1


def test_the_sentence_names_pass_function_and_the_passes_before() -> None:
    result = crash()
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == (
        "error: the pass inner / Broken failed at the function @main: KeyError: 1 (mine.py:12); "
        "before it ran: InferType, SimplifyExpr, inner / FoldConstant; nothing was written\n"
    )
    assert json.loads(crash("--json").stdout)["error"].startswith("the pass inner / Broken failed")
    assert os.listdir() == ["mine.py"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return shaping.shaped()", "ValueError: cannot reshape array of size 3 into shape (2,) (shaping.py:5)"),
        ("return passat.ir.op.get_op('no.such')", "(mine.py:12)"),
    ],
)
def test_the_sentence_names_the_innermost_line_of_the_user(body: str, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "modules", dict(sys.modules))
    Path("shaping.py").write_text("import numpy\n\n\ndef shaped():\n    return numpy.zeros(3).reshape(2)\n")
    Path("mine.py").write_text("import passat.ir.op, shaping" + RULES.replace("return {}[len(func.params)]", body))
    assert f"{said}; before it ran: " in crash().stderr


def test_a_crash_is_written_and_replayed() -> None:
    result = crash("--reproducer", "crash")
    assert result.exit_code == 1
    rules = f"--rules {shlex.quote(str(Path('mine.py').absolute()))}"
    assert f"; passat replay {shlex.quote(str(Path('crash').absolute()))} {rules} reproduces it; nothing was written" in result.stderr
    assert sorted(os.listdir()) == ["crash", "mine.py"]
    assert sorted(os.listdir("crash")) == ["README.txt", "error.txt", "model.onnx", "module.relay", "reproducer.json"]
    assert onnx.load("crash/model.onnx") == onnx.load(RESNET)
    readme = Path("crash/README.txt").read_text()
    assert f"To run it again:    passat replay crash {rules}\n" in readme
    assert "cannot bring back" not in readme
    forget()
    again = run("replay", "crash", "--rules", "mine.py")
    assert (again.exit_code, again.stderr) == (1, "")
    assert again.stdout == "the pass Broken on the saved module fails the same way: KeyError: 1\n"
    told = json.loads(run("replay", "crash", "--rules", "mine.py", "--json").stdout)
    assert told == {"schema": "replay-1", "failed": True, "same": True, "error": "KeyError: 1", "said": [again.stdout.strip()]}


def test_rules_are_named_and_not_run_unless_they_are_given() -> None:
    crash("--reproducer", "crash")
    forget()
    Path("mine.py").write_text("open('hacked', 'w').close()\n" + RULES)
    result = run("replay", "crash")
    assert (result.exit_code, result.stdout) == (2, "")
    name = Path("mine.py").absolute()
    sentence = f"crash needs the rules Fine from {name}, which is a program and not stored in the folder: pass it with --rules"
    assert result.stderr == f"error: {sentence}\n"
    assert not Path("hacked").exists()
    assert json.loads(run("replay", "crash", "--json").stdout) == {"error": sentence}


def test_a_repaired_pass_does_not_fail_neither_on_the_module_nor_on_the_model() -> None:
    crash("--reproducer", "crash")
    Path("mine.py").write_text(RULES.replace("{}[len(func.params)]", "func"))
    result = run("replay", "crash", "--rules", "mine.py")
    assert result.exit_code == 0
    assert result.stdout == "the pass Broken on the saved module does not fail\nthe whole pipeline on the model does not fail\n"


def test_other_failures_have_a_separate_exit_code() -> None:
    crash("--reproducer", "crash")
    Path("mine.py").write_text(RULES.replace("{}[len(func.params)]", "[][0]"))
    result = run("replay", "crash", "--rules", "mine.py")
    assert result.exit_code == 3
    assert (
        "fails, but differently: IndexError: list index out of range in the pass Broken; it was KeyError in the pass Broken"
        in result.stdout
    )


def test_failures_of_the_whole_pipeline_only() -> None:
    """A pass that raises on information that the text of the module does not keep."""

    @register_pass("NeedsFrame", override=True)
    @module_pass(opt_level=0, name="NeedsFrame")
    def needs_frame(mod: IRModule, ctx: PassContext) -> IRModule:
        if "onnx" in mod.attrs:
            raise RuntimeError("a frame")
        return mod

    with pytest.raises(PassError):
        optimize(RESNET, passes="SimplifyExpr,NeedsFrame", reproducer="crash")
    first, second = replay_folder("crash")
    assert first.error is None
    assert second.same
    assert str(second) == "the whole pipeline on the model fails the same way: RuntimeError: a frame"
    assert run("replay", "crash").exit_code == 1
    os.unlink("crash/model.onnx")
    assert len(replay_folder("crash")) == 1


def test_a_module_that_is_gone_leaves_the_model() -> None:
    crash("--reproducer", "crash")
    os.unlink("crash/module.relay")
    result = run("replay", "crash", "--rules", "mine.py")
    assert result.exit_code == 1
    assert result.stdout == "the whole pipeline on the model fails the same way: KeyError: 1\n"
    os.unlink("crash/model.onnx")
    result = run("replay", "crash", "--rules", "mine.py")
    assert (result.exit_code, result.stderr) == (2, "error: crash has no module.relay\n")


def test_a_large_model_is_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.crash.MODEL_LIMIT", 1000)
    shutil.copy(RESNET, "m.onnx")

    @register_pass("NeedsFrame", override=True)
    @module_pass(opt_level=0, name="NeedsFrame")
    def needs_frame(mod: IRModule, ctx: PassContext) -> IRModule:
        if "onnx" in mod.attrs:
            raise RuntimeError("a frame")
        return mod

    with pytest.raises(PassError):
        optimize("m.onnx", passes="NeedsFrame", reproducer="crash")
    assert "model.onnx" not in os.listdir("crash")
    kept = json.loads(Path("crash/reproducer.json").read_text())["optimize"]["model"]
    assert kept["path"] == str(Path("m.onnx").absolute())
    assert replay_folder("crash")[-1].same
    with open("m.onnx", "r+b") as file:  # another model of that size
        file.seek(20_000)
        file.write(b"\1\2\3\4")
    assert len(replay_folder("crash")) == 1
    os.unlink("m.onnx")
    assert len(replay_folder("crash")) == 1
    with pytest.raises(PassError):
        optimize(onnx.load(RESNET), passes="NeedsFrame", reproducer="crash")
    assert "missing" in json.loads(Path("crash/reproducer.json").read_text())["optimize"]["model"]


def test_the_default_pipeline_with_rules_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pass with the user's rules is part of the default pipeline, between Passat's passes."""
    from passat.rules.rule_pass import RulePass

    def fails(self: RulePass, func: Function, mod: IRModule, ctx: PassContext) -> Function:
        if self.info.name == "Fine":
            raise ArithmeticError(f"{len(self.sets)} sets")
        return func

    monkeypatch.setattr(RulePass, "transform_function", fails)
    sets = load_rules("mine.py")
    with pytest.raises(PassError, match="the pass Fine failed at the function @main: ArithmeticError"):
        optimize(RESNET, rules=sets, reproducer="crash")
    data = json.loads(Path("crash/reproducer.json").read_text())
    assert (data["optimize"]["given_as"], data["not_registered"]) == ("default", [])
    (found,) = replay_folder("crash", load_rules("mine.py"))
    assert found.same
    assert str(found.error) == data["error"]["message"]  # the same sets, including those of the library


def test_passes_given_as_objects() -> None:
    @function_pass(opt_level=0)
    def mine(func: Function, mod: IRModule, ctx: PassContext) -> Function:
        raise ValueError("in several\nlines")

    with pytest.raises(PassError) as caught:
        optimize(RESNET, passes=[Sequential([mine])], reproducer="crash")
    said = re.sub(r":\d+\)", ":LINE)", str(caught.value))
    assert said.startswith(
        f"the pass mine failed at the function @main: ValueError: in several lines ({__file__}:LINE); before it ran: nothing; "
    )
    assert isinstance(caught.value.__cause__, ValueError)
    with pytest.raises(ReproducerError, match="the pass mine cannot be made here"):
        replay_folder("crash")
    register_pass("mine", mine)
    assert replay_folder("crash")[0].same


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("mod['main'] = mod['main'].with_attr('Mine', 1); return mod", "it modified its input module"),
        ("mod.functions.clear(); return mod", "it modified its input module"),
        ("from passat import IRModule; return IRModule({'other': mod['main']})", "it removed the function @main"),
    ],
)
def test_a_pass_that_modifies_its_input_or_removes_main(body: str, said: str) -> None:
    Path("sly.py").write_text(
        "from passat.passmgr import module_pass, register_pass\n"
        "@register_pass('Sly')\n"
        "@module_pass(opt_level=0, name='Sly')\n"
        f"def sly(mod, ctx): {body}\n"
    )
    failed = run("optimize", RESNET, "-o", "out.onnx", "--rules", "sly.py", "--passes", "InferType, Sly", "--reproducer", "crash")
    assert (failed.exit_code, Path("out.onnx").exists()) == (1, False)
    assert failed.stderr.startswith(f"error: the pass Sly failed: ModuleChangedError: {said}")
    again = run("replay", "crash", "--rules", "sly.py")
    assert again.stdout.startswith(f"the pass Sly on the saved module fails the same way: ModuleChangedError: {said}")
    found = run("bisect", RESNET, "--rules", "sly.py", "--passes", "InferType, Sly, SimplifyExpr", "--check", "crash")
    assert found.stdout.startswith(f"the first bad pass is pass 2 of 2, Sly, which raised ModuleChangedError: {said}")


def test_an_unwritable_reproducer_is_reported_with_the_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("passat.crash.keep_model", full)
    result = crash("--reproducer", "crash")
    assert "the pass inner / Broken failed" in result.stderr
    assert "a reproducer could not be written to" in result.stderr
    assert "No space left on device" in result.stderr
    assert os.listdir() == ["mine.py"]


def test_folders_that_cannot_be_one_are_rejected_before_any_work() -> None:
    Path("full").mkdir()
    Path("full/thesis.txt").touch()
    for folder, sentence in (
        ("full", "it contains other files, such as thesis.txt"),
        ("no/such", "there is no folder"),
        ("mine.py", "it is not a folder"),
    ):
        result = run("optimize", RESNET, "-o", "out.onnx", "--reproducer", folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: no reproducer can be written to ")
        assert sentence in result.stderr
    assert os.listdir("full") == ["thesis.txt"]
    assert not Path("out.onnx").exists()


def test_nothing_is_written_if_no_pass_raises() -> None:
    assert run("optimize", RESNET, "-o", "out.onnx", "--no-verify", "--reproducer", "crash").exit_code == 0
    assert sorted(os.listdir()) == ["mine.py", "out.onnx"]


def edit(change: Callable[[AnyValue], object]) -> None:
    data = json.loads(Path("crash/reproducer.json").read_text())
    change(data)
    Path("crash/reproducer.json").write_text(json.dumps(data))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda data: data.pop("error"), "has no 'error.type'"),
        (lambda data: data["context"].update(config={"no.such": 1}), "invalid settings"),
        (lambda data: data["optimize"].update(rules=3), "the list of its rules is invalid"),
        (lambda data: data["optimize"].update(rules=[{"file": "x"}]), "the list of its rules is invalid"),
        (lambda data: data["optimize"].update(passes=None), "the text of its pipeline is missing"),
        (lambda data: data["optimize"].update(passes="Nonsense"), "its pipeline cannot be built here: there is no pass Nonsense"),
    ],
)
def test_a_folder_that_was_tampered_with(change: Callable[[AnyValue], object], sentence: str) -> None:
    crash("--reproducer", "crash")
    edit(change)
    result = run("replay", "crash", "--rules", "mine.py")
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("model", [3, {}, {"file": "../out.onnx"}, {"path": 3}, {"path": "/dev/zero", "bytes": 0, "sha256": ""}])
def test_a_model_that_was_tampered_with_is_left_alone(model: object) -> None:
    crash("--reproducer", "crash")
    edit(lambda data: data["optimize"].update(model=model))
    Path("mine.py").write_text(RULES.replace("{}[len(func.params)]", "func"))
    result = run("replay", "crash", "--rules", "mine.py")
    assert (result.exit_code, result.stdout) == (0, "the pass Broken on the saved module does not fail\n")


def test_folders_that_are_not_reproducers() -> None:
    for folder, sentence in (
        ("nothing", "there is no folder nothing"),
        (".", "has no reproducer.json, so it is not a crash reproducer"),
        ("mine.py", "is not a folder"),
    ):
        result = run("replay", folder)
        assert (result.exit_code, result.stdout) == (2, "")
        assert sentence in result.stderr
    assert run("replay", ".", "--rules", "nothing.py").exit_code == 2


def test_a_program_without_types_is_shown_below_the_sentence() -> None:
    Path("mine.py").write_text(
        RULES.replace(
            "return {}[len(func.params)]", "return Function(func.params, Call(get_op('add'), [func.params[0], const([1.0] * 77)]))"
        )
        + "\nfrom passat.ir.expr import Call, Function, const\nfrom passat.ir.op import get_op\n"
    )
    result = run("optimize", RESNET, "-o", "out.onnx", "--rules", "mine.py", "--passes", "Broken,InferType", "--reproducer", "crash")
    assert result.exit_code == 1
    sentence, *picture = result.stderr.splitlines()
    assert sentence.startswith("error: the pass InferType failed: InferError: ")
    assert sentence.endswith("; nothing was written")
    assert "before it ran: Broken; passat replay" in sentence
    assert any("add(" in line for line in picture)
    again = run("replay", "crash", "--rules", "mine.py")
    assert again.exit_code == 1, again.output
    assert "the pass InferType on the saved module fails the same way" in again.stdout


def test_the_python_interface_exports_the_error() -> None:
    assert passat.PassError is PassError


def test_a_guard_that_raises_accuses_the_pass_with_its_rule_and_the_stage_is_replayed() -> None:
    """The passes of a stage run as one, in the last of them; the rule may need what the others add to their e-graph."""
    Path("guards.py").write_text("""
from passat.rules import RuleSet, guard, op, tensors
(x,) = tensors("x")

@guard
def known(x):
    if "batch" in str(x.type) and x.type.shape[1] == 77:
        raise KeyError("no such width")
    return True

class Guarded(RuleSet):
    absolute = (op.nn.relu(op.abs(x)) >> op.abs(x)).when(known(x))
""")
    text = '<ir_version: 9, opset_import: ["" : 18]> g (float[batch, 77] x) => (float[batch, 77] y) { n = Neg(x) m = Neg(n) a = Abs(m) y = Relu(a) }'
    onnx.save(onnx.parser.parse_model(text), "m.onnx")
    passes = "InferType,SimplifyExpr,Guarded,EliminateCommonSubexpr,DeadCodeElimination"
    done = run("optimize", "m.onnx", "--rules", "guards.py", "--passes", passes, "--reproducer", "crash")
    assert "error: the pass stage 1 / Guarded failed at the function @main: RuleError: the rule Guarded.absolute" in done.stderr
    data = json.loads(Path("crash/reproducer.json").read_text())
    assert data["pass"]["text"] == 'Sequential{name="stage 1"}(SimplifyExpr,Guarded,EliminateCommonSubexpr)'
    assert (data["pass"]["name"], data["pass"]["step"], data["rest"]) == ("Guarded", "stage 1", "DeadCodeElimination")
    again = run("replay", "crash", "--rules", "guards.py")
    assert (again.exit_code, again.stdout.startswith("the pass Guarded on the saved module fails the same way: RuleError")) == (1, True)
