"""Reports about rules that unite two values of the input: they are credited for the shared value, although they create no node."""

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

import passat
from passat.certificates import check_certificate
from passat.cli.app import app

EXPONENTIALS = "s = Add(y, x) a = Exp(s) ex = Exp(x) ey = Exp(y) b = Mul(ex, ey)"
"""Two outputs that an exploring rule and a joining rule unite."""
VALUES = {
    "swapped": "a = Add(x, y) b = Add(y, x)",
    "grouped": "xy = Add(x, y) a = Add(xy, z) yz = Add(z, y) b = Add(yz, x)",
    "exponentials": EXPONENTIALS,
    "exponentials first": "s = Add(y, x) ex = Exp(x) ey = Exp(y) b = Mul(ex, ey) a = Exp(s)",
    "factors": "zy = Add(z, y) b = Mul(zy, x) xy = Mul(x, y) xz = Mul(x, z) a = Add(xz, xy)",
}


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def model(nodes: str, results: str, graph_inputs: str = "float[4,3] x, float[4,3] y, float[4,3] z") -> onnx.ModelProto:
    text = f'<ir_version: 10, opset_import: ["": 21]> g ({graph_inputs}) => ({results}) {{ {nodes} }}'
    return onnx.parser.parse_model(text)


def results(*names: str) -> str:
    return ", ".join(f"float[4,3] {name}" for name in names)


def branch(nodes: str, *names: str) -> str:
    """An If whose first branch has the nodes."""
    others = " ".join(f"{name}2 = Identity(x)" for name in names)
    first, second = results(*names), results(*(f"{name}2" for name in names))
    outer = ", ".join(f"{name}_of_if" for name in names)
    return f"{outer} = If (c) <then_branch = t () => ({first}) {{ {nodes} }}, else_branch = e () => ({second}) {{ {others} }}>"


INPUTS = "float[4,3] x, float[4,3] y, float[4,3] z, bool c"
MODELS = {
    **{f"{name} as {of}": model(nodes, results(*of)) for name, nodes in VALUES.items() for of in ("ab", "ba")},
    **{f"{name} in a branch": model(branch(nodes, "a", "b"), results("a_of_if", "b_of_if"), INPUTS) for name, nodes in VALUES.items()},
    "a branch in a branch": model(branch(branch(EXPONENTIALS, "b", "a"), "b_of_if", "a_of_if"), results("a_of_if_of_if"), INPUTS),
    "a loop": model(
        "u, v = Loop (n, c, x, x) <body = b (int64 i, bool go, float[4,3] p, float[4,3] q) => (bool on, float[4,3] a, float[4,3] b) "
        "{ on = Identity(go) a = Add(p, y) b = Add(y, p) }>",
        results("u", "v"),
        f"{INPUTS}, int64 n",
    ),
    "a scan": model(
        "w, u = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] e) => (float[3] a, float[3] b) "
        "{ k = Exp(s) l = Exp(e) a = Mul(k, l) o = Add(e, s) b = Exp(o) }> (first, x)",
        "float[3] w, float[4,3] u",
        "float[3] first, float[4,3] x",
    ),
}


@pytest.mark.parametrize("math", ["reassociate", "finite"])
@pytest.mark.parametrize("name", MODELS)
def test_the_certificate_of_outputs_that_became_one_is_complete(name: str, math: str) -> None:
    before = MODELS[name]
    result = passat.optimize(before, certificate=True, verify=False, config={"rules.math": math})
    assert result.model.SerializeToString() != before.SerializeToString()
    verdict = check_certificate(json.loads(json.dumps(result.certificate)), before=before, after=result.model)
    assert verdict.complete
    assert not verdict.trusted
    assert verdict.unions > 0


@pytest.mark.parametrize(("name", "rule"), [("swapped", "Reassociate.commuted"), ("grouped", "Reassociate.grouped")])
def test_a_renamed_result_names_its_rule(name: str, rule: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(MODELS[f"{name} as ab"], "in.onnx")
    shown = run("optimize", "in.onnx", "-o", "out.onnx", "--stats", "--explain")
    assert rule in shown
    assert "fired, not extracted" not in shown
    data = json.loads(run("explain", "out.onnx", "--json"))
    (node,) = [node for node in data["nodes"] if node["op"] == "Identity"]
    assert [step for step in node["steps"] if f": {rule}[add] at " in step] == node["steps"]
    answer = json.loads(run("rules", "why-not", f"{rule}[add]", "in.onnx", "--json"))
    assert [each["verdict"] for each in answer["rules"]] == ["taken"]
    stats = json.loads(run("optimize", "in.onnx", "-o", "out.onnx", "--stats", "--json"))
    assert {entry["name"]: entry["taken"] for entry in stats["rules"] if entry["fired"]} == {rule: True}


def test_a_result_removed_by_another_rule_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model("a = Neg(x) b = Neg(a)", results("b")), "in.onnx")
    run("optimize", "in.onnx", "-o", "out.onnx", "--explain")
    (node,) = json.loads(run("explain", "out.onnx", "--json"))["nodes"]
    assert node["op"] == "Identity"
    (step,) = node["steps"]
    assert step.endswith("[negative] at b")


PRODUCT = "p = Add(x, y) q = Add(y, x) c = Mul(p, q)"
CONSTANT = "c1 = Constant <value = float[2] {1.0, 2.0}> () b = Exp(c1)"
GIVEN_NAMES = {
    "a result in a branch": (
        model(branch(VALUES["swapped"], "a", "b"), results("a_of_if", "b_of_if"), INPUTS),
        ["Reassociate.commuted[add] at "],
    ),
    "a value that was there twice": (
        model(f"a = Exp(x) b = Exp(x) {PRODUCT}", results("a", "b", "c")),
        ["(written): another node computes its value"],
    ),
    "a name from the input": (model(f"a = Exp(x) b = Identity(a) {PRODUCT}", results("a", "b", "c")), []),
}


@pytest.mark.parametrize("name", GIVEN_NAMES)
def test_nodes_that_only_name_a_value_say_whose_it_is(name: str) -> None:
    before, said = GIVEN_NAMES[name]
    found = passat.optimize(before, explain=True, verify=False).explain().nodes
    steps = [step for node in found if node.op == "Identity" and "b" in node.outputs for step in node.steps]
    assert len(steps) == len(said)
    assert all(words in step for words, step in zip(said, steps, strict=True))


def test_a_result_in_a_folded_branch_is_reported() -> None:
    text = f"u = If (c) <then_branch = t () => (float[2] b) {{ {CONSTANT} }}, else_branch = e () => (float[2] d) {{ d = Exp(k) }}>"
    (node,) = passat.optimize(model(text, "float[2] u", "bool c, float[2] k"), explain=True, verify=False).explain().changed
    assert (node.op, node.steps) == ("Constant", ("stage 1: ConstantFolding.call at b",))
