"""Adaptive pooling: the result has a given size. If that does not divide the size of the data, neighboring windows overlap."""

from itertools import product
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.cost import reduction
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import narrow, wide
from passat.ir.ops.elementwise import FLOATING
from passat.ir.ops.pooling import laid_out, spatial_shape
from passat.ir.ops.windows import SPATIAL, arranged
from passat.ir.tensor import Array
from passat.ir.types import TensorType

Sizes = int | tuple[int, ...] | None
_POOLED: Final = FLOATING | {"int32"}


def _sizes(output_size: Sizes, rank: int) -> tuple[int, ...] | None:
    """One size for each spatial dimension; None if the result is as large as the data."""
    if output_size is None or output_size == ():
        return None
    sizes = (output_size,) * rank if isinstance(output_size, int) else tuple(output_size)
    sizes = sizes * rank if len(sizes) == 1 else sizes
    if len(sizes) != rank or min(sizes) < 1:
        raise OpTypeError(f"output_size={output_size} must be {rank} numbers of at least 1")
    return sizes


def _adaptive_mean(data: Array, *, output_size: Sizes, layout: str) -> Array:
    rank = data.ndim - 2
    x = arranged(wide(data), layout, "NC" + SPATIAL[rank])
    sizes = _sizes(output_size, rank) or x.shape[2:]
    result = np.empty((*x.shape[:2], *sizes), x.dtype)
    axes = tuple(range(2, 2 + rank))
    for place in product(*map(range, sizes)):
        part: AnyValue = [slice(i * size // n, -(-(i + 1) * size // n)) for i, size, n in zip(place, x.shape[2:], sizes, strict=True)]
        window = x[(..., *part)]
        mean = window.mean(axes, dtype=np.float64 if x.dtype.kind == "i" else x.dtype)
        at: AnyValue = (..., *place)
        result[at] = np.trunc(mean) if x.dtype.kind == "i" else mean
    return narrow(arranged(result, "NC" + SPATIAL[rank], layout), data.dtype)


def _declare(rank: int) -> Op:
    letters = "NC" + SPATIAL[rank]

    def relation(data: TensorType, *, output_size: Sizes = None, layout: str = letters) -> TensorType:
        shape, sizes = spatial_shape(data, rank, layout, _POOLED), _sizes(output_size, rank)
        return data if sizes is None else laid_out(data, (*shape[:2], *sizes), rank, layout)

    relation.__doc__ = f"""The mean of each of `output_size` windows of data ({", ".join(letters)}), rounded toward zero for int32.

    Without `output_size` the result is the data itself. Relay's nn.adaptive_avg_pool{rank}d.
    """
    return define_op(f"nn.adaptive_avg_pool{rank}d", kernel=_adaptive_mean, cost=reduction, pattern=4)(relation)


ADAPTIVE: Final = {rank: _declare(rank) for rank in SPATIAL}
"""`nn.adaptive_avg_pool1d`, `nn.adaptive_avg_pool2d`, `nn.adaptive_avg_pool3d`, by the number of spatial dimensions."""
