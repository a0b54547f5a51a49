"""`passat rules bisect`: the rule, and its application, that makes a model wrong, larger, crash, or fail a command."""

import dataclasses
import json
import math
import os
import shlex
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from passat.ir.onnx import load
from passat.passmgr import FlappingError, PassContext
from passat.pipelines import build_pipeline
from passat.report import Timing, histogram
from passat.rule_bisection import bisect_rules
from passat.rule_reproducer import save_bisection
from passat.rule_search import ALL, RuleRuns
from passat.rulefile import load_rules
from tests.frontdoor.wrong_rules import BERT, RAISING, RESNET, bisect, branches, chain, found, run, value_info, write, write_rules


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_rules(tmp_path)
    return tmp_path


COUNTING = """
import sys
relus = open(sys.argv[1], "rb").read().count(b'"\\x04Relu')  # the type of a node
"""


def command(text: str, *more: str) -> str:
    Path("check.py").write_text(COUNTING + text)
    return shlex.join([sys.executable, "-S", "-E", "check.py", *more])


def test_a_rule_that_slipped_in_among_a_hundred() -> None:
    data = found(BERT, "--rules", "hundred.py")
    assert [rule["name"] for rule in data["rules"]] == ["Hundred.nothing_added"]
    assert data["rules"][0]["rule"] == "(x + c) -> x"
    application = data["application"]
    assert (application["rule"], application["pass"], application["function"]) == ("Hundred.nothing_added", "Hundred", "main")
    assert application["place"] == f"'{application['nodes'][0]}'"
    assert application["nodes"][0] in {node.name for node in onnx.load(BERT).graph.node if node.op_type == "Add"}
    assert "add(" in application["before"]
    assert application["after"].count("add(") == 0
    assert application["candidates"] == [application["number"]]
    assert 0 < application["number"] <= application["total"]
    assert data["why"].startswith("the output 'output'")
    # all, none, those that fired, a search over each, the set alone, and two runs that confirm
    most = 3 + math.ceil(math.log2(data["candidates"])) + 1 + math.ceil(math.log2(application["total"] + 1)) + 2 + 2
    assert data["calls"] <= data["runs"] <= most


def test_checking_the_rule_finds_it_too() -> None:
    result = run("rules", "check", "hundred.py", "--rule", "Hundred.nothing_added", "--instances", "2", "--json")
    assert result.exit_code == 1, result.stderr
    assert [(report["name"], report["verdict"]) for report in json.loads(result.stdout)] == [("Hundred.nothing_added", "rejected")]


def test_the_finding_in_words() -> None:
    result = bisect(RESNET, "--rules", "wrong.py", "--passes", "FoldBatchNorm")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert lines[0] == "the rule Wrong.relu makes it bad, of 3 that fired"
    assert lines[1] == "  nn.relu(x) -> x  [wrong.py:6]"
    assert lines[2].startswith("application 1 of 19: Wrong.relu, in Wrong+Fine, function @main, at '/")
    assert lines[3] == "matched:"
    assert lines[5] == "    nn.relu(%x) /* ty=Tensor[(batch, 8, 16, 16), float32] */"
    assert "replaced by:" in lines
    assert "    %x" in lines
    assert lines[-2].startswith("after it: the output 'output' ")
    assert lines[-1].startswith("(the passes ran ")
    assert result.stderr == ""


def test_two_rules_that_are_bad_together() -> None:
    bisection = bisect_rules(chain(), "wrong", rules=load_rules("together.py"))
    assert bisection.names == ["Pair.there", "Pair.back"]
    application = bisection.application
    assert application is not None
    assert application.rule == "Pair.back"
    assert application.number > 1
    saved = save_bisection(bisection, "kept")
    assert run(*shlex.split(saved.command)[1:]).exit_code == 1
    assert str(bisection).startswith("the rules Pair.there and Pair.back together make it bad, and no subset does, of ")
    forms = dataclasses.replace(bisection, rules=tuple(form for rule in bisection.rules for form in (rule, rule, rule)))
    assert [", and 2 similar forms" in line for line in str(forms).splitlines()[1:4]] == [True, True, False], "a line for each rule"


def test_applications_in_branches_are_distinguished() -> None:
    data = found(branches("if.onnx"), "--rules", "wrong.py", "--save", "kept")
    application = data["application"]
    assert application["total"] == 3
    assert application["nodes"] in (["then/relu"], ["else/relu"])
    assert "relu" not in application["after"]
    assert run(*shlex.split(data["replay"])[1:]).exit_code == 1


def test_a_limit_of_applications_holds_for_all_bodies_of_a_function_together() -> None:
    runs = RuleRuns(build_pipeline(None, load_rules("wrong.py")), load(branches("if.onnx")), PassContext(3))
    assert [runs.run(["Wrong.relu"], most).applications for most in (0, 1, 2, 3, ALL)] == [0, 1, 2, 3, 3]


def test_a_loop() -> None:
    names = {"i": TensorProto.INT64, "go": TensorProto.BOOL}
    nodes = [helper.make_node("Sin", ["s"], ["s1"]), helper.make_node("Relu", ["s1"], ["s2"], name="in/relu")]
    nodes += [helper.make_node("Cos", ["s2"], ["s3"]), helper.make_node("Identity", ["go"], ["on"])]
    inputs = [*(value_info(name, kind, ()) for name, kind in names.items()), value_info("s")]
    body = helper.make_graph(nodes, "body", inputs, [value_info("on", TensorProto.BOOL, ()), value_info("s3")])
    loop = helper.make_node("Loop", ["n", "t", "x"], ["y"], name="loop", body=body)
    write("loop.onnx", [loop], [value_info("x")], {"n": np.array(3), "t": np.array(True)})
    data = found("loop.onnx", "--rules", "wrong.py")
    assert data["application"]["nodes"] == ["in/relu"]


def test_a_rule_with_several_roots() -> None:
    weights = {f"w{i}": np.full((3, 4), i + 1, np.float32) for i in range(5)}
    nodes = [helper.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"], name=f"product{i}") for i in range(5)]
    nodes.append(helper.make_node("Sum", [f"y{i}" for i in range(5)], ["z"]))
    data = found(
        write("two.onnx", nodes, [value_info("x")], weights), "--rules", "shared.py", "--save", "kept", "--config", "rules.cost=nodes"
    )
    assert data["application"]["rule"] == "Shared.matmul"
    assert data["application"]["nodes"] == [f"product{i}" for i in range(5)]
    assert data["application"]["before"].count("matmul(") == 5
    assert data["application"]["after"].count("matmul(") == 1


def test_rules_of_passes_in_one_e_graph() -> None:
    data = found(RESNET, "--rules", "wrong.py", "--config", "rules.joint=true")
    assert [rule["name"] for rule in data["rules"]] == ["Wrong.relu"]
    assert data["application"]["total"] == 19


def test_larger_models() -> None:
    result = bisect(RESNET, "--rules", "growing.py", "--check", "larger")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("the rule Growing.relu makes it bad")
    assert "after it: it has " in result.stdout
    passes = run("bisect", RESNET, "--rules", "growing.py", "--check", "larger")
    assert passes.exit_code == 0, passes.stderr
    assert passes.stdout.startswith("the first bad pass is")
    assert run("bisect", RESNET, "--check", "larger").exit_code == 1


def test_more_bytes_are_larger() -> None:
    nodes = [helper.make_node("Expand", ["one", "shape"], ["y"]), helper.make_node("Add", ["x", "y"], ["z"])]
    inputs = [value_info("x", shape=(64, 64))]
    write("grows.onnx", nodes, inputs, {"one": np.arange(64, dtype=np.float32), "shape": np.array([64, 64])})
    result = run("bisect", "grows.onnx", "--check", "larger", "--passes", "FoldConstant", "--margin", "0.5")
    assert result.exit_code == 0, result.stderr
    assert "bytes where the original takes" in result.stdout
    assert run("bisect", "grows.onnx", "--check", "larger", "--passes", "FoldConstant", "--margin", "100").exit_code == 1


def test_a_condition_that_raises() -> None:
    result = bisect(chain(), "--rules", "raising.py")
    assert result.exit_code == 1
    assert (
        result.stderr
        == "error: the pass RaisesKeyError failed at the function @main: RuleError: the rule RaisesKeyError.relu (raising.py:11): is_odd(x) raises KeyError: 'odd'; --check crash looks for that\n"
    )
    data = found(chain(), "--rules", "raising.py", "--check", "crash", "--save", "kept")
    assert [rule["name"] for rule in data["rules"]] == ["RaisesKeyError.relu"]
    assert data["application"] is None
    assert data["crashed"] is True
    assert (
        data["why"]
        == "the pass RaisesKeyError failed at the function @main: RuleError: the rule RaisesKeyError.relu (raising.py:11): is_odd(x) raises KeyError: 'odd'"
    )
    assert not os.path.exists("kept/after.onnx")
    assert run(*shlex.split(data["replay"])[1:]).exit_code == 1


def test_a_command_says_which_model_is_bad() -> None:
    check = command("sys.exit(relus < 10)", "{}")
    data = found(chain(), "--rules", "wrong.py", "--check", check, "--save", "kept")
    assert data["application"]["number"] == 10
    assert data["why"] == "the command ends with exit code 1"
    rejected = run("replay", "kept", "--rules", "wrong.py")
    assert rejected.exit_code == 2
    assert rejected.stderr == "error: kept was made with a check command, which is not run from the folder: pass it with --check\n"
    replayed = run(*shlex.split(data["replay"])[1:])
    assert (replayed.exit_code, replayed.stdout) == (1, "the model becomes bad: the command ends with exit code 1\n")


def test_a_command_that_cannot_tell_leaves_several_applications() -> None:
    check = command("sys.exit(0 if relus > 12 else 125 if relus > 9 else 1)")
    bisection = bisect_rules(chain(), check, rules=load_rules("wrong.py"))
    assert bisection.to_dict()["application"]["candidates"] == [7, 8, 9, 10]
    text = str(bisection)
    assert "one of the applications 7, 8, 9 and 10: the check cannot tell between them; of the last one: Wrong.relu" in text


def test_a_command_that_flaps() -> None:
    check = command(
        "import os\n"
        "seen = sum(name.startswith('seen') for name in os.listdir())\n"
        "open(f'seen{seen}', 'w').close()\n"
        "sys.exit((relus < 10) != (seen > 8))\n"
    )
    result = bisect(chain(), "--rules", "wrong.py", "--check", check)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: the check is not stable: it called the same model ")
    assert result.stderr.count("\n") == 1
    for name in os.listdir():
        if name.startswith("seen"):
            os.unlink(name)
    with pytest.raises(FlappingError, match="not stable"):
        bisect_rules(chain(), check, rules=load_rules("wrong.py"))


def test_failures_that_need_regions(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = RuleRuns.run

    def without_rules_where_whole(self: RuleRuns, enabled: Any, unions: int | None, trace: Any = None) -> Any:
        return whole(self, enabled if unions is None else [], unions, trace)

    monkeypatch.setattr(RuleRuns, "run", without_rules_where_whole)
    result = bisect(chain(), "--rules", "wrong.py")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: chain.onnx is bad only if large functions are cut into regions, so")


def test_an_interruption_ends_it() -> None:
    Path("raising.py").write_text(
        RAISING.replace('raise KeyError("odd")', "signal.raise_signal(signal.SIGINT)").replace("\nfrom", "\nimport signal\nfrom", 1)
    )
    result = bisect(chain(), "--rules", "raising.py")
    assert (result.exit_code, result.stdout) == (130, "")
    assert "interrupted" in result.stderr


def test_times_near_the_limit_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each application makes the model slower by 4 %; the limit is 10 %."""

    def times(
        original: object, nodes: int, named: list[tuple[str, onnx.ModelProto]], *_: object, **options: object
    ) -> tuple[list[Timing], None]:
        seconds = 1.0 + 0.04 * (19 - histogram(named[0][1]).get("Relu", 0))
        return [Timing("the input", 1.0), Timing("the model", seconds)], None

    monkeypatch.setattr("passat.model_checks.race", times)
    data = found(chain(), "--rules", "wrong.py", "--check", "slower")
    assert data["application"]["candidates"] == [2, 3, 4]
    assert data["why"] == "it takes 1.16 s where the original takes 1 s, 1.16 times as long"
    wider = found(chain(), "--rules", "wrong.py", "--check", "slower", "--margin", "0.4")
    assert wider["application"]["candidates"] == [8, 9, 10, 11, 12, 13]


def test_a_command_that_flaps_from_good_to_bad() -> None:
    check = command("import os\nagain = os.path.exists('seen')\nopen('seen', 'w').close()\nsys.exit(again)\n")
    result = bisect(chain(), "--rules", "wrong.py", "--check", check)
    assert (result.exit_code, result.stderr) == (1, "error: the check is not stable: it called the same model good first, then bad\n")


def test_no_rule_is_to_blame() -> None:
    good = bisect(RESNET, "--passes", "FoldBatchNorm")
    assert (good.exit_code, good.stdout) == (1, "")
    assert good.stderr == f"error: {RESNET} is good with all rules, so no rule is to blame (2 rules fired)\n"
    silent = bisect(write("silent.onnx", [helper.make_node("Sin", ["x"], ["y"])], [value_info("x")]))
    assert silent.stderr == "error: silent.onnx is good with all rules, so no rule is to blame (no rule fired)\n"
    always = bisect(RESNET, "--check", "false")
    assert always.exit_code == 1
    assert always.stderr == (
        f"error: {RESNET} is bad without rules, too, so no rule is to blame; `passat bisect` finds the pass: "
        "the command ends with exit code 1\n"
    )
    unclear = bisect(RESNET, "--check", "sh -c 'exit 125'")
    assert unclear.stderr == (
        f"error: the check cannot decide whether the rules make {RESNET} bad: the command ended with exit code 125, which means undecided\n"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ("--check", "no-such-command {}"),
            "the check command 'no-such-command' does not exist; --check takes wrong, slower, larger,",
        ),
        (("--check", " "), "the check command is empty"),
        (("--check", "sh 'x"), "the check command cannot be read: No closing quotation: sh 'x"),
        (("--config", "no.such=1"), "no.such"),
        (("--passes", "FoldConstnt"), "FoldConstnt"),
        (("--save", "wrong.py"), "--save wrong.py: wrong.py is not a folder"),
    ],
)
def test_commands_that_make_no_sense(arguments: tuple[str, ...], sentence: str) -> None:
    result = bisect(chain(), *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    as_json = json.loads(bisect(chain(), *arguments, "--json").stdout)
    assert sentence in as_json["error"]


def test_other_input_that_is_wrong() -> None:
    assert bisect("nothing.onnx").stderr == "error: nothing.onnx cannot be read: No such file or directory\n"
    assert bisect("nothing.onnx").exit_code == 1
    Path("broken.py").write_text("from passat.rules import RuleSet, op\n(")
    assert "broken.py, line 2" in bisect(chain(), "--rules", "broken.py").stderr
    os.mkfifo("pipe")
    assert bisect("pipe").exit_code == 2
