"""Models with external weights: optimized without reading unneeded data, saved to any folder."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto

import passat
from passat.ir.onnx import OnnxError
from passat.runner import Runner
from tests.corpus.optimizing import floats, operators, parse
from tests.share import SOAK

WIDTH = 64
MEMORY = 500
"""Maximum memory of a process in megabytes, for a model of any size."""


def write(folder: Path, location: str = "model.bin", layers: int = 3, width: int = WIDTH) -> Path:
    """A chain of products with weights in one file, an addition of 0 before each, and a Tanh between them; otherwise one product would
    suffice."""
    model = parse(f"g (float[N, {width}] x) => (float[N, {width}] y) <float zero = {{0.0}}> {{ }}")
    block = np.random.default_rng(0).normal(size=(width, width)).astype(np.float32) / width**0.5
    with open(folder / "model.bin", "wb") as file:
        for layer in range(layers):
            block[0] = layer / layers
            file.write(block.tobytes())
            tensor = model.graph.initializer.add(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[width, width])
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", location), ("offset", layer * block.nbytes), ("length", block.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.node.add(op_type="Add", input=[f"v{layer - 1}" if layer else "x", "zero"], output=[f"a{layer}"])
            last = layer == layers - 1
            model.graph.node.add(op_type="MatMul", input=[f"a{layer}", f"w{layer}"], output=["y" if last else f"p{layer}"])
            if not last:
                model.graph.node.add(op_type="Tanh", input=[f"p{layer}"], output=[f"v{layer}"])
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def test_the_result_loads_from_any_folder(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    path = write(source)
    result = passat.optimize(path, opt_level=3)
    assert operators(result.model) == {"MatMul": 3, "Tanh": 2}
    assert result.report.verification is not None
    assert result.report.verification.equal is True
    result.save(target / "out.onnx")
    want = Runner(path).run({"x": floats(2, WIDTH)})
    (source / "model.bin").unlink()
    elsewhere = tmp_path / "elsewhere"
    target.rename(elsewhere)
    np.testing.assert_allclose(Runner(elsewhere / "out.onnx").run({"x": floats(2, WIDTH)})[0], want[0], rtol=1e-5)
    assert sorted(os.listdir(elsewhere)) == ["out.onnx", "out.onnx.data"]


def test_a_result_may_take_the_place_of_its_source(tmp_path: Path) -> None:
    path = write(tmp_path)
    want = Runner(path).run({"x": floats(2, WIDTH)})
    passat.optimize(path, opt_level=3).save(path)
    np.testing.assert_allclose(Runner(path).run({"x": floats(2, WIDTH)})[0], want[0], rtol=1e-5)
    assert operators(onnx.load(path)) == {"MatMul": 3, "Tanh": 2}


def test_a_model_in_memory_with_its_data_in_a_folder(tmp_path: Path) -> None:
    path = write(tmp_path)
    result = passat.optimize(onnx.load(path, load_external_data=False), folder=tmp_path)
    assert operators(result.model) == {"MatMul": 3, "Tanh": 2}


def test_weights_that_are_changed_come_out_changed(tmp_path: Path) -> None:
    """A product with a transposed weight is folded: the data in the file is read, and the result is written."""
    path = write(tmp_path, layers=1)
    model = onnx.load(path, load_external_data=False)
    model.graph.node[1].input[1] = "t"
    model.graph.node.insert(1, onnx.helper.make_node("Transpose", ["w0"], ["t"], perm=[1, 0]))
    path.write_bytes(model.SerializeToString())
    result = passat.optimize(path, opt_level=3)
    assert operators(result.model) == {"MatMul": 1}
    out = tmp_path / "out"
    out.mkdir()
    result.save(out / "out.onnx")
    x = floats(2, WIDTH)
    np.testing.assert_allclose(Runner(out / "out.onnx").run({"x": x})[0], Runner(path).run({"x": x})[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("location", ["../model.bin", "/etc/hostname", "a/../../model.bin"])
def test_data_outside_the_folder_is_rejected(location: str, tmp_path: Path) -> None:
    path = write(tmp_path, location)
    with pytest.raises(OnnxError, match="outside the model's folder"):
        passat.optimize(path)
    assert sorted(os.listdir(tmp_path)) == ["model.bin", "model.onnx"]


def test_a_link_to_outside_the_folder_is_rejected(tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    path = write(inside)
    (inside / "model.bin").rename(tmp_path / "model.bin")
    (inside / "model.bin").symlink_to(tmp_path / "model.bin")
    with pytest.raises(OnnxError, match="outside the model's folder"):
        passat.optimize(path)


def test_missing_or_short_data_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path)
    os.truncate(tmp_path / "model.bin", 100)
    with pytest.raises(OnnxError, match=r"model\.bin.*the file has 100 bytes"):
        passat.optimize(path)
    (tmp_path / "model.bin").unlink()
    with pytest.raises(OnnxError, match="does not exist"):
        passat.optimize(path)


MEASURE = """
import json, sys, time
import passat
from passat.passmgr.inspection.resources import record_bytes
start = time.perf_counter()
result = passat.optimize(sys.argv[1], opt_level=3, verify=False)
result.save(sys.argv[2])
seconds = time.perf_counter() - start
print(json.dumps({"nodes": result.report.node_count_after, "seconds": seconds, "kilobytes": record_bytes() / 1000}))
"""


@pytest.mark.parametrize(
    ("layers", "width"),
    [
        (8, 1024),
        pytest.param(33, 4096, marks=pytest.mark.skipif(not SOAK, reason="writes 4.4 GB; PASSAT_SOAK=1 runs it")),
    ],
    ids=["32 MB", "2.2 GB"],
)
def test_weights_take_no_memory(layers: int, width: int, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    path = write(tmp_path, layers=layers, width=width)
    done = subprocess.run([sys.executable, "-c", MEASURE, path, out / "m.onnx"], check=True, capture_output=True, text=True)
    found = json.loads(done.stdout)
    print(f"{layers} layers of {4 * width * width / 1e6:.0f} MB: {found['seconds']:.2f} s, {found['kilobytes'] / 1e3:.0f} MB")
    assert found["nodes"] == 2 * layers - 1
    assert found["kilobytes"] < MEMORY * 1000
    assert (out / "m.onnx.data").stat().st_size == layers * 4 * width * width
