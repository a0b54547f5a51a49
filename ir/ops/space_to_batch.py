"""Moves blocks between the batch and the spatial dimensions of a tensor: nn.space_to_batch_nd and nn.batch_to_space_nd."""

from collections.abc import Sequence
from math import prod
from typing import Final, NamedTuple

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import INTEGERS, to_numpy
from passat.ir.expr import Call
from passat.ir.onnx_mapping import Emitter, need_opset, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.padding import PadValue, pad_array, padded
from passat.ir.ops.reshaping import int64
from passat.ir.shape import Dim, Shape, divide
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, tensor_type

Pairs = tuple[tuple[int, int], ...]
_NOTHING: Final = (0, 0)


class _Part(NamedTuple):
    """The size of an axis, times a number, divided by a number."""

    axis: int
    times: int = 1
    over: int = 1


def _checked(data: TensorType, block_shape: Sequence[int], name: str, pairs: Pairs) -> TensorType:
    count = len(block_shape)
    if tensor_type(data, "data").ndim <= count:
        raise OpTypeError(f"data must have a batch and {counted(count, 'spatial dimension')}, but is {data!r}")
    if any(size < 1 for size in block_shape):
        raise OpTypeError(f"block_shape={tuple(block_shape)} contains a number less than 1")
    if len(pairs) != count or any(number < 0 for pair in pairs for number in pair):
        raise OpTypeError(f"{name}={pairs} must have {counted(count, 'pair')} of numbers that are not negative")
    return data


def _widths(pairs: Pairs, rank: int) -> tuple[tuple[int, int], ...]:
    """Pairs for all axes, of those for the spatial ones."""
    return (_NOTHING, *pairs, *(_NOTHING,) * (rank - 1 - len(pairs)))


def _blocks_first(block_shape: Sequence[int], rank: int) -> tuple[int, ...]:
    """The permutation of (batch, (size, block) ..., rest ...) that has the blocks first."""
    count = len(block_shape)
    sizes, blocks = range(1, 2 * count, 2), range(2, 2 * count + 1, 2)
    return (*blocks, 0, *sizes, *range(2 * count + 1, rank + count))


def _space_to_batch(data: Array, block_shape: Sequence[int], paddings: Pairs, pad_value: PadValue) -> Array:
    whole = pad_array(data, _widths(paddings, data.ndim), "constant", "" if data.dtype == np.object_ and pad_value == 0 else pad_value)
    count = len(block_shape)
    spatial = [size // block for size, block in zip(whole.shape[1:], block_shape, strict=False)]
    apart = [number for pair in zip(spatial, block_shape, strict=True) for number in pair]
    moved = whole.reshape(whole.shape[0], *apart, *whole.shape[1 + count :]).transpose(_blocks_first(block_shape, data.ndim))
    return np.reshape(moved, (whole.shape[0] * prod(block_shape), *spatial, *whole.shape[1 + count :]))


@define_op("nn.space_to_batch_nd", exact="always", kernel=_space_to_batch, pattern=2)
def space_to_batch_nd(data: TensorType, *, block_shape: tuple[int, ...], paddings: Pairs, pad_value: PadValue = 0.0) -> TensorType:
    """Pads the axes behind the batch with `pad_value`, and moves their blocks into the batch: its outer part is the position within a
    block. Relay nn.space_to_batch_nd. Written to ONNX as Pad, Reshape, Transpose, Reshape.
    """
    _checked(data, block_shape, "paddings", paddings)
    if data.dtype in INTEGERS and int(pad_value) != pad_value:
        raise OpTypeError(f"pad_value={pad_value} is not a valid {data.dtype}")
    batch, *sizes = padded(data.shape, _widths(paddings, data.ndim), "constant")
    for size, block in zip(sizes, block_shape, strict=False):
        if isinstance(size, int) and size % block:
            raise OpTypeError(f"{counted(size, 'element')} with the padding cannot be divided into blocks of {block}")
    spatial = [divide(size, block) for size, block in zip(sizes, block_shape, strict=False)]
    return data.with_shape((batch * prod(block_shape), *spatial, *sizes[len(block_shape) :]))


def _batch_to_space(data: Array, block_shape: Sequence[int], crops: Pairs) -> Array:
    count, rank = len(block_shape), data.ndim
    batch, spatial, rest = data.shape[0] // prod(block_shape), data.shape[1 : 1 + count], data.shape[1 + count :]
    order = _blocks_first(block_shape, rank)
    moved = data.reshape(*block_shape, batch, *spatial, *rest).transpose([order.index(axis) for axis in range(rank + count)])
    whole = np.reshape(moved, (batch, *(size * block for size, block in zip(spatial, block_shape, strict=True)), *rest))
    return pad_array(whole, [(-begin, -end) for begin, end in _widths(crops, rank)], "constant", 0)


@define_op("nn.batch_to_space_nd", kernel=_batch_to_space, movement=True)
def batch_to_space_nd(data: TensorType, *, block_shape: tuple[int, ...], crops: Pairs) -> TensorType:
    """Moves parts of the batch into blocks of the axes behind it, and crops these: the inverse of nn.space_to_batch_nd. Relay
    nn.batch_to_space_nd. Written to ONNX as Reshape, Transpose, Reshape, Slice.
    """
    _checked(data, block_shape, "crops", crops)
    batch, *sizes = data.shape
    if isinstance(batch, int) and batch % prod(block_shape):
        raise OpTypeError(f"a batch of {batch} is not divisible into blocks of {tuple(block_shape)}")
    spatial = [size * block for size, block in zip(sizes, block_shape, strict=False)]
    whole = (divide(batch, prod(block_shape)), *spatial, *sizes[len(block_shape) :])
    return data.with_shape(padded(whole, [(-begin, -end) for begin, end in _widths(crops, data.ndim)], "constant"))


def _reshaped(emit: Emitter, call: Call, name: str, shape: Shape, wanted: Sequence[int | _Part]) -> str:
    """Emits a reshape of a value of this shape. Each size is a number, or a part of that shape."""
    sizes = [_size(shape, part) for part in wanted]
    inferred = sizes.count(-1) < 2 and not (-1 in sizes and 0 in sizes)
    if inferred:
        newshape = int64(emit, sizes)
    else:
        read = emit.node("Shape", [name])
        parts = [_emit_size(emit, read, part) if size == -1 else int64(emit, (size,)) for size, part in zip(sizes, wanted, strict=True)]
        newshape = emit.node("Concat", parts, {"axis": 0})
    if 0 in sizes:
        assert isinstance(call.op, Op)
        need_opset(emit, 14, call.op)  # before it, a size of 0 stands for that of the operand
    literal = 0 in sizes or (not inferred and emit.opset >= 14)
    return emit.node("Reshape", [name, newshape], {"allowzero": 1} if literal else {})


def _size(shape: Shape, part: int | _Part) -> int:
    """A size of a reshape; -1 if it is unknown."""
    if isinstance(part, int):
        return part
    whole = shape[part.axis]
    return whole * part.times // part.over if isinstance(whole, int) else -1


def _emit_size(emit: Emitter, shape: str, part: int | _Part) -> str:
    assert isinstance(part, _Part)
    size = emit.node("Gather", [shape, int64(emit, (part.axis,))], {"axis": 0})
    if part.times != 1:
        size = emit.node("Mul", [size, int64(emit, (part.times,))])
    return size if part.over == 1 else emit.node("Div", [size, int64(emit, (part.over,))])


@to_onnx(space_to_batch_nd)
def _write_space_to_batch(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, blocks, paddings = tensor_type(call.args[0].checked_type), call.attrs.block_shape, call.attrs.paddings
    rank, count = data.ndim, len(blocks)
    widths = _widths(paddings, rank)
    name = inputs[0]
    if any(map(any, widths)):
        value = emit.constant(Tensor.dense(np.asarray(call.attrs.pad_value).astype(to_numpy(data.dtype))))
        pads = int64(emit, [*(begin for begin, _ in widths), *(end for _, end in widths)])
        name = emit.node("Pad", [name, pads, value])
    shape = padded(data.shape, widths, "constant")
    apart = [part for i, block in enumerate(blocks) for part in (_Part(1 + i, over=block), block)]
    rest = [_Part(axis) for axis in range(1 + count, rank)]
    name = _reshaped(emit, call, name, shape, [_Part(0), *apart, *rest])
    name = emit.node("Transpose", [name], {"perm": _blocks_first(blocks, rank)})
    inner = (*blocks, shape[0], *(divide(size, block) for size, block in zip(shape[1:], blocks, strict=False)), *shape[1 + count :])
    return _reshaped(emit, call, name, inner, [_Part(count, prod(blocks)), *(_Part(axis) for axis in range(count + 1, count + rank))])


@to_onnx(batch_to_space_nd)
def _write_batch_to_space(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, blocks = tensor_type(call.args[0].checked_type), call.attrs.block_shape
    rank, count = data.ndim, len(blocks)
    kept = [_Part(axis) for axis in range(1, rank)]
    name = _reshaped(emit, call, inputs[0], data.shape, [*blocks, _Part(0, over=prod(blocks)), *kept])
    order = _blocks_first(blocks, rank)
    name = emit.node("Transpose", [name], {"perm": tuple(order.index(axis) for axis in range(rank + count))})
    sizes = data.shape
    inner: list[Dim] = [divide(sizes[0], prod(blocks))]
    for size, block in zip(sizes[1:], blocks, strict=False):
        inner += [size, block]
    inner += sizes[1 + count :]
    joined = [_Part(1 + 2 * i, block) for i, block in enumerate(blocks)]
    name = _reshaped(emit, call, name, tuple(inner), [_Part(0), *joined, *(_Part(axis) for axis in range(1 + 2 * count, rank + count))])
    cropped = [axis for axis, pair in enumerate(call.attrs.crops) if any(pair)]
    if not cropped:
        return name
    begins = [call.attrs.crops[axis][0] for axis in cropped]
    ends = [-call.attrs.crops[axis][1] or (1 << 63) - 1 for axis in cropped]
    return emit.node("Slice", [name, *(int64(emit, part) for part in (begins, ends, [1 + axis for axis in cropped]))])
