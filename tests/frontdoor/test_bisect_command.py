"""`passat bisect`: finds the pass that makes a model wrong, slower, crash, or fail a command."""

import json
import os
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

from passat.bisection import bisect_model
from passat.cli.app import app
from passat.given_inputs import GivenInputs, write_inputs
from passat.passmgr import FlappingError
from tests.frontdoor.small_pipeline import passes_that_run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
WRONG = """
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Wrong(RuleSet):
    relu = op.nn.relu(x) >> x
"""
RAISING = """
from passat.passmgr import module_pass, register_pass
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class Fine(RuleSet):
    twice = op.negative(op.negative(x)) >> x

@register_pass("Raising", override=True)
@module_pass(opt_level=0, name="Raising")
def raising(mod, ctx):
    raise KeyError("nothing there")
"""
ILL_TYPED = """
import numpy as np
from passat import relay
from passat.ir.expr import Function
from passat.passmgr import module_pass, register_pass

@register_pass("IllTyped", override=True)
@module_pass(opt_level=0, name="IllTyped")
def ill_typed(mod, ctx):
    copy, main = mod.shallow_copy(), mod["main"]
    copy["main"] = Function(main.params, relay.add(main.params[0], relay.const(np.ones(5, "float32"))))
    return copy
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("wrong.py").write_text(WRONG)
    Path("raising.py").write_text(RAISING)


def test_the_wrong_pass_is_found_and_the_models_around_it_are_written() -> None:
    result = run("bisect", RESNET, "--rules", "wrong.py", "--passes", "SimplifyExpr,FoldBatchNorm,Wrong,FoldConstant", "--save", "found")
    assert result.exit_code == 0, result.stderr
    first, why, *rest = result.stdout.splitlines()
    assert first == "the first bad pass is pass 4 of 5, Wrong, function @main"
    assert why.startswith("after it: the output 'output' differs in 20 of 20 elements")
    assert rest == ["(the check ran 5 times)", "found/before.onnx was written", "found/after.onnx was written"]
    assert result.stderr == ""
    before, after = (sum(node.op_type == "Relu" for node in onnx.load(f"found/{name}.onnx").graph.node) for name in ("before", "after"))
    assert before > 0
    assert after == 0


def test_the_finding_as_json() -> None:
    result = run("bisect", RESNET, "--rules", "wrong.py", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert (found["check"], found["pass"], found["number"], found["function"]) == ("wrong", "Wrong", 2, "main")
    assert found["passes"][:2] == ["InferType", "Wrong"]
    assert found["crashed"] is False
    assert found["calls"] <= 2 + 4 + 2
    assert len(found["candidates"]) == 1


def test_a_model_that_stays_right() -> None:
    result = run("bisect", RESNET)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"error: {RESNET} is good after all passes, so no pass is to blame ({passes_that_run()} passes ran)\n"
    assert json.loads(run("bisect", RESNET, "--json").stdout)["error"].endswith(f"({passes_that_run()} passes ran)")


def test_a_model_that_is_bad_from_the_start() -> None:
    result = run("bisect", RESNET, "--check", "false")
    assert result.exit_code == 1
    assert result.stderr == f"error: {RESNET} is bad before any pass ran: the command ends with exit code 1\n"


def test_a_command_says_which_model_is_bad() -> None:
    Path("check.py").write_text(
        "import sys\nprint('looking')\nsys.exit(b'\"\\x12BatchNormalization' not in open(sys.argv[2], 'rb').read())\n"  # the type of a node
    )
    result = run("bisect", RESNET, "--check", f"{sys.executable} -S -E check.py first {{}}", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["pass"] == "FoldBatchNorm"
    assert found["why"] == "the command ends with exit code 1"


def test_a_command_that_cannot_tell_widens_the_answer() -> None:
    Path("check.py").write_text(
        "import sys\n"
        "model = open(sys.argv[1], 'rb').read()\n"
        "sys.exit(0 if b'\"\\x12BatchNormalization' in model else 125 if b'\"\\x04Relu' in model else 1)\n"  # types of nodes
    )
    passes = "FoldBatchNorm,Wrong,SimplifyExpr"
    result = run("bisect", RESNET, "--rules", "wrong.py", "--passes", passes, "--check", f"{sys.executable} -S -E check.py")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("one of the passes 2 (FoldBatchNorm), 3 (Wrong), of 4: the check cannot tell between them\n")


def test_a_command_that_flaps() -> None:
    Path("check.py").write_text(
        "import os, sys\n"
        "names = [name for name in os.listdir() if name.startswith('seen')]\n"
        "open(f'seen{len(names)}', 'w').close()\n"
        "sys.exit(len(names) in (1, 2, 3))\n"
    )
    result = run("bisect", RESNET, "--passes", "FoldBatchNorm", "--check", f"{sys.executable} -S -E check.py")
    assert result.exit_code == 1
    assert "error: the check is not deterministic: about the input it returned good first, then bad" in result.stderr
    for name in os.listdir():
        if name.startswith("seen"):
            os.unlink(name)
    with pytest.raises(FlappingError):
        bisect_model(RESNET, f"{sys.executable} -S -E check.py", passes="FoldBatchNorm")


def test_a_pass_that_raises() -> None:
    arguments = ("bisect", RESNET, "--rules", "raising.py", "--passes", "SimplifyExpr,Raising,FoldConstant")
    result = run(*arguments)
    assert result.exit_code == 1
    assert result.stderr == "error: pass 3 (Raising) raises KeyError: 'nothing there'; --check crash looks for that\n"
    found = run(*arguments, "--check", "crash", "--save", "found")
    assert found.exit_code == 0
    assert found.stdout.splitlines()[0] == "the first bad pass is pass 3 of 3, Raising, which raised KeyError: 'nothing there'"
    assert os.listdir("found") == ["before.onnx"]


def test_a_slower_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("passat.choose.ROUNDS", (5, 5))
    result = run("bisect", RESNET, "--check", "slower", "--margin", "100")
    assert result.exit_code == 1
    assert "is good after all passes" in result.stderr


@pytest.mark.parametrize(
    ("check", "sentence"),
    [
        (
            "no-such-command {}",
            "the check command 'no-such-command' does not exist; --check takes wrong, slower, larger, crash, or a command",
        ),
        (" ", "the check command is empty"),
        ("sh 'x", "the check command cannot be read: No closing quotation: sh 'x"),
        (".", "the check command '.' is not executable"),
    ],
)
def test_commands_that_make_no_sense(check: str, sentence: str) -> None:
    result = run("bisect", RESNET, "--check", check)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_other_input_that_is_wrong() -> None:
    assert "nothing.onnx cannot be read" in run("bisect", "nothing.onnx").stderr
    assert run("bisect", "nothing.onnx").exit_code == 1
    assert run("bisect", RESNET, "--passes", "FoldConstnt").exit_code == 2
    assert run("bisect", RESNET, "--config", "no.such=1").exit_code == 2
    assert run("bisect").exit_code == 2


def test_a_pipe_is_rejected() -> None:
    os.mkfifo("pipe")
    result = run("bisect", "pipe", "--json")
    assert result.exit_code == 2
    sentence = "pipe is a pipe or a device; a bisection reads the model several times, so save it to a file first"
    assert json.loads(result.stdout) == {"error": sentence}
    assert run("bisect", "nowhere.onnx").stderr == "error: nowhere.onnx cannot be read: No such file or directory\n"


def test_a_folder_that_cannot_be_is_rejected_before_the_work() -> None:
    Path("file").write_text("mine")
    result = run("bisect", "nowhere.onnx", "--save", "file")
    assert (result.exit_code, result.stderr) == (2, "error: --save file: file is not a folder\n")


def test_the_inputs_are_written_beside_the_models() -> None:
    image = onnx.load(RESNET).graph.input[0]
    array = np.ones([each.dim_value or 1 for each in image.type.tensor_type.shape.dim], np.float32)
    write_inputs(GivenInputs("", {image.name: array}), "in.npz")
    result = run("bisect", RESNET, "--rules", "wrong.py", "--passes", "Wrong", "--inputs", "in.npz", "--save", "found")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith("found/after.onnx was written\nfound/inputs.npz was written\n")
    assert np.load("found/inputs.npz")[image.name].tobytes() == array.tobytes()


@pytest.mark.parametrize("as_json", [False, True])
def test_findings_are_printed_if_they_cannot_be_saved(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "found/before.onnx")

    monkeypatch.setattr("passat.bisection.save", full)
    result = run("bisect", RESNET, "--rules", "wrong.py", "--save", "found", *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert result.stderr == "error: found/before.onnx: the disk is full\n"
    if as_json:
        told = json.loads(result.stdout)
        assert (told["pass"], told["saved"], told["error"]) == ("Wrong", [], "found/before.onnx: the disk is full")
    else:
        assert result.stdout.startswith(f"the first bad pass is pass 2 of {passes_that_run() + 2}, Wrong")


@pytest.mark.parametrize("as_json", [False, True])
def test_the_finding_is_printed_if_the_program_after_the_pass_is_ill_typed(as_json: bool) -> None:
    Path("ill.py").write_text(ILL_TYPED)
    result = run("bisect", RESNET, "--rules", "ill.py", "--passes", "IllTyped", "--save", "found", *(["--json"] if as_json else []))
    sentence = "found/after.onnx cannot be written: add("
    assert result.exit_code == 1
    assert result.stderr.startswith(f"error: {sentence}")
    if as_json:
        assert json.loads(result.stdout)["error"].startswith(sentence)
    else:
        assert result.stdout.startswith("the first bad pass is pass 1 of 1, IllTyped, function @main\nafter it: the module is broken: ")


def test_why_the_check_cannot_tell() -> None:
    result = run("bisect", RESNET, "--check", "sh -c 'exit 125'")
    assert result.exit_code == 1
    assert result.stderr == (
        f"error: the check cannot tell whether {RESNET} is bad: the command ended with exit code 125, which means undecided\n"
    )


def test_the_settings_around_the_call_count() -> None:
    from passat.passmgr import NeverTrueError, PassContext
    from passat.rulefile import load_rules

    rules = load_rules("wrong.py")
    with PassContext(3, disabled_pass=["Wrong"]), pytest.raises(NeverTrueError, match=rf"\({passes_that_run()} passes ran\)"):
        bisect_model(RESNET, "wrong", rules=rules)
    assert bisect_model(RESNET, "wrong", rules=rules).found.execution.name == "Wrong"
    result = run("bisect", RESNET, "--rules", "wrong.py", "--disable", "Wrong")
    assert (result.exit_code, result.stderr.rpartition("(")[2]) == (1, f"{passes_that_run()} passes ran)\n")
