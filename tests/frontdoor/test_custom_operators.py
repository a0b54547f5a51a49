"""User-defined operators: what is known of the nodes after them, and rules on them, declared and undeclared."""

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app
from passat.ir import onnx_mapping, op
from passat.ir.onnx import OnnxError
from passat.ir.op import list_ops
from passat.pipelines import build_pipeline
from passat.rulefile import load_rules
from passat.rules import RuleError

MODEL = """<ir_version: 9, opset_import: ["": 20, "com.mycompany": 1]>
g (float[n, 4] x) => (float[n, 4] y) {
  h = Relu(x)
  [fused] f = com.mycompany.FusedThing<alpha: float = 0.1>(h)
  [gate] s = Sigmoid(f)
  y = Mul(f, s)
}"""
CHAIN = """<ir_version: 9, opset_import: ["": 20]>
g (float[n, 4] x) => (float[n, 4] y) { a = LeakyRelu<alpha = 0.1>(x) y = LeakyRelu<alpha = 0.2>(a) }"""
REASON = (
    "the type of 'f', which node 'fused' (com.mycompany.FusedThing) produces, is unknown: declare it in value_info, or the operator in a rule "
    "file (docs/custom-operators.md)"
)
HEAD = """
import numpy as np
from passat.ir.op import OpTypeError, define_op
from passat.ir.types import TensorType
from passat.rules import RuleSet, attribute, op, tensor
x, a = tensor("x"), attribute("a")
"""
DECLARED = """
@define_op(onnx="com.mycompany.FusedThing"{}, elementwise=True)
def fused_thing(x: TensorType, *, alpha: float = 1.0) -> TensorType:
    \"\"\"The element, or `alpha` times it where it is negative.\"\"\"
    if x.dtype != "float32":
        raise OpTypeError("x is of float32")
    return x
"""
KERNEL = ", kernel=lambda x, alpha: np.where(x < 0, x * np.asarray(alpha, x.dtype), x)"
RULES = """
class Mine(RuleSet):
    gate = op.sigmoid(op.com.mycompany.FusedThing(x, alpha={alpha})) >> op.tanh(op.com.mycompany.FusedThing(x, alpha={alpha}))
    drop = op.com.mycompany.FusedThing(op.nn.relu(x), alpha=a) >> op.nn.relu(x)
"""
MAKES = """
class Mine(RuleSet):
    chain = (op.nn.leaky_relu(op.nn.leaky_relu(x, alpha=0.1), alpha=0.2) >> op.com.mycompany.FusedThing(x, alpha=2)).inexact("one product")
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "in.onnx")
    list_ops()
    before = [(table, dict(table)) for table in (op._OPS, onnx_mapping.READERS)]
    yield
    for table, entries in before:
        table.clear()
        table.update(entries)  # type: ignore[arg-type]  # of its own kind


def model(text: str = MODEL) -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(text)
    return found


def rules(*parts: str, file: str = "mine.py") -> str:
    Path(file).write_text(HEAD + "".join(parts))
    return file


def optimized(text: str, *parts: str) -> passat.Result:
    return passat.optimize(model(text), passes="InferType", rules=load_rules(rules(*parts)), verify=False)


def test_a_result_that_is_declared_without_a_shape_gets_the_one_of_the_declared_operator() -> None:
    whole = model(
        '<ir_version: 9, opset_import: ["": 20, "com.mycompany": 1]> g (float[n, 4] x) => (float[n, 4] y) { h = Relu(x) y = com.mycompany.FusedThing(h) }'
    )
    bare = onnx.ModelProto()
    bare.CopyFrom(whole)
    bare.graph.output[0].type.tensor_type.ClearField("shape")
    with pytest.raises(
        OnnxError, match=r"the output 'y', which a com\.mycompany\.FusedThing node produces, has no declared shape: .* in a rule file"
    ):
        passat.optimize(bare, verify=False).save("out.onnx")
    passat.optimize(bare, rules=load_rules(rules(DECLARED.format(""), RULES.format(alpha=0.1))), verify=False).save("out.onnx")
    assert onnx.load("out.onnx").graph.output == whole.graph.output


def fired(result: passat.Result) -> dict[str, int]:
    return {rule.name: rule.fired for rule in result.report.rules if rule.own}


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_report_lists_opaque_nodes_with_reasons() -> None:
    result = passat.optimize(model(), passes="SimplifyExpr", verify=False)
    assert result.report.warnings == [f"2 nodes left opaque because {REASON}"]
    assert f"! 2 nodes left opaque because {REASON}" in " ".join(str(result.report).split())
    assert json.loads(result.report.to_json())["warnings"] == result.report.warnings


def test_why_not_names_values_of_unknown_type() -> None:
    asked = run("rules", "why-not", "RaiseOps.silu", "in.onnx", "--json")
    [finding] = (each for each in json.loads(asked.stdout)["rules"][0]["findings"] if each["kind"] == "untyped")
    assert (finding["text"], finding["nodes"]) == (f"2 nodes left opaque because {REASON}", ["gate", "y"])
    at_node = run("rules", "why-not", "RaiseOps.silu", "in.onnx", "--node", "gate")
    assert at_node.stdout.splitlines()[1] == f"  RaiseOps.silu[one] and 1 similar form: 'gate' is left opaque because {REASON}"
    assert (
        f"there is no multiply in the model; 2 nodes left opaque because {REASON}" in run("rules", "why-not", "RaiseOps", "in.onnx").stdout
    )


def test_behind_a_declared_operator_rules_match() -> None:
    result = passat.optimize(
        model(), passes="RaiseOps", rules=load_rules(rules(DECLARED.format(""), RULES.format(alpha=0.5))), verify=False
    )
    assert (result.report.warnings, fired(result)) == ([], {"Mine.drop": 1, "Mine.gate": 0})
    assert "RaiseOps.silu" in {rule.name for rule in result.report.rules if rule.fired}


def test_a_declared_operator_is_matched_and_made() -> None:
    result = optimized(CHAIN, DECLARED.format(KERNEL), MAKES)
    [node] = result.model.graph.node
    assert (node.op_type, node.domain, [onnx.helper.get_attribute_value(each) for each in node.attribute]) == (
        "FusedThing",
        "com.mycompany",
        [2.0],
    )
    assert ("com.mycompany", 1) in {(each.domain, each.version) for each in result.model.opset_import}
    onnx.checker.check_model(result.model)


def test_why_not_names_deviations_from_declarations() -> None:
    file = rules(DECLARED.format("").replace("alpha: float = 1.0", "beta: float = 1.0"), RULES.format(alpha=1).replace("alpha", "beta"))
    said = (
        "node 'fused' (com.mycompany.FusedThing) is left opaque, since it does not match its declaration: "
        "com.mycompany.FusedThing has no attribute 'alpha'; it has: beta"
    )
    assert said in run("rules", "why-not", "Mine.drop", "in.onnx", "--rules", file, "--passes", "Mine").stdout
    assert said in run("rules", "why-not", "Mine.drop", "in.onnx", "--rules", file, "--passes", "Mine", "--node", "fused").stdout


def test_unverifiable_results_are_not_written_by_default() -> None:
    onnx.save(model(CHAIN), "chain.onnx")
    command = ["optimize", "chain.onnx", "-o", "out.onnx", "--passes", "InferType", "--rules", rules(DECLARED.format(KERNEL), MAKES)]
    rejected = run(*command)
    assert (rejected.exit_code, Path("out.onnx").exists()) == (1, False)
    assert "ONNX Runtime does not know com.mycompany.FusedThing, which rules created; " in rejected.stderr
    assert "--custom-ops LIB, or custom_ops=, registers a library that has the operators" in rejected.stderr
    assert (run(*command, "--allow-unverified").exit_code, Path("out.onnx").exists()) == (0, True)


def test_a_file_of_declarations_alone_gives_types() -> None:
    file = rules(DECLARED.format(""))
    result = run("optimize", "in.onnx", "-o", "out.onnx", "--rules", file, "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["warnings"]) == (0, [])
    assert {rule["name"]: rule["fired"] for rule in report["rules"]}["RaiseOps.silu"] == 1


def test_an_undeclared_operator_is_matched_if_types_are_known() -> None:
    typed = MODEL.replace("{", "<float[n, 4] f> {", 1)
    result = optimized(typed, RULES.format(alpha=0.1))
    assert not any(node.domain for node in result.model.graph.node)
    assert fired(result) == {"Mine.drop": 1, "Mine.gate": 1}
    kept = optimized(typed, RULES.format(alpha=0.1).partition("    drop")[0])
    assert fired(kept)["Mine.gate"] == 1
    [fused] = (node for node in kept.model.graph.node if node.domain)
    assert onnx.helper.get_attribute_value(fused.attribute[0]) == np.float32(0.1)


@pytest.mark.parametrize("left", ["op.onnx.com.mycompany.FusedThing(x, beta=1.0)", "op.com.mycompany.FusedThing(x, beta=a)"])
def test_attributes_that_an_undeclared_operator_has_not_got(left: str) -> None:
    result = optimized(MODEL, f"\nclass Mine(RuleSet):\n    drop = {left} >> x\n")
    assert fired(result) == {"Mine.drop": 0}
    assert "1 match, 1 rejected: the attribute beta is absent" in str(result.report)


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        (
            (MAKES,),
            "line 9: rule [nn.leaky_relu(nn.leaky_relu(x, alpha=0.1), alpha=0.2) -> onnx.com.mycompany.FusedThing(x, alpha=2)]: "
            "the right side creates com.mycompany.FusedThing, which has no declared type and cost: declare it above the rule, with "
            '@define_op(onnx="com.mycompany.FusedThing") (docs/custom-operators.md)',
        ),
        (
            (DECLARED.format(""), RULES.format(alpha="0.1, beta=2")),
            "line 16: com.mycompany.FusedThing has no attribute 'beta'; it has: alpha",
        ),
        (("y = op.nn.Relu(x)\n",), "line 7: there is no operator 'nn.Relu'; did you mean nn.relu?"),
        (("y = op.com.microsoft.QuickGelu(x)\n",), "line 7: nodes of com.microsoft.QuickGelu are imported as calls of a declared operator"),
    ],
)
def test_invalid_rules_are_reported_with_their_line(parts: tuple[str, ...], reason: str) -> None:
    result = run("optimize", "in.onnx", "-o", "out.onnx", "--rules", rules(*parts))
    assert (result.exit_code, Path("out.onnx").exists()) == (1, False)
    assert f"error: mine.py, {reason}" in result.stderr


def test_rules_that_are_older_than_the_declaration_are_rejected() -> None:
    late = load_rules(rules(RULES.format(alpha=0.1), DECLARED.format("")))
    with pytest.raises(RuleError, match=r"the rule Mine\.gate was defined before the declaration of com\.mycompany\.FusedThing"):
        build_pipeline(None, late)
    one, other = (load_rules(rules(DECLARED.format(""), RULES.format(alpha=0.1), file=file)) for file in ("a.py", "b.py"))
    build_pipeline(None, other)
    with pytest.raises(RuleError, match=r"declare an operator once, before the rules"):
        build_pipeline(None, one)


def test_checking_takes_a_kernel() -> None:
    undeclared = run("rules", "check", rules(RULES.format(alpha=0.1)), "--rule", "Mine.drop")
    assert undeclared.exit_code == 1
    assert "com.mycompany.FusedThing is not declared: @define_op(..., kernel=...) defines what it computes" in undeclared.stdout
    checked = run("rules", "check", rules(DECLARED.format(KERNEL), MAKES.replace("alpha=2)", "alpha=0.02)")))
    assert (checked.exit_code, checked.stdout.splitlines()[-1]) == (0, "1 rule checked on 200 instances, 1 sound")
    wrong = run("rules", "check", rules(DECLARED.format(KERNEL), MAKES), "--instances", "20")
    assert wrong.exit_code == 1
    assert "the sides differ" in wrong.stdout
    wide = KERNEL.replace("x.dtype", "'float64'")
    misdeclared = run("rules", "check", rules(DECLARED.format(wide), MAKES.replace("alpha=2)", "alpha=0.02)")), "--instances", "20")
    assert misdeclared.exit_code == 1
    assert "! the kernel of com.mycompany.FusedThing returned float64, but the type relation expects float32 (in " in misdeclared.stdout
    assert "correct the kernel or the declared type; no guard helps\n" in misdeclared.stdout
    assert "fixed by" not in misdeclared.stdout
    without = run("rules", "check", rules(DECLARED.format(""), MAKES))
    assert without.exit_code == 1
    assert "com.mycompany.FusedThing is declared without a kernel: kernel=... defines what it computes" in without.stdout


def test_checking_draws_attributes_that_have_no_default() -> None:
    declared = DECLARED.replace("alpha: float = 1.0", "alpha: float, steps: tuple[int, ...], flag: bool = False")
    rule = """
class Mine(RuleSet):
    same = op.com.mycompany.FusedThing(op.nn.relu(x), attrs=a) >> op.nn.relu(op.com.mycompany.FusedThing(x, attrs=a))
"""
    kernel = ", kernel=lambda x, alpha, steps, flag: x * np.float32(alpha * sum(steps))"
    checked = run("rules", "check", rules(declared.format(kernel), rule), "--instances", "50")
    assert "the sides differ" in checked.stdout
    assert "alpha=-0.5" in checked.stdout


def test_constants_are_folded_by_the_kernel() -> None:
    text = MODEL.replace("float[n, 4] x) => (float[n, 4] y) {", "float[n, 4] z) => (float[n, 4] y) <float[4] x = {-10, 0, 1, 2}> {")
    text = text.replace("Relu(x)", "Identity(x)").replace("y = Mul(f, s)", "y = Mul(f, z)")
    result = passat.optimize(model(text), passes="FoldConstant", rules=load_rules(rules(DECLARED.format(KERNEL), MAKES)), verify=False)
    [node] = result.model.graph.node
    [constant] = result.model.graph.initializer
    assert node.op_type == "Mul"
    assert onnx.numpy_helper.to_array(constant).tolist() == [-1, 0, 1, 2]


def test_lists_pages_and_questions_know_declared_operators() -> None:
    file = rules(DECLARED.format(KERNEL), RULES.format(alpha=0.5))
    assert "com.mycompany.FusedThing(nn.relu(x), alpha=a) -> nn.relu(x)" in run("rules", "list", "--rules", file).stdout
    assert "`com.mycompany.FusedThing`" in run("rules", "doc", file).stdout
    asked = run("rules", "why-not", "Mine.gate", "in.onnx", "--rules", file, "--passes", "Mine").stdout
    assert "alpha" in asked
    assert "is 0.1, not 0.5" in asked.replace(f"{np.float32(0.1)!s}", "0.1")
