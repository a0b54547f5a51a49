"""Casts from and to types of 2 to 8 bits have the values of the onnx package, and are read and written."""

import itertools

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from passat.ir.dtypes import FLOATS, to_numpy
from passat.ir.expr import Call, var
from passat.ir.infer import InferError, infer_type
from passat.ir.onnx import from_onnx, to_onnx
from passat.ir.onnx_mapping import TYPE_NUMBERS, OnnxVersionError
from passat.ir.op import call_op
from passat.ir.ops.narrow_cast import SINCE
from passat.ir.tensor import Array
from passat.ir.types import TensorType
from tests.ir.ops.conftest import Nodes

WIDE = ("float32", "float16", "int8", "uint8")
NUMBERS = [0.0, -0.0, 0.3, 0.48, 1.0, 1.1, 1.5, -1.5, 2.0, 3.0, 6.0, -7.0, 5.5]
SPECIAL = [np.nan, np.inf, -np.inf, 1e6, -1e6, 1e-7]


def _values(dtype: str, other: str) -> Array:
    """Numbers of one type; only numbers of integers if one of the types has only these."""
    if dtype in FLOATS and other in FLOATS:
        with np.errstate(over="ignore"):
            return np.array(NUMBERS + SPECIAL, np.float32).astype(to_numpy(dtype))
    least = 0 if {dtype, other} & {"uint8", "uint4", "uint2"} else -2
    return np.arange(least, 2 if {dtype, other} & {"int2", "uint2"} else 6).astype(np.float32).astype(to_numpy(dtype))


PAIRS = [*itertools.product(WIDE, SINCE), *itertools.product(SINCE, WIDE)]


@pytest.mark.parametrize(("dtype", "to"), PAIRS)
@pytest.mark.parametrize("saturate", [0, 1])
def test_values_are_those_of_the_onnx_package(nodes: Nodes, dtype: str, to: str, saturate: int) -> None:
    values = _values(dtype, to)
    attrs = {"to": TYPE_NUMBERS[to]} | ({"saturate": 0} if not saturate else {})
    model = nodes.model("Cast", 25, [values], **attrs)
    expr = nodes.read("Cast", 25, [values], **attrs)
    assert isinstance(expr, Call)
    assert str(expr.op) == "narrow_cast"
    with np.errstate(all="ignore"):
        expected, found = nodes.refer(model, {"x0": values}), nodes.evaluate(expr, {"x0": values})
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found.view(np.uint8), np.ascontiguousarray(expected).view(np.uint8))


@pytest.mark.parametrize(("dtype", "to"), list(itertools.permutations(SINCE, 2)))
def test_narrow_types_are_converted_like_float32(nodes: Nodes, dtype: str, to: str) -> None:
    values = _values(dtype, to)
    direct = call_op("narrow_cast", var("x", shape=values.shape, dtype=dtype), dtype=to)
    with np.errstate(all="ignore"):
        found, wide = nodes.evaluate(infer_type(direct), {"x": values}), values.astype(np.float32)
        through = nodes.evaluate(infer_type(call_op("narrow_cast", var("x", shape=values.shape), dtype=to)), {"x": wide})
    np.testing.assert_array_equal(found.view(np.uint8), through.view(np.uint8))


@pytest.mark.parametrize("mode", ["up", "down", "nearest"])
@pytest.mark.parametrize("saturate", [0, 1])
def test_powers_of_two_are_rounded(nodes: Nodes, mode: str, saturate: int) -> None:
    values = np.array([0, 0.124, 0.25, 1.1, 1.4, 1.5, 1.6, 3e38, -3.0, np.nan, np.inf, 1e-40], np.float32)
    attrs = {"to": TYPE_NUMBERS["float8_e8m0fnu"], "round_mode": mode, "saturate": saturate}
    expr = nodes.read("Cast", 25, [values], **attrs)
    assert expr is not None
    expected = nodes.refer(nodes.model("Cast", 25, [values], **attrs), {"x0": values})
    np.testing.assert_array_equal(nodes.evaluate(expr, {"x0": values}).view(np.uint8), expected.view(np.uint8))


def test_models_keep_their_nodes() -> None:
    """A cast is written as it was read."""
    node = helper.make_node("Cast", ["x"], ["y"], to=TYPE_NUMBERS["float8_e5m2"], saturate=0)
    values = [helper.make_tensor_value_info(name, TYPE_NUMBERS[dtype], [2]) for name, dtype in (("x", "float32"), ("y", "float8_e5m2"))]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=[helper.make_opsetid("", 19)])
    written = to_onnx(from_onnx(model)).graph.node
    assert [(each.op_type, {a.name: helper.get_attribute_value(a) for a in each.attribute}) for each in written] == [
        ("Cast", {"to": TYPE_NUMBERS["float8_e5m2"], "saturate": 0})
    ]


def test_opsets_and_types_are_checked(nodes: Nodes) -> None:
    x = var("x", shape=(2,))
    with pytest.raises(OnnxVersionError, match="needs ONNX opset 21"):
        nodes.write(call_op("narrow_cast", x, dtype="int4"), 19)
    with pytest.raises(InferError, match="not from float32 to float16; use cast"):
        infer_type(call_op("narrow_cast", x, dtype="float16"))
    with pytest.raises(InferError, match="round_mode must be one of"):
        infer_type(call_op("narrow_cast", x, dtype="float8_e8m0fnu", round_mode="even"))
    assert infer_type(call_op("narrow_cast", x, dtype="int4")).checked_type == TensorType((2,), "int4")


def test_constants_of_narrow_types_are_read() -> None:
    """Four-bit initializers have two elements in a byte."""
    values = np.arange(-4, 4).astype(to_numpy("int4"))
    tensor = numpy_helper.from_array(values, "c")
    node = helper.make_node("Cast", ["c"], ["y"], to=onnx.TensorProto.FLOAT)
    output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [8])
    graph = helper.make_graph([node], "g", [], [output], [tensor])
    module = from_onnx(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]))
    assert "narrow_cast" in module["main"].astext()
