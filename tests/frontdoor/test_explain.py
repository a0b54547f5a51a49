"""`passat explain`, `--explain` and `--certificate`: the provenance in a result, and what its certificate proves about two files."""

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from typer.testing import CliRunner

import passat
from passat.certificates import check_certificate, read_certificate
from passat.cli.app import app
from passat.explaining import FROM, PROVENANCE, RULES, VANISHED, Explained, ExplainError, Explanation, Gone, explain_model
from passat.rules.provenance.plain import CertificateError
from tests.frontdoor.small_pipeline import SMALL
from tests.share import share

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
MINE = '''
"""Rules of a user."""
from passat.rules import RuleSet, op, tensors
from tests.share import share

x, y = tensors("x y")

class Mine(RuleSet):
    """Exponents."""

    squared = op.exp(x) * op.exp(y) >> op.exp(x + y)
'''


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result.output if code else result.stdout


def model(ir_version: int = 10, opset: int = 21) -> onnx.ModelProto:
    """leaky_relu(exp(x) * exp(y + 0)) with names."""
    nodes = [
        helper.make_node("Exp", ["x"], ["ex"], name="exp_x"),
        helper.make_node("Add", ["y", "zero"], ["y0"], name="add_zero"),
        helper.make_node("Exp", ["y0"], ["ey"], name="exp_y"),
        helper.make_node("Mul", ["ex", "ey"], ["product"], name="product"),
        helper.make_node("LeakyRelu", ["product"], ["r"], name="relu"),
        helper.make_node("Tanh", ["r"], ["out"], name="tanh"),
    ]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 3]) for name in ("x", "y", "out")]
    zero = numpy_helper.from_array(np.zeros((), np.float32), "zero")
    graph = helper.make_graph(nodes, "g", values[:2], values[2:], [zero])
    return helper.make_model(graph, ir_version=ir_version, opset_imports=[helper.make_opsetid("", opset)])


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    onnx.save(model(), "in.onnx")
    return tmp_path


@pytest.fixture
def done(folder: Path) -> Path:
    run("optimize", "in.onnx", "-o", "out.onnx", "--rules", "mine.py", "--explain", "--certificate", "proof.json")
    return folder


def test_each_node_records_its_origin(done: Path) -> None:
    text = run("explain", "out.onnx")
    head, *nodes = text.split("\n\n")
    assert head == "2 of 4 nodes were changed"
    title, *lines = nodes[1].strip().split("\n")
    assert title == "product (Exp)"
    assert lines[:3] == ["  from product", "  from exp_x", "  from exp_y"]
    assert lines[-1].endswith(": Mine.squared at product")
    assert "relu" not in text


VANISHING = """<ir_version: 10, opset_import: ["" : 21]> g (float[2, 3] x, float[2, 3] z) => (float[2, 3] y, float[2, 3] u) {
    [there] a = Transpose<perm=[1, 0]>(x)
    [back] b = Transpose<perm=[1, 0]>(a)
    [same] c = Identity(b)
    [unused] d = Exp(c)
    [kept] y = Tanh(c)
    [first] e = Sin(z)
    [second] f = Sin(z)
    [last] u = Add(e, f)
}"""


def test_a_vanished_node_has_an_explanation(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(VANISHING), "in.onnx")
    run("optimize", "in.onnx", "-o", "out.onnx", "--explain")
    there, back, same, unused, second = (run("explain", "out.onnx", "--node", name) for name in ("there", "back", "same", "unused", "f"))
    assert back.startswith("back (Transpose) vanished: equal to x\n  1. stage 1: ")
    assert "\n\nkept (Tanh)\n" in back, "it also shows what the node became"
    assert there.startswith("kept (Tanh)\n"), "the reason is that nothing reads it"
    assert same.startswith("same (Identity) vanished: equal to x\n")
    assert unused == "unused (Exp) vanished: it was computed from constants, or left out, when the model was read\n"
    assert second.startswith("second (Sin) vanished: equal to e")
    assert "; 2 other nodes of the input vanished\n" in run("explain", "out.onnx")
    (gone,) = json.loads(run("explain", "out.onnx", "--node", "back", "--json"))["vanished"]
    assert (gone["op"], gone["outputs"], gone["became"]) == ("Transpose", ["b"], "equal to x")
    run("optimize", "out.onnx", "-o", "again.onnx", "--explain", "--passes", "InferType")
    assert run("explain", "again.onnx", "--node", "back") == back


SELECTING = """<ir_version: 10, opset_import: ["" : 21]> g (float[b, 400, 4] x, float[4, 4] w) => (float[b, 4] y) <int64 zero = {0}, int64[3] s = {0, 400, 4}> {
    [product] a = MatMul(x, w)
    [same] c = Reshape(a, s)
    [bent] d = Tanh(c)
    [first] y = Gather<axis = 1>(d, zero)
}"""


def test_a_node_that_is_computed_for_one_position_is_not_equal_to_it(folder: Path) -> None:
    onnx.save(onnx.parser.parse_model(SELECTING), "in.onnx")
    run("optimize", "in.onnx", "-o", "out.onnx", "--explain")
    same = run("explain", "out.onnx", "--node", "same")
    assert same.startswith("same (Reshape) vanished: only the selected positions are computed, as ")
    assert "HoistSelections: only the selected positions are computed\n" in same
    assert "HoistSelections: only the selected positions are computed at bent\n" in run("explain", "out.onnx", "--node", "bent")


def test_a_folded_node_has_the_rule_that_folded_it(folder: Path) -> None:
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[4] x) => (float[4] y) {
        [two] a = Constant<value_floats = [1.0, 2.0]>() [other] f = Constant<value_floats = [3.0, 4.0]>()
        [outer] b = Concat<axis = 0>(a, a)
        [inner] c = Concat<axis = 0>(a, f)
        [negated] d = Neg(c)
        [sum] e = Add(x, b)
        [product] y = Mul(e, d)
    }"""
    onnx.save(onnx.parser.parse_model(text), "in.onnx")
    run("optimize", "in.onnx", "-o", "out.onnx", "--explain")
    outer, inner = (run("explain", "out.onnx", "--node", name) for name in ("b", "c"))
    assert outer.startswith("outer (Concat) vanished: folded to a constant\n  1. stage 1: ConstantFolding.call at outer\n")
    assert inner.startswith(
        "inner (Concat) vanished: folded to a constant, which nothing reads\n  1. stage 1: ConstantFolding.call at inner\n"
    )


def test_a_result_from_which_nodes_only_vanished(folder: Path) -> None:
    model = onnx.parser.parse_model(VANISHING)
    del model.graph.node[4:], model.graph.output[:], model.graph.input[1]
    model.graph.output.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, [3, 2]))
    onnx.save(model, "in.onnx")
    run("optimize", "in.onnx", "-o", "out.onnx", "--explain")
    said = run("explain", "out.onnx")
    assert said.startswith("0 of 1 nodes were changed; 3 other nodes of the input vanished\n\nback (Transpose)")


def test_the_first_of_many_vanished_nodes_are_listed() -> None:
    gone = tuple(Gone(f"n{i}", "Exp", (f"v{i}",)) for i in range(20))
    explanation = Explanation((Explained("kept", "Exp", ("a",)), Explained("other", "Exp", ("b",))), gone)
    head, *listed, last = str(explanation).split("\n\n")
    assert head.endswith("; 20 other nodes of the input vanished")
    assert listed == [f"n{i} (Exp) vanished" for i in range(12)]
    assert last == "... and 8 more nodes of the input vanished; `--node NAME` explains one, and `--json` lists all"
    assert str(explanation.of("n19")) == "n19 (Exp) vanished"
    assert str(Explanation(explanation.nodes, gone[:12])).endswith("n11 (Exp) vanished")


def test_a_node_is_found_by_name_value_or_origin(done: Path) -> None:
    whole = run("explain", "out.onnx", "--node", "product")
    assert whole.startswith("product (Exp)\n")
    assert run("explain", "out.onnx", "--node", "tanh") == "tanh (Tanh) is unchanged from the input\n"
    assert run("explain", "out.onnx", "--node", "out") == run("explain", "out.onnx", "--node", "tanh")
    assert "product (Exp)" in run("explain", "out.onnx", "--node", "exp_y")
    message = run("explain", "out.onnx", "--node", "tahn", code=1)
    assert "no node of the result is called 'tahn', produces it, or comes from it; did you mean tanh?" in message


def test_json_has_the_same(done: Path) -> None:
    found = json.loads(run("explain", "out.onnx", "--json"))["nodes"]
    (node,) = [node for node in found if node["op"] == "Exp"]
    assert node["sources"] == ["product", "exp_x", "exp_y"]
    (total,) = [node for node in found if node["op"] == "Add"]
    assert total["sources"] == ["product", "exp_x", "exp_y", "add_zero"]
    assert len(total["steps"]) == 2
    assert node["outputs"] == ["product"]
    alone = json.loads(run("explain", "out.onnx", "--json", "--node", "tanh"))["nodes"]
    assert alone == [{"name": "tanh", "op": "Tanh", "outputs": ["out"], "sources": [], "steps": []}]


def test_provenance_is_in_the_metadata_of_nodes(done: Path) -> None:
    nodes = {node.name: {entry.key: entry.value for entry in node.metadata_props} for node in onnx.load("out.onnx").graph.node}
    assert set(nodes["product"]) == {FROM, RULES}
    assert nodes["tanh"] == {}
    run("optimize", "in.onnx", "-o", "plain.onnx", "--rules", "mine.py")
    assert not any(node.metadata_props for node in onnx.load("plain.onnx").graph.node), "only on request"


def test_the_same_from_python(folder: Path) -> None:
    result = passat.optimize(RESNET, explain=True, certificate=True)
    explanation = result.explain()
    assert len(explanation.changed) == 22
    assert explanation.changed == explain_model(result.model).changed
    (conv,) = result.explain("/1/BatchNormalization").nodes
    assert conv.steps == ("FoldBatchNorm: ScaleAxis.normalized[none, convolution, nn.conv2d] at /1/BatchNormalization",)
    assert set(conv.sources) == {"/0/Conv", "/1/BatchNormalization"}
    assert check_certificate(result.certificate, before=RESNET, after=result.model).functions == ["main"]
    result.save("out.onnx")
    assert explain_model(onnx.load("out.onnx")) == explanation


def test_calls_that_a_walk_replaces_keep_their_history() -> None:
    """The scale of the query was folded into the weight and bias before CollapseBatchDims made one Gemm of both."""
    explanation = passat.optimize(EXAMPLES / "bert_tiny.onnx", verify=False, explain=True).explain()
    query = "/module/encoder/layer.0/attention/self/query/"
    gemm = next(node for node in explanation.changed if node.op == "Gemm" and f"{query}MatMul" in node.sources)
    assert f"{query}Add" in gemm.sources
    rules = " ".join(map(str, gemm.steps))
    assert all(rule in rules for rule in ("Products.through_sum", "Products.into_weight", "CollapseBatchDims"))


def test_it_has_to_be_asked_for_beforehand() -> None:
    result = passat.optimize(model(), verify=False)
    with pytest.raises(ExplainError, match=r"optimize\(\.\.\., explain=True\)"):
        result.explain()
    with pytest.raises(CertificateError, match=r"optimize\(\.\.\., certificate=True\)"):
        _ = result.certificate
    with pytest.raises(passat.PassatError, match="choose='time' tries several programs") as caught:
        passat.optimize(model(), choose="time", explain=True)
    assert caught.value.exit_code == 2


def test_a_second_run_keeps_the_steps_of_the_first(folder: Path) -> None:
    run("optimize", "in.onnx", "-o", "one.onnx", "--passes", "SimplifyExpr", "--explain")
    first = json.loads(run("explain", "one.onnx", "--node", "exp_y", "--json"))["nodes"][0]
    assert first["steps"] == ["SimplifyExpr: Arithmetic.add_zero at add_zero"] or len(first["steps"]) == 1
    run("optimize", "one.onnx", "-o", "two.onnx", "--passes", "Mine", "--rules", "mine.py", "--explain")
    second = json.loads(run("explain", "two.onnx", "--node", "product", "--json"))["nodes"][0]
    assert second["steps"] == [*first["steps"], "Mine: Mine.squared at product"]
    assert set(second["sources"]) == {"product", "exp_x", "exp_y", "add_zero"}
    run("optimize", "two.onnx", "-o", "three.onnx", "--explain")
    assert run("explain", "three.onnx", "--node", "product") == run("explain", "two.onnx", "--node", "product")


@pytest.mark.parametrize("ir_version", [8, 10])
def test_an_input_that_comes_back_in_a_later_opset_keeps_its_steps(folder: Path, ir_version: int) -> None:
    onnx.save(model(ir_version, opset=13), "old.onnx")
    run("optimize", "old.onnx", "-o", "out.onnx", "--explain", "--rules", "mine.py")
    assert "the input is returned" in run("optimize", "out.onnx", "-o", "again.onnx", "--explain", "--opset", "17")
    assert run("explain", "again.onnx") == run("explain", "out.onnx")


def test_nodes_of_old_versions_have_no_metadata(folder: Path) -> None:
    onnx.save(model(ir_version=8, opset=17), "old.onnx")
    text = run("optimize", "old.onnx", "-o", "out.onnx", "--rules", "mine.py", "--explain")
    assert "nodes have no metadata in version 8 of the ONNX format" in " ".join(text.split())
    written = onnx.load("out.onnx")
    assert not any(node.metadata_props for node in written.graph.node)
    assert [entry.key for entry in written.metadata_props] == [PROVENANCE, VANISHED]
    assert "Mine.squared at product" in run("explain", "out.onnx")
    run("optimize", "out.onnx", "-o", "again.onnx", "--explain")
    assert run("explain", "again.onnx") == run("explain", "out.onnx")


def test_a_model_without_provenance(folder: Path) -> None:
    assert "the model contains no provenance" in run("explain", "in.onnx", code=1)
    untouched = run("optimize", "in.onnx", "-o", "out.onnx", "--passes", "FoldConstant", "--explain")
    assert "no pass changed anything" in " ".join(untouched.split())
    assert "the model contains no provenance" in run("explain", "out.onnx", code=1)
    assert passat.optimize(model(), passes="FoldConstant", explain=True).explain().changed == ()


def test_foreign_metadata_is_not_provenance(folder: Path) -> None:
    """Entries under these keys in other forms are ignored."""
    strange = model()
    for node, value in zip(strange.graph.node, ("", "[1]", "{}", "[" * 100_000, '"a"', "null"), strict=True):
        node.metadata_props.add(key=RULES, value=value)
    strange.metadata_props.add(key=PROVENANCE, value='{"ex": 5}')
    onnx.save(strange, "strange.onnx")
    assert run("explain", "strange.onnx").startswith("0 of 6 nodes were changed")


# ---- certificates


def test_a_certificate_is_checked_against_both_files(done: Path) -> None:
    text = run("explain", "out.onnx", "--check", "proof.json", "--before", "in.onnx", "--rules", "mine.py")
    assert text.startswith("it holds: ")
    assert text == "it holds: the last program follows from the first (applications of rules: 3)\n"
    alone = run("explain", "--check", "proof.json", "--rules", "mine.py")
    assert "not compared with a file: the program before (--before)" in alone
    assert "not compared with a file: the program after (--after)" in alone
    found = json.loads(
        run("explain", "--check", "proof.json", "--before", "in.onnx", "--after", "out.onnx", "--rules", "mine.py", "--json")
    )
    assert found["functions"] == ["main"]
    assert found["compared"] == {"before": True, "after": True}
    assert found["uncovered"] == []


def test_another_model_is_rejected(done: Path) -> None:
    other = model()
    other.graph.node[4].op_type = "Abs"
    onnx.save(other, "other.onnx")
    common = ("explain", "--check", "proof.json", "--rules", "mine.py")
    assert "this is not the model that the certificate begins with" in run(*common, "--before", "other.onnx", code=1)
    assert "this is not the model that the certificate ends with" in run(*common, "--after", "other.onnx", code=1)
    changed = onnx.load("out.onnx")
    changed.graph.node[-1].op_type = "Sin"
    onnx.save(changed, "changed.onnx")
    assert "this is not the model that the certificate ends with" in run(*common, "--after", "changed.onnx", code=1)


def test_rules_of_ones_own_have_to_be_there(done: Path) -> None:
    command = [sys.executable, "-m", "passat", "explain", "--check", "proof.json"]  # a process in which no pass has these rules
    alone = subprocess.run(command, check=False, capture_output=True, text=True)
    assert alone.returncode == 1
    assert (
        "unknown rule Mine.squared; if it is your own, give its rule file to the checker, too (--rules FILE.py, or rules=)" in alone.stderr
    )
    Path("mine.py").write_text(MINE.replace("op.exp(x + y)", "op.exp(x - y)"))
    assert "the rule Mine.squared differs" in run("explain", "--check", "proof.json", "--rules", "mine.py", code=1)


def test_a_certificate_that_was_changed_names_the_step(done: Path) -> None:
    data = json.loads(Path("proof.json").read_text())
    part = next(i for i, part in enumerate(data["steps"]) if any(step.get("rule") == "Mine.squared" for step in part["steps"]))
    place = next(i for i, step in enumerate(data["steps"][part]["steps"]) if step.get("rule") == "Mine.squared")
    step = data["steps"][part]["steps"][place]
    step["left"] = step["right"]
    Path("bad.json").write_text(json.dumps(data))
    text = run("explain", "--check", "bad.json", "--rules", "mine.py", code=1)
    assert f"part {part + 1}, step {place + 1} (Mine.squared): the left side does not match" in " ".join(text.split())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "is not a complete certificate"),
        ("[1, 2", "is not a complete certificate"),
        ("[1, 2]", "is not a certificate"),
        ("{}", "this is not a Passat certificate"),
        ('{"passat certificate": 3}', "the certificate has version 3; this version of Passat reads 2"),
        ("[" * 100_000, "bad.json is not a complete certificate: it is nested too deeply"),
    ],
)
def test_files_that_are_not_certificates(folder: Path, content: str, said: str) -> None:
    Path("bad.json").write_text(content)
    assert said in " ".join(run("explain", "--check", "bad.json", code=1).split())


def test_a_certificate_that_was_cut_short(done: Path) -> None:
    text = Path("proof.json").read_text()
    Path("short.json").write_text(text[: len(text) // 2])
    assert "short.json is not a complete certificate" in run("explain", "--check", "short.json", "--rules", "mine.py", code=1)
    assert "cannot be read: No such file" in run("explain", "--check", "none.json", code=1)
    Path("binary.json").write_bytes(b"\xff\xfe\x00")
    assert "is not a complete certificate: it is not text in UTF-8" in run("explain", "--check", "binary.json", code=1)


def test_incompatible_options(folder: Path) -> None:
    assert "give a model" in run("explain", code=2)
    assert "--before, --after, --rules and --trust require --check" in run("explain", "in.onnx", "--before", "in.onnx", code=2)
    assert "the result is given twice" in run("explain", "in.onnx", "--check", "a.json", "--after", "in.onnx", code=2)
    assert "--node applies to a model" in run("explain", "--check", "a.json", "--node", "x", code=2)
    assert "the folder none does not exist" in run("optimize", "in.onnx", "-o", "out.onnx", "--certificate", "none/proof.json", code=2)
    assert not Path("out.onnx").exists()


def test_the_input_that_came_back_has_a_certificate_too(folder: Path) -> None:
    result = passat.optimize("in.onnx", passes="FoldConstant", certificate=True)
    assert result.report.kept
    assert check_certificate(result.certificate, before="in.onnx", after=result.model).unions == 0


def test_an_existing_file_is_replaced_atomically(done: Path) -> None:
    before = read_certificate("proof.json")
    assert os.listdir(done).count("proof.json.part") == 0
    run("optimize", "in.onnx", "-o", "out.onnx", "--rules", "mine.py", "--certificate", "proof.json")
    assert read_certificate("proof.json") == before


def test_the_certificates_of_the_light_models_hold(tmp_path: Path) -> None:
    names = sorted(LIGHT.glob("*.onnx"))
    assert len(names) == 9
    unions = 0
    for path in names[:: share(3, 1)]:
        result = passat.optimize(path, verify=False, certificate=True)
        certificate = json.loads(json.dumps(result.certificate))
        verdict = check_certificate(certificate, before=path, after=result.model)
        assert (verdict.functions, verdict.uncovered, verdict.trusted) == (["main"], [], []), path.name
        unions += verdict.unions
    assert unions > share(100, 500)


@pytest.mark.parametrize(
    ("name", "passes", "trust"),
    [
        ("bert_tiny", SMALL, []),
        ("bert_tiny", f"{SMALL},SimplifyShapes", []),
        ("bert_tiny", None, []),
        ("resnet_tiny", None, []),
    ],
)
def test_the_certificates_of_the_examples_hold_and_nothing_else_does(name: str, passes: str | None, trust: list[str]) -> None:
    path = EXAMPLES / f"{name}.onnx"
    result = passat.optimize(path, passes=passes, verify=False, certificate=True)
    whole: dict[str, Any] = json.loads(json.dumps(result.certificate))
    assert [gap.pass_name for gap in check_certificate(whole, before=path, after=result.model, trust=trust).trusted] == trust
    parts = whole["steps"]
    for number, part in enumerate(parts):
        with pytest.raises(CertificateError):
            check_certificate({**whole, "steps": [*parts[:number], *parts[number + 1 :]]}, after=result.model, trust=trust)
        for place, step in enumerate(part.get("steps", ())):
            if step["rule"].partition(".")[0] in ("ConstantFolding", "TupleProjection"):
                continue
            bad = copy.copy(whole)
            bad["steps"] = [*parts[:number], {**part, "steps": part["steps"][:place]}]
            with pytest.raises(CertificateError):
                check_certificate(bad, after=result.model, trust=trust)
            break


def respelled(opset: int, *nodes: onnx.NodeProto) -> onnx.ModelProto:
    """Nodes from x to y, and values for FoldConstant to fold."""
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 4]) for name in ("x", "y")]
    numbers = {"one": 1.0, "half": 0.5, "root": 2**0.5, "slope": 1.702, "tiny": 1e-5}
    constants = [numpy_helper.from_array(np.array(value, np.float32), name) for name, value in numbers.items()]
    graph = helper.make_graph([helper.make_node("Mul", ["x", "one"], ["t"]), *nodes], "g", values[:1], values[1:], constants)
    return helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", opset)])


SPELLINGS = {
    "silu": [helper.make_node("Sigmoid", ["t"], ["s"]), helper.make_node("Mul", ["t", "s"], ["y"])],
    "mish": [
        helper.make_node("Softplus", ["t"], ["p"]),
        helper.make_node("Tanh", ["p"], ["s"]),
        helper.make_node("Mul", ["t", "s"], ["y"]),
    ],
    "hard_swish": [helper.make_node("HardSigmoid", ["t"], ["s"], alpha=1 / 6, beta=0.5), helper.make_node("Mul", ["t", "s"], ["y"])],
    "swish": [
        helper.make_node("Mul", ["t", "slope"], ["u"]),
        helper.make_node("Sigmoid", ["u"], ["s"]),
        helper.make_node("Mul", ["t", "s"], ["y"]),
    ],
    "gelu": [
        helper.make_node("Div", ["t", "root"], ["d"]),
        helper.make_node("Erf", ["d"], ["e"]),
        helper.make_node("Add", ["e", "one"], ["s"]),
        helper.make_node("Mul", ["t", "s"], ["p"]),
        helper.make_node("Mul", ["p", "half"], ["y"]),
    ],
    "rms": [
        helper.make_node("Mul", ["t", "t"], ["q"]),
        helper.make_node("ReduceMean", ["q"], ["m"], axes=[-1]),
        helper.make_node("Add", ["m", "tiny"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", ["t", "r"], ["y"]),
    ],
    "layer_norm": [
        helper.make_node("ReduceMean", ["t"], ["m"], axes=[-1]),
        helper.make_node("Sub", ["t", "m"], ["d"]),
        helper.make_node("Mul", ["d", "d"], ["q"]),
        helper.make_node("ReduceMean", ["q"], ["v"], axes=[-1]),
        helper.make_node("Add", ["v", "tiny"], ["e"]),
        helper.make_node("Sqrt", ["e"], ["r"]),
        helper.make_node("Div", ["d", "r"], ["y"]),
    ],
}


@pytest.mark.parametrize("name", ["silu", "mish"])
def test_nodes_that_are_written_as_they_were_read_are_unchanged(name: str) -> None:
    """Before the opset that has the operator, nothing is left of its recognition."""
    model = respelled(17, *SPELLINGS[name], helper.make_node("Identity", ["y"], ["z"]), helper.make_node("Neg", ["z"], ["n"]))
    model.graph.node[0].CopyFrom(helper.make_node("Exp", ["x"], ["t"]))
    model.graph.output[0].name = "n"
    result = passat.optimize(model, explain=True, record=True)
    explanation = result.explain()
    assert [node.op for node in explanation.nodes] == ["Exp", *(node.op_type for node in SPELLINGS[name]), "Neg"]
    assert [node.op for node in explanation.changed if node.op != "Neg"] == []
    assert [(gone.outputs, gone.op, gone.became) for gone in explanation.vanished] == [(("z",), "Identity", "equal to y")]
    assert [rule.name for rule in result.report.rules if rule.made] == []
    if name == "mish":
        later = passat.optimize(model, explain=True, opset=18).explain()
        assert [node.op for node in later.changed if node.op != "Neg"] == ["Mish"]


@pytest.mark.parametrize("ir_version", [8, 10])
def test_nodes_that_are_written_as_they_were_read_are_found_by_their_old_names(ir_version: int) -> None:
    text = '<ir_version: %d, opset_import: ["" : 17]> g (float[n, 8] x) => (float[n, 8] y) { %s }'
    model = onnx.parser.parse_model(text % (ir_version, "[s] s = Sigmoid (x)  [m] m = Mul (x, s)  [i] i = Identity (m)  [e] y = Exp (i)"))
    result = passat.optimize(model, explain=True)
    (node,) = result.explain("s").nodes
    assert str(node) == f"{node.name} (Sigmoid) is unchanged from the input, where it is s"
    assert node.name != "s"
    assert str(result.explain("m")).endswith("m (Mul) is unchanged from the input")
    assert passat.optimize(result.model, explain=True).explain("s").nodes == (node,)


def test_nodes_that_are_computed_for_selected_positions_are_changed_however_they_are_written() -> None:
    nodes = "[p] p = MatMul (x, w)  [s] s = Sigmoid (p)  [m] m = Mul (p, s)  [g] y = Gather <axis = 1> (m, first)"
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[n, 64, 4] x, float[4, 4] w) => (float[n, 4] y) <int64 first = {0}> { %s }'
    explanation = passat.optimize(onnx.parser.parse_model(text % nodes), explain=True).explain()
    for op in ("Sigmoid", "Mul"):
        (node,) = [node for node in explanation.nodes if node.op == op]
        assert "HoistSelections: only the selected positions are computed at m" in node.steps


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("name", list(SPELLINGS))
def test_operators_that_are_written_as_several_nodes_are_proven(name: str, opset: int) -> None:
    """An operator that is recovered, and expanded again by the writer, is read in another form; equations of the library prove the step."""
    model = respelled(opset, *SPELLINGS[name])
    result = passat.optimize(model, verify=False, certificate=True)
    verdict = check_certificate(json.loads(json.dumps(result.certificate)), before=model, after=result.model)
    assert (verdict.functions, verdict.uncovered) == (["main"], [])


@pytest.mark.parametrize(
    "body",
    [
        "{ p = Pow (x, half)  y = Relu (p) }",  # the root is not negative, but the range of the power is unknown
        "{ n = Neg (x)  d = Add (n, n)  z = Mul (d, half)  y = Neg (z) }",  # equalities follow that a guard excludes
    ],
)
def test_certificates_of_guards_that_no_longer_hold_of_equal_terms_hold(body: str) -> None:
    outputs = "float[4] y, float[4] z" if "z =" in body else "float[4] y"
    text = f'<ir_version: 8, opset_import: ["" : 17]> g (float[4] x) => ({outputs}) <float half = {{0.5}}> {body}'
    model = onnx.parser.parse_model(text)
    result = passat.optimize(model, verify=False, certificate=True)
    assert result.certificate is not None
    check_certificate(result.certificate, before=model, after=result.model)


@pytest.mark.parametrize(("kind", "gates", "states"), [("LSTM", 4, ["zeros", "zeros"]), ("GRU", 3, ["zeros"])])
def test_the_certificate_of_a_layer_without_its_initial_state_holds(kind: str, gates: int, states: list[str]) -> None:
    """Absent operands at the end are not written, and the shape of the state is computed no more."""
    nodes = [
        helper.make_node("Shape", ["x"], ["size"], start=1, end=2),
        helper.make_node("Concat", ["one", "size", "two"], ["shape"], axis=0),
        helper.make_node("ConstantOfShape", ["shape"], ["zeros"]),
        helper.make_node(kind, ["x", "w", "r", "", "", *states], ["y"], hidden_size=2),
    ]
    values = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "b", 3])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 1, "b", 2])]
    weights = {
        "w": np.ones((1, 2 * gates, 3), np.float32),
        "r": np.ones((1, 2 * gates, 2), np.float32),
        "one": np.array([1]),
        "two": np.array([2]),
    }
    tensors = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "g", values, outputs, tensors), ir_version=10, opset_imports=[helper.make_opsetid("", 17)]
    )
    result = passat.optimize(model, certificate=True)
    assert [list(node.input) for node in result.model.graph.node] == [["x", "w", "r"]]
    assert not check_certificate(result.certificate, before=model, after=result.model).trusted
