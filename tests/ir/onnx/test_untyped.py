"""Values of unknown type: which nodes stay opaque because of them, and the message."""

from collections.abc import Callable

import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, parser
from onnx.inliner import inline_local_functions

from passat.ir.onnx import from_onnx
from passat.ir.onnx.untyped import function_calls, untyped_values
from passat.ir.onnx_mapping import READERS

CUSTOM = ', "com.mine": 1'


def sentences(model: ModelProto) -> list[str]:
    return [value.sentence for value in untyped_values(from_onnx(model))]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        pytest.param(
            "g (float[2] x) => (float[2] y) { [one] f = com.mine.Fused(x) s = Sigmoid(f) y = Mul(f, s) }",
            [
                "2 nodes left opaque because the type of 'f', which node 'one' (com.mine.Fused) produces, is unknown: declare it in value_info, or the operator in a rule file (docs/custom-operators.md)",
            ],
            id="custom",
        ),
        pytest.param(
            "g (float[2] x) => (float[2] y) <float[2] f> { f = com.mine.Fused(x) s = Sigmoid(f) y = Mul(f, s) }", [], id="declared"
        ),
        pytest.param("g (float[2] x) => (float[2] y) { a = Relu(x) y = com.mine.Fused(a) }", [], id="nothing_behind_it"),
        pytest.param(
            "g (float[2] x) => (float[2] y) { f = com.mine.Fused(x) a = Relu(f) g = com.mine.Other(a) y = Neg(g) }",
            [
                "1 node left opaque because the type of 'f', which a com.mine.Fused node produces, is unknown: declare it in value_info, or the operator in a rule file (docs/custom-operators.md)",
                "1 node left opaque because the type of 'g', which a com.mine.Other node produces, is unknown: declare it in value_info, or the operator in a rule file (docs/custom-operators.md)",
            ],
            id="each_custom_node_by_itself",
        ),
        pytest.param(
            "g (float[2] x) => (float[2] y) { p, q = com.mine.Two(x) y = Add(q, x) }",
            [
                "1 node left opaque because the type of 'q', which a com.mine.Two node produces, is unknown: declare it in value_info, or the operator in a rule file (docs/custom-operators.md)"
            ],
            id="one_of_two_results",
        ),
        pytest.param(
            "g (float[2] x, bool c) => (float[2] y) { f = com.mine.Fused(x)"
            " y = If(c) <then_branch = t () => (float[2] a) { a = Relu(f) }, else_branch = e () => (float[2] b) { b = Identity(x) }> }",
            [
                "1 node left opaque because the type of 'f', which a com.mine.Fused node produces, is unknown: declare it in value_info, or the operator in a rule file (docs/custom-operators.md)"
            ],
            id="read_in_a_subgraph",
        ),
    ],
)
def test_nodes_behind_a_value_of_unknown_type(parse: Callable[..., ModelProto], graph: str, expected: list[str]) -> None:
    assert sentences(parse(graph, imports=CUSTOM)) == expected


def test_an_input_of_unknown_rank(parse: Callable[..., ModelProto]) -> None:
    model = parse("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    model.graph.input[0].type.tensor_type.ClearField("shape")
    assert sentences(model) == [
        "1 node left opaque because the type of 'x', which is an input, is unknown: declare its element type and shape"
    ]


def test_every_operator_that_passat_reads_is_counted() -> None:
    known = sorted(name for name in READERS if "::" not in name and onnx.defs.has(name, 20))
    assert len(known) > 100
    missing = []
    for op_type in known:
        operands = ["f"] * max(onnx.defs.get_schema(op_type, 20).min_input, 1)
        nodes = [helper.make_node("Fused", ["x"], ["f"], domain="com.mine"), helper.make_node(op_type, operands, ["y"])]
        inputs, outputs = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [2])] for name in ("x", "y"))
        imports = [helper.make_opsetid("", 20), helper.make_opsetid("com.mine", 1)]
        model = helper.make_model(helper.make_graph(nodes, "g", inputs, outputs), opset_imports=imports, ir_version=9)
        if [len(value.calls) for value in untyped_values(from_onnx(model, lenient=True))] != [1]:
            missing.append(op_type)
    assert not missing


FUNCTIONS = """<ir_version: 8, opset_import: ["": 18, "com.mine": 1, "com.other": 1]> g (float[2] x) => (float[2] y) {
    a = com.mine.Twice(x)  b = Relu(a)  c = com.mine.Twice(b)  y = com.mine.Half(c)
}
<domain: "com.mine", opset_import: ["": 18, "com.other": 1]> Twice (p) => (q) { r = com.other.Unknown(p)  q = Add(r, r) }
<domain: "com.mine", opset_import: ["": 18]> Half (p) => (q) { two = Constant<value_float = 2.0>()  q = Div(p, two) }"""


def test_calls_of_functions_of_the_model() -> None:
    module = from_onnx(parser.parse_model(FUNCTIONS))
    out = "onnx.inliner.inline_local_functions"
    assert function_calls(module) == (
        f"3 nodes call functions of the model (com.mine.Twice, com.mine.Half), which rules do not match inside: {out} inlines functions"
    )
    (value,) = untyped_values(module)
    assert value.sentence == (
        "1 node left opaque because the type of 'a', which a com.mine.Twice node produces, is unknown: "
        f"declare it in value_info, or inline the function ({out})"
    )
    assert not function_calls(from_onnx(inline_local_functions(parser.parse_model(FUNCTIONS))))
