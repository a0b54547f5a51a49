"""Elementwise operators."""


import numpy as np

from passat.ir.op import OpTypeError, define_op
from passat.ir.shape import broadcast
from passat.ir.types import TensorType


@define_op("add", kernel=np.add, onnx="Add", elementwise=True, commutative=True, associative=True, unit=0, shape_arith=True)
def add(x: TensorType, y: TensorType) -> TensorType:
    """The sum."""
    if x.dtype != y.dtype:
        raise OpTypeError(f"operands have element types {x.dtype} and {y.dtype}; cast one")
    return TensorType(broadcast(x.shape, y.shape), x.dtype)
