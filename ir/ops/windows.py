"""Sliding windows of convolution and pooling: layouts, padding, result sizes, window views, ONNX's auto_pad."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.counting import counted
from passat.ir.onnx_mapping import Emitter, OnnxNode
from passat.ir.op import OpTypeError
from passat.ir.ops.accumulate import Array
from passat.ir.ops.emitting import transpose
from passat.ir.shape import Dim, Shape

SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of the spatial dimensions in a layout, by rank."""


@lru_cache(1000)
def axes_of(layout: str, letters: str) -> tuple[int, ...]:
    """Returns the position in `layout` of each of `letters`: the permutation from the layout to the order of the letters.

    >>> axes_of("NHWC", "NCHW")
    (0, 3, 1, 2)
    """
    if sorted(layout) != sorted(letters):
        raise OpTypeError(f"the layout {layout!r} is not a permutation of the letters {letters}")
    return tuple(layout.index(letter) for letter in letters)


def arranged(array: Array, layout: str, letters: str) -> Array:
    """Transposes an array from `layout` to the order `letters`."""
    return array if layout == letters else array.transpose(axes_of(layout, letters))


def arranged_shape(shape: Shape, layout: str, letters: str) -> Shape:
    """Permutes a shape from `layout` to the order `letters`."""
    return shape if layout == letters else tuple(shape[axis] for axis in axes_of(layout, letters))


def arranged_value(emit: Emitter, name: str, layout: str, letters: str) -> str:
    """Transposes an ONNX value by name from `layout` to the order `letters`."""
    return name if layout == letters else transpose(emit, name, axes_of(layout, letters))


def per_axis(value: int | Sequence[int], rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """Returns one number per spatial dimension. A single number, alone or in a tuple, applies to all. Raises OpTypeError.

    >>> per_axis(2, 3, "strides"), per_axis((1, 2), 2, "strides")
    ((2, 2, 2), (1, 2))
    """
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank:
        raise OpTypeError(f"{what}={value} has {len(numbers)} numbers for {counted(rank, 'spatial dimension')}")
    if any(number < least for number in numbers):
        raise OpTypeError(f"{what}={value} contains a number less than {least}")
    return numbers


def begins_ends(padding: int | Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the padding before and after each spatial dimension, for a padding of one number, one per dimension, or begins and ends.

    >>> begins_ends((1, 2), 2), begins_ends((0, 1, 2, 3), 2)
    (((1, 2), (1, 2)), ((0, 1), (2, 3)))
    """
    if isinstance(padding, int) or len(padding) != 2 * rank:
        both = per_axis(padding, rank, "padding", 0)
        return both, both
    numbers = per_axis(padding, 2 * rank, "padding", 0)
    return numbers[:rank], numbers[rank:]


def spans(window: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """The extent of a window along each axis, including dilation gaps."""
    return tuple(step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True))


def positions(size: Dim, span: Dim, stride: int, padding: int) -> Dim:
    """The number of windows of extent `span` that fit into `size` and `padding` elements. Raises OpTypeError if none fits."""
    room = size + padding - span
    if type(room) is int and room < 0:
        raise OpTypeError(f"a window of {counted(span, 'element')} does not fit into {counted(size, 'element')} and {padding} of padding")
    return room + 1 if stride == 1 else room // stride + 1


def windows(padded: Array, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """Returns all windows of an array (N, C, spatial ...) as a view (N, C, positions ..., window ...)."""
    rank = len(window)
    view = np.lib.stride_tricks.sliding_window_view(padded, spans(window, dilation), tuple(range(2, 2 + rank)))
    index: tuple[AnyValue, ...] = (..., *(slice(None, None, step) for step in (*strides, *dilation)))
    found: Array = view[index]
    return found


def pad_spatial(array: Array, begins: Sequence[int], ends: Sequence[int], value: AnyValue = 0) -> Array:
    """Pads the spatial dimensions of an array (N, C, spatial ...) with `value`."""
    if not any(begins) and not any(ends):
        return array
    return np.pad(array, [(0, 0), (0, 0), *zip(begins, ends, strict=True)], constant_values=value)


def read_numbers(node: OnnxNode, name: str, rank: int) -> tuple[int, ...]:
    """Returns the strides or dilations of an ONNX node; 1 per spatial dimension if absent."""
    return tuple(node.attrs.get(name) or (1,) * rank)


def read_padding(
    node: OnnxNode, sizes: Shape, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], *, clipped: bool
) -> tuple[int, ...] | None:
    """Returns the padding of an ONNX node as begins and ends, with auto_pad resolved; None if it depends on unknown sizes.

    SAME pads so that the result has ceil(size / stride) elements. If that would require negative padding, Conv does not pad (`clipped`),
    while runtimes reject or misinterpret it for pooling. Runtimes also disagree on SAME with dilations. Returns None in these cases too.
    """
    rank = len(window)
    given = tuple(node.attrs.get("pads") or (0,) * (2 * rank))
    mode = node.attrs.get("auto_pad", "NOTSET")
    if len(given) != 2 * rank or len(strides) != rank or len(sizes) != rank or min(0, *given) < 0 or min(1, *strides) < 1:
        return None
    if mode == "NOTSET":
        return given
    if any(given):
        return None
    if mode == "VALID":
        return given
    if mode not in ("SAME_UPPER", "SAME_LOWER") or any(step != 1 for step in dilation):
        return None
    smaller, larger = [], []
    for size, length, stride in zip(sizes, window, strides, strict=True):
        if type(size) is int:
            total = (-(-size // stride) - 1) * stride + length - size
        elif stride == 1:
            total = length - 1
        else:
            return None
        if total < 0 and not clipped:
            return None
        total = max(total, 0)
        smaller.append(total // 2)
        larger.append(total - total // 2)
    return (*smaller, *larger) if mode == "SAME_UPPER" else (*larger, *smaller)
