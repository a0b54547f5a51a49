"""Programs that the tests of built modules use."""

from typing import Final

import numpy as np

from passat.ir.expr import Function, Tuple, const, var
from passat.ir.module import IRModule
from passat.ir.tensor import Array
from passat.relay import add, exp, nn, reshape

TARGETS: Final = ("numpy", "llvm", "c", "onnxruntime")
X: Final[Array] = np.arange(6, dtype=np.float32).reshape(2, 3)


def layer() -> IRModule:
    """A dense layer with an activation; the weight is a parameter."""
    x, w = var("x", shape=(2, 3)), var("w", shape=(4, 3))
    return IRModule.from_expr(Function([x, w], nn.relu(nn.dense(x, w)) + const(1.0)))


def weights() -> dict[str, Array]:
    return {"w": np.arange(12, dtype=np.float32).reshape(4, 3) - 6}


def expected(x: Array) -> Array:
    found: Array = np.maximum(x @ weights()["w"].T, 0) + np.float32(1)
    return found


def nested() -> IRModule:
    """Two results, one of which only has another shape."""
    x = var("x", shape=(2, 3))
    y = exp(x)
    return IRModule.from_expr(Function([x], Tuple([reshape(y, (6,)), Tuple([add(y, x), x])])))
