"""Models of the onnx package, read and written: same operators, same interface, same values.

CI takes every fiftieth of onnx's node tests; `make nightly` takes all, and a model of 2.2 GB.
"""

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto

from passat.ir.module import IRModule
from passat.ir.onnx import check, from_onnx, load, read_model, save, to_onnx
from passat.ir.onnx.frame import Frame
from tests.onnx_cases import collected
from tests.share import SOAK, share

Run = Callable[[ModelProto, dict[str, Any]], list[Any]]
Rebuilt = Callable[[IRModule], IRModule]
Histogram = Callable[[ModelProto], Counter[str]]

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
LIGHT = sorted((DATA / "light").glob("*.onnx"))
FILES = sorted(DATA.glob("*/*/model.onnx"))
RANDOM = {"Bernoulli", "Dropout", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def interface(model: ModelProto) -> tuple[list[bytes], list[bytes]]:
    """The inputs without initializers, and the outputs, as bytes."""
    fixed = {tensor.name for tensor in model.graph.initializer} if model.ir_version < 4 else set()
    return (
        [value.SerializeToString() for value in model.graph.input if value.name not in fixed],
        [value.SerializeToString() for value in model.graph.output],
    )


def both_ways(model: ModelProto, rebuilt: Rebuilt, histogram: Histogram) -> Iterator[ModelProto]:
    """The model read and written with its original nodes, and with the writers of all operators; both checked."""
    module = from_onnx(model)
    for out in (to_onnx(module), to_onnx(rebuilt(module))):
        check(out)
        assert interface(out) == interface(model)
        assert (out.ir_version, out.opset_import) == (model.ir_version, model.opset_import)
        more = 2 * histogram(model)[".Swish"]  # ONNX Runtime has no kernel for it: it is written as two nodes, or three
        assert sum(histogram(out).values()) <= sum(histogram(model).values()) + more
        yield out
    assert histogram(to_onnx(module)) == histogram(model)


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: path.stem)
def test_light_models_come_back_with_the_same_nodes(path: Path, rebuilt: Rebuilt, histogram: Histogram) -> None:
    model = read_model(path)
    for out in both_ways(model, rebuilt, histogram):
        assert histogram(out) == histogram(model)
        assert out.ByteSize() <= 1.1 * path.stat().st_size  # attributes with default values are written explicitly
        assert out.ir_version == 3


@pytest.mark.parametrize("name", ["squeezenet", "shufflenet"])
def test_light_models_compute_the_same(name: str, rebuilt: Rebuilt, histogram: Histogram, run: Run, random: np.random.Generator) -> None:
    model = read_model(DATA / "light" / f"light_{name}.onnx")
    fixed = {tensor.name for tensor in model.graph.initializer}
    (name,) = [value.name for value in model.graph.input if value.name not in fixed]
    feeds = {name: random.normal(size=(1, 3, 224, 224)).astype(np.float32)}
    (want,) = run(model, feeds)
    for out in both_ways(model, rebuilt, histogram):
        np.testing.assert_array_equal(run(out, feeds)[0], want)


def test_onnx_runtime_still_takes_the_initializers_of_ir_version_3_for_constants(tmp_path: Path) -> None:
    out = to_onnx(load(DATA / "light" / "light_squeezenet.onnx"))
    options = ort.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    options.log_severity_level = 4
    session = ort.InferenceSession(out.SerializeToString(), options, providers=["CPUExecutionProvider"])
    assert len(session.get_inputs()) == 1
    kinds = {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}
    assert "ConstantOfShape" not in kinds


@pytest.mark.parametrize("path", FILES[:: share(6, 1)], ids=lambda path: path.parent.name)
def test_model_files_of_the_onnx_package(path: Path, rebuilt: Rebuilt, histogram: Histogram) -> None:
    assert len(list(both_ways(read_model(path), rebuilt, histogram))) == 2


def equal(got: Any, want: Any) -> bool:
    if isinstance(want, list):
        return len(got) == len(want) and all(map(equal, got, want))
    if not isinstance(want, np.ndarray):
        return bool(got == want)
    if got.dtype != want.dtype or got.shape != want.shape:
        return False
    if want.dtype.kind in "OUS":
        return bool((got == want).all())
    if want.dtype.kind not in "biufc":  # types of ml_dtypes
        got, want = got.astype(np.float32), want.astype(np.float32)
    return bool(np.allclose(got, want, rtol=1e-5, atol=1e-6, equal_nan=True))


def test_node_tests_of_the_onnx_package(rebuilt: Rebuilt, histogram: Histogram, run: Run) -> None:
    cases = [(case, case.data_sets[0][0]) for case in collected() if case.data_sets]
    assert len(cases) > 1500
    compared = 0
    for case, inputs in cases[:: share(50, 1)]:
        model = case.model
        assert model is not None
        outs = list(both_ways(model, rebuilt, histogram))
        if RANDOM & {node.op_type for node in model.graph.node}:
            continue
        feeds = dict(zip((value.name for value in model.graph.input), inputs, strict=False))
        try:
            want = run(model, feeds)
        except Exception:
            continue  # ONNX Runtime lacks some operators
        compared += 1
        for out in outs:
            assert equal(run(out, feeds), want), case.name
    assert compared > share(15, 800)


@pytest.mark.skipif(not SOAK, reason="writes 4.4 GB; PASSAT_SOAK=1 runs it")
def test_a_model_of_more_than_two_gigabytes_takes_little_memory(tmp_path: Path) -> None:
    width, layers = 4096, 33
    model = onnx.parser.parse_model('<ir_version: 9, opset_import: ["" : 18]> g (float[N, 4096] x) => (float[N, 4096] y) { }')
    block = np.random.default_rng(0).random((width, width), np.float32)
    with open(tmp_path / "m.bin", "wb") as file:
        for layer in range(layers):
            block[0] = layer
            file.write(block.data)
            tensor = model.graph.initializer.add(name=f"w{layer}", data_type=1, dims=[width, width], data_location=1)
            for key, value in (("location", "m.bin"), ("offset", layer * block.nbytes), ("length", block.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            model.graph.node.add(
                op_type="MatMul",
                input=[f"v{layer - 1}" if layer else "x", f"w{layer}"],
                output=["y" if layer == layers - 1 else f"v{layer}"],
            )
    (tmp_path / "m.onnx").write_bytes(model.SerializeToString())
    code = (
        "import sys; from passat.ir.onnx import load, save; from passat.passmgr.inspection.resources import record_bytes;"
        "save(load(sys.argv[1]), sys.argv[2]); print(record_bytes())"
    )
    out = tmp_path / "out"
    out.mkdir()
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "m.onnx", out / "m.onnx"], check=True, capture_output=True, text=True)
    assert int(done.stdout) < 500_000_000
    (tmp_path / "m.bin").unlink()
    body: Any = load(out / "m.onnx")["main"].body
    np.testing.assert_array_equal(body.args[1].data.numpy()[:2], np.stack([np.full(width, layers - 1, np.float32), block[1]]))


@st.composite
def graphs(draw: st.DrawFn) -> ModelProto:
    """Sorted graphs of live nodes on matrices, with shared values, several outputs, and initializers."""
    empty = onnx.parser.parse_graph("g (float[N, 4] x, float[N, 4] z) => () { }")
    model = onnx.helper.make_model(empty, ir_version=8, opset_imports=[onnx.helper.make_opsetid("", 17)])
    graph = model.graph
    values, dead = ["x", "z"], []
    for i in range(draw(st.integers(0, 2))):
        graph.initializer.append(onnx.numpy_helper.from_array(np.full((1, 4), i, np.float32), f"w{i}"))
        dead.append(f"w{i}")
    for i in range(draw(st.integers(1, 12))):
        known = values + dead
        operand = st.sampled_from(known)
        kind = draw(st.sampled_from(["Relu", "Neg", "Add", "Mul", "Max", "Split"]))
        reads = [draw(operand) for _ in range(1 if kind in ("Relu", "Neg", "Split") else 2)]
        makes = [f"v{i}"] if kind != "Split" else [f"v{i}a", f"v{i}b"]
        if kind == "Split":
            reads = [draw(st.sampled_from(["x", "z"]))]  # the halves have another size, and are outputs only
        node = graph.node.add(op_type=kind, input=reads, output=makes, name=draw(st.sampled_from(["", f"node{i}"])))
        if kind == "Split":
            node.attribute.append(onnx.helper.make_attribute("axis", 0))
        values += makes if kind != "Split" else []
        dead = [name for name in dead if name not in reads] + makes
    unread = [name for name in dead if name[0] != "w"]
    graph.output.extend(onnx.ValueInfoProto(name=name) for name in unread)
    return onnx.shape_inference.infer_shapes(model)


@settings(max_examples=share(30, 60))
@given(graphs())
def test_a_model_that_nothing_is_done_to_comes_back_as_it_was(model: ModelProto) -> None:
    del model.graph.value_info[:]
    read = {name for node in model.graph.node for name in node.input}
    kept = [tensor for tensor in model.graph.initializer if tensor.name in read]
    del model.graph.initializer[:]
    model.graph.initializer.extend(kept)
    assert to_onnx(from_onnx(model)) == model


def test_the_frame_travels_with_the_module() -> None:
    module = load(LIGHT[0])
    assert isinstance(module.attrs["onnx"], Frame)
    assert isinstance(module.shallow_copy().attrs["onnx"], Frame)


def test_saved_models_round_trip(tmp_path: Path) -> None:
    path = DATA / "light" / "light_resnet50.onnx"
    save(load(path), tmp_path / "m.onnx")
    assert os.listdir(tmp_path) == ["m.onnx"]
    assert read_model(tmp_path / "m.onnx") == to_onnx(load(path))
