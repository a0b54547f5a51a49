"""Division by a norm: types, values, and their ONNX forms."""

from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Var
from passat.ir.infer import infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, SymDim
from passat.ir.types import TensorType
from tests.ir.ops.operands import floats

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N = SymDim.named("n")


@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_division_by_a_norm(nodes: "Nodes", p: int, axis: int) -> None:
    x = floats(2, 3, 4)
    x[0, :, 0] = x[:, 1, 1] = x[1, 2] = 0  # norms of 0, which give 0
    assert nodes.agree("LpNormalization", 7, [x], (21,), p=p, axis=axis) == [["LpNormalization"]] * 2


def test_division_by_the_2_norm_of_the_last_axis_is_the_default(nodes: "Nodes") -> None:
    expr = nodes.read("LpNormalization", 7, [floats(2, 3)])
    assert isinstance(expr, Call)
    assert expr.attrs == Attrs(axis=-1, p=2)
    assert nodes.read("LpNormalization", 7, [floats(2, 3)], eps=1.0) is None


@pytest.mark.parametrize("size", [1, 3, 5, 9])
@pytest.mark.parametrize("shape", [(2, 7, 3, 3), (1, 2, 1, 4), (0, 3, 2, 2)])
def test_local_response_normalization(nodes: "Nodes", size: int, shape: tuple[int, ...]) -> None:
    assert nodes.agree("LRN", 7, [floats(*shape)], (13, nodes.runtime), size=size, alpha=0.5, beta=0.6, bias=1.5) == [["LRN"]] * 3


@pytest.mark.parametrize(("size", "shape"), [(2, (2, 5)), (4, (1, 6, 3)), (3, (1, 4, 2, 2, 2))])
def test_local_response_normalization_that_only_the_reference_knows(nodes: "Nodes", size: int, shape: tuple[int, ...]) -> None:
    """ONNX Runtime supports odd sizes and four dimensions only; the formula is ONNX's."""
    x = floats(*shape)
    expr = nodes.read("LRN", 13, [x], size=size, alpha=0.5, beta=0.6, bias=1.5)
    assert expr is not None
    expected = np.empty_like(x)
    for c in range(shape[1]):
        near = x[:, max(0, c - (size - 1) // 2) : c + -(-(size - 1) // 2) + 1]
        expected[:, c] = x[:, c] / (1.5 + 0.5 / size * (near * near).sum(1)) ** 0.6
    np.testing.assert_allclose(nodes.evaluate(expr, {"x0": x}), expected, rtol=1e-5)


def test_local_response_normalization_keeps_the_defaults_of_onnx(nodes: "Nodes") -> None:
    expr = nodes.read("LRN", 13, [floats(1, 5, 2, 2)], size=3)
    assert isinstance(expr, Call)
    assert expr.attrs == Attrs(size=3, axis=1, bias=1.0, alpha=1e-4, beta=0.75)
    nodes.agree("LRN", 13, [floats(1, 5, 2, 2)], size=3)
    assert nodes.read("LRN", 13, [floats(5)], size=3) is None


def test_local_response_along_another_axis(nodes: "Nodes") -> None:
    x = floats(2, 3, 4, 5)
    expr = infer_type(get_op("nn.lrn")(Var("x", TensorType(x.shape)), size=3, axis=-1, alpha=0.5))
    model = nodes.write(expr, 13)
    assert [node.op_type for node in model.graph.node] == ["Transpose", "LRN", "Transpose"]
    np.testing.assert_allclose(nodes.run(model, {"x": x}), nodes.evaluate(expr, {"x": x}), rtol=1e-5)


@pytest.mark.parametrize("axis", [None, (1,), (-1, 0)])
@pytest.mark.parametrize("opset", [7, 8, 13, 18, 24])
def test_l2_normalize_of_relay(nodes: "Nodes", axis: tuple[int, ...] | None, opset: int) -> None:
    x = floats(2, 3, 4)
    x[0] = 0
    expr = infer_type(get_op("nn.l2_normalize")(Var("x", TensorType(x.shape)), eps=0.5, axis=axis))
    expected = x / np.sqrt(np.maximum((x * x).sum(axis, keepdims=True), 0.5))
    np.testing.assert_allclose(nodes.evaluate(expr, {"x": x}), expected, rtol=1e-5)
    np.testing.assert_allclose(nodes.run(nodes.write(expr, opset), {"x": x}), expected, rtol=1e-5)


def test_l2_normalize_in_narrow_and_double_precision_and_of_scalars(nodes: "Nodes") -> None:
    for dtype, value in (("float16", 300), ("float64", 3)):
        x = np.full((2, 3), value, dtype)
        expr = infer_type(get_op("nn.l2_normalize")(Var("x", TensorType((2, 3), dtype)), eps=1e-6, axis=(1,)))
        for found in (nodes.evaluate(expr, {"x": x}), nodes.run(nodes.write(expr, 13), {"x": x})):
            assert found.dtype == x.dtype
            np.testing.assert_allclose(found, np.full((2, 3), 3**-0.5), rtol=1e-3 if dtype == "float16" else 1e-12)
    scalar = infer_type(get_op("nn.l2_normalize")(Var("x", TensorType(())), eps=1e-6))
    four = {"x": np.array(-4, np.float32)}
    assert nodes.run(nodes.write(scalar, 13), four) == nodes.evaluate(scalar, four) == -1


def test_an_infinite_norm_survives_the_oldest_opset(nodes: "Nodes") -> None:
    expr = infer_type(get_op("nn.l2_normalize")(Var("x", TensorType((2,))), eps=1.0))
    x = np.array([3e30, 1], np.float32)  # its square is infinite
    np.testing.assert_array_equal(nodes.run(nodes.write(expr, 7), {"x": x}), nodes.evaluate(expr, {"x": x}))


@pytest.mark.parametrize(
    ("name", "type_", "attrs", "message"),
    [
        ("nn.lp_normalize", TensorType((2,)), {"p": 3}, "p must be 1 or 2, not 3"),
        ("nn.lp_normalize", TensorType((2,)), {"axis": 1}, "has no axis 1"),
        ("nn.lp_normalize", TensorType((2,), "int8"), {}, "data must have a floating-point type, but has int8"),
        ("nn.l2_normalize", TensorType((2,)), {"eps": 0.1, "axis": ()}, "axis must not be empty"),
        ("nn.l2_normalize", TensorType((2,)), {"eps": 0.1, "axis": (3,)}, "has no axis 3"),
        ("nn.l2_normalize", TensorType((2,)), {"eps": 0.1, "axis": (0, -1)}, "names an axis twice"),
        ("nn.lrn", TensorType((2,)), {}, "data must have two dimensions or more and size must be at least 1, but they are 1 and 5"),
        ("nn.lrn", TensorType((2, 3)), {"size": 0}, "they are 2 and 0"),
    ],
)
def test_invalid_operands_are_reported(name: str, type_: TensorType, attrs: dict[str, AnyValue], message: str) -> None:
    op = get_op(name)
    with pytest.raises(OpTypeError, match=r"^" + name.replace(".", r"\.") + r"\(Tensor") as error:
        op.infer([type_], op.bind_attrs(attrs))
    assert message in str(error.value)


def test_the_type_is_that_of_the_data() -> None:
    for name, attrs in (("nn.lrn", {}), ("nn.lp_normalize", {}), ("nn.l2_normalize", {"eps": 0.1})):
        op = get_op(name)
        assert op.infer([TensorType((N, ANY, 3))], op.bind_attrs(attrs)) == TensorType((N, ANY, 3))
