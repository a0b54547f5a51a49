"""Models raised to a later opset."""

import onnx
import pytest

from passat.ir.onnx.errors import OnnxError
from passat.ir.onnx.opset import in_opset


def model(opset: int, body: str = "y = Relu(x)") -> onnx.ModelProto:
    found: onnx.ModelProto = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": {opset}]> main (float[2, 3] x) => (float[2, 3] y) {{ {body} }}'
    )
    return found


def test_a_model_in_a_later_opset() -> None:
    raised = in_opset(model(17), 23)
    assert [entry.version for entry in raised.opset_import] == [23]
    onnx.checker.check_model(raised, full_check=True)


def test_what_changed_meaning_is_converted() -> None:
    raised = in_opset(model(11, "y = Softmax<axis = 0>(x)"), 13)  # before 13 it flattened
    assert [node.op_type for node in raised.graph.node] != ["Softmax"]


def test_a_model_that_is_there_already_is_itself() -> None:
    same = model(18)
    assert in_opset(same, 18) is same


def test_opsets_are_not_lowered() -> None:
    with pytest.raises(OnnxError, match="in opset 18; opsets can be raised, not lowered to 17"):
        in_opset(model(18), 17)


def test_an_opset_that_there_is_not() -> None:
    with pytest.raises(OnnxError, match="does not go from opset 18 to 999"):
        in_opset(model(18), 999)
