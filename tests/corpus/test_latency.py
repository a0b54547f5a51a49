"""`benchmarks/latency.py`: its output for a small model, and the fused operators that it counts. No test asserts a time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any as AnyValue

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from benchmarks import fused_operators
from passat import optimize

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
    assert "| small | - | - | - |" in done.stdout
    row = json.loads(answer.read_text())["threads"]["1"]["small"]
    assert set(row) == {"input", "control", "passat", "ort_extended"}
    assert all(ratio["equal"] and ratio["rounds"] == 4 and ratio["low"] <= ratio["median"] <= ratio["high"] for ratio in row.values())
    assert row["input"]["median"] == 1
    assert sorted(path.name.split(".")[-2] for path in work.glob("small.*.onnx")) == ["ort_extended", "passat"]


def test_no_such_model(tmp_path: Path) -> None:
    assert run(str(tmp_path), "--work", str(tmp_path / "work")).returncode == 2


def gelu(last: float) -> onnx.GraphProto:
    """The nodes of Gelu as exporters write them; ONNX Runtime fuses them only with 0.5 as the last factor."""
    steps = [("Div", 2**0.5), ("Erf", None), ("Add", 1.0), ("Mul", None), ("Mul", last)]
    nodes: list[onnx.NodeProto] = []
    weights: list[onnx.TensorProto] = []
    name = "x"
    for op, number in steps:
        operands = [name, *(["x"] if op == "Mul" and number is None else []), *([] if number is None else [f"{op}_number"])]
        if number is not None:
            weights.append(numpy_helper.from_array(np.asarray(number, np.float32), f"{op}_number"))
        nodes.append(helper.make_node(op, operands, [f"{op}_{len(nodes)}"]))
        name = nodes[-1].output[0]
    value = helper.make_tensor_value_info
    ends = [value("x", TensorProto.FLOAT, [8, 8])], [value(name, TensorProto.FLOAT, [8, 8])]
    return helper.make_graph(nodes, "gelu", *ends, weights)


def saved(graph: onnx.GraphProto, path: Path) -> Path:
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_fused_operators(tmp_path: Path) -> None:
    whole, broken = saved(gelu(0.5), tmp_path / "whole.onnx"), saved(gelu(0.25), tmp_path / "broken.onnx")
    before, after = fused_operators.count(whole), fused_operators.count(broken)
    assert (before, after) == ({"Gelu": 1}, {})
    assert fused_operators.fewer(before, after) == {"Gelu": (1, 0)}
    assert fused_operators.fewer(after, before) == {}
    shown = fused_operators.table({"model": (before, after), "same": (before, before)})
    assert "| model | 1 Gelu | - | Gelu 1 to 0 |" in shown
    assert "Fewer Gelu than in the input: 1 of 2 models" in shown


def test_fused_operators_in_a_branch(tmp_path: Path) -> None:
    then, otherwise = gelu(0.5), gelu(0.25)
    for branch in (then, otherwise):
        del branch.input[:]
    choice = helper.make_node("If", ["c"], ["y"], then_branch=then, else_branch=otherwise)
    value = helper.make_tensor_value_info
    inputs = [value("c", TensorProto.BOOL, []), value("x", TensorProto.FLOAT, [8, 8])]
    graph = helper.make_graph([choice], "choice", inputs, [value("y", TensorProto.FLOAT, [8, 8])])
    assert fused_operators.count(saved(graph, tmp_path / "choice.onnx")) == {"Gelu": 1}


@pytest.mark.parametrize("opset", [13, 17, 20])
@pytest.mark.parametrize("half_first", [False, True])
def test_a_gelu_between_products_stays_one_that_onnx_runtime_fuses(tmp_path: Path, opset: int, half_first: bool) -> None:
    """Its 0.5 must not be folded into the weight of the product after it."""
    draw = np.random.default_rng(0).standard_normal
    weights = {
        "w1": draw((64, 256)) / 10,
        "b1": draw(256),
        "w2": draw((256, 64)) / 10,
        "b2": draw(64),
        "root": 2**0.5,
        "one": 1.0,
        "half": 0.5,
    }
    factors = [("h", "half"), ("g", "a")] if half_first else [("h", "a"), ("g", "half")]
    steps = [
        *(("MatMul", "x", "w1", "m"), ("Add", "m", "b1", "h"), ("Div", "h", "root", "d"), ("Erf", "d", "", "e"), ("Add", "e", "one", "a")),
        *(("Mul", *factors[0], "g"), ("Mul", *factors[1], "z"), ("MatMul", "z", "w2", "n"), ("Add", "n", "b2", "y")),
    ]
    nodes = [helper.make_node(op, [name for name in (first, second) if name], [out]) for op, first, second, out in steps]
    first, last = ([helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 16, 64])] for name in ("x", "y"))
    constants = [numpy_helper.from_array(np.asarray(value, np.float32), name) for name, value in weights.items()]
    model = helper.make_model(
        helper.make_graph(nodes, "block", first, last, constants), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    onnx.save(model, tmp_path / "before.onnx")
    result = optimize(model, verify=False)
    assert not result.report.kept
    result.save(tmp_path / "after.onnx")
    assert fused_operators.count(tmp_path / "before.onnx") == {"Gelu": 1}
    assert fused_operators.count(tmp_path / "after.onnx")["Gelu"] == 1


@pytest.mark.parametrize("level", [3, 4])
def test_a_gelu_between_two_layers_stays_one(level: int, tmp_path: Path) -> None:
    """The scale of a Gelu could be folded into the preceding weights, which would prevent the fusion by ONNX Runtime."""
    graph = gelu(0.5)
    random = np.random.default_rng(0)
    weights = {"w1": random.normal(size=(8, 8)), "b1": random.normal(size=8), "w2": random.normal(size=(8, 8)), "b2": random.normal(size=8)}
    graph.initializer.extend(numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items())
    last = graph.output[0].name
    before = [helper.make_node("MatMul", ["in", "w1"], ["m"]), helper.make_node("Add", ["m", "b1"], ["x"])]
    after = [helper.make_node("MatMul", [last, "w2"], ["n"]), helper.make_node("Add", ["n", "b2"], ["out"])]
    inner = list(graph.node)
    del graph.node[:]
    graph.node.extend([*before, *inner, *after])
    graph.input[0].name, graph.output[0].name = "in", "out"
    source = saved(graph, tmp_path / "source.onnx")
    result = tmp_path / "result.onnx"
    onnx.save(optimize(source, opt_level=level).model, result)
    assert fused_operators.count(source)
    assert fused_operators.fewer(fused_operators.count(source), fused_operators.count(result)) == {}


@pytest.mark.parametrize("opset", [13, 17])
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("kind", ["layer", "rms", "transposed", "inverse"])
def test_a_norm_before_a_product_stays_one_that_onnx_runtime_fuses(kind: str, dtype: type, opset: int, tmp_path: Path) -> None:
    """Its scale must not be folded into the weight of the product after it, also if a transpose before the norm could move past it."""
    draw = np.random.default_rng(0).standard_normal
    weights = {"g": draw(16) / 10 + 1, "b": draw(16) / 10, "w": draw((16, 16)) / 4, "v": draw(16), "two": 2.0, "one": 1.0, "small": 1e-5}
    first = {"rms": [], "transposed": [("Transpose", "x", "", "t"), ("ReduceMean", "t", "", "m"), ("Sub", "t", "m", "d")]}
    centered = first.get(kind, [("ReduceMean", "x", "", "m"), ("Sub", "x", "m", "d")])
    data = "d" if centered else "x"
    root = [("Pow", data, "two", "p"), ("ReduceMean", "p", "", "q"), ("Add", "q", "small", "a"), ("Sqrt", "a", "", "r")]
    divided = [("Div", "one", "r", "i"), ("Mul", data, "i", "n")] if kind == "inverse" else [("Div", data, "r", "n")]
    scaled = [("Mul", "n", "g", "s")] if kind == "rms" else [("Mul", "n", "g", "z"), ("Add", "z", "b", "s")]
    steps = [*centered, *root, *divided, *scaled, ("MatMul", "s", "w", "u"), ("Add", "u", "v", "y")]
    extra: dict[str, dict[str, AnyValue]] = {"ReduceMean": {"axes": [-1]}, "Transpose": {"perm": [0, 2, 3, 1]}}
    nodes = [helper.make_node(op, [name for name in (one, two) if name], [out], **extra.get(op, {})) for op, one, two, out in steps]
    shape, element = [2, 6, 5, 16], helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    ends = [helper.make_tensor_value_info("x", element, [2, 16, 6, 5] if kind == "transposed" else shape)]
    constants = [numpy_helper.from_array(np.asarray(value, dtype), name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "block", ends, [helper.make_tensor_value_info("y", element, shape)], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    before, after = norms(model, tmp_path / "before.onnx"), norms(optimize(model, verify=False).model, tmp_path / "after.onnx")
    assert 1 == before <= after


def norms(model: onnx.ModelProto, path: Path) -> int:
    """The number of normalizations that ONNX Runtime fuses; those of float16 by its last optimizations only."""
    return sum(kind in ("LayerNormalization", "SimplifiedLayerNormalization") for kind in fused_kinds(model, path))


def fused_kinds(model: onnx.ModelProto, path: Path) -> list[str]:
    """The operators that ONNX Runtime runs."""
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(path)
    options.log_severity_level = 4
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return sorted(node.op_type for node in onnx.load(path).graph.node)


TURNED, OUT = "t = Transpose<perm = [1, 0]> (d)", "e = QuantizeLinear(m, s, z) y = DequantizeLinear(e, s, z)"
PRODUCTS = [
    ("x", f"{TURNED} y = MatMul(x, t)", "MatMulNBits"),
    ("x", f"{TURNED} m = MatMul(x, t) y = Add(m, b)", "MatMulNBits"),
    ("x", f"{TURNED} m = MatMul(x, t) n = Mul(m, c) y = Softmax(n)", "MatMulNBits"),
    ("x", "m = MatMul(x, d) y = Transpose<perm = [1, 0]> (m)", "MatMulNBits"),
    ("a", "m = MatMul(a, d) n = Mul(m, c) y = Softmax(n)", "MatMulIntegerToFloat"),
    ("a", f"{TURNED} m = MatMul(a, t) n = Mul(m, c) y = Softmax(n)", "MatMulIntegerToFloat"),
    ("a", f"m0 = MatMul(a, d) m = Transpose<perm = [1, 0]> (m0) {OUT}", "QLinearMatMul"),
]


@pytest.mark.parametrize(("operand", "body", "kind"), PRODUCTS)
def test_products_stay_fused_with_their_dequantization(operand: str, body: str, kind: str, tmp_path: Path) -> None:
    """Neither transposes become flags of a product that reads quantized weights, nor do scales move before one."""
    random = np.random.default_rng(0)
    first = "q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) " if operand == "a" else ""
    graph = f"g (float[n, 128] x) => (float[m, k] y) {{ {first} d = DequantizeLinear(w, v) {body} }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> {graph}')
    sizes = (512, 128) if TURNED in body else (128, 512)
    weight, bias = random.integers(-60, 60, sizes).astype(np.int8), random.standard_normal(512).astype(np.float32)
    constants = {"w": weight, "b": bias, "z": np.uint8(128), "c": np.float32(0.25), "s": np.float32(0.03), "v": np.float32(0.01)}
    used = {name for node in model.graph.node for name in node.input}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(constants[name]), name) for name in constants.keys() & used)
    before, after = fused_kinds(model, tmp_path / "before.onnx"), fused_kinds(optimize(model).model, tmp_path / "after.onnx")
    assert kind in before
    assert kind in after
    assert after.count("DequantizeLinear") == before.count("DequantizeLinear")


@pytest.mark.parametrize("config", [{}, {"rules.cost": "nodes"}])
def test_scales_along_the_rows_of_a_transposed_weight_are_not_those_of_a_gemm(config: dict[str, str]) -> None:
    """ONNX Runtime makes `Gemm` with transB a QGemm, and takes the scales for those of the columns. A tied embedding has such a product."""
    random = np.random.default_rng(0)
    body = f"q = QuantizeLinear(x, s, z) a = DequantizeLinear(q, s, z) d = DequantizeLinear<axis = 1> (w, v, u) {TURNED} m = MatMul(a, t) {OUT}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g (float[n, 64] x) => (float[n, 64] y) {{ {body} }}')
    weights = {"w": random.integers(-60, 60, (64, 64)).astype(np.int8), "v": random.uniform(0.001, 0.02, 64).astype(np.float32)}
    constants = {**weights, "s": np.float32(0.03), "z": np.uint8(128), "u": np.zeros(64, np.int8)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    x = random.standard_normal((8, 64)).astype(np.float32)
    before, after = (
        onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x}) for each in (model, optimize(model, config=config).model)
    )
    np.testing.assert_allclose(before[0], after[0], atol=0.05)


@pytest.mark.parametrize("scales", [(32,), (2, 64)])
def test_products_of_blocks_run(scales: tuple[int, ...]) -> None:
    """ONNX Runtime fuses `MatMul` with scales of rows or blocks, and then does not run it; it does not fuse `Gemm`."""
    size = "" if len(scales) == 1 else ", block_size = 16"
    body = f"n = Neg(x) o = Neg(n) q = QuantizeLinear(o, s, z) a = DequantizeLinear(q, s, z) d = DequantizeLinear<axis = 0{size}> (w, v, u) y = Gemm(a, d)"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g (float[n, 32] x) => (float[n, 64] y) {{ {body} }}')
    random = np.random.default_rng(0)
    constants = {"w": random.integers(-60, 60, (32, 64)).astype(np.int8), "v": random.uniform(0.001, 0.02, scales).astype(np.float32)}
    constants |= {"s": np.float32(0.03), "z": np.uint8(128), "u": np.zeros(scales, np.int8)}
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    x = random.standard_normal((8, 32)).astype(np.float32)
    result = optimize(model).model
    assert len(result.graph.node) == 4
    before, after = (onnxruntime.InferenceSession(each.SerializeToString()).run(None, {"x": x}) for each in (model, result))
    np.testing.assert_allclose(before[0], after[0], rtol=1e-4, atol=1e-4)


def test_scales_do_not_move_to_dequantized_weights(tmp_path: Path) -> None:
    """ONNX Runtime fuses DequantizeLinear with the product that reads it, but not past a Mul."""
    random = np.random.default_rng(0)
    weights = {"w": random.integers(-8, 8, (32, 16)).astype(np.int8), "s": np.full((2, 16), 0.01, np.float32), "c": np.float32(0.25)}
    body = "d = DequantizeLinear <axis = 0, block_size = 16> (w, s) m = MatMul(x, d) n = Mul(m, c) y = Softmax(n)"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g (float[n, t, 32] x) => (float[n, t, 16] y) {{ {body} }}')
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in weights.items())
    optimize(model).save(tmp_path / "after.onnx")
    nodes = {node.output[0]: node.op_type for node in onnx.load(tmp_path / "after.onnx").graph.node}
    products = [node for node in onnx.load(tmp_path / "after.onnx").graph.node if node.op_type in ("MatMul", "Gemm")]
    assert [nodes.get(node.input[1]) for node in products] == ["DequantizeLinear"]


def test_products_of_dequantized_weights_are_not_computed_in_each_run(tmp_path: Path) -> None:
    """Nothing folds a product of dequantized weights, and ONNX Runtime fuses only those with an activation."""
    random = np.random.default_rng(0)
    weights = {"v": random.integers(-127, 127, (16, 128)), "w": random.integers(-127, 127, (128, 16))}
    body = "dv = DequantizeLinear (v, s) dw = DequantizeLinear (w, s) m = MatMul(x, dv) y = MatMul(m, dw)"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : 21]> g (float[n, 16] x) => (float[n, 16] y) {{ {body} }}')
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(0.01, np.float32), "s"))
    model.graph.initializer.extend(numpy_helper.from_array(value.astype(np.int8), name) for name, value in weights.items())
    optimize(model).save(tmp_path / "after.onnx")
    first = [node.input[0] for node in onnx.load(tmp_path / "after.onnx").graph.node if node.op_type == "MatMul"]
    assert first == ["x", "m"]
