"""Operators that use an operand only for its type: values, types, and written forms."""

import numpy as np
import pytest

from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Function, Var
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx
from passat.ir.op import OpTypeError, get_op
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

DATA = np.arange(6, dtype=np.float32).reshape(2, 3)
CASES: dict[str, tuple[Array, Array]] = {
    "cast_like": (np.zeros((1,), np.int32), DATA.astype(np.int32)),
    "reshape_like": (np.zeros((3, 2), np.int8), DATA.reshape(3, 2)),
    "broadcast_to_like": (np.zeros((4, 2, 3), np.float32), np.broadcast_to(DATA, (4, 2, 3))),
    "collapse_sum_like": (np.zeros((1,), np.float32), DATA.sum().reshape(1)),
}


def types(name: str, like: Array) -> list[TensorType]:
    tensors = [Tensor.dense(DATA), Tensor.dense(like)]
    return [TensorType(tensor.shape, tensor.dtype) for tensor in tensors]


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    like, wanted = CASES[name]
    op = get_op(name)
    result = op.infer(types(name, like), op.bind_attrs({}))
    found = evaluate_call(op, [Tensor.dense(DATA), Tensor.dense(like)], op.bind_attrs({}), result)
    assert isinstance(found, Tensor)
    assert found.numpy().dtype == wanted.dtype
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize(
    ("name", "like", "wanted"),
    [
        ("cast_like", (2,), ["Cast"]),
        ("reshape_like", (3, 2), ["Shape", "Reshape"]),
        ("broadcast_to_like", (4, 2, 3), ["Shape", "Expand"]),
        ("collapse_sum_like", (3,), ["ReduceSum", "Shape", "Reshape"]),
        ("collapse_sum_like", (1, 3), ["ReduceSum"]),
        ("collapse_sum_like", (2, 3), ["Identity"]),
    ],
)
def test_written_to_onnx(name: str, like: tuple[int, ...], wanted: list[str]) -> None:
    operands = [Var("x", TensorType((2, 3), "float32")), Var("like", TensorType(like, "float32"))]
    model = to_onnx(IRModule.from_expr(Function(operands, get_op(name)(*operands))))
    assert [node.op_type for node in model.graph.node] == wanted


@pytest.mark.parametrize(
    ("name", "like", "message"),
    [
        ("reshape_like", (4, 2), "has a different number of elements"),
        ("broadcast_to_like", (3,), "does not broadcast to"),
        ("broadcast_to_like", (1, 3), "does not broadcast to"),
        ("collapse_sum_like", (2, 2), "does not collapse to"),
        ("collapse_sum_like", (1, 2, 3), "does not collapse to"),
    ],
)
def test_shapes_that_do_not_fit(name: str, like: tuple[int, ...], message: str) -> None:
    op = get_op(name)
    with pytest.raises(OpTypeError, match=message):
        op.infer([TensorType((2, 3), "float32"), TensorType(like, "float32")], op.bind_attrs({}))
