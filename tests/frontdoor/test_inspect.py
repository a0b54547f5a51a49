"""`passat.inspect` and `passat inspect`: the contents of a model, and opaque nodes."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper, numpy_helper, parser
from typer.testing import CliRunner

import passat
from passat.cli.app import app
from passat.ir.onnx import OnnxError, save
from passat.model_summary import FUNCTION, NARROWER, NO_FORM, UNKNOWN_OPERATOR, Value

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"


def parsed(body: str, *, signature: str = "(float[n, 4] x) => (float[n, 4] y)", opset: int = 18) -> ModelProto:
    model: ModelProto = parser.parse_model(f'<ir_version: 9, opset_import: ["" : {opset}, "com.acme" : 1]> g {signature} {{ {body} }}')
    return model


def run(*arguments: str | Path, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["inspect", *map(str, arguments)], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def test_an_exported_model() -> None:
    found = passat.inspect(EXAMPLES / "bert_tiny.onnx")
    assert found.node_count == 197
    assert found.nodes["MatMul"] == 16
    assert found.inputs[0] == Value("input_ids", "int64[batch, sequence]")
    assert found.outputs == [Value("output", "float32[batch, sequence, 64]")]
    assert found.opsets == {"ai.onnx": 20}
    assert (found.weights, found.weight_bytes) == (37, 482_816)
    assert found.fused["LayerNormalization"] == 5
    assert (found.opaque, found.unknown, found.warnings, found.not_loaded) == ([], 0, [], "")


def test_why_rules_do_not_look_into_nodes() -> None:
    model = parsed(
        "a = com.acme.Fused (x) [after] b = Relu (a) c = Det (s) y = Neg (x)",
        signature="(float[n, 4] x, float[4, 4] s) => (float[n, 4] y, float b, float c)",
    )
    found = passat.inspect(model)
    reasons = {group.operator: group.reason for group in found.opaque}
    assert reasons["com.acme.Fused"] == UNKNOWN_OPERATOR
    assert reasons["Relu"].startswith("the type of 'a', which a com.acme.Fused node produces, is unknown: declare it in value_info")
    assert reasons["Det"] == NO_FORM
    assert {group.operator: group.nodes for group in found.opaque}["Relu"] == ("after",)
    assert found.unknown == 1  # the model declares b
    assert found.not_loaded.startswith("ONNX Runtime does not load the model: ")
    assert "Fused" in found.not_loaded


def test_a_form_that_is_narrower_than_the_node() -> None:
    model = parsed("y = ReduceSum (x, axes)", signature="(float[n, 4] x, int64[1] axes) => (float[k, 4] y)")
    assert [(group.operator, group.reason) for group in passat.inspect(model).opaque] == [("ReduceSum", NARROWER)]


def test_local_functions_are_not_unknown_operators() -> None:
    graph = '<ir_version: 9, opset_import: ["" : 18, "own" : 1]> g (float[n] x) => (float[n] y) { a = own.f (x) y = own.f (a) }'
    model = parser.parse_model(f'{graph} <domain: "own", opset_import: ["" : 18]> f (p) => (q) {{ q = Neg (p) }}')
    found = passat.inspect(model)
    assert [(group.operator, group.reason, group.nodes) for group in found.opaque] == [("own.f", FUNCTION, ("a", "y"))]
    assert "  2 own.f ('a', 'y'): " in str(found)


def test_silu_is_not_gelu() -> None:
    assert passat.inspect(parsed("s = Sigmoid (x) y = Mul (x, s)")).fused == {"QuickGelu": 1}


def test_sparse_weights_count() -> None:
    model = parsed("y = Add (x, w)")
    indices = numpy_helper.from_array(np.array([0, 3]), "i")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(numpy_helper.from_array(np.ones(2, np.float32), "w"), indices, [1, 4]))
    found = passat.inspect(model)
    assert (found.weights, found.weight_elements, found.weight_bytes) == (1, 2, 8)


def test_weights_in_subgraphs_and_in_other_files_count(tmp_path: Path) -> None:
    branch = helper.make_graph(
        [helper.make_node("Add", ["x", "w"], ["r"])],
        "branch",
        [],
        [helper.make_tensor_value_info("r", 1, [3])],
        [numpy_helper.from_array(np.ones(3, np.float32), "w")],
    )
    graph = helper.make_graph(
        [helper.make_node("If", ["c"], ["r"], then_branch=branch, else_branch=branch), helper.make_node("Mul", ["r", "v"], ["y"])],
        "g",
        [helper.make_tensor_value_info("c", 9, []), helper.make_tensor_value_info("x", 1, [3])],
        [helper.make_tensor_value_info("y", 1, [100, 3])],
        [numpy_helper.from_array(np.ones((100, 3), np.float32), "v")],
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])
    path = tmp_path / "model.onnx"
    onnx.save(model, path, save_as_external_data=True, location="model.data", size_threshold=100)
    found = passat.inspect(path)
    assert (found.weights, found.weight_elements, found.weight_bytes) == (3, 306, 1224)
    assert found.model_bytes < 1224
    assert found.not_loaded == ""
    assert passat.inspect(path.read_bytes(), folder=tmp_path).weight_bytes == 1224


def test_the_command_and_its_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path("model.onnx")
    save(parsed("[first] a = com.acme.Fused (x) b = com.acme.Fused (a) y = Cast <to = 1>(b)"), path)
    text = run(path)
    assert "input   x     float32[n, 4]\n" in text
    assert f"3 nodes are opaque to rules, and unchanged:\n  2 com.acme.Fused ('first', 'b'): {UNKNOWN_OPERATOR}" in text
    assert "the type of 2 results is unknown" in text
    data = json.loads(run(path, "--json"))
    assert data["node_count"] == 3
    assert data["opaque"][0]["nodes"] == ["first", "b"]
    assert str(passat.inspect(path)).split() == text.split()


def test_unreadable_input(tmp_path: Path) -> None:
    path = tmp_path / "no.onnx"
    assert f"error: {path} cannot be read: No such file or directory" in run(path, code=1)
    with pytest.raises(OnnxError, match="a model must be a ModelProto"):
        passat.inspect(3)  # type: ignore[arg-type]  # what is tested
    assert "no.so of custom operators does not exist" in run(EXAMPLES / "bert_tiny.onnx", "--custom-ops", tmp_path / "no.so", code=1)
