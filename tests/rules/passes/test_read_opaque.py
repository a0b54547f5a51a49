"""ReadOpaque: opaque nodes whose operands become known after reading."""

import onnx
import pytest
from onnx import parser

from passat.certificates import check_certificate
from passat.ir.expr import Call
from passat.ir.module import IRModule
from passat.ir.onnx import from_onnx
from passat.ir.op import get_op
from passat.ir.traverse import post_order
from passat.optimizer import optimize
from passat.passmgr import PassContext
from passat.report import histogram
from passat.rules.passes.read_opaque import ReadOpaque
from tests.rules.passes.golden import program, run
from tests.rules.running import operators

HEADER = '<ir_version: 9, opset_import: ["": 18]> block '


def read(text: str) -> IRModule:
    return from_onnx(parser.parse_model(HEADER + text))


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (
            "(float[2, 3] x) => (float[a, b] y) <int64 axis = {-1}, int64[1] flat = {-1}> { s = Reshape(axis, flat)  y = ReduceMean(x, s) }",
            ["reshape", "onnx.ReduceMean"],
            ["mean"],
        ),
        (
            "(float[2, 3] x, int64[1] s) => (float[a, b] y) { y = ReduceMean(x, s) }",
            ["onnx.ReduceMean"],
            ["onnx.ReduceMean"],
        ),
        (
            "(float[2, n] x) => (float[a, b] y) { s = Shape<start=1>(x)  y = ReduceMean(x, s) }",
            ["shape_of", "onnx.ReduceMean"],
            ["shape_of", "onnx.ReduceMean"],
        ),
        (
            "(int32[3, 3] x, int32[3, 5] w) => (int32[a, b] y) <int64[1] three = {3}> { s = Identity(three)  p = Split(x, s)  y = MatMul(p, w) }",
            ["copy", "onnx.Split", "nn.matmul"],
            ["split", "nn.matmul"],
        ),
        (
            "(bool c, float[2, 3] x, float[3] z) => (float y) { i = If(c)<then_branch = t () => (float a) { a = Identity(x) },"
            " else_branch = e () => (float b) { b = Identity(z) }>  s = Identity(i)  y = Sin(s) }",
            ["copy", "copy", "onnx.If", "onnx.Identity", "onnx.Sin"],
            ["copy", "copy", "onnx.If", "onnx.Sin"],
        ),
        (
            "(float16[2, 3] x) => (float16[a, b] y) <double low = {-1.5}> { c = Cast<to=10>(low)  d = Neg(c)  y = Clip(x, c, d) }",
            ["cast", "negative", "onnx.Clip"],
            ["cast", "negative", "onnx.Clip"],
        ),
        (
            "(float16[2, 3] x) => (float16[a, b] y) <double low = {-1.5}, float high = {1.5}>"
            "{ c = Cast<to=10>(low)  d = Cast<to=10>(high)  y = Clip(x, c, d) }",
            ["cast", "cast", "onnx.Clip"],
            ["clip"],
        ),
        (
            "(float[2, 3] x) => (float[a, b] y) <float low = {-1.5}> { c = Neg(low)  d = Identity(c)  y = Clip(x, low, d) }",
            ["negative", "copy", "onnx.Clip"],
            ["clip"],
        ),
        (
            "(float[2, 3] x, float low) => (float[a, b] y) { c = Neg(low)  y = Clip(x, low, c) }",
            ["negative", "onnx.Clip"],
            ["negative", "onnx.Clip"],
        ),
    ],
)
def test_operands_that_are_known_by_now(text: str, before: list[str], after: list[str]) -> None:
    module = read(text)
    assert operators(module["main"]) == before
    made = run(ReadOpaque(), module)
    assert operators(made["main"]) == after
    assert (made["main"] is module["main"]) == (before == after)


@pytest.mark.parametrize(
    ("node", "opset", "read"),
    [
        ("Reshape<shape = [3, 2]>(x)", 4, False),
        ("Dropout(x)", 6, False),
        ("Add<broadcast = 1, axis = 0>(x, z)", 6, False),
        ("Neg(x)", 5, False),
        ("Neg(x)", 6, True),
    ],
)
def test_operators_that_changed_before_opset_7_stay(node: str, opset: int, read: bool) -> None:
    model = parser.parse_model(
        f'<ir_version: 3, opset_import: ["": {opset}]> old (float[2, 3] x, float[2] z) => (float[n, m] y) {{ y = {node} }}'
    )
    assert operators(run(ReadOpaque(), from_onnx(model))["main"]) == (["negative"] if read else [f"onnx.{model.graph.node[0].op_type}"])


def test_modules_of_another_origin_stay() -> None:
    module = program("%x: (2, 3)", "nn.relu(%x)")
    assert run(ReadOpaque(), module)["main"] is module["main"]


@pytest.mark.parametrize(
    "text",
    [
        "r = ReduceMean(x, i)  y = Concat<axis=0>(r, d)",
        "r = ReduceMean(x, i)  y = MatMul(r, e)",
        "r = ReduceMean(x, i)  y = Gemm(r, e)",
        "r = Unsqueeze(d, i)  y = MatMul(r, e)",
    ],
)
def test_newly_known_sizes_contradict_another_node(text: str) -> None:
    """The value that the branch captures is not known in it before. ONNX Runtime loads such a model with its optimizations off."""
    module = read(
        f"""(float[m, n] x, bool b) => (float[k, l] z) {{
            c = Constant<value_ints = [-1]>()  d = Constant<value_floats = [1.0, 2.0]>()  i = Identity(c)
            z = If(b)<
                then_branch = then () => (y) {{ e = Constant<value = float[3, 3] {{1, 2, 3, 4, 5, 6, 7, 8, 9}}>()  {text} }},
                else_branch = other () => (x) {{}}
            >
        }}"""
    )
    before, after = (operators(each["main"]) for each in (module, run(ReadOpaque(), module)))
    assert after == [name for name in before if name != "copy"]  # its value is known in the branch


BRANCHES = """(float[1, 4, n] x, float[2, 3] r, bool c) => (float[i, j, k] y) <int64[1] zero = {0}, int64[1] two = {2}> {
    s = Shape<start=0, end=2>(r)  two_rows = Gather(s, zero)  rows = Mul(two_rows, two)
    y = If(c)<
        then_branch = then () => (z) { head = Shape<start=0, end=2>(x)  all = Concat<axis=0>(head, rows)  z = Resize<mode="linear">(x, , , all) },
        else_branch = other () => (z) { z = Expand(x, rows) }
    >
}"""


def test_known_values_that_branches_capture_are_known_in_them() -> None:
    found = run(ReadOpaque(), read(BRANCHES))
    branch = next(node for node in post_order(found["main"]) if isinstance(node, Call) and node.op is get_op("onnx.If"))
    assert branch.attrs["captured"] == (1, 1)  # x, and no rows
    result = optimize(parser.parse_model(HEADER + BRANCHES))
    onnx.checker.check_model(result.model, full_check=True)
    assert optimize(result.model).model == result.model


CHOICES = """(float[2, 3] x, float[2, 3] y, bool b) => (float[2, 3] z, float[2, 3] w) <bool yes = {1}, bool no = {0}, float half = {0.5}, bool[1] one = {1}, int64 i = {0}> {
    CHOICE
}"""


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        pytest.param(
            "z = If(yes)<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (a) { a = Tanh(y) }>  w = Identity(z)",
            {"Relu", "Identity"},
            id="then",
        ),
        pytest.param(
            "z = If(no)<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (a) { a = Tanh(y) }>  w = Exp(y)",
            {"Tanh", "Exp"},
            id="else",
        ),
        pytest.param(
            "z = If(one)<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (a) { a = Tanh(y) }>  w = Exp(y)",
            {"Relu", "Exp"},
            id="a condition of one element",
        ),
        pytest.param(
            "z, w = If(no)<then_branch = t () => (a, c) { a = Sin(x)  c = Sin(y) }, else_branch = e () => (a, c) { a = Relu(y)  c = Exp(a) }>",
            {"Relu", "Exp"},
            id="two results",
        ),
        pytest.param(
            "s = Shape(x)  r = Gather(s, i)  c = Greater(r, i)  z = If(c)<then_branch = t () => (a) {"
            "   a = If(c)<then_branch = t () => (k) { k = Relu(x) }, else_branch = e () => (k) { k = Tanh(y) }>"
            "}, else_branch = e () => (a) { a = Sin(y) }>  w = Exp(y)",
            {"Relu", "Exp"},
            id="a branch of a branch, on a size",
        ),
        pytest.param(
            "z = If(b)<then_branch = t () => (a) {"
            "   a = If(yes)<then_branch = t () => (k) { k = Relu(x) }, else_branch = e () => (k) { k = Tanh(y) }>"
            "}, else_branch = e () => (a) { a = Sin(y) }>  w = Exp(y)",
            {"If", "Relu", "Sin", "Exp"},
            id="in a branch",
        ),
        pytest.param(
            "p = Exp(x)  q = Log(y)  z = If(b)<then_branch = t () => (a) {"
            "   a = If(yes)<then_branch = t () => (k) { k = Relu(x) }, else_branch = e () => (k) { k = Tanh(p) }>"
            "}, else_branch = e () => (a) { d = Add(q, q)  a = Sin(y) }>  w = Cos(y)",
            {"If", "Relu", "Sin", "Cos"},
            id="values that no branch uses anymore",
        ),
        pytest.param(
            "p = Exp(half)  q = Log(p)  r = Exp(q)  s = Log(r)  t = Exp(s)  c = Greater(t, half)"
            " z = If(c)<then_branch = t () => (a) { a = Relu(x) }, else_branch = e () => (a) { a = Tanh(y) }>  w = Sin(y)",
            {"Relu", "Sin"},
            id="a condition that only folding computes",
        ),
    ],
)
def test_the_branch_of_a_known_condition(nodes: str, left: set[str]) -> None:
    model = parser.parse_model(HEADER + CHOICES.replace("CHOICE", nodes))
    result = optimize(model, verify=True)
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert set(histogram(result.model)) == left
    assert optimize(result.model).model == result.model


SUMS = """(int64 a, int64 b, int64 c, bool d, float[2, 3] x) => (float[2, 3] y) {
    p = Mul(a, b)  q = Mul(a, c)  s = Add(p, q)  t = Add(b, c)  u = Mul(a, t)  zero = Sub(s, u)  no = Cast<to=9>(zero)
    CHOICE
}"""


@pytest.mark.parametrize(
    ("nodes", "left"),
    [
        ("y = If(no)<then_branch = t () => (r) { r = Relu(x) }, else_branch = e () => (r) { r = Exp(x) }>", {"Exp"}),
        (
            "y = If(d)<then_branch = t () => (r) { r = Sin(x) }, else_branch = e () => (r) {"
            "   r = If(no)<then_branch = u () => (k) { k = Relu(x) }, else_branch = f () => (k) { k = Exp(x) }>"
            "}>",
            {"If", "Sin", "Exp"},
        ),
    ],
)
def test_a_condition_that_only_algebra_computes(nodes: str, left: set[str]) -> None:
    """ONNX Runtime ended its process on such an If in others, which it took itself when it loaded the result."""
    result = optimize(parser.parse_model(HEADER + SUMS.replace("CHOICE", nodes)), verify=True)
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert set(histogram(result.model)) == left


SCANNED = """<ir_version: 9, opset_import: ["": OPSET]> g (float[2, 1] s, float[n, 3] x) => (float[2, 1] t, float[n, a, b] y) <bool yes = {1}, bool[1] keep = {1}> {
    t, y = Scan<num_scan_inputs = 1, body = h (float[2, 1] u, float[3] row) => (float[2, 1] v, float[c, d] w) {
        v = Neg(u)
        w = If(yes)<then_branch = a () => (r) { r = Compress<axis = 1>(u, keep) }, else_branch = e () => (r) { r = Exp(u) }>
    }>(s, x)
}"""


@pytest.mark.parametrize(("opset", "stays"), [(10, True), (11, False)])
def test_a_branch_of_unknown_rank_is_not_taken_if_the_other_one_tells_the_rank(opset: int, stays: bool) -> None:
    """ONNX Runtime runs no Scan whose body returns a tensor of unknown rank, and before opset 11 an If has the rank of either branch."""
    model = parser.parse_model(SCANNED.replace("OPSET", str(opset)))
    assert ("onnx.If" in operators(run(ReadOpaque(), from_onnx(model))["main"])) == stays
    if stays:
        assert optimize(model, verify=True).model is not None


CALLS = """<ir_version: 9, opset_import: ["": 18, "my.own": 1, "my.co": 1]> g (float[b, 4] x) => (float[b, 4] y) <bool c = {1}> {
    y = If(c)<then_branch = t () => (r) { r = my.own.outer(x) }, else_branch = e () => (r) { r = Exp(x) }>
}
<domain: "my.own", opset_import: ["": 18, "my.own": 1, "my.co": 1]> outer (a) => (r) { r = my.own.inner(a) }
<domain: "my.own", opset_import: ["": 18, "my.own": 1, "my.co": 1]> inner (a) => (r) { r = CALLED(a) }
"""


def test_the_branch_of_a_known_condition_calls_local_functions() -> None:
    """ONNX Runtime ended its process on a Loop and a call in the branch of a constant in another one, which it took itself."""
    result = optimize(parser.parse_model(CALLS.replace("CALLED", "Relu")), verify=True)
    assert result.report.verification is not None
    assert result.report.verification.equal
    assert [node.op_type for node in result.model.graph.node] == ["outer"]


def test_an_if_with_custom_operators_in_local_functions_stays() -> None:
    module = from_onnx(parser.parse_model(CALLS.replace("CALLED", "my.co.Thing")))
    assert "onnx.If" in operators(run(ReadOpaque(), module)["main"])


@pytest.mark.parametrize("taken", [0, 1])
def test_an_if_with_custom_operators_stays(taken: int) -> None:
    """Models with such operators are compared in parts, cut at them."""
    text = f"""<ir_version: 9, opset_import: ["": 18, "my.co": 1]> g (float[b, 4] x) => (float[b, 4] y) <bool c = {{{taken}}}> {{
        z = Sub(x, x)  w = Add(x, z)
        y = If(c)<
            then_branch = t () => (float[u, v] r) {{ q = my.co.Thing(w)  r = Relu(q) }},
            else_branch = e () => (float[u, v] r) {{ q = Neg(w)  r = Exp(q) }}
        >
    }}"""
    module = from_onnx(parser.parse_model(text))
    assert "onnx.If" in operators(run(ReadOpaque(), module)["main"])
    assert optimize(parser.parse_model(text), allow_unverified=True).report.verification is None


RESIZED_TWICE = """(float[1, 2, 4, 6] x) => (float[a, b, h, w] y) <float[2] scale = {2.0, 3.0}, float half = {0.5}> {
    double_scale = Mul(scale, scale)  sizes = Cast<to=7>(double_scale)  head = Shape<start=0, end=2>(x)  all = Concat<axis=0>(head, sizes)
    r = Resize<mode="linear">(x, , , all)  s = Relu(r)
    of_r = Shape<start=2>(s)  floats = Cast<to=1>(of_r)  halves = Mul(floats, half)  up = Ceil(halves)  whole = Cast<to=7>(up)
    again = Concat<axis=0>(head, whole)  t = Resize<mode="linear">(s, , , again)  u = Relu(t)
    of_u = Shape<start=2>(u)  u_floats = Cast<to=1>(of_u)  u_halves = Mul(u_floats, half)  u_whole = Cast<to=7>(u_halves)
    last = Concat<axis=0>(head, u_whole)  y = Resize<mode="linear">(u, , , last)
}"""
"""The sizes of each Resize are computed from those of the one before it in floating point, which shape arithmetic does not follow."""


@pytest.mark.parametrize("level", [2, 3])
def test_nodes_whose_operands_follow_from_each_other(level: int) -> None:
    result = optimize(parser.parse_model(HEADER + RESIZED_TWICE), verify=True, opt_level=level)
    assert histogram(result.model) == {"Relu": 2, "Resize": 3}
    assert optimize(result.model, opt_level=level).model == result.model


def test_a_certificate_holds_if_the_pass_is_trusted() -> None:
    model = parser.parse_model(HEADER + RESIZED_TWICE)
    result = optimize(model, certificate=True)
    verdict = check_certificate(result.certificate, before=model, after=result.model, trust=["ReadOpaque"])
    assert {gap.pass_name for gap in verdict.trusted} == {"ReadOpaque"}


def test_nothing_is_folded_without_the_pass_that_does() -> None:
    """Level 3 reads once more, after which the first pass that folds is another one."""
    model = parser.parse_model(HEADER + RESIZED_TWICE)
    assert "Shape" in histogram(optimize(model, opt_level=1).model)
    with PassContext(opt_level=2, disabled_pass=["DynamicToStatic"]):
        assert "Shape" in histogram(optimize(model).model)


@pytest.mark.parametrize("opset", [3, 4, 5])
def test_operators_that_changed_before_opset_7_are_not_written(opset: int) -> None:
    """A Transpose that moves no element became a Reshape, whose shape was no operand before opset 5: the result was an error."""
    model = parser.parse_model(
        f'<ir_version: 3, opset_import: ["": {opset}]> old (float[3, 1] x) => (float[3, 5] y) {{'
        f" p = Pad<pads = [1, 1, 1, 1]>(x)  y = Transpose<perm = [1, 0]>(p) }}"
    )
    result = optimize(model, verify=False).model
    assert [node.op_type for node in result.graph.node].count("Reshape") == (opset >= 5)
