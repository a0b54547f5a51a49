"""Why-not queries about passes without rules: whether they ran, what they changed, and why a selection was not moved."""

import pytest
from onnx import parser

from passat.ir.onnx import from_onnx
from passat.passmgr import PassContext
from passat.pipelines import build_pipeline
from passat.rules.why_not import Inquiry, Kind, WhyNotError

MODEL = """<ir_version: 8, opset_import: ["": 17]> model (float[batch, 400, 4] x, float[4, 4] u) => (%s)
<int64 first = {0}, int64[4] four = {0, 1, 2, 300}, int64[200] most = {%s}> {
    %s
}"""


def inquiry(outputs: str, nodes: str, level: int = 3, math: str = "reassociate") -> Inquiry:
    model = parser.parse_model(MODEL % (outputs, ", ".join(map(str, range(0, 400, 2))), nodes))
    with PassContext(opt_level=level, config={"rules.cost": "roofline", "rules.math": math}):
        return Inquiry(from_onnx(model), build_pipeline(None, []))


@pytest.mark.parametrize(
    ("nodes", "node", "said"),
    [
        pytest.param(
            "[p] a = MatMul(x, u)  [t] b = Tanh(a)  [g] y = Gather<axis = 1>(b, first)",
            "t",
            "only the selected positions are computed at 't' (in its first run)",
            id="moved",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [m] m = ReduceMax<axes = [1]>(a)  [s] b = Sub(a, m)  [g] y = Gather<axis = 1>(b, first)",
            "g",
            "there is no product that would be computed for fewer positions: other positions of nn.matmul 'p' are read by max 'm'",
            id="a product that another call reads as a whole",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [m] m = ReduceMax<axes = [1]>(a)  [s] b = Sub(a, m)  [g] y = Gather<axis = 1>(b, first)",
            "p",
            "other positions of nn.matmul 'p' are read by max 'm'",
            id="the product",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [t] b = Tanh(a)  [d] c = Tanh(b)  [m] m = ReduceMax<axes = [1]>(c)  [s] e = Sub(c, m)"
            "  [g] y = Gather<axis = 1>(e, first)",
            "p",
            "tanh 'd', which depends on it, is computed as a whole: other positions of tanh 'd' are read by max 'm'",
            id="a product whose reader is read as a whole",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [c] k = Concat<axis = -1>(a, x)  [m] m = ReduceMax<axes = [1, 2]>(k)  [s] b = Sub(a, m)"
            "  [g] y = Gather<axis = 1>(b, first)",
            "p",
            "other positions of nn.matmul 'p' are read by concatenate 'c'",
            id="a product in a concatenation",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [c] b = Softmax<axis = 1>(a)  [g] y = Gather<axis = 1>(b, first)",
            "g",
            "there is no product that would be computed for fewer positions: a position of nn.softmax 'c' depends on several positions of"
            " its operands, or is selected by another selection",
            id="a call along the axis",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [g] y = Gather<axis = 2>(a, first)",
            "g",
            "there is no product that would be computed for fewer positions: a position of nn.matmul 'p' depends on several positions of"
            " its operands, or is selected by another selection",
            id="columns",
        ),
        pytest.param(
            "[p] a = MatMul(x, u)  [t] b = Tanh(a)  [m] y = ReduceMax<axes = [1], keepdims = 0>(b)",
            "t",
            "no selection reads it, directly or through calls that are computed position by position",
            id="no selection",
        ),
    ],
)
def test_why_a_selection_was_not_moved(nodes: str, node: str, said: str) -> None:
    answer = inquiry("float[n, m] y", nodes).answer("HoistSelections", node)
    assert answer.findings[0].text == said


def test_a_tensor_that_is_a_result() -> None:
    asked = inquiry("float[n, m] y, float[batch, 400, 4] b", "[p] a = MatMul(x, u)  [t] b = Tanh(a)  [g] y = Gather<axis = 1>(b, first)")
    said = "other positions of tanh 't' are read by the result of the program"
    assert asked.answer("HoistSelections", "t").findings[0].text == said
    assert asked.answer("HoistSelections", "p").findings[0].text == f"tanh 't', which depends on it, is computed as a whole: {said}"


def test_more_than_half_of_the_positions() -> None:
    nodes = "[p] a = MatMul(x, u)  [g] b = Gather<axis = 1>(a, most)  [h] c = Gather<axis = 1>(a, first)  y = Concat<axis = 1>(b, c)"
    asked = inquiry("float[n, m, 4] y", nodes.replace("(a, first)", "(a, four)"))
    assert "select most of the positions together" in asked.answer("HoistSelections", "g").findings[0].text


def test_what_a_pass_did_to_the_program() -> None:
    asked = inquiry("float[n, m] y", "[p] a = MatMul(x, u)  [t] b = Tanh(a)  [g] y = Gather<axis = 1>(b, first)")
    answer = asked.answer("HoistSelections")
    assert answer.verdict is Kind.TAKEN
    assert str(answer).splitlines()[0].startswith("HoistSelections: Selects positions of an axis")
    assert "only the selected positions are computed at 'p' and 't' (in its first run)" in str(answer)
    assert asked.answer("SlicesToSplit").findings[0].text == "it changed nothing"


def test_a_pass_that_does_not_run() -> None:
    asked = inquiry("float[n, m] y", "y = Gather<axis = 1>(x, first)", level=2)
    assert asked.answer("HoistSelections").findings[0].text == "HoistSelections does not run: its level 3 > 2"
    assert asked.answer("ToANormalForm").findings[0].text == "ToANormalForm does not run: the pipeline does not have it"
    with pytest.raises(WhyNotError, match="did you mean HoistSelections"):
        asked.answer("HoistSelection")


def test_exact_programs() -> None:
    nodes = "[p] a = MatMul(x, u)  [g] y = Gather<axis = 1>(a, first)"
    answer = inquiry("float[n, m] y", nodes, math="exact").answer("HoistSelections", "g")
    assert answer.findings[0].text == "products of fewer rows may round differently, which rules.math=exact excludes"


@pytest.mark.parametrize(
    ("between", "outputs", "said"),
    [
        ("b = Relu(a)", "y", "rewritten at 'point'"),
        ("b = Relu(a)", "y, b", "other positions of nn.relu 'b' are read by the result of the program"),
        ("m = MaxPool<kernel_shape = [1, 3], pads = [0, 1, 0, 1]>(a) b = Tanh(m)", "y", "since nn.max_pool2d 'm' is computed as a whole"),
    ],
)
def test_why_the_strides_of_a_convolution_stay(between: str, outputs: str, said: str) -> None:
    signature = f"(float[1, 4, 8, 8] x, float[4, 4, 3, 3] w, float[4, 4, 1, 1] v) => ({', '.join(f'float[k, l, m, n] {out}' for out in outputs.split(', '))})"
    body = f"a = Conv(x, w) {between} [point] y = Conv<strides = [2, 2]>(b, v)"
    model = parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> g {signature} {{ {body} }}')
    assert said in str(Inquiry(from_onnx(model), build_pipeline("HoistSelections", [])).answer("HoistSelections", "point"))
