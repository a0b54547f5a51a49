"""`passat rules why-not`: its answers about a rule and a model, as text and as JSON, and its errors."""

import json
import re
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner, Result

from passat.cli.app import app
from tests.frontdoor.small_pipeline import SMALL

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "models"
RESNET = EXAMPLES / "resnet_tiny.onnx"
BERT = EXAMPLES / "bert_tiny.onnx"
RULES = """
from passat.rules import RuleSet, constant, op, tensors
x, y = tensors("x y")
c = constant("c")
print("reading")

class Mine(RuleSet):
    gate = op.sigmoid(op.nn.relu(x) + y) >> op.sigmoid(y + op.nn.relu(x))
    apart = (x + y >> x - op.negative(y)).exploring()
    relus = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)
"""


@pytest.fixture(autouse=True)
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RULES)


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["rules", "why-not", *map(str, arguments)])


def test_a_rule_that_nearly_matches() -> None:
    result = run("Arithmetic.add_zero", RESNET)
    assert (result.exit_code, result.stderr) == (0, "")
    first, header, *near = result.stdout.splitlines()
    assert first == "Arithmetic.add_zero: (x + c) -> x"
    assert header == "nothing matches its left side; the nearest:"
    assert near[1] == (
        "  at add '/5/Add' neither operand is a constant (c): they are nn.batch_norm '/5/branch/branch.7/BatchNormalization' and nn.relu "
        "'/4/after/Relu' (1 of 2 parts agree)"
    )
    assert len(near) == 3
    assert len(run("Arithmetic.add_zero", RESNET, "--nearest", "1").stdout.splitlines()) == 3


def test_a_condition_that_rejected() -> None:
    result = run("Arithmetic.unit[multiply]", BERT, "--node", "/module/encoder/layer.0/attention/self/Mul")
    assert result.stdout.splitlines() == [
        "Arithmetic.unit[multiply]: (x * c) -> x",
        "it matches at '/module/encoder/layer.0/attention/self/Mul' (in stage 1) and is rejected: is_unit(c, multiply): the elements of the "
        "constant are 0.5, not 1",
    ]


def test_a_rule_that_fired() -> None:
    result = run("ScaleAxis.normalized[none, convolution, nn.conv2d]", RESNET)
    assert "it fired 22 times, and its result was extracted: at '/1/BatchNormalization', " in result.stdout


def test_a_rule_of_ones_own_that_was_not_worth_it() -> None:
    result = run("Mine.apart", RESNET, "--rules", "mine.py", "--config", "rules.cost=nodes", "--node", "/5/Add")
    assert result.exit_code == 0
    assert result.stderr == "reading\n"
    assert (
        "it fired at '/5/Add' (in Mine), but its result was not extracted: the program costs 74 calls, and would cost one call more with it"
        in result.stdout
    )


def test_passes_that_do_not_run() -> None:
    text = run("ScaleAxis.scaled[none, dense]", RESNET, "-O", "1", "--passes", SMALL).stdout
    assert text.splitlines()[1] == "FoldBatchNorm does not run: its level 2 > 1"
    text = run("ScaleAxis.scaled[none, dense]", RESNET, "--disable", "FoldBatchNorm", "--passes", SMALL).stdout
    assert text.splitlines()[1] == "FoldBatchNorm does not run: it is disabled"
    text = run("ScaleAxis.scaled[none, dense]", RESNET, "--passes", "SimplifyExpr").stdout
    held = "BackwardFoldScaleAxis, Explore, FoldBatchNorm, FoldScaleAxis and 2 more"
    assert text.splitlines()[1] == f"no pass of the pipeline has it; {held} do"
    off = run("Arithmetic.add_zero", RESNET, "--config", 'rules.disabled=["Arithmetic"]').stdout
    assert off.splitlines()[1] == "it is disabled: rules.disabled names Arithmetic"


def test_json() -> None:
    result = run("Arithmetic.add_zero", RESNET, "--json", "--passes", SMALL)
    data = json.loads(result.stdout)
    (found,) = data["rules"]
    assert (found["rule"], found["verdict"], found["passes"]) == ("Arithmetic.add_zero", "near", ["FoldBatchNorm", "SimplifyExpr"])
    assert (data["model"], data["set"]) == (str(RESNET), None)
    assert [finding["nodes"] for finding in found["findings"]] == [["/4/Add"], ["/5/Add"], ["/6/Add"]]


def test_a_whole_set() -> None:
    result = run("Mine", RESNET, "--rules", "mine.py", "--config", "rules.cost=nodes")
    assert result.exit_code == 0
    first, *lines = result.stdout.splitlines()
    assert first == "no rule of Mine contributed to the result"
    assert lines[0].startswith("  Mine.gate: there is no sigmoid in the model; ")
    assert [line.split(":")[0] for line in lines] == ["  Mine.gate", "  Mine.apart", "  Mine.relus"]
    found = json.loads(run("Mine", RESNET, "--rules", "mine.py", "--json").stdout)
    assert found["set"] == "Mine"
    assert len(found["rules"]) == 3


def test_a_set_at_one_node_names_the_rules_about_such_nodes_and_counts_the_others() -> None:
    result = run("Arithmetic", RESNET, "--node", "/4/Add")
    assert result.exit_code == 0
    first, *lines, last = result.stdout.splitlines()
    assert first == "no rule of Arithmetic contributed to the result at '/4/Add'"
    assert any(line.startswith("  Arithmetic.add_negative: at add '/4/Add' neither operand is negative(y)") for line in lines)
    assert not any("is not multiply" in line for line in lines)
    assert re.fullmatch(r"  \d+ other rules are not about such nodes", last)


def test_why_calls_of_constants_or_of_nothing_are_not_folded() -> None:
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["" : 17]>
        g (float[N, 2] x) => (float[N, 2] y) <float[1] one = {1.0}, int64[2] large = {2000, 4000}> {
            nothing = RandomNormal<shape = [2]>()
            like = RandomNormalLike(one)
            wide = Expand(one, large)
            mean = ReduceMean<keepdims = 0>(wide)
            a = Add(x, nothing)
            b = Add(a, like)
            y = Add(b, mean)
        }""")
    onnx.save(model, "random.onnx")
    lines = run("ConstantFolding.call", "random.onnx").stdout.splitlines()
    assert "it does not match at 'nothing': onnx.RandomNormal is stateful" in lines
    assert "it does not match at 'like': onnx.RandomNormalLike is stateful" in lines
    large = "adds 31,999,996 bytes, limit 1,048,576 (rules.max_growth)"
    assert any(line.startswith("it matches at 'wide'") and line.endswith(large) for line in lines)
    assert run("ConstantFolding", "random.onnx", "--node", "like").stdout == (
        "no rule of ConstantFolding contributed to the result at 'like'\n"
        "  ConstantFolding.call: it does not match at 'like': onnx.RandomNormalLike is stateful\n"
        "  ConstantFolding.exact: it does not match at 'like': onnx.RandomNormalLike is stateful\n"
        "  ConstantFolding.sizes: it does not match at 'like': onnx.RandomNormalLike is stateful\n"
        "  another rule is not about such nodes\n"
    )


def test_a_set_without_a_rule_about_such_nodes_has_no_other_rules() -> None:
    Path("pools.py").write_text("""
from passat.rules import RuleSet, op, tensor
x = tensor("x")

class Pooling(RuleSet):
    first = op.sigmoid(op.nn.relu(x)) >> op.sigmoid(op.nn.relu(op.nn.relu(x)))
    second = op.sigmoid(op.exp(x)) >> op.sigmoid(op.exp(op.copy(x)))
""")
    first, *lines = run("Pooling", RESNET, "--rules", "pools.py", "--node", "/4/Add").stdout.splitlines()
    assert first == "no rule of Pooling contributed to the result at '/4/Add'"
    assert lines == ["  its 2 rules are not about such nodes"]


def test_a_set_of_one_rule_that_contributed_is_not_counted() -> None:
    Path("one.py").write_text("""
from passat.rules import RuleSet, op, tensor
x = tensor("x")

class One(RuleSet):
    twice = op.negative(op.negative(x)) >> x
""")
    onnx.save(
        onnx.parser.parse_model('<ir_version: 8, opset_import: ["" : 17]> g (float[2] x) => (float[2] y) {a = Neg(x) y = Neg(a)}'), "m.onnx"
    )
    assert run("One", "m.onnx", "--rules", "one.py").stdout.startswith("the only rule of One contributed to the result\n")


def test_the_rule_sets_of_a_pass_are_named_once() -> None:
    sets = run("RaiseAttention", RESNET).stderr.rpartition(": ")[2].strip().split(", ")
    assert "Arithmetic" in sets
    assert len(sets) == len(set(sets))


def test_why_sizes_are_not_folded() -> None:
    text = (
        '<ir_version: 8, opset_import: ["" : 17]> g (float[N, 4] x) => (int64[2] s, int64[2] t)'
        "{ sh = Shape (x) s = Abs (sh) f = Transpose (x) t = Shape (f) }"
    )
    onnx.save(onnx.parser.parse_model(text), "sizes.onnx")
    reason = "the element N is known only at run time"
    assert run("ConstantFolding.sizes", "sizes.onnx").stdout.splitlines()[1:] == [f"it does not match at 'sh' and 't': {reason}"]
    assert run("ConstantFolding.sizes", "sizes.onnx", "--node", "t").stdout.splitlines()[1:] == [f"it does not match at 't': {reason}"]
    text = text.replace("N", "3")
    onnx.save(onnx.parser.parse_model(text), "sizes.onnx")
    assert "it fired" in run("ConstantFolding.sizes", "sizes.onnx").stdout


def test_a_set_of_that_name_in_an_earlier_run_is_not_asked() -> None:
    other = "from passat.rules import RuleSet, op, tensor\nx = tensor('x')\nclass Mine(RuleSet):\n    squared = x * x >> op.power(x, 2.0)\n"
    Path("other.py").write_text(other)
    done = CliRunner().invoke(app, ["optimize", str(RESNET), "-o", "out.onnx", "--rules", "other.py", "--passes", "Mine"])
    assert done.exit_code == 0, done.output
    found = json.loads(run("Mine", RESNET, "--rules", "mine.py", "--json").stdout)
    assert [answer["rule"] for answer in found["rules"]] == ["Mine.gate", "Mine.apart", "Mine.relus"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("Arithmetic.ad_zero", RESNET), "unknown rule 'Arithmetic.ad_zero'; did you mean Arithmetic.add_zero"),
        (("Unit", RESNET), "unknown rule 'Unit'"),
        (("RaiseOps.gelu_er", RESNET), "unknown rule 'RaiseOps.gelu_er'; did you mean RaiseOps.gelu_erf"),
        (("RaiseAttention", RESNET), "RaiseAttention is a pass, not a rule; ask about one of its rule sets: "),
        (("Arithmetic.add_zero", RESNET, "--node", "/4/Ad"), "there is no node '/4/Ad'; did you mean /4/Add"),
        (("Arithmetic", RESNET, "--node", "/4/Ad"), "there is no node '/4/Ad'; did you mean /4/Add"),
        (("Arithmetic.add_zero", RESNET, "--passes", "FoldConstnt"), "FoldConstnt"),
        (("Arithmetic.add_zero", RESNET, "--config", "no.such=1"), "no.such"),
    ],
)
def test_commands_that_make_no_sense(arguments: tuple[object, ...], sentence: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr
    said = json.loads(run(*arguments, "--json").stdout)
    assert sentence in said["error"]


def test_a_command_without_a_model() -> None:
    assert run("Arithmetic.add_zero").exit_code == 2


def test_models_and_rules_that_cannot_be_used() -> None:
    result = run("Arithmetic.add_zero", "nothing.onnx")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "error: nothing.onnx cannot be read: No such file or directory\n"
    Path("broken.onnx").write_bytes(b"this is not a model")
    broken = run("Arithmetic.add_zero", "broken.onnx")
    assert broken.exit_code == 1
    assert broken.stderr.startswith("error: broken.onnx ")
    Path("bad.py").write_text("from passat.rules import RuleSt\n")
    bad = run("Bad.rule", RESNET, "--rules", "bad.py")
    assert bad.exit_code == 1
    assert bad.stderr.startswith("error: bad.py, line 1: ImportError: ")
    Path("raises.py").write_text(RULES.replace("relus = op.nn.relu(op.nn.relu(x)) >> op.nn.relu(x)", "relus = op.nn.relu(x) >> y"))
    raises = run("Mine.relus", RESNET, "--rules", "raises.py")
    assert raises.exit_code == 1
    assert "the right side uses 'y', which the left side does not bind" in raises.stderr


def test_operators_missing_in_the_opset_are_named() -> None:
    mask = "one = Constant <value = float {1.0}> () low = Constant <value = float {-10000.0}> () f = Cast <to = 1> (m) i = Sub(one, f)"
    text = (
        f'<ir_version: 3, opset_import: ["": 8]> g (float[4,3] x, bool[4,3] m) => (float[4,3] y) {{ {mask} k = Mul(i, low) y = Add(x, k) }}'
    )
    onnx.save(onnx.parser.parse_model(text), "masked.onnx")
    finding = json.loads(run("Masks.inverted_scaled", "masked.onnx", "--json").stdout)["rules"][0]["findings"][0]
    assert finding["kind"] == "costlier"
    assert finding["text"].endswith("not extracted: the model is written in opset 8, and where needs ONNX opset 9 or later")


def test_an_opaque_node_of_an_operator_that_the_rule_names(tmp_path: Path) -> None:
    text = (
        '<ir_version: 9, opset_import: ["" : 20]> g (float[2, 4] x, float[4, 3] w) => (float[2, 3] y) { [gem] y = Gemm<alpha = 2.0>(x, w) }'
    )
    path = tmp_path / "m.onnx"
    onnx.save(onnx.parser.parse_model(text), path)
    said = "'gem' (Gemm) is left opaque: Passat does not model the operator with these operands or attributes"
    assert said in run("MatmulAlgebra.regroup", str(path)).stdout
    assert said in run("MatmulAlgebra.regroup", str(path), "--node", "gem").stdout
    assert said not in run("Arithmetic.add_zero", str(path)).stdout
