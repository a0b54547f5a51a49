"""Certificates of If, Loop and Scan: their captured values, branches on constant conditions, and declared types."""

import json
from typing import Any as AnyValue

import pytest
from onnx import ModelProto, parser

import passat
from passat.certificates import check_certificate
from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.regions import Regions

Row = list[AnyValue]


def model(text: str) -> ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : 20]> g {text}')


MODELS = {
    "another order": """(float[N] x, float[N] z, bool c) => (float[N] y) <float zero = {0.0}> {
        y = If (c) <
            then_branch = t () => (float[N] a) { p = Mul(x, z) q = Sub(z, x) a = Add(q, p) },
            else_branch = e () => (float[N] b) { r = Add(x, zero) s = Neg(z) t = Neg(s) b = Div(t, r) }
        >
    }""",
    "gone": """(int64[N] x, int64[N] z, bool c) => (int64[N] y) <int64 zero = {0}> {
        y = If (c) <
            then_branch = t () => (int64[N] a) { p = Sub(z, z) a = Add(p, x) },
            else_branch = e () => (int64[N] b) { q = Add(z, x) b = Sub(q, x) }
        >
    }""",
    "constant": """(float[N, 4] x, bool c) => (float[N, 4] y) <float two = {2.0}, float three = {3.0}> {
        six = Mul(two, three)
        y = If (c) <
            then_branch = t () => (float[N, 4] a) { s = Add(six, six) a = Mul(x, s) },
            else_branch = e () => (float[N, 4] b) { b = Mul(six, x) }
        >
    }""",
    "loop": """(float[3] x, float[3] z, int64 n, bool c) => (float[3] y, float[M, 3] all) {
        y, all = Loop (n, c, x) <body = b (int64 i, bool go, float[3] s) => (bool on, float[3] t, float[3] u) {
            on = Identity(go) o = Sub(x, x) p = Add(z, o) q = Neg(s) r = Neg(q) t = Add(p, r) u = Mul(x, t)
        }>
    }""",
    "scan": """(float[3] x, float[3] z, float[4, 3] rows) => (float[3] y, float[4, 3] all) <float one = {1.0}> {
        y, all = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] row) => (float[3] t, float[3] u) {
            p = Mul(x, one) q = Mul(z, s) t = Add(q, row) v = Neg(p) u = Sub(t, v)
        }> (z, rows)
    }""",
    "nested": """(float[3] x, float[3] z, int64 n, bool c) => (float[3] y) <float one = {1.0}> {
        y = Loop (n, c, x) <body = b (int64 i, bool go, float[3] s) => (bool on, float[3] t) {
            on = Identity(go) k = Mul(z, one) h = Exp(s)
            t = If (go) <
                then_branch = d () => (float[3] a) { p = Mul(x, one) q = Mul(h, k) a = Add(q, p) },
                else_branch = e () => (float[3] b) { m = Neg(k) r = Neg(m) b = Div(r, h) }
            >
        }>
    }""",
    "declared": """(float[3] x, float[A, 3] rows) => (float[3] y, float[B, 3] all) {
        y, every = Scan <num_scan_inputs = 1, body = b (float[3] s, float[3] row) => (float[3] t, float[3] u) {
            p = Add(s, row) q = Neg(p) t = Neg(q) u = Identity(t)
        }> (x, rows)
        all = Identity(every)
    }""",
    "taken": """(float[3] x, float[3] z, bool c) => (float[3] y, float[3] w) <bool yes = {1}, bool no = {0}> {
        both = And(yes, no)
        y, w = If (both) <
            then_branch = t () => (float[3] a, float[3] d) { a = Mul(x, z) d = Neg(z) },
            else_branch = e () => (float[3] b, float[3] f) { b = Sub(z, x) p = Neg(b) f = Exp(p) }
        >
    }""",
}


@pytest.mark.parametrize("name", MODELS)
def test_the_certificate_is_complete(name: str) -> None:
    before = model(MODELS[name])
    result = passat.optimize(before, certificate=True)
    assert result.model.SerializeToString() != before.SerializeToString()
    verdict = check_certificate(json.loads(json.dumps(result.certificate)), before=before, after=result.model)
    assert verdict.complete
    assert not verdict.trusted


X: Row = ["var", "x", 0, None]
Z: Row = ["var", "z", 0, None]
FIRST, SECOND = [["var", "#1", place, None] for place in range(2)]


def call(operands: list[int], captured: list[int], op: str = "onnx.Loop") -> Row:
    return ["call", op, {"bodies": ["body"], "captured": captured, "outputs": "1"}, operands]


def subtract(*operands: int) -> Row:
    return ["call", "subtract", {}, list(operands)]


def function(*parts: int) -> Row:
    return ["function", {}, len(parts) - 1, list(parts)]


def text(rows: list[Row], number: int) -> str:
    kind, *own = rows[number]
    if kind == "var":
        return f"{own[0]}.{own[1]}" if own[0].startswith("#") else own[0]
    return f"{own[0] if kind == 'call' else kind}({', '.join(text(rows, part) for part in own[2])})"


def test_captured_values_are_filled_in() -> None:
    rows = [X, Z, FIRST, SECOND, subtract(3, 2), function(2, 3, 4), call([5, 0, 1], [2])]
    regions = Regions(rows, (), lambda _: None)
    ((number, made),) = regions.equal(6)
    assert number == 6
    assert rows[made][2]["captured"] == [0]
    assert text(rows, made) == "onnx.Loop(function(subtract(z, x)))"
    assert regions.equal(made) == []


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param([X, FIRST, SECOND, subtract(1, 2), function(1, 2, 3), call([4, 1], [1])], id="the value reads a variable of the body"),
        pytest.param(
            [X, FIRST, SECOND, subtract(1, 2), function(1, 3), call([4], [0]), function(2, 5), call([6, 1], [1])],
            id="the value reads a variable of a function in the body",
        ),
        pytest.param([X, subtract(0, 0), function(1, 1), call([2, 0], [1])], id="a parameter is not a variable"),
        pytest.param([X, Z, FIRST, function(2, 2, 2), call([3, 0, 1], [2])], id="two parameters are one variable"),
        pytest.param([X, Z, FIRST, function(2, 2), call([3, 0, 1], [2])], id="more values than parameters"),
        pytest.param([X, Z, FIRST, function(2, 2), call([3, 3, 0], [2, -1])], id="a negative number of values"),
    ],
)
def test_captured_values_that_cannot_be_filled_in(rows: list[Row]) -> None:
    assert Regions(rows, (), lambda _: None).equal(len(rows) - 1) == []


def test_the_first_program_declares_types() -> None:
    rows = [X, ["call", "onnx.Abs", {"types": ["float32[2]"]}, [0]]]
    assert Regions(list(rows), (), lambda _: None).equal(1) == []
    regions = Regions(list(rows), (1,), lambda _: None)
    assert regions.equal(1) == [(1, 2)]
    assert regions.rows[2] == ["call", "onnx.Abs", {}, [0]]


def test_a_function_that_the_model_does_not_have_declares_nothing() -> None:
    before = model(MODELS["gone"])
    certificate = json.loads(json.dumps(passat.optimize(before, certificate=True).certificate))
    certificate["functions"]["other"] = [0, 0]
    with pytest.raises(CertificateError, match="this is not the model that the certificate begins with"):
        check_certificate(certificate, before=before)


@pytest.mark.parametrize("swapped", ["then", "values"])
def test_other_values_or_branches_are_rejected(swapped: str) -> None:
    """The law does not make calls equal that differ in what they capture."""
    before = model(MODELS["another order"])
    certificate = json.loads(json.dumps(passat.optimize(before, certificate=True).certificate))
    row = next(row for row in reversed(certificate["terms"]) if row[0] == "call" and row[1] == "onnx.If")
    assert row[2]["captured"] == [2, 2]
    start = 1 if swapped == "then" else 3
    row[3][start : start + 2] = reversed(row[3][start : start + 2])
    with pytest.raises(CertificateError, match="does not follow"):
        check_certificate(certificate, before=before)
