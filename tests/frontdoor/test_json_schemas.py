"""The output of `--json`, and certificates, conform to the published schemas."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from jsonschema import Draft202012Validator
from onnx import parser
from typer.testing import CliRunner

from passat.cli.app import app

SCHEMAS = {path.stem: json.loads(path.read_text()) for path in (Path(__file__).resolve().parents[2] / "docs/extra/schemas").glob("*.json")}
MODEL = """<ir_version: 10, opset_import: ["" : 20, "com.example" : 1]> g (float[n, 4] x, bool c, int64[n] i) => (float[n, 4] y, float[n, 4] z, float[n, 4] w, float[n, 4] u)
<float[4] ones = {1, 1, 1, 1}, float[4] some = {1, 2, 3, 4}, int64[1] last = {-1}>
{
    a = Mul(x, ones)
    b = Transpose<perm = [1, 0]>(a)
    d = Transpose<perm = [1, 0]>(b)
    e = Add(d, some)
    y = Relu(e)
    z = If(c) <then_branch = one () => (float[n, 4] p) { q = Identity(x) p = Neg(q) }, else_branch = other () => (float[n, 4] r) { r = Exp(x) }>
    s = Unsqueeze(i, last)
    t = Cast<to = 1>(s)
    w = Mul(x, t)
    u = com.example.Unknown(x)
}"""
"""Identities, a branch, an integer input, and an unknown operator."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("models")
    model = parser.parse_model(MODEL)
    onnx.save(model, made / "in.onnx")
    del model.graph.node[-1], model.graph.output[-1]
    onnx.save(model, made / "known.onnx")
    body = "(float[500, 4] x, int64[m] i) => (float[m, 4] y) { a = Neg(x) b = Neg(a) y = Gather(b, i) }"
    onnx.save(parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {body}'), made / "indices.onnx")
    return made


def printed(folder: Path, *arguments: str, code: int = 0) -> Any:
    result = CliRunner().invoke(app, [str(folder / each) if each.endswith((".onnx", ".certificate")) else each for each in arguments])
    assert result.exit_code == code, result.stderr
    return json.loads(result.stdout)


def check(data: Any, name: str) -> None:
    """Raises AssertionError with all violations of the schema."""
    wrong = [f"{error.json_path}: {error.message[:300]}" for error in Draft202012Validator(SCHEMAS[name]).iter_errors(data)]
    assert wrong == [], f"{name}: a change of what is printed is a new version of the schema"
    assert isinstance(data, list) or data.get("schema", name) == name


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas_are_valid_and_strict(name: str) -> None:
    Draft202012Validator.check_schema(SCHEMAS[name])
    assert SCHEMAS[name]["$id"] == f"urn:passat:{name}"
    objects = [
        *([SCHEMAS[name]] if "properties" in SCHEMAS[name] else []),
        *(each for each in SCHEMAS[name].get("$defs", {}).values() if each.get("type") == "object"),
    ]
    if name not in ("error-1", "certificate-2"):
        assert all(each["additionalProperties"] is False and set(each["required"]) == set(each["properties"]) for each in objects)
    assert all("description" in value for each in objects for value in each["properties"].values())


@pytest.mark.parametrize(
    ("arguments", "schema"),
    [
        (["optimize", "in.onnx", "-o", "out.onnx", "--stats"], "report-1"),
        (["optimize", "known.onnx", "--dry-run", "--choose", "time", "--candidates", "2"], "report-1"),
        (["optimize", "known.onnx", "--dry-run", "--no-verify", "-O0"], "report-1"),
        (["optimize", "indices.onnx", "--dry-run"], "report-1"),
        (["inspect", "in.onnx"], "inspect-1"),
        (["inspect", "known.onnx"], "inspect-1"),
        (["diff", "in.onnx", "known.onnx"], "diff-1"),
        (["diff", "in.onnx", "in.onnx"], "diff-1"),
        (["profile", "known.onnx", "known.onnx", "--seconds", "0.1"], "profile-1"),
        (["order"], "plan-1"),
        (["passes"], "passes-1"),
        (["passes", "SimplifyExpr"], "pass-1"),
        (["passes", "PrintIR"], "pass-1"),
        (["config", "list"], "options-1"),
        (["rules", "list"], "rules-1"),
        (["rules", "why-not", "Arithmetic.unit[multiply]", "known.onnx"], "why-not-1"),
        (["rules", "why-not", "Transposes", "known.onnx"], "why-not-1"),
        (["rules", "check", "Transposes", "--instances", "2"], "checks-1"),
        (["order", "-O1", "--disable", "FoldConstant", "--passes", "FoldConstant, DynamicToStatic"], "plan-1"),
    ],
)
def test_output_of_commands(folder: Path, arguments: Sequence[str], schema: str) -> None:
    check(printed(folder, *arguments, "--json"), schema)


def test_bisections_and_what_they_leave(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    rules = "from passat.rules import RuleSet, op, tensors\nx, y = tensors('x y')\nclass Wrong(RuleSet):\n    add = x + y >> x\n"
    (folder / "wrong.py").write_text(rules)
    options = ("known.onnx", "--rules", "wrong.py", "--passes", "Wrong", "--json")
    check(printed(folder, "bisect", *options), "bisect-1")
    check(printed(folder, "rules", "bisect", *options, "--save", "kept"), "rules-bisect-1")
    check(printed(folder, "replay", "kept", "--rules", "wrong.py", "--json", code=1), "replay-1")


def test_extraction(folder: Path) -> None:
    nodes = {"a": {"op": "a", "cost": 2, "eclass": "1", "children": []}, "b": {"op": "b", "cost": 1, "eclass": "1", "children": []}}
    (folder / "graph.json").write_text(json.dumps({"nodes": nodes, "root_eclasses": ["1"]}))
    check(printed(folder, "extract", str(folder / "graph.json"), "--json"), "extract-1")
    check(printed(folder, "extract", str(folder / "graph.json"), "--json", "--choice", "--top", "2"), "extract-1")


def test_provenance_and_certificates(folder: Path) -> None:
    printed(folder, "optimize", "known.onnx", "-o", "known_out.onnx", "--explain", "--certificate", "a.certificate", "--json")
    explanation = printed(folder, "explain", "known_out.onnx", "--json")
    check(explanation, "explanation-1")
    assert explanation["nodes"]
    certificate = json.loads((folder / "a.certificate").read_text())
    check(certificate, "certificate-2")
    verdict = printed(folder, "explain", "--check", "a.certificate", "--before", "known.onnx", "--json")
    check(verdict, "certificate-check-1")
    assert verdict["compared"] == {"before": True, "after": False}
    assert {"call", "const", "function", "var"} <= {term[0] for term in certificate["terms"]}


@pytest.mark.parametrize(("arguments", "code"), [(["inspect", "missing.onnx"], 1), (["order", "--passes", "Nothing"], 2)])
def test_errors(folder: Path, arguments: Sequence[str], code: int) -> None:
    check(printed(folder, *arguments, "--json", code=code), "error-1")


def test_a_missing_or_unknown_key_is_found(folder: Path) -> None:
    data = printed(folder, "inspect", "known.onnx", "--json")
    for changed in ({**data, "more": 1}, {key: value for key, value in data.items() if key != "nodes"}):
        with pytest.raises(AssertionError, match="a new version of the schema"):
            check(changed, "inspect-1")


def test_several_models_give_a_list(folder: Path) -> None:
    failed, report = printed(folder, "optimize", "none.onnx", "known.onnx", "--dry-run", "--no-verify", "--json", code=1)
    check(failed, "error-1")
    check(report, "report-1")
