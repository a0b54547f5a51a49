"""Equal weights are written once, and a model that only has equal weights is written again."""

import numpy as np
import pytest
from onnx import ModelProto, helper, numpy_helper, parser

from passat import optimize

RANDOM = np.random.default_rng(0).normal(size=(64, 64)).astype(np.float32)
OTHER = RANDOM + 1
TEXT = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 64] x, bool f) => (float[N, 64] y) {
    a = MatMul (x, v) b = Relu (a)
    y = If (f) <then_branch = t () => (float[N, 64] c) { c = MatMul (b, w) }, else_branch = e () => (float[N, 64] d) { d = Sub (b, x) }>
}"""


def model(**weights: np.ndarray) -> ModelProto:
    made = parser.parse_model(TEXT)
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in weights.items())
    return made


def test_equal_weights_are_written_once() -> None:
    result = optimize(model(v=RANDOM, w=RANDOM.copy()))
    assert not result.report.kept
    assert [tensor.name for tensor in result.model.graph.initializer] == ["v"]
    assert result.report.bytes_after < 0.6 * result.report.bytes_before
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    again = optimize(result.model)
    assert again.report.kept == "no pass changed anything"


@pytest.mark.parametrize("other", [OTHER, RANDOM.astype(np.float64).astype(np.float32) * np.float32(-1), RANDOM.T.copy()])
def test_other_weights_are_kept(other: np.ndarray) -> None:
    result = optimize(model(v=RANDOM, w=other))
    assert sorted(tensor.name for tensor in result.model.graph.initializer) == ["v", "w"]


def test_weights_that_differ_in_one_element_are_kept() -> None:
    near = RANDOM.copy()
    near[31, 17] = np.nextafter(near[31, 17], np.float32(9))
    result = optimize(model(v=RANDOM, w=near))
    assert {tensor.name: numpy_helper.to_array(tensor)[31, 17] for tensor in result.model.graph.initializer} == {
        "v": RANDOM[31, 17],
        "w": near[31, 17],
    }


def test_equal_outputs_keep_their_names() -> None:
    text = '<ir_version: 8, opset_import: ["" : 17]> g (float[64, 64] x) => (float[64, 64] v, float[64, 64] w, float[64, 64] y) { y = Add (x, v) }'
    made = parser.parse_model(text)
    made.graph.initializer.extend(numpy_helper.from_array(RANDOM, name) for name in ("v", "w"))
    result = optimize(made)
    assert [value.name for value in result.model.graph.output] == ["v", "w", "y"]


@pytest.mark.parametrize("annotated", ["v", "w"])
def test_weights_with_quantization_annotations_are_kept(annotated: str) -> None:
    given = model(v=RANDOM, w=RANDOM.copy())
    entry = given.graph.quantization_annotation.add(tensor_name=annotated)
    entry.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="scale")
    given.graph.initializer.append(numpy_helper.from_array(np.array(0.5, np.float32), "scale"))
    written = optimize(given).model
    assert {"v", "w"} <= {tensor.name for tensor in written.graph.initializer}
    assert [entry.tensor_name for entry in written.graph.quantization_annotation] == [annotated]


def test_equal_outputs_are_no_reason_to_write_a_model_again() -> None:
    text = """<ir_version: 8, opset_import: ["": 17]> g (float[N, 64] x) => (float[N, 64] y, float[64, 64] v, float[64, 64] w) { y = MatMul(x, v) }"""
    given = parser.parse_model(text)
    given.graph.initializer.extend(numpy_helper.from_array(RANDOM, name) for name in "vw")
    assert optimize(given).report.kept == "no pass changed anything"


def test_many_weights_that_look_alike() -> None:
    """Their samples are equal, and only two are."""
    given = parser.parse_model('<ir_version: 8, opset_import: ["": 17]> g (float[64, 64] x) => (float[64, 64] y) { y = Identity(x) }')
    del given.graph.node[:]
    before = "x"
    for i in range(300):
        array = np.zeros((64, 64), np.float32)
        array[1, 1 + min(i, 298) % 60] = array[2, 1 + min(i, 298) // 60] = 1
        given.graph.initializer.append(numpy_helper.from_array(array, f"w{i}"))
        given.graph.node.append(helper.make_node("Add", [before, f"w{i}"], [f"a{i}"]))
        given.graph.node.append(helper.make_node("Sin", [f"a{i}"], [f"s{i}" if i < 299 else "y"]))
        before = f"s{i}"
    assert len(optimize(given, verify=False).model.graph.initializer) == 299
