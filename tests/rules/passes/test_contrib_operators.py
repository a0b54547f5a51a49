"""ContribOperators: ONNX Runtime's own operators, for targets that have them."""

import onnx
import pytest

from passat.optimizer import optimize
from passat.passmgr import PassContext
from passat.rules.passes.target import contrib_operators
from tests.rules.passes.golden import becomes, program, stays

DOMAIN = "com.microsoft"
SIGNATURE = "%x: (2, 3, 4), %y: (2, 5, 4), %b: (4)"
SCORES = "nn.matmul(%x, transpose(%y, axes=[0, 2, 1])) * 0.5f"
TEXT = """
<ir_version: 9, opset_import: ["": 18]>
main (float[2, 3, 4] x, float[2, 5, 4] y) => (float[2, 3, 5] z)
<float half = {0.5}>
{
  t = Transpose<perm = [0, 2, 1]>(y)
  raw = MatMul(x, t)
  z = Mul(raw, half)
}
"""


def test_products_take_factors_and_transposes() -> None:
    becomes(
        contrib_operators(),
        SIGNATURE,
        SCORES,
        "contrib.fused_matmul(%x, %y, alpha=0.5f, transpose_b=True)",
        rules__domains=[DOMAIN],
    )


def test_a_product_that_others_read_is_not_computed_twice() -> None:
    body = "let %p = nn.matmul(%x, %x2);\n(%p * 0.5f, tanh(%p))"
    stays(contrib_operators(), "%x: (2, 3, 4), %x2: (2, 4, 5)", body, rules__domains=[DOMAIN])


def test_without_the_domain_a_remark_explains_that_nothing_happens() -> None:
    stays(contrib_operators(), SIGNATURE, SCORES)
    with PassContext() as context:
        contrib_operators()(program(SIGNATURE, SCORES))
        assert any("com.microsoft" in remark for remark in context.statistics.remarks["ContribOperators"])


def test_exact_math_leaves_them_alone() -> None:
    stays(contrib_operators(), SIGNATURE, SCORES, rules__domains=[DOMAIN], rules__math="exact")


@pytest.mark.parametrize(("options", "wanted"), [({}, ["", "", ""]), ({"rules.domains": [DOMAIN]}, [DOMAIN])])
def test_models(options: dict[str, list[str]], wanted: list[str]) -> None:
    result = optimize(onnx.parser.parse_model(TEXT), config=options)
    assert [node.domain for node in result.model.graph.node] == wanted
    assert {entry.domain for entry in result.model.opset_import} == {"", *wanted}
    assert result.report.verification is not None
    assert result.report.verification.equal


def test_a_model_that_has_them_is_optimized_for_them() -> None:
    once = optimize(onnx.parser.parse_model(TEXT), config={"rules.domains": [DOMAIN]}).model
    again = optimize(once)
    assert [node.op_type for node in again.model.graph.node] == ["FusedMatMul"]


def test_results_are_declared_since_other_programs_do_not_infer_them() -> None:
    text = TEXT.replace("z = Mul(raw, half)", "scores = Mul(raw, half)\n  z = Softmax(scores)")
    result = optimize(onnx.parser.parse_model(text), config={"rules.domains": [DOMAIN]})
    assert [node.op_type for node in result.model.graph.node] == ["FusedMatMul", "Softmax"]
    assert [value.name for value in result.model.graph.value_info] == [result.model.graph.node[0].output[0]]
