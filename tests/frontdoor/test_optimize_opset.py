"""Optimizing for a later opset than that of the model."""

from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner

from passat import MismatchError
from passat.cli.app import app
from passat.ir.argument_checks import ArgumentError
from passat.ir.onnx import OnnxError
from passat.optimizer import optimize
from passat.passmgr import PassContext

PASSES = "SimplifyExpr,RaiseAttention"
TEXT = """
<ir_version: 9, opset_import: ["": 18]>
main (float[2, 5, 8] q, float[2, 5, 8] k, float[2, 5, 8] v) => (float[2, 5, 8] y)
<int64[4] heads = {2, 5, 2, 4}, int64[3] rows = {2, 5, 8}, float half = {0.5}>
{
  q3 = Reshape(q, heads)
  q4 = Transpose<perm = [0, 2, 1, 3]>(q3)
  k3 = Reshape(k, heads)
  k4 = Transpose<perm = [0, 2, 3, 1]>(k3)
  v3 = Reshape(v, heads)
  v4 = Transpose<perm = [0, 2, 1, 3]>(v3)
  raw = MatMul(q4, k4)
  scores = Mul(raw, half)
  weights = Softmax<axis = -1>(scores)
  mixed = MatMul(weights, v4)
  back = Transpose<perm = [0, 2, 1, 3]>(mixed)
  y = Reshape(back, rows)
}
"""


@pytest.fixture(name="model")
def _model() -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(TEXT)
    return found


def test_attention_comes_with_the_opset_that_has_it(model: onnx.ModelProto) -> None:
    result = optimize(model, passes=PASSES, opset=23)
    assert [node.op_type for node in result.model.graph.node] == ["Attention"]
    assert [entry.version for entry in result.model.opset_import] == [23]
    assert result.report.verification is not None
    assert result.report.verification.equal


def test_without_it_the_opset_stays(model: onnx.ModelProto) -> None:
    result = optimize(model, passes=PASSES)
    assert [entry.version for entry in result.model.opset_import] == [18]
    assert "Attention" not in [node.op_type for node in result.model.graph.node]


def test_an_earlier_opset_is_rejected(model: onnx.ModelProto) -> None:
    with pytest.raises(OnnxError, match="cannot be lowered to 17"):
        optimize(model, opset=17)


def test_the_command(model: onnx.ModelProto, tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    onnx.save(model, source)
    done = CliRunner().invoke(app, ["optimize", str(source), "-o", str(target), "--passes", PASSES, "--opset", "23"])
    assert done.exit_code == 0, done.output
    assert [node.op_type for node in onnx.load(target).graph.node] == ["Attention"]
    rejected = CliRunner().invoke(app, ["optimize", str(source), "-o", str(tmp_path / "no.onnx"), "--opset", "17"])
    assert rejected.exit_code != 0
    assert not (tmp_path / "no.onnx").exists()


def test_the_option_of_the_passes_is_another_way_to_give_the_opset(model: onnx.ModelProto, tmp_path: Path) -> None:
    assert optimize(model, passes=PASSES, config={"rules.opset": 23}).model == optimize(model, passes=PASSES, opset=23).model
    with PassContext(config={"rules.opset": 23}):
        assert optimize(model, passes=PASSES, opset=23).model.opset_import[0].version == 23
    with pytest.raises(OnnxError, match="cannot be lowered to 17"):
        optimize(model, config={"rules.opset": 17})
    with pytest.raises(ArgumentError, match=r"the opset is 23, and 22 in the option rules.opset: give one of the two"):
        optimize(model, opset=23, config={"rules.opset": 22})
    source, target = str(tmp_path / "in.onnx"), str(tmp_path / "out.onnx")
    onnx.save(model, source)
    done = CliRunner().invoke(app, ["optimize", source, "-o", target, "--passes", PASSES, "--config", "rules.opset=23"])
    assert done.exit_code == 0, done.output
    assert [node.op_type for node in onnx.load(target).graph.node] == ["Attention"]
    both = CliRunner().invoke(app, ["optimize", source, "--opset", "23", "--config", "rules.opset=22", "--dry-run"])
    assert both.exit_code == 2
    assert "the opset is 23, and 22 in the option rules.opset" in both.output


def test_bisections_and_why_not_convert_a_model_as_optimize_does(tmp_path: Path) -> None:
    source = str(tmp_path / "in.onnx")
    onnx.save(onnx.parser.parse_model(RELU % "2, 3"), source)
    for command in (
        ["bisect", source, "--check", "wrong"],
        ["rules", "bisect", source, "--check", "wrong"],
        ["rules", "why-not", "Arithmetic", source],
    ):
        lowered = CliRunner().invoke(app, [*command, "--config", "rules.opset=9"])
        assert "cannot be lowered to 9" in lowered.output


RELU = '<ir_version: 8, opset_import: ["": 11]> main (float[2, 3] x) => (float[%s] y) { y = Relu(x) }'


@pytest.mark.parametrize("shape", ["2, 3", "N, 3"])
def test_a_model_that_no_pass_changes_comes_in_the_opset_asked_for(shape: str) -> None:
    result = optimize(onnx.parser.parse_model(RELU % shape), opset=13)
    assert [entry.version for entry in result.model.opset_import] == [13]
    assert result.report.kept == "no pass changed anything; it was converted to opset 13"
    assert result.report.verification is not None
    assert result.report.verification.equal


def test_a_model_whose_output_gets_a_shape_is_verified() -> None:
    model = onnx.parser.parse_model(RELU % "2, 3")
    model.graph.output[0].type.tensor_type.ClearField("shape")
    result = optimize(model)
    assert result.report.kept
    assert result.report.verification is not None
    assert result.report.verification.equal


def test_a_model_that_is_the_result_is_not_compared_with_itself() -> None:
    model = onnx.parser.parse_model(RELU % "2, 3")
    result = optimize(model, opset=11)
    assert result.model is model
    assert result.report.verification is None


@pytest.mark.parametrize("declared", ["float[2, 3]", "float[]"])
@pytest.mark.parametrize(
    ("opset", "target", "node"),
    [
        (11, 13, "Hardmax<axis = 0>(x)"),
        (9, 21, 'Pad<mode = "edge", pads = [0, 0, 0, 0], value = 1.0>(x)'),
        (8, 13, "Upsample<scales = [1.0, 1.0]>(x)"),
    ],
)
def test_a_converted_model_is_verified_despite_wrong_declarations(opset: int, target: int, node: str, declared: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": {opset}]> main (float[2, 3] x) => ({declared} y) {{ y = {node} }}')
    result = optimize(model, opset=target)
    assert [entry.version for entry in result.model.opset_import] == [target]
    assert result.report.verification is not None
    assert result.report.verification.equal


@pytest.mark.parametrize("node", ["RandomUniform<shape = [2, 3], seed = 1.0>()", "Bernoulli<seed = 1.0>(x)"])
def test_a_missing_kernel_of_onnx_runtime_is_not_blamed_on_passat(node: str) -> None:
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 21]> main (float[2, 3] x) => (float[2, 3] y) {{ y = {node} }}')
    with pytest.raises(
        MismatchError, match=r"in opset 22 the model does not run: .*; this ONNX Runtime may have kernels for an earlier opset only"
    ):
        optimize(model, opset=22)
    assert optimize(model, opset=22, verify=False).model.opset_import[0].version == 22


def test_a_node_that_has_no_form_is_named_and_nothing_is_written(tmp_path: Path) -> None:
    source, target = tmp_path / "in.onnx", tmp_path / "out.onnx"
    text = '<ir_version: 8, opset_import: ["": 10]> main (float[1, 1, 2, 2] x, float[4] s) => (float[] y) { y = Resize(x, s) }'
    onnx.save(onnx.parser.parse_model(text), source)
    done = CliRunner().invoke(app, ["optimize", str(source), "-o", str(target), "--opset", "13"])
    assert done.exit_code == 1
    sentence = " ".join(done.output.split())
    assert (
        "the Resize node that produces 'y' cannot be converted from opset 10 to 13: its rounding depends on scales that are not constant"
        in sentence
    )
    assert list(tmp_path.iterdir()) == [source]
