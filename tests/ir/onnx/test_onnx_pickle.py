"""Modules that were read from ONNX can be pickled: with their frame and their constants as stored, ready to be written."""

import pickle
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from passat.ir.equality import assert_structural_equal
from passat.ir.expr import Constant
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.serialize import numbering

MODELS = Path(__file__).resolve().parents[3] / "examples" / "models"


@pytest.mark.parametrize("name", ["resnet_tiny", "bert_tiny"])
def test_models_come_back(name: str) -> None:
    model = onnx.load(MODELS / f"{name}.onnx")
    module = from_onnx(model)
    back = pickle.loads(pickle.dumps(module))
    assert_structural_equal(module, back, sharing=True)
    written, direct = to_onnx(back), to_onnx(module)
    onnx.checker.check_model(written)
    assert [node.op_type for node in written.graph.node] == [node.op_type for node in direct.graph.node]
    assert [value.name for value in written.graph.output] == [value.name for value in direct.graph.output]


def test_external_data_is_not_read(tmp_path: Path) -> None:
    weights = numpy_helper.from_array(np.ones((64, 64), np.float32), "w")
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 64]) for name in ("x", "y")]
    model = helper.make_model(helper.make_graph([node], "g", value[:1], value[1:], [weights]))
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, size_threshold=0, location="m.data")
    module = from_onnx(str(tmp_path / "m.onnx"))
    data = pickle.dumps(module)
    assert len(data) < 64 * 64 * 4
    (constant,) = (node for node in numbering(pickle.loads(data)["main"]) if isinstance(node, Constant))
    assert "lazy" in repr(constant.data)
    assert constant.data.numpy().sum() == 64 * 64
