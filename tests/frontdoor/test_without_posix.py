"""Passat runs and writes models where `os` has only what all systems have, and open files cannot be moved, as on Windows."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

PROGRAM = Path(__file__).with_name("without_posix.py")


def external(path: Path) -> None:
    """A sum with zero and a product by a weight, which lies in another file and has bytes that end lines."""
    weight = np.full((16, 64), np.frombuffer(b"\r\n\n\r", np.float32)[0])
    nodes = [helper.make_node("Add", ["x", "zero"], ["a"]), helper.make_node("MatMul", ["a", "w"], ["y"])]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", (2, 16)), ("y", (2, 64)))]
    constants = [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.zeros((), np.float32), "zero")]
    model = helper.make_model(helper.make_graph(nodes, "g", values[:1], values[1:], constants), opset_imports=[helper.make_opsetid("", 21)])
    onnx.save(model, path, save_as_external_data=True, location="m.data")


def test_models_are_optimized_and_written_without_posix(tmp_path: Path) -> None:
    external(tmp_path / "m.onnx")
    before = onnx.load(tmp_path / "m.onnx").graph.initializer[0]
    done = subprocess.run([sys.executable, PROGRAM, "m.onnx"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    after = onnx.load(tmp_path / "m.onnx").graph
    assert [node.op_type for node in after.node] == ["MatMul"]
    assert numpy_helper.to_array(after.initializer[0]).tobytes() == numpy_helper.to_array(before).tobytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "m.data", "m.onnx", "m.onnx.data"]
