"""`benchmarks/latency.py`: what it prints and writes for a small model; never how long anything takes."""

import json
import subprocess
import sys
from pathlib import Path

import onnx
from onnx import TensorProto, helper

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "benchmarks" / "latency.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def small_model(path: Path) -> None:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Neg", ["x"], ["a"]), helper.make_node("Neg", ["a"], ["b"]), helper.make_node("Relu", ["b"], ["y"])]
    ends = [value("x", TensorProto.FLOAT, ["batch", 8])], [value("y", TensorProto.FLOAT, ["batch", 8])]
    onnx.save(helper.make_model(helper.make_graph(nodes, "small", *ends), opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)


def test_report(tmp_path: Path) -> None:
    small_model(tmp_path / "small.onnx")
    (tmp_path / "broken.onnx").write_bytes(b"no model")
    work, answer = tmp_path / "work", tmp_path / "latency.json"
    limits = ["--threads", "1", "--runs", "4", "--seconds", "0.1", "--sessions", "1", "--peers", "ort_extended"]
    done = run(str(tmp_path), "--work", str(work), "--json", str(answer), *limits)
    assert done.returncode == 0, done.stderr
    assert "| model | us | control | passat | ort_extended | best peer |" in done.stdout
    assert "geometric mean, all (1)" in done.stdout
    assert "* broken, passat:" in done.stdout
    row = json.loads(answer.read_text())["threads"]["1"]["small"]
    assert set(row) == {"input", "control", "passat", "ort_extended"}
    assert all(ratio["equal"] and ratio["rounds"] == 4 and ratio["low"] <= ratio["median"] <= ratio["high"] for ratio in row.values())
    assert row["input"]["median"] == 1
    assert sorted(path.name.split(".")[-2] for path in work.glob("small.*.onnx")) == ["ort_extended", "passat"]


def test_no_such_model(tmp_path: Path) -> None:
    assert run(str(tmp_path), "--work", str(tmp_path / "work")).returncode == 2
