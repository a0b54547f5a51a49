"""Messages about a model that is wrong in several places."""

import json
from pathlib import Path

import onnx
import pytest
import typer
from onnx import TensorProto, helper
from typer.testing import CliRunner

import passat
from passat.cli.app import app, end, errors
from passat.ir.diagnostics import Diagnostic, DiagnosticLevel
from passat.ir.onnx import OnnxError
from passat.ir.text import parse


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """A model with two nodes that do not fit their operands, in the file in.onnx."""
    monkeypatch.chdir(tmp_path)
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("a", [2, 3]), ("b", [4]))]
    nodes = [helper.make_node("Add", ["a", "b"], ["s"], name="first"), helper.make_node("MatMul", ["a", "a"], ["m"], name="second")]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("s", "m")]
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(made, "in.onnx")
    return made


FIRST = "node 'first' (Add) does not accept operands of types float32[2, 3], float32[4]: Incompatible dimensions"
SECOND = "node 'second' (MatMul) does not accept operands of types float32[2, 3], float32[2, 3]: Incompatible dimensions for matrix multiplication"


def test_a_sentence_and_below_it_all_that_is_wrong(model: onnx.ModelProto) -> None:
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx"])
    assert result.exit_code == 1
    assert (
        result.stderr
        == f"""\
error: in.onnx: {FIRST}; nothing was written

error: {FIRST}
 --> node "first", which produces "s"
  |
  | s = Add(a, b)
  |   a: float32[2, 3]
  |   b: float32[4]

error: {SECOND}
 --> node "second", which produces "m"
  |
  | m = MatMul(a, a)
  |   a: float32[2, 3]
"""
    )
    assert not Path("out.onnx").exists()


def test_with_json_the_sentences_are_a_list(model: onnx.ModelProto) -> None:
    result = CliRunner().invoke(app, ["optimize", "in.onnx", "-o", "out.onnx", "--json"])
    assert json.loads(result.stdout) == {"error": f"in.onnx: {FIRST}; nothing was written", "errors": [FIRST, SECOND]}


def test_in_python_the_error_has_them_all(model: onnx.ModelProto) -> None:
    for source, first in ((model, FIRST), ("in.onnx", f"in.onnx: {FIRST}")):
        with pytest.raises(OnnxError) as caught:
            passat.optimize(source)
        assert str(caught.value) == f"{first}\n{SECOND}"
        assert len(caught.value.diagnostics) == 2


def test_errors_of_type_inference_are_shown_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit), errors():
        parse("def @main(%x: int8) { (%x.0, add(%x, 1f)) }", "f")
    first, *rest = capsys.readouterr().err.split("\n\n")
    assert first.startswith(
        "error: Passat itself failed: InferError: f:1:24: field 0 is taken from a value of type int8, which is not a tuple"
    )
    assert "\n" not in first
    assert [text.split("\n")[0] for text in rest] == [
        "error: field 0 is taken from a value of type int8, which is not a tuple",
        "error: add(int8, float32): operands have different element types int8 and float32; cast one",
    ]


def test_colors_are_for_terminals(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    found = [Diagnostic(DiagnosticLevel.ERROR, None, "wrong")]
    monkeypatch.delenv("NO_COLOR", raising=False)
    for terminal, no_color, shown in ((True, "", True), (True, "1", False), (False, "", False)):
        monkeypatch.setattr("sys.stderr.isatty", lambda answer=terminal: answer)
        monkeypatch.setenv("NO_COLOR", no_color)
        with pytest.raises(Exception, match="1"):
            end("no", 1, False, found)
        assert ("\x1b[" in capsys.readouterr().err) == shown
