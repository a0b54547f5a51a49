"""Pooling over windows: maximum, mean, p-norm.

With `ceil_mode`, windows that start in the padding at the end are dropped. ONNX specifies this since opset 22. ONNX Runtime and Passat do
it in every opset.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any as AnyValue
from typing import NamedTuple

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, INTEGERS
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import only
from passat.ir.ops.windows import (
    SPATIAL,
    arranged,
    arranged_shape,
    arranged_value,
    begins_ends,
    pad_spatial,
    per_axis,
    positions,
    read_numbers,
    read_padding,
    windows,
)
from passat.ir.shape import ANY, Dim, Shape, static_size
from passat.ir.types import TensorType, Type, tensor_type

Numbers = int | tuple[int, ...]


class _Axis(NamedTuple):
    """Pooling along one spatial dimension."""

    length: int
    stride: int
    gap: int
    begin: int
    end: int

    @property
    def span(self) -> int:
        return self.gap * (self.length - 1) + 1

    def most(self, size: Dim) -> Dim:
        """The number of windows if the last one may extend beyond the padding. Raises OpTypeError if none fits."""
        return positions(size, self.span, self.stride, self.begin + self.end + self.stride - 1)

    def settled(self, size: Dim) -> bool:
        """Whether provably none of the `most` windows starts in the padding at the end."""
        if self.end + self.stride <= self.span:
            return True
        most = self.most(size)
        return type(size) is int and type(most) is int and (most - 1) * self.stride < size + self.begin

    def places(self, size: Dim, ceil: bool) -> Dim:
        """The number of windows. With `ceil`, the last one may extend beyond the padding but must start before the padding at the end."""
        positions(size, self.span, 1, self.begin + self.end)  # at least one window must fit without extending beyond the padding
        if not ceil:
            return positions(size, self.span, self.stride, self.begin + self.end)
        if self.settled(size):
            return self.most(size)
        return self.most(size) - 1 if type(size) is int else ANY

    def without_ceil(self, size: int) -> "_Axis":
        """Returns an equivalent pooling without `ceil`, with different padding at the end."""
        needed = (_static(self.places(size, True)) - 1) * self.stride + self.span - size - self.begin
        return self._replace(end=max(needed, 0))

    def members(self, size: int, count: int, *, padding: bool) -> Array:
        """The number of elements of each window: of the data only, or with `padding` of the data and the declared padding."""
        at = np.arange(count)[:, None] * self.stride - self.begin + np.arange(self.length) * self.gap
        low, high = (-self.begin, size + self.end) if padding else (0, size)
        found: Array = ((at >= low) & (at < high)).sum(1)
        return found


def _axes(rank: int, pool_size: Numbers, strides: Numbers, padding: Numbers, dilation: Numbers) -> list[_Axis]:
    begins, ends = begins_ends(padding, rank)
    numbers = (per_axis(pool_size, rank, "pool_size"), per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation"))
    axes = [_Axis(*values) for values in zip(*numbers, begins, ends, strict=True)]
    if any(axis.begin >= axis.length or axis.end >= axis.length for axis in axes):
        raise OpTypeError(f"padding={padding} must be smaller than pool_size={pool_size}")
    return axes


def spatial_shape(data: TensorType, rank: int, layout: str, dtypes: frozenset[str] = FLOATS) -> Shape:
    """The shape of data, arranged as (N, C, spatial ...)."""
    if data.dtype not in dtypes:
        raise OpTypeError(f"elements of type {data.dtype} cannot be pooled")
    if data.ndim != rank + 2:
        raise OpTypeError(f"data must have {counted(rank + 2, 'dimension')}, but has {data.ndim}")
    return arranged_shape(data.shape, layout, "NC" + SPATIAL[rank])


def laid_out(data: TensorType, shape: Sequence[Dim], rank: int, layout: str) -> TensorType:
    """The type of a result of shape (N, C, spatial ...) in a layout."""
    return data.with_shape(arranged_shape(tuple(shape), "NC" + SPATIAL[rank], layout))


def _static(dim: Dim) -> int:
    assert isinstance(dim, int)  # only called with static sizes
    return dim


def _views(x: Array, axes: Sequence[_Axis], ceil: bool, fill: AnyValue) -> tuple[Array, list[int]]:
    """Returns the windows over the last axes of (N, C, spatial ...), padded with `fill`, and the number of windows along each axis."""
    counts = [_static(axis.places(size, ceil)) for axis, size in zip(axes, x.shape[2:], strict=True)]
    after = [
        max((count - 1) * axis.stride + axis.span - size - axis.begin, 0)
        for axis, size, count in zip(axes, x.shape[2:], counts, strict=True)
    ]
    padded = pad_spatial(x, [axis.begin for axis in axes], after, fill)
    return windows(padded, [axis.length for axis in axes], [axis.stride for axis in axes], [axis.gap for axis in axes]), counts


def _members(x: Array, axes: Sequence[_Axis], counts: Sequence[int], *, padding: bool) -> Array:
    """The number of elements of each window. Raises ValueError if a window lies entirely in the padding, since runtimes disagree on its
    value."""
    sizes = x.shape[2:]
    if any(not axis.members(size, count, padding=False).all() for axis, size, count in zip(axes, sizes, counts, strict=True)):
        raise ValueError("a window lies entirely in the padding")
    found = (axis.members(size, count, padding=padding) for axis, size, count in zip(axes, sizes, counts, strict=True))
    return reduce(np.multiply.outer, found)


def _max_pool(
    data: Array, *, pool_size: Numbers, strides: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool, layout: str
) -> Array:
    rank = data.ndim - 2
    x, axes = arranged(wide(data), layout, "NC" + SPATIAL[rank]), _axes(rank, pool_size, strides, padding, dilation)
    least = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    view, counts = _views(x, axes, ceil_mode, least)
    _members(x, axes, counts, padding=False)
    return narrow(arranged(view.max(tuple(range(2 + rank, 2 + 2 * rank))), "NC" + SPATIAL[rank], layout), data.dtype)


def _avg_pool(
    data: Array,
    *,
    pool_size: Numbers,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
    count_include_pad: bool,
    layout: str,
) -> Array:
    rank = data.ndim - 2
    x, axes = arranged(wide(data), layout, "NC" + SPATIAL[rank]), _axes(rank, pool_size, strides, padding, dilation)
    view, counts = _views(x, axes, ceil_mode, 0)
    total = view.sum(tuple(range(2 + rank, 2 + 2 * rank)))
    mean = total / _members(x, axes, counts, padding=count_include_pad).astype(x.dtype)
    return narrow(arranged(mean, "NC" + SPATIAL[rank], layout), data.dtype)


def _lp_pool(data: Array, *, p: int, pool_size: Numbers, strides: Numbers, padding: Numbers, dilation: Numbers, ceil_mode: bool) -> Array:
    rank = data.ndim - 2
    x, axes = wide(data), _axes(rank, pool_size, strides, padding, dilation)
    view, _ = _views(np.abs(x) ** p, axes, ceil_mode, 0)
    return narrow(view.sum(tuple(range(2 + rank, 2 + 2 * rank))) ** (1 / p), data.dtype)


def _window_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    rank = tensor_type(result).ndim - 2
    reads = elements(result) * static_size(per_axis(attrs["pool_size"], rank, "pool_size"))
    return Cost(reads, nbytes(args[0]) + nbytes(result))


def _declare_max(rank: int) -> Op:
    ones, letters = (1,) * rank, SPATIAL[rank]

    def relation(
        data: TensorType,
        *,
        pool_size: Numbers = ones,
        strides: Numbers = ones,
        padding: Numbers = (0,) * (2 * rank),
        dilation: Numbers = ones,
        ceil_mode: bool = False,
        layout: str = "NC" + letters,
    ) -> TensorType:
        shape, axes = spatial_shape(data, rank, layout, FLOATS | INTEGERS), _axes(rank, pool_size, strides, padding, dilation)
        sizes = (axis.places(size, ceil_mode) for axis, size in zip(axes, shape[2:], strict=True))
        return laid_out(data, (*shape[:2], *sizes), rank, layout)

    relation.__doc__ = f"""The maximum of each window of data (N, C, {", ".join(letters)}); ignores padding.

    `padding` is as in `nn.conv{rank}d` and less than the window. With `ceil_mode`, a last window that starts inside the data or the
    padding before it may extend beyond the end. ONNX: MaxPool (8, 10, 11, 12, 22) without indices.
    """
    return define_op(f"nn.max_pool{rank}d", kernel=_max_pool, cost=_window_cost, pattern=4)(relation)


def _declare_avg(rank: int) -> Op:
    ones, letters = (1,) * rank, SPATIAL[rank]

    def relation(
        data: TensorType,
        *,
        pool_size: Numbers = ones,
        strides: Numbers = ones,
        padding: Numbers = (0,) * (2 * rank),
        dilation: Numbers = ones,
        ceil_mode: bool = False,
        count_include_pad: bool = False,
        layout: str = "NC" + letters,
    ) -> TensorType:
        shape, axes = spatial_shape(data, rank, layout), _axes(rank, pool_size, strides, padding, dilation)
        sizes = (axis.places(size, ceil_mode) for axis, size in zip(axes, shape[2:], strict=True))
        return laid_out(data, (*shape[:2], *sizes), rank, layout)

    relation.__doc__ = f"""The mean of each window of data (N, C, {", ".join(letters)}).

    The divisor is the number of data elements in the window; with `count_include_pad` it includes the declared padding, but not the
    elements that `ceil_mode` adds. ONNX: AveragePool (7, 10, 11, 19, 22).
    """
    return define_op(f"nn.avg_pool{rank}d", kernel=_avg_pool, cost=_window_cost, pattern=4)(relation)


@define_op("nn.lp_pool", kernel=_lp_pool, cost=_window_cost, pattern=4)
def lp_pool(
    data: TensorType,
    *,
    p: int = 2,
    pool_size: Numbers,
    strides: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    ceil_mode: bool = False,
) -> TensorType:
    """The p-norm of each window of data (N, C, one to three spatial dimensions), padded with zeros. ONNX: LpPool (2, 11, 18, 22)."""
    rank = data.ndim - 2
    if rank not in SPATIAL or p < 1:
        raise OpTypeError(f"data must have three to five dimensions and p must be at least 1, but they are {data.ndim} and {p}")
    shape, axes = spatial_shape(data, rank, "NC" + SPATIAL[rank]), _axes(rank, pool_size, strides, padding, dilation)
    return data.with_shape((*shape[:2], *(axis.places(size, ceil_mode) for axis, size in zip(axes, shape[2:], strict=True))))


MAX = {rank: _declare_max(rank) for rank in SPATIAL}
"""`nn.max_pool1d`, `nn.max_pool2d`, `nn.max_pool3d`, by the number of spatial dimensions."""
AVG = {rank: _declare_avg(rank) for rank in SPATIAL}
"""`nn.avg_pool1d`, `nn.avg_pool2d`, `nn.avg_pool3d`, by the number of spatial dimensions."""


def _read_attrs(node: OnnxNode, rank: int) -> dict[str, AnyValue] | None:
    """Returns the attributes that all windowed poolings share; None if runtimes disagree on their meaning."""
    window = node.attrs.get("kernel_shape", ())
    strides, dilation = read_numbers(node, "strides", rank), read_numbers(node, "dilations", rank)
    ceil, sizes = bool(node.attrs.get("ceil_mode", 0)), node.type(0).shape[2:]
    if len(window) != rank:
        return None
    padding = read_padding(node, sizes, window, strides, dilation, clipped=False)
    if padding is None:
        return None
    return {"pool_size": tuple(window), "strides": strides, "padding": padding, "dilation": dilation, "ceil_mode": ceil}


def window_counts(node: OnnxNode) -> Shape | None:
    """Returns the number of windows of an ONNX pooling along each spatial dimension; None if unknown.

    Raises OpTypeError if no window fits.
    """
    sizes = node.type(0).shape[2:]
    attrs = _read_attrs(node, len(sizes)) if sizes else None
    if attrs is None:
        return None
    axes = _axes(len(sizes), attrs["pool_size"], attrs["strides"], attrs["padding"], attrs["dilation"])
    return tuple(axis.places(size, attrs["ceil_mode"]) for axis, size in zip(axes, sizes, strict=True))


@from_onnx("MaxPool")
def _read_max(node: OnnxNode) -> Expr | None:
    rank = node.type(0).ndim - 2
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "storage_order", "strides")
    if rank not in SPATIAL or node.n_outputs != 1 or node.attrs.get("storage_order", 0) or not only(node, *names):
        return None
    attrs = _read_attrs(node, rank)
    return None if attrs is None else MAX[rank](node.input(0), span=node.span, **attrs)


@from_onnx("AveragePool")
def _read_avg(node: OnnxNode) -> Expr | None:
    rank = node.type(0).ndim - 2
    names = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "strides")
    if rank not in SPATIAL or not only(node, *names):
        return None
    attrs = _read_attrs(node, rank)
    if attrs is None:
        return None
    return AVG[rank](node.input(0), count_include_pad=bool(node.attrs.get("count_include_pad", 0)), span=node.span, **attrs)


@from_onnx("LpPool")
def _read_lp(node: OnnxNode) -> Expr | None:
    rank, p = node.type(0).ndim - 2, node.attrs.get("p", 2)
    names = ("auto_pad", "ceil_mode", "dilations", "kernel_shape", "p", "pads", "strides")
    if rank not in SPATIAL or p < 1 or not only(node, *names):
        return None
    attrs = _read_attrs(node, rank)
    return None if attrs is None else lp_pool(node.input(0), p=p, span=node.span, **attrs)


def _writer(op_type: str, *, ceil_since: int, dilation_since: int) -> Callable[[Call, Sequence[str], Emitter], str]:
    """Returns the writer of a windowed pooling whose ONNX operator has ceil_mode and dilations since these opsets.

    In earlier opsets, padding at the end replaces ceil_mode if sizes are static and padding is not counted. The same applies before opset
    22 if ONNX's shape inference counts windows that ONNX Runtime drops.
    """

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        attrs, data, op = call.attrs, tensor_type(call.args[0].checked_type), call.op
        assert isinstance(op, Op)
        rank, ceil, counted = data.ndim - 2, attrs.ceil_mode, attrs.get("count_include_pad", False)
        canonical = "NC" + SPATIAL[rank]
        layout = attrs.get("layout", canonical)
        axes = _axes(rank, attrs.pool_size, attrs.strides, attrs.padding, attrs.dilation)
        given: dict[str, AnyValue] = {"kernel_shape": tuple(axis.length for axis in axes)}
        sizes = arranged_shape(data.shape, layout, canonical)[2:]
        disputed = emit.opset < 22 and not all(axis.settled(size) for axis, size in zip(axes, sizes, strict=True))
        if ceil and (disputed or emit.opset < ceil_since):
            known = [size for size in sizes if isinstance(size, int)]
            padded = [axis.without_ceil(size) for axis, size in zip(axes, known, strict=False)]
            if len(known) == rank and not counted and all(axis.end < axis.length for axis in padded):
                ceil, axes = False, padded
            else:
                need_opset(emit, ceil_since, op)
        if any(axis.gap > 1 for axis in axes):
            need_opset(emit, dilation_since, op)
            given["dilations"] = tuple(axis.gap for axis in axes)
        given["pads"] = (*(axis.begin for axis in axes), *(axis.end for axis in axes))
        given["strides"] = tuple(axis.stride for axis in axes)
        if "p" in attrs:
            given["p"] = attrs.p
        given.update((name, 1) for name, flag in (("ceil_mode", ceil), ("count_include_pad", counted)) if flag)
        result = emit.node(op_type, [arranged_value(emit, inputs[0], layout, canonical)], given)
        return arranged_value(emit, result, canonical, layout)

    return write


for _rank in SPATIAL:
    to_onnx(MAX[_rank])(_writer("MaxPool", ceil_since=10, dilation_since=10))
    to_onnx(AVG[_rank])(_writer("AveragePool", ceil_since=10, dilation_since=19))
to_onnx(lp_pool)(_writer("LpPool", ceil_since=18, dilation_since=18))
