"""Operands of operators, their types, and the types of results, which the tests of several operators share."""

from typing import Any as AnyValue

import numpy as np
from hypothesis import strategies as st

from passat.ir.op import get_op
from passat.ir.shape import Dim
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type


def floats(*shape: int, dtype: str = "float32") -> Array:
    """Distinct numbers, the same in every run."""
    values: Array = np.random.default_rng(sum(shape) + 7 * len(shape)).standard_normal(shape).astype(dtype)
    return values


def tensor(*shape: Dim, dtype: str = "float32") -> TensorType:
    return TensorType(shape, dtype)


def infer(name: str, *types: Type, **attrs: AnyValue) -> TensorType:
    op = get_op(name)
    return tensor_type(op.infer(types, op.bind_attrs(attrs)))


def numbers(rank: int, least: int, most: int) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(least, most), min_size=rank, max_size=rank)
