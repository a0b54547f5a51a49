"""Results of quantized models are also compared as users run them: ONNX Runtime fuses DequantizeLinear with products, and takes scales of
rows for scales of columns."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper, parser

import passat
from passat.report import MismatchError
from passat.runner import Runner

X: npt.NDArray[np.float32] = np.random.default_rng(1).normal(size=(4, 16)).astype(np.float32)
RULES = '''
from passat.rules import RuleSet, op, tensor

x, y = tensor("x"), tensor("y")


class Scales(RuleSet):
    """Drops a scale before a product and its inverse behind it."""

    both = ((x * 0.5) @ y) * 2.0 >> x @ y
'''


def halved() -> ModelProto:
    """A product of a quantized tensor, halved and doubled, and a quantized weight with a scale for each row. ONNX Runtime fuses nothing."""
    model = parser.parse_model("""<ir_version: 10, opset_import: ["" : 21]> g (float[4, 16] x) => (float[4, 16] y) {
        q = QuantizeLinear(x, scale, zero) d = DequantizeLinear(q, scale, zero) h = Mul(d, half)
        v = DequantizeLinear <axis = 0>(w, scales, zeros) m = MatMul(h, v) n = Mul(m, two) y = Relu(n)
    }""")
    random = np.random.default_rng(0)
    arrays = {
        "scale": np.float32(0.02),
        "zero": np.uint8(128),
        "half": np.float32(0.5),
        "two": np.float32(2),
        "w": random.integers(0, 255, (16, 16)).astype(np.uint8),
        "scales": random.uniform(0.001, 0.05, 16).astype(np.float32),
        "zeros": np.full(16, 128, np.uint8),
    }
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for name, array in arrays.items())
    return model


def test_a_result_is_right_where_its_nodes_are_fused() -> None:
    model = halved()
    result = passat.optimize(model)
    [expected] = Runner(model, threads=1).run({"x": X})
    [found] = Runner(result.model, threads=1, optimize="all").run({"x": X})
    np.testing.assert_allclose(found, expected, rtol=0.1, atol=0.01 * np.abs(expected).max())
    [warning] = [text for text in result.report.warnings if "fuses DequantizeLinear" in text]
    assert "may cause, since they move scales: the result is optimized without" in warning


def test_rules_that_may_change_infinite_values_are_not_blamed_for_what_is_fused() -> None:
    """x / z + t / z becomes (x + t) / z."""
    model = halved()
    model.graph.input.extend([helper.make_tensor_value_info(name, TensorProto.FLOAT, [4, 16]) for name in ("t", "z")])
    quotients = [helper.make_node("Div", [name, "z"], [f"{name}z"]) for name in ("x", "t")]
    model.graph.node.extend([*quotients, helper.make_node("Add", ["xz", "tz"], ["s"])])
    model.graph.output.append(helper.make_tensor_value_info("s", TensorProto.FLOAT, [4, 16]))
    [warning] = [text for text in passat.optimize(model).report.warnings if "the comparison found" in text]
    assert "fuses DequantizeLinear" in warning


def test_a_rule_of_the_user_that_makes_such_a_result_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "rules.py"
    path.write_text(RULES)
    with pytest.raises(MismatchError, match="far off; the difference comes from the pass Scales"):
        passat.optimize(halved(), rules=path)
