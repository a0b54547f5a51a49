"""Certificates of If, Loop and Scan: their captured values, branches on constant conditions, and declared types."""

import json
from collections.abc import Callable
from typing import Any as AnyValue

import numpy as np
import pytest
from onnx import ModelProto, parser

import passat
from passat.certificates import check_certificate
from passat.ir.onnx import from_onnx
from passat.ir.tensor import Tensor
from passat.rules.provenance.plain import CertificateError
from passat.rules.provenance.regions import Regions
from passat.rules.provenance.terms import FORMAT, VERSION, Terms
from passat.rules.provenance.writer import rules_by_name

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
    ((number, made, anyway),) = regions.equal(6)
    assert number == 6
    assert anyway
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


def declared(operand: int, types: bool = True) -> Row:
    return ["call", "onnx.Abs", {"types": ["float32[2]"]} if types else {}, [operand]]


def test_the_first_program_declares_types() -> None:
    rows = [X, declared(0), function(0, 1)]
    regions = Regions(rows, (2,), lambda _: None)
    assert regions.equal(1) == [(1, 3, True)]
    assert regions.rows[3] == declared(0, types=False)


def test_a_call_of_the_first_program_declares_types_in_its_bodies() -> None:
    rows = [X, FIRST, declared(1), function(1, 2), call([3, 0], [1]), function(0, 4)]
    regions = Regions(rows, (5,), lambda _: None)
    plain = regions.equal(4)[0][1]
    assert regions.equal(4)[0][2]
    assert text(rows, plain) == "onnx.Loop(function(#1.0, onnx.Abs(#1.0)), x)"
    assert rows[rows[rows[plain][3][0]][3][1]] == declared(1, types=False)


@pytest.mark.parametrize(
    ("rows", "term", "first"),
    [
        pytest.param([X, declared(0), function(0, 1)], 1, (), id="not in a first program"),
        pytest.param([X, FIRST, declared(1), function(1, 2), call([3, 0], [1]), function(0, 4)], 2, (5,), id="of a parameter of a body"),
        pytest.param([X, declared(0), function(1), call([2], [0]), function(0, 3)], 1, (4,), id="in a body, which may not run"),
        pytest.param([X, Z, declared(0), ["if", [1, 2, 1]], function(0, 1, 3)], 2, (4,), id="in a branch, which may not run"),
        pytest.param([X, FIRST, declared(1), function(0, 2)], 2, (3,), id="of a variable that is no parameter"),
        pytest.param([X, declared(0), function(0, 1), call([2, 0], [1])], 1, (2,), id="another call binds the parameter"),
    ],
)
def test_other_terms_do_not_declare_types(rows: list[Row], term: int, first: tuple[int, ...]) -> None:
    regions = Regions(rows, first, lambda _: None)
    count = len(rows)
    assert regions.equal(term) == [(term, count, False)]
    assert rows[count] == declared(rows[term][3][0], types=False)


def test_a_branch_does_not_have_the_types_that_a_call_declares() -> None:
    attrs = {"bodies": ["then_branch", "else_branch"], "captured": [0, 0], "outputs": "1", "types": ["float32[2]"]}
    rows = [X, ["const", {}], function(0), ["call", "onnx.If", attrs, [1, 2, 2]]]
    plain = {name: value for name, value in attrs.items() if name != "types"}
    regions = Regions(rows, (), lambda _: Tensor.dense(np.array(True)))
    assert regions.equal(3) == [(3, 4, False)]
    assert rows[4] == ["call", "onnx.If", plain, [1, 2, 2]]
    assert regions.equal(4) == [(4, 0, True)]


def certificate(before: ModelProto, after: ModelProto, extra: Callable[[list[Row]], Row | None] = lambda rows: None) -> AnyValue:
    """A certificate that folds the one shape of one of two models to the constant of the other. It loads an extra term first."""
    terms = Terms()
    first = terms.encode(from_onnx(before, lenient=True)["main"])
    terms.begin()
    terms.declares = False
    last = terms.encode(from_onnx(after, lenient=True)["main"])
    rows = terms.rows
    (shape,) = (number for number, row in enumerate(rows) if row[:2] == ["call", "shape_of"] and row[3] != [])
    (three,) = (number for number, row in enumerate(rows) if row[0] == "const")
    steps: list[dict[str, AnyValue]] = [{"rule": "ConstantFolding.sizes", "left": [shape], "right": [three]}]
    more = extra(rows)
    if more is not None:
        made = len(rows)
        rows += [more, ["call", "copy", {}, [made]]]
        steps.insert(0, {"rule": "Arithmetic.copy[copy]", "left": [made + 1], "right": [made]})
    known = rules_by_name()
    part = {"pass": "SimplifyExpr", "function": "main", "opset": 20, "before": rows[first][3][-1], "after": rows[last][3][-1]}
    return {
        FORMAT: VERSION,
        "rules": {step["rule"]: known[step["rule"]].claim for step in steps},
        "terms": rows,
        "functions": {"main": [first, last]},
        "steps": [{**part, "steps": steps}],
    }


THREE = "Constant<value = int64[1] {3}>()"
SHORT = """(float[N] x, float[M] w, bool c) => (float[3] y, int64[1] s) {
    y = If (c) <
        then_branch = t () => (float[3] a) { k = Cast<to = 9>(x) a = Compress(x, k) },
        else_branch = e () => (float[3] b) { l = Cast<to = 9>(x) d = Compress(x, l) b = Neg(d) }
    >
    %s
}"""


def declaring(rows: list[Row]) -> Row:
    """A copy of the first call with declared types."""
    return ["call", "copy", {}, [next(number for number, row in enumerate(rows) if row[0] == "call" and "types" in row[2])]]


def calling(rows: list[Row]) -> Row:
    """A copy of the first If."""
    return ["call", "copy", {}, [next(number for number, row in enumerate(rows) if row[:2] == ["call", "onnx.If"])]]


def rejected(before: str, after: str, extra: Callable[[list[Row]], Row | None] = lambda rows: None) -> None:
    with pytest.raises(CertificateError, match="is known only at run time"):
        check_certificate(certificate(model(before), model(after), extra), before=model(before), after=model(after))


def test_a_declaration_in_a_body_does_not_hold_for_values_that_the_first_program_does_not_capture() -> None:
    def capturing(rows: list[Row]) -> Row:
        call = next(row for row in rows if row[:2] == ["call", "onnx.If"])
        other = next(number for number, row in enumerate(rows) if row[:2] == ["var", "w"])
        return [*call[:2], {name: value for name, value in call[2].items() if name != "types"}, [*call[3][:-2], other, other]]

    rest = "m = Cast<to = 9>(w) f = Compress(w, m) s = %s"
    rejected(SHORT % (rest % "Shape(f)"), SHORT % (rest % THREE), capturing)


def test_a_declaration_in_a_branch_does_not_hold_outside() -> None:
    rest = "m = Cast<to = 9>(x) f = Compress(x, m) s = %s"
    rejected(SHORT % (rest % "Shape(f)"), SHORT % (rest % THREE), calling)


def test_a_declaration_in_a_body_does_not_hold_in_other_bodies() -> None:
    rest = """s = If (c) <
        then_branch = t2 () => (int64[1] a2) { m = Cast<to = 9>(w) f = Compress(w, m) a2 = %s },
        else_branch = e2 () => (int64[1] b2) { n = Cast<to = 9>(w) b2 = NonZero(n) }
    >"""
    before = SHORT.replace("float[M] w", "float[N] w")
    rejected(before % (rest % "Shape(f)"), before % (rest % THREE), declaring)


def test_the_last_program_declares_nothing_even_if_the_first_declares_the_same_types_for_another_call() -> None:
    head = "(float[N] x, float[M] w) => (float[3] y, int64[1] s) %s { k = Cast<to = 9>(x) y = Compress(x, k) %s }"
    after = head % ("<float[3] f>", "m = Cast<to = 9>(w) f = Compress(w, m) s = Shape(f)")
    rejected(head % ("", f"s = {THREE}"), after)


def test_a_body_does_not_draw_the_random_value_that_it_captured() -> None:
    """Also if no model is given."""
    draw: Row = ["call", "onnx.RandomUniform", {"shape": [3], "dtype": 1, "opset": 20, "outputs": "1"}, [], "r"]
    rows = [X, draw, FIRST, function(2, 2), call([3, 1], [1]), function(0, 4), function(1), call([6], [0]), function(0, 7)]
    data = {FORMAT: VERSION, "rules": {}, "terms": rows, "functions": {"main": [5, 8]}, "steps": []}
    with pytest.raises(CertificateError, match="terms, number 7: it has a function or branch with stateful calls in it"):
        check_certificate(data)


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


def tensor(name: str, place: int, type_: str, *shape: AnyValue) -> Row:
    return ["var", name, place, {"tensor": type_, "shape": list(shape)}]


@pytest.mark.parametrize("op", ["onnx.If", "onnx.Loop"])
def test_a_parameter_does_not_have_a_more_precise_type_than_its_values(op: str) -> None:
    """The shape of the parameter is 3, that of the captured or carried value is not known."""
    size: Row = ["call", "shape_of", {"start": None, "end": None, "dtype": "int64"}, [5]]
    three: Row = ["const", {"dtype": "int64", "shape": [1], "all": "AwAAAAAAAAA="}]
    head = [
        tensor("w", 0, "float32", "M"),
        tensor("n", 0, "int64"),
        tensor("c", 0, "bool"),
        tensor("#1", 0, "int64"),
        tensor("#1", 1, "bool"),
    ]
    attrs: dict[str, AnyValue] = {"opset": 20, "outputs": "1", "bodies": ["then_branch", "else_branch"], "captured": [1, 1]}

    def programs(shape: AnyValue) -> list[Row]:
        rows = [*head, tensor("#1", 2, "float32", shape), size, three]
        if op == "onnx.If":
            rows += [function(5, 6), function(5, 7)]
            rows += [["call", op, attrs, [2, body, body, 0, 0]] for body in (8, 9)]
        else:
            rows += [["tuple", [4, 5, 6]], ["tuple", [4, 5, 7]], function(3, 4, 5, 8), function(3, 4, 5, 9)]
            rows += [
                ["call", op, {"opset": 20, "outputs": "11", "bodies": ["body"], "captured": [0]}, [1, 2, 0, body]] for body in (10, 11)
            ]
        return rows

    rows = programs(3)
    first, last = len(rows) - 2, len(rows) - 1
    rule = rules_by_name()["ConstantFolding.sizes"]
    part = {"pass": "SimplifyExpr", "function": "main", "opset": 20, "before": first, "after": last}
    data = {FORMAT: VERSION, "rules": {rule.name: rule.claim}, "terms": rows, "functions": {}}
    data["steps"] = [{**part, "steps": [{"rule": rule.name, "left": [6], "right": [7]}]}]
    with pytest.raises(CertificateError, match="does not follow from the input"):
        check_certificate(data)
