"""Blocks of space that move into the batch, and back, also in ONNX."""

import numpy as np
import onnxruntime
import pytest

from passat import relay
from passat.ir.expr import Expr, Function
from passat.ir.module import IRModule
from passat.ir.onnx import to_onnx

SHAPES = [(2, 3, 5, 2), (0, 3, 5, 2), (2, 3, 5, 0)]


def moved(x: Expr) -> Expr:
    return relay.nn.space_to_batch_nd(x, block_shape=[2, 3], paddings=[[2, 1], [1, 0]], pad_value=7)


def back(x: Expr) -> Expr:
    return relay.nn.batch_to_space_nd(x, block_shape=[2, 3], crops=[[2, 1], [1, 0]])


def test_a_block_becomes_a_part_of_the_batch() -> None:
    x = relay.var("x", shape=(1, 4, 1), dtype="int32")
    made = relay.Function([x], relay.nn.space_to_batch_nd(x, block_shape=[2], paddings=[[1, 1]], pad_value=9))
    found = relay.create_executor().evaluate(made)(np.arange(4, dtype="int32").reshape(1, 4, 1)).numpy()
    assert found[..., 0].tolist() == [[9, 1, 3], [0, 2, 9]]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("known", [True, False])
def test_there_and_back(shape: tuple[int, ...], known: bool) -> None:
    """In the executor, and in ONNX, with known sizes and with unknown ones."""
    x = relay.var("x", shape=shape if known else tuple(f"n{axis}" for axis in range(4)) if shape[1] else shape)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    there = relay.Function([x], moved(x))
    whole = relay.Function([x], relay.Tuple([moved(x), back(moved(x))]))
    expected = relay.create_executor().evaluate(there)(data).numpy()
    assert expected.shape == (shape[0] * 6, 3, 2, shape[3])
    parts = _on_runtime(whole, data)
    assert np.array_equal(parts[0], expected)
    assert np.array_equal(parts[1], data)


def _on_runtime(function: Function, data: np.ndarray) -> list[np.ndarray]:
    model = to_onnx(IRModule.from_expr(function))
    found: list[np.ndarray] = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {model.graph.input[0].name: data})
    return found
