"""Comparison of models with large weights, whose variants share a file of weights."""

import errno
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser
from onnx.external_data_helper import load_external_data_for_model

from passat.ir.onnx import files
from passat.ir.onnx.lean import lean_model
from tests.comparing import compare_models
from tests.patience import PATIENCE, comes_true

LARGE = np.random.default_rng(0).normal(size=(1024, 1200)).astype(np.float32)
HEAD = '<ir_version: 8, opset_import: ["" : 17, "own" : 1, "unknown" : 1]> g (float[N, 1024] x) => (float[N, 1200] y)'
FUNCTION = '<opset_import: ["" : 17], domain: "own"> f (a) => (b) { c = Exp (a) b = Sin (c) }'
BODIES = {
    "sensitive to rounding": "{ a = MatMul (x, w) b = Mul (a, s) y = Sin (b) }",
    "random": "{ a = MatMul (x, w) r = RandomNormalLike (a) y = Add (a, r) }",
    "with functions": "{ a = MatMul (x, w) y = own.f (a) }",
    "cut at unknown operators": "{ a = MatMul (x, w) b = unknown.F (a) c = Identity (b) y = Sin (c) }",
}


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def model(body: str = BODIES["sensitive to rounding"], factor: float = 1.0, scale: float = 300.0) -> ModelProto:
    made = parser.parse_model(f"{HEAD} {body} {FUNCTION if 'own.' in body else ''}")
    if "unknown" in body:
        made.graph.value_info.append(helper.make_tensor_value_info("b", TensorProto.FLOAT, ["N", 1200]))
    arrays = {"w": LARGE * np.float32(factor), "s": np.array(scale / factor, np.float32)}
    made.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in arrays.items() if name in body)
    return made


def becomes_empty(folder: Path) -> bool:
    """Whether a thread removes what is in a folder."""
    return comes_true(lambda: not list(folder.iterdir()))


def saved(made: ModelProto, path: Path) -> Path:
    onnx.save(made, path)
    return path


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("kind", ["in memory", "as bytes", "in files"])
def test_large_models_are_compared(body: str, kind: str, tmp_path: Path, temporary: Path) -> None:
    ways: dict[str, Callable[[ModelProto, str], ModelProto | bytes | Path]] = {
        "in memory": lambda made, _: made,
        "as bytes": lambda made, _: made.SerializeToString(),
        "in files": lambda made, name: saved(made, tmp_path / f"{name}.onnx"),
    }
    given = ways[kind]
    original = given(model(body), "a")
    assert compare_models(original, given(model(body, 1 + 2e-7 if "s)" in body else 1.0), "b")).equal is True
    assert compare_models(original, given(model(body, 1.01, scale=500), "c")).equal is False
    assert becomes_empty(temporary)


def test_large_models_with_external_data_stay_in_their_folder(tmp_path: Path) -> None:
    onnx.save(model(), tmp_path / "a.onnx", save_as_external_data=True, location="a.data")
    in_memory = onnx.load(tmp_path / "a.onnx", load_external_data=False)
    assert compare_models(in_memory, in_memory, folder=str(tmp_path)).equal is True
    assert lean_model(in_memory) is None
    assert compare_models(model(), tmp_path / "a.onnx").equal is True


def test_without_space_for_a_file_the_weights_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("passat.ir.onnx.lean.lean_model", full)
    assert compare_models(model(), model(factor=1 + 2e-7)).equal is True
    assert compare_models(model(), model(scale=500)).equal is False


def test_an_interruption_while_the_file_is_removed_is_not_lost(monkeypatch: pytest.MonkeyPatch, temporary: Path) -> None:
    removed, compared, first = shutil.rmtree, threading.Event(), threading.Lock()

    def interrupted(*args: Any) -> None:
        compared.wait(PATIENCE)  # while the finalizer starts the thread, an interruption would be lost
        if first.acquire(blocking=False):
            os.kill(os.getpid(), signal.SIGINT)
        removed(*args)

    monkeypatch.setattr(shutil, "rmtree", interrupted)
    compare_models(model(), model(factor=1 + 2e-7))
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # it comes while the main thread waits
        compared.set()
        comes_true(lambda: False)
    assert becomes_empty(temporary)


@pytest.mark.parametrize("element_type", ["float32", "float16", "int8", "bfloat16", "float8_e4m3fn", "int4"])
def test_weights_keep_their_values(element_type: str) -> None:
    made = model()
    array = (LARGE[:, :1199] * 3).clip(-8, 7).astype(getattr(ml_dtypes, element_type, None) or element_type)
    for name in ("one", "other"):
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    found = lean_model(made)
    assert found is not None
    lean, folder = found
    assert [tensor.name for tensor in lean.graph.initializer] == ["w", "s", "one", "other"]
    assert lean.ByteSize() < 2000
    files.check_model(lean)
    load_external_data_for_model(lean, folder)
    for tensor, before in zip(lean.graph.initializer, made.graph.initializer, strict=True):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor), numpy_helper.to_array(before))


def test_small_models_get_no_file(temporary: Path) -> None:
    small = model()
    small.graph.initializer[0].CopyFrom(numpy_helper.from_array(LARGE[:100], "w"))
    assert lean_model(small) is None
    assert not list(temporary.iterdir())


def test_damaged_weights_are_named() -> None:
    damaged = model()
    damaged.graph.initializer[0].raw_data = damaged.graph.initializer[0].raw_data[:-1]
    report = compare_models(damaged, model())
    assert report.equal is None
    assert "ONNX Runtime does not load the original" in report.skipped
    assert "TensorProto: w" in report.skipped
