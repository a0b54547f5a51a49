"""The output of `passat rules bisect --save`, and `passat replay` of it."""

import json
import os
import shlex
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from passat.given_inputs import GivenInputs, write_inputs
from passat.passmgr import NeverTrueError, PassContext
from passat.rule_bisection import bisect_rules
from passat.rule_reproducer import replay_bisection, save_bisection
from passat.rulefile import load_rules
from tests.frontdoor.wrong_rules import RESNET, WRONG, bisect, chain, found, run, value_info, write, write_rules


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path)
    return tmp_path


def test_the_models_around_the_application_differ_by_it_alone() -> None:
    data = found(RESNET, "--rules", "wrong.py", "--save", "kept")
    counts = [sum(node.op_type == "Relu" for node in onnx.load(f"kept/{name}.onnx").graph.node) for name in ("before", "after")]
    assert counts == [19, 18]
    assert [os.path.basename(path) for path in data["saved"]] == [
        "before.onnx",
        "after.onnx",
        "smallest.onnx",
        "model.onnx",
        "bisection.json",
        "README.txt",
    ]
    small = onnx.load("kept/smallest.onnx")
    assert [node.op_type for node in small.graph.node] == ["Relu"]


def test_the_reproducer_is_replayed_by_the_printed_command() -> None:
    data = found(chain(), "--rules", "wrong.py", "--save", "kept")
    words = shlex.split(data["replay"])
    assert words == ["passat", "replay", "kept", "--rules", "wrong.py"]
    small = run(*words[1:])
    assert small.exit_code == 1, small.stderr
    assert small.stdout.startswith("smallest.onnx becomes bad: the output")
    os.unlink("kept/smallest.onnx")
    whole = run(*words[1:], "--json")
    assert whole.exit_code == 1
    told = json.loads(whole.stdout)
    assert (told["failed"], told["same"]) == (True, True)
    assert told["said"][0].startswith("the model becomes bad: the output 'v37'")
    assert data["replay"] in Path("kept/README.txt").read_text()


def test_the_command_makes_the_bad_model() -> None:
    data = found(chain(), "--rules", "wrong.py", "--save", "kept", "-O", "2", "--disable", "FoldConstant")
    words = shlex.split(data["command"])
    assert words[0] == "passat"
    assert run(*words[1:]).exit_code == 0
    assert Path("bad.onnx").read_bytes() == Path("kept/after.onnx").read_bytes()


def test_the_inputs_are_kept_and_replayed() -> None:
    """Only the given inputs show the difference; random ones are too small."""
    Path("hundred.py").write_text(
        """
from passat.rules import RuleSet, op, tensors
(x,) = tensors("x")

class BelowHundred(RuleSet):
    negated = op.negative(op.negative(op.minimum(x, 100.0))) >> x
"""
    )
    nodes = [helper.make_node(*node) for node in (("Min", ["file", "c"], ["m"]), ("Neg", ["m"], ["n"]), ("Neg", ["n"], ["y"]))]
    model = write("far.onnx", nodes, [value_info("file")], {"c": np.float32(100)})
    write_inputs(GivenInputs("", {"file": np.full((2, 3), 1000, np.float32)}), "given.npz")
    inputs = ["--rules", "hundred.py", "--inputs", "given.npz"]
    data = found(model, *inputs, "--save", "kept")
    assert "kept/inputs.npz" in data["saved"]
    os.unlink("given.npz")
    os.rename("kept", "moved")
    result = run("replay", "moved", "--rules", "hundred.py")
    assert result.exit_code == 1, result.stdout + result.stderr
    assert result.stdout.startswith("the model becomes bad: the output 'y' differs in 6 of 6 elements")
    assert result.stdout.endswith("(the inputs in moved/inputs.npz)\n")
    os.unlink("moved/inputs.npz")
    result = run("replay", "moved", "--rules", "hundred.py")
    assert result.exit_code == 2
    assert result.stderr == "error: moved: inputs.npz, the inputs that its models were compared on, is missing\n"


def test_a_rule_that_has_been_mended_replays_as_good() -> None:
    data = found(chain(), "--rules", "wrong.py", "--save", "kept")
    Path("wrong.py").write_text(WRONG.replace(">> x\n", ">> op.maximum(x, 0.0)\n", 1))
    result = run(*shlex.split(data["replay"])[1:])
    assert (result.exit_code, result.stdout.splitlines()) == (
        0,
        ["smallest.onnx is good before and good after", "the model is good before and good after"],
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_findings_are_printed_if_they_cannot_be_saved(monkeypatch: pytest.MonkeyPatch, as_json: bool) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "kept/before.onnx")

    monkeypatch.setattr("passat.rule_reproducer.save", full)
    result = bisect(chain(), "--rules", "wrong.py", "--save", "kept", *(["--json"] if as_json else []))
    assert result.exit_code == 1
    assert result.stderr == "error: kept/before.onnx: the disk is full\n"
    if as_json:
        told = json.loads(result.stdout)
        assert (told["rules"][0]["name"], told["saved"], told["error"]) == ("Wrong.relu", [], "kept/before.onnx: the disk is full")
    else:
        assert result.stdout.startswith("the rule Wrong.relu makes it bad")


def test_folders_that_are_not_reproducers() -> None:
    found(chain(), "--rules", "wrong.py", "--save", "kept")
    text = Path("kept/bisection.json").read_text()
    assert run("replay", "kept").stderr.startswith("error: kept needs the rules Wrong from ")
    for change, sentence in (
        ("{", "is not valid JSON"),
        ("[]", "has no 'format'"),
        (text.replace('"format": 2', '"format": 7'), "kept has format 7; this version of Passat reads format 2"),
        (text.replace('"check": "wrong"', '"check": 3'), "'check' must be str, not int"),
        (text.replace('"number": 19,', '"number": -1,'), "'application.number' must be positive"),
        (text.replace('"opt_level": 3', '"opt_level": "x"'), "'context.opt_level' must be int, not str"),
        (text.replace('"passes": null', '"passes": "FoldConstnt"'), "its pipeline cannot be built here"),
        (text.replace('"config": {}', '"config": {"no.such": 1}'), "its settings are invalid"),
        (text.replace('"dims": null', '"dims": {"n": -1}'), "its settings are invalid"),
    ):
        assert change != text
        Path("kept/bisection.json").write_text(change)
        result = run("replay", "kept", "--rules", "wrong.py")
        assert (result.exit_code, sentence in result.stderr) == (2, True), result.stderr
    Path("kept/bisection.json").write_text(text)
    os.unlink("kept/smallest.onnx")
    os.unlink("kept/model.onnx")
    assert "the model is neither in it nor at its recorded path" in run("replay", "kept", "--rules", "wrong.py").stderr


def test_a_pipeline_of_objects_and_the_settings_around_the_call() -> None:
    from passat.rules import rule_pass

    sets = load_rules("wrong.py")
    with PassContext(3, config={"rules.disabled": ["Wrong.relu"]}), pytest.raises(NeverTrueError):
        bisect_rules(chain(), "wrong", rules=sets)
    bisection = bisect_rules(chain(), "wrong", passes=[rule_pass(*sets, name="Own", opt_level=0)])
    assert bisection.names == ["Wrong.relu"]
    assert bisection.command is None
    saved = save_bisection(bisection, "kept")
    assert saved.smallest
    saved_again = save_bisection(bisect_rules(chain(), "wrong", rules=sets, passes="SimplifyExpr,Wrong,Fine"), "kept")
    assert replay_bisection("kept", sets)[0].same
    assert len(saved_again.paths) == len(saved.paths)
