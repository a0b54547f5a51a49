"""The readers of elementwise operators and reductions: their results, and nodes that stay opaque."""

from collections.abc import Mapping, Sequence
from typing import Any as AnyValue

import numpy as np
import pytest

from passat.ir.expr import Call, Constant, Expr, Tuple, Var, const, var
from passat.ir.infer import infer_type
from passat.ir.onnx_mapping import READERS, OnnxNode
from passat.ir.op import list_ops
from passat.ir.tensor import Array

list_ops()  # declares the operators, and with them the readers
FLT_MAX = float(np.finfo(np.float32).max)


def x(dtype: str = "float32") -> Var:
    return var("x", shape=(2, 3, 4), dtype=dtype)


def constant(value: AnyValue, dtype: str = "int64") -> Constant:
    array: Array = np.asarray(value, dtype)
    return Constant(array)


def read(op_type: str, inputs: Sequence[Expr | None], attrs: Mapping[str, AnyValue] | None = None, version: int = 18) -> Call | None:
    found = READERS[op_type](OnnxNode(op_type, version, inputs, attrs or {}))
    if found is None:
        return None
    assert isinstance(found, Call)
    infer_type(found)
    return found


OPAQUE: list[tuple[str, list[Expr | None], dict[str, AnyValue], int]] = [
    ("ReduceSum", [x(), var("axes", shape=(1,), dtype="int64")], {}, 13),
    ("ReduceSum", [x()], {"noop_with_empty_axes": 1}, 13),
    ("ReduceSum", [x(), constant([])], {"noop_with_empty_axes": 1}, 13),
    ("ReduceSumSquare", [x()], {"noop_with_empty_axes": 1}, 18),
    ("ReduceL2", [x("int32")], {}, 18),
    ("ReduceLogSum", [x("int64")], {}, 18),
    ("ReduceLogSumExp", [x("int64")], {}, 18),
    ("CumSum", [x(), var("axis", shape=(), dtype="int64")], {}, 14),
    ("Cast", [x()], {"to": 8}, 13),  # to string
    ("Cast", [x("string")], {"to": 1}, 13),
    ("Pow", [x(), x("int64")], {}, 15),
    ("Pow", [x("int32"), const(0.5)], {}, 15),
    ("Pow", [x("float16"), constant(2049)], {}, 15),
    ("Clip", [x(), None, var("max", shape=(), dtype="float32")], {}, 13),
    ("Clip", [x(), const(float("nan"))], {}, 13),
    ("Erf", [x("int32")], {}, 9),
    ("Mod", [x(), x()], {"fmod": 0}, 13),
    ("Shrink", [x("int32")], {"bias": 1.5}, 9),
    ("IsNaN", [x("float8_e5m2")], {}, 20),
    ("IsInf", [x("float8_e5m2")], {}, 20),
    ("Gelu", [x()], {"approximate": "sigmoid"}, 20),
    ("LeakyRelu", [x()], {"slope": 0.1}, 16),
    ("Add", [x(), x()], {"axis": 1}, 7),
    ("Max", [x(), None, x()], {}, 13),
    ("BitShift", [x("uint8"), x("uint8")], {"direction": "UP"}, 11),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs", "version"), OPAQUE, ids=lambda part: part if isinstance(part, str) else None)
def test_nodes_that_stay_opaque(op_type: str, inputs: list[Expr | None], attrs: dict[str, AnyValue], version: int) -> None:
    assert read(op_type, inputs, attrs, version) is None


READ: list[tuple[str, list[Expr | None], dict[str, AnyValue], int, str, dict[str, AnyValue]]] = [
    ("ReduceSum", [x()], {}, 11, "sum", {"axis": None, "keepdims": True}),
    ("ReduceSum", [x()], {"axes": (-1, 0), "keepdims": 0}, 11, "sum", {"axis": (0, 2), "keepdims": False}),
    ("ReduceSum", [x(), constant([-1, 0])], {"keepdims": 0}, 13, "sum", {"axis": (0, 2), "keepdims": False}),
    ("ReduceSum", [x(), constant([1])], {"noop_with_empty_axes": 1}, 13, "sum", {"axis": (1,)}),
    ("ReduceSum", [x(), constant([])], {}, 13, "sum", {"axis": None}),
    ("ReduceMax", [x()], {"axes": (1,)}, 13, "max", {"axis": (1,)}),
    ("ReduceMax", [x(), constant([1])], {}, 18, "max", {"axis": (1,)}),
    ("ReduceMax", [x("bool")], {}, 20, "any", {"axis": None, "keepdims": True}),
    ("ReduceMin", [x("bool"), constant([0])], {"keepdims": 0}, 20, "all", {"axis": (0,), "keepdims": False}),
    ("ArgMax", [x()], {}, 11, "argmax", {"axis": 0, "keepdims": True, "select_last_index": False}),
    ("ArgMin", [x()], {"axis": -1, "keepdims": 0, "select_last_index": 1}, 13, "argmin", {"axis": 2, "select_last_index": True}),
    ("CumSum", [x(), constant(-2, "int32")], {"reverse": 1}, 14, "cumsum", {"axis": 1, "reverse": True, "exclusive": False}),
    ("Cast", [x()], {"to": 10, "saturate": 0}, 19, "cast", {"dtype": "float16"}),
    ("Cast", [x()], {"to": 17, "saturate": 0}, 19, "narrow_cast", {"dtype": "float8_e4m3fn", "saturate": False}),
    ("Cast", [x("bool")], {"to": 16}, 13, "cast", {"dtype": "bfloat16"}),
    ("Pow", [x(), x()], {}, 7, "power", {}),
    ("Mod", [x("int32"), x("int32")], {}, 10, "floor_mod", {}),
    ("Mod", [x(), x()], {}, 28, "floor_mod", {}),
    ("Mod", [x(), x()], {"fmod": 1}, 10, "fmod", {}),
    ("Mod", [x("int32"), x("int32")], {"fmod": 1}, 10, "fmod", {}),
    ("IsInf", [x()], {"detect_negative": 0}, 10, "isinf", {"detect_negative": False, "detect_positive": True}),
    ("LeakyRelu", [x()], {}, 7, "nn.leaky_relu", {"alpha": 0.01}),
    ("LeakyRelu", [x()], {"alpha": float(np.float32(0.2))}, 16, "nn.leaky_relu", {"alpha": 0.2}),
    ("Max", [x(), x()], {}, 8, "maximum", {}),
    ("Max", [x()], {}, 8, "elemwise_max", {}),
    ("Min", [x(), x(), x()], {}, 8, "elemwise_min", {}),
    ("Sum", [x(), x()], {}, 8, "elemwise_sum", {}),
    ("Mean", [x(), x()], {}, 8, "elemwise_mean", {}),
    ("BitShift", [x("uint8"), x("uint8")], {"direction": "RIGHT"}, 11, "right_shift", {}),
    ("Clip", [x()], {}, 6, "clip", {"a_min": None, "a_max": None}),
    ("Clip", [x()], {"min": 0.0, "max": FLT_MAX}, 10, "clip", {"a_min": 0.0, "a_max": None}),
    ("Clip", [x()], {"max": float(np.float32(0.1))}, 10, "clip", {"a_min": None, "a_max": 0.1}),
    ("Clip", [x("float64")], {"max": float(np.float32(0.1))}, 10, "clip", {"a_min": -FLT_MAX, "a_max": float(np.float32(0.1))}),
    ("Clip", [x("float16")], {"min": 0.0}, 10, "clip", {"a_min": 0.0, "a_max": float("inf")}),
    ("Clip", [x(), constant(0.1, "float32")], {}, 11, "clip", {"a_min": 0.1, "a_max": None}),
    ("Clip", [x(), None, constant([6.0], "float32")], {}, 13, "clip", {"a_min": None, "a_max": 6.0}),
    ("Clip", [x("int64"), constant(0), constant(2**53 + 1)], {}, 12, "clip", {"a_min": 0, "a_max": 2**53 + 1}),
]


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "version", "name", "expected"), READ, ids=lambda part: part if isinstance(part, str) else None
)
def test_nodes_are_read_as_calls(
    op_type: str, inputs: list[Expr | None], attrs: dict[str, AnyValue], version: int, name: str, expected: dict[str, AnyValue]
) -> None:
    found = read(op_type, inputs, attrs, version)
    assert found is not None
    assert repr(found.op) == name
    assert {key: found.attrs[key] for key in expected} == expected
    operands = found.args[0].fields if isinstance(found.args[0], Tuple) else found.args
    assert list(operands) == [value for value in inputs if value is not None][: len(operands)]


def test_a_constant_exponent_of_another_type_becomes_one_of_the_same_type() -> None:
    found = read("Pow", [x(), constant([2, 3, -1, 0])], {}, 13)
    assert found is not None
    exponent = found.args[1]
    assert isinstance(exponent, Constant)
    assert exponent.data.dtype == "float32"
    assert exponent.data.numpy().tolist() == [2.0, 3.0, -1.0, 0.0]
