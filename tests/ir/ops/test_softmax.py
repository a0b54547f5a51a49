"""Softmax and its logarithm: types, values, and their ONNX forms."""

import itertools
from typing import TYPE_CHECKING
from typing import Any as AnyValue

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from passat.ir.expr import Call, Var
from passat.ir.infer import infer_type
from passat.ir.op import OpTypeError, get_op
from passat.ir.shape import ANY, Dim, SymDim
from passat.ir.types import TensorType
from tests.ir.ops.operands import floats
from tests.share import share

if TYPE_CHECKING:
    from tests.ir.ops.conftest import Nodes

N = SymDim.named("n")
NAMES = {"Softmax": "nn.softmax", "LogSoftmax": "nn.log_softmax"}


@pytest.mark.parametrize("op_type", NAMES)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -2])
@pytest.mark.parametrize("shape", [(2, 3, 4), (0, 3, 4), (2, 3, 0)])
def test_since_opset_13(nodes: "Nodes", op_type: str, axis: int | None, shape: tuple[int, ...]) -> None:
    attrs = {} if axis is None else {"axis": axis}
    written = nodes.agree(op_type, 13, [floats(*shape)], (7, 11, nodes.runtime), **attrs)
    old = [op_type] if axis in (None, 2) or (axis, shape[2:]) == (1, (1,)) else ["Transpose", op_type, "Transpose"]
    assert written == [[op_type], old, old, [op_type]]


@pytest.mark.parametrize("op_type", NAMES)
@pytest.mark.parametrize("version", [7, 11])
def test_before_opset_13_where_one_dimension_is_flattened(nodes: "Nodes", op_type: str, version: int) -> None:
    """For all shapes of ones and other sizes: the node is mapped, with equal values, only if all but one of the flattened dimensions are
    1."""
    for shape in itertools.product((1, 3), (1, 2, 4), (1, 5)):
        for axis in range(3 if version < 11 else -3, 3):
            x = floats(*shape)
            flattened = sum(size != 1 for size in shape[axis % 3 :])
            if flattened > 1:
                assert nodes.read(op_type, version, [x], axis=axis) is None
            else:
                nodes.agree(op_type, version, [x], (13,), axis=axis)
    for axis in range(3):
        nodes.agree(op_type, version, [floats(3, 1, 1)], (13,), axis=axis)


def test_the_old_default_axis(nodes: "Nodes") -> None:
    for version, axis in ((11, 1), (13, -1)):
        expr = nodes.read("Softmax", version, [TensorType((N, 10))])
        assert isinstance(expr, Call)
        assert expr.attrs.axis == axis
    assert nodes.read("Softmax", 11, [TensorType((N, 10, 1))]) is not None
    assert nodes.read("Softmax", 11, [TensorType((N, 10, ANY))]) is None
    assert nodes.read("Softmax", 11, [TensorType((N, 10, N))]) is None


@pytest.mark.parametrize(
    ("version", "shape", "attrs"),
    [(7, (2, 3), {"axis": 2}), (13, (), {}), (13, (2, 3), {"axis": 0, "extra": 1}), (11, (2, 3), {"axis": -3})],
)
def test_opaque_nodes(nodes: "Nodes", version: int, shape: tuple[Dim, ...], attrs: dict[str, AnyValue]) -> None:
    assert nodes.read("Softmax", version, [TensorType(shape)], **attrs) is None


@settings(max_examples=share(10, 60))
@given(st.data())
def test_the_law_of_softmax(nodes: "Nodes", data: st.DataObject) -> None:
    """The results sum to 1 for elements of any size, the logarithm is the logarithm, and a shift has no effect."""
    shape = tuple(data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3)))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = floats(*shape, dtype=data.draw(st.sampled_from(["float32", "float64"]))) * data.draw(st.sampled_from([1, 100]))
    var = Var("x", TensorType(shape, x.dtype.name))
    share = infer_type(get_op("nn.softmax")(var, axis=axis))
    found = nodes.evaluate(share, {"x": x})
    np.testing.assert_allclose(found.sum(axis), 1, rtol=1e-5)
    np.testing.assert_allclose(nodes.evaluate(share, {"x": x + 1000}), found, rtol=1e-2, atol=1e-3)
    logarithm = nodes.evaluate(infer_type(get_op("nn.log_softmax")(var, axis=axis)), {"x": x})
    np.testing.assert_allclose(np.exp(logarithm), found, rtol=1e-5, atol=1e-6)


def test_half_precision_is_summed_in_float32(nodes: "Nodes") -> None:
    expr = nodes.read("Softmax", 13, [TensorType((5000,), "float16")])
    assert expr is not None
    found = nodes.evaluate(expr, {"x0": np.zeros(5000, np.float16)})
    np.testing.assert_array_equal(found, np.full(5000, np.float16(1 / 5000)))


def test_invalid_operands_are_reported() -> None:
    op = get_op("nn.softmax")
    with pytest.raises(OpTypeError, match=r"^nn\.softmax\(Tensor\[\(2,\), float32\]; axis=1\): .* has no axis 1"):
        op.infer([TensorType((2,))], op.bind_attrs({"axis": 1}))
    with pytest.raises(OpTypeError, match="data must have a floating-point type, but has int32"):
        op.infer([TensorType((2,), "int32")], op.bind_attrs({}))
