"""Models as objects of other packages, and their conversion."""

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import passat
from passat.ir.onnx import OnnxError
from passat.source import convert


def doubled(weight: onnx.TensorProto) -> ModelProto:
    """`x @ w` followed by two Relus, one of them redundant."""
    nodes = [("MatMul", ["x", "w"], ["m"]), ("Relu", ["m"], ["r"]), ("Relu", ["r"], ["y"])]
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 64]) for name in "xy"}
    graph = helper.make_graph([helper.make_node(*each) for each in nodes], "g", [values["x"]], [values["y"]], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def weight() -> onnx.TensorProto:
    return numpy_helper.from_array(np.arange(64 * 64, dtype=np.float32).reshape(64, 64) / 4096, "w")


def operators(model: ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


def test_an_onnx_ir_model_round_trips() -> None:
    model = onnx_ir.from_proto(doubled(weight()))
    result = passat.optimize(model)
    assert isinstance(result.model, ModelProto)
    assert operators(result.model) == ["MatMul", "Relu"]
    assert result.report.source == "a model in memory"
    assert [node.op_type for node in model.graph] == ["MatMul", "Relu", "Relu"]
    back = onnx_ir.from_proto(result.model)
    assert [node.op_type for node in back.graph] == ["MatMul", "Relu"]
    assert passat.diff(back, result.model).equal
    assert passat.inspect(back).nodes == {"MatMul": 1, "Relu": 1}


def test_a_model_as_path_bytes_file_proto_and_object_gives_the_same(tmp_path: Path) -> None:
    proto = doubled(weight())
    onnx.save(proto, tmp_path / "m.onnx")
    data = proto.SerializeToString()
    given = (tmp_path / "m.onnx", str(tmp_path / "m.onnx"), data, io.BytesIO(data), proto, onnx_ir.from_proto(proto))
    results = [passat.optimize(model, verify=False).model.SerializeToString(deterministic=True) for model in given]
    assert len(set(results)) == 1


def test_profile_takes_objects() -> None:
    before = onnx_ir.from_proto(doubled(weight()))
    assert passat.profile(before, before, seconds=0.01).sizes == {"n": 64}


def test_external_data_is_found_and_copied(tmp_path: Path) -> None:
    folder = tmp_path / "source"
    folder.mkdir()
    onnx.save(doubled(weight()), folder / "m.onnx", save_as_external_data=True, location="w.bin", size_threshold=0)
    result = passat.optimize(onnx_ir.load(folder / "m.onnx"))
    assert result.report.verification is not None
    assert result.report.verification.equal
    (tmp_path / "result").mkdir()
    result.save(tmp_path / "result" / "m.onnx")
    (saved,) = onnx.load(tmp_path / "result" / "m.onnx").graph.initializer
    np.testing.assert_array_equal(numpy_helper.to_array(saved), numpy_helper.to_array(weight()))


def test_external_data_in_several_folders_is_rejected(tmp_path: Path) -> None:
    model = onnx_ir.from_proto(doubled(weight()))
    for name in ("a", "b"):
        tensor = onnx_ir.ExternalTensor(
            "w.bin", 0, 4, onnx_ir.DataType.FLOAT, shape=onnx_ir.Shape([1]), name=name, base_dir=tmp_path / name
        )
        model.graph.register_initializer(onnx_ir.Value(name=name, const_value=tensor))
    with pytest.raises(
        OnnxError, match=r"external data in several folders: .*/a, .*/b; onnx_ir.external_data.load_to_model\(model\) reads"
    ):
        passat.optimize(model)


def test_a_weight_without_a_value_is_rejected_with_a_sentence() -> None:
    model = onnx_ir.from_proto(doubled(weight()))

    def missing() -> onnx_ir.TensorProtocol:
        raise ValueError("it was exported without weights")

    model.graph.initializers["w"].const_value = onnx_ir.LazyTensor(
        missing, dtype=onnx_ir.DataType.FLOAT, shape=onnx_ir.Shape([64, 64]), name="w"
    )
    with pytest.raises(OnnxError, match="onnx_ir cannot write the model as ONNX: ValueError: it was exported without weights"):
        passat.optimize(model)


def test_an_exported_program_is_recognized_by_the_name_of_its_type() -> None:
    program = type("ONNXProgram", (), {"__module__": "torch.onnx", "model": onnx_ir.from_proto(doubled(weight()))})()
    assert operators(passat.optimize(program).model) == ["MatMul", "Relu"]


@pytest.mark.parametrize("name", ["Model", "ONNXProgram"])
def test_a_type_of_the_same_name_from_elsewhere_is_none(name: str) -> None:
    assert convert(type(name, (), {})()) is None


def test_onnx_ir_is_not_imported_for_other_models() -> None:
    code = (
        "import sys; from passat.source import open_source; from onnx import helper\n"
        "graph = helper.make_graph([], 'g', [], [])\n"
        "open_source(helper.make_model(graph), None)\n"
        "assert 'onnx_ir' not in sys.modules and 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
