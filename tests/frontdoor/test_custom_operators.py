"""Models with operators of the user's own: what the report and `rules why-not` say of the nodes behind them."""

import json
from pathlib import Path

import onnx
import pytest
from typer.testing import CliRunner, Result

import passat
from passat.cli.app import app

MODEL = """<ir_version: 9, opset_import: ["": 20, "com.mycompany": 1]>
g (float[n, 4] x) => (float[n, 4] y) {
  h = Relu(x)
  [fused] f = com.mycompany.FusedThing<alpha: float = 2.0>(h)
  [gate] s = Sigmoid(f)
  y = Mul(f, s)
}"""
REASON = "the type of 'f', which node 'fused' (com.mycompany.FusedThing) makes, is unknown: declare it in value_info"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(model(), "in.onnx")


def model() -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(MODEL)
    return found


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_the_report_says_which_nodes_are_left_opaque_and_why() -> None:
    result = passat.optimize(model(), passes="SimplifyExpr", verify=False)
    assert result.report.warnings == [f"2 nodes left opaque because {REASON}"]
    assert f"! 2 nodes left opaque because {REASON}" in " ".join(str(result.report).split())
    assert json.loads(result.report.to_json())["warnings"] == result.report.warnings


def test_why_not_says_whose_type_is_unknown() -> None:
    asked = run("rules", "why-not", "Swishes.silu", "in.onnx", "--json")
    findings = json.loads(asked.stdout)["findings"]
    assert {"kind": "untyped", "text": f"2 nodes left opaque because {REASON}", "nodes": ["gate", "y"]}.items() <= findings[-1].items()
    at_node = run("rules", "why-not", "Swishes.silu", "in.onnx", "--node", "gate")
    assert at_node.stdout.splitlines()[1] == f"'gate' is left opaque because {REASON}"
    assert (
        f"there is no multiply in the model; 2 nodes left opaque because {REASON}" in run("rules", "why-not", "Swishes", "in.onnx").stdout
    )
