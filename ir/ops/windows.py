"""Sliding windows: what convolution and pooling share. Layouts, padding, sizes of results, views of the windows, ONNX's auto_pad."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.onnx_mapping import Emitter, OnnxNode
from passat.ir.op import OpTypeError
from passat.ir.ops.accumulate import Array
from passat.ir.ops.emitting import transpose
from passat.ir.shape import Dim, Shape

SPATIAL: Final = {1: "W", 2: "HW", 3: "DHW"}
"""The letters of the spatial dimensions in a layout, by their number."""


@lru_cache(1000)
def axes_of(layout: str, letters: str) -> tuple[int, ...]:
    """Where in `layout` each of `letters` stands: the permutation that transposes a tensor from the one order to the other.

    >>> axes_of("NHWC", "NCHW")
    (0, 3, 1, 2)
    """
    if sorted(layout) != sorted(letters):
        raise OpTypeError(f"the layout {layout!r} is not an order of the letters {letters}")
    return tuple(layout.index(letter) for letter in letters)


def arranged(array: Array, layout: str, letters: str) -> Array:
    """An array in `layout` as one in the order `letters`."""
    return array if layout == letters else array.transpose(axes_of(layout, letters))


def arranged_shape(shape: Shape, layout: str, letters: str) -> Shape:
    """A shape in `layout` as one in the order `letters`."""
    return shape if layout == letters else tuple(shape[axis] for axis in axes_of(layout, letters))


def arranged_value(emit: Emitter, name: str, layout: str, letters: str) -> str:
    """The ONNX value called `name`, in `layout`, as one in the order `letters`."""
    return name if layout == letters else transpose(emit, name, axes_of(layout, letters))


def per_axis(value: int | Sequence[int], rank: int, what: str, least: int = 1) -> tuple[int, ...]:
    """A number for each spatial dimension; one number, alone or in a tuple, is for all. Raises OpTypeError.

    >>> per_axis(2, 3, "strides"), per_axis((1, 2), 2, "strides")
    ((2, 2, 2), (1, 2))
    """
    numbers = (value,) if isinstance(value, int) else tuple(value)
    if len(numbers) == 1:
        numbers *= rank
    if len(numbers) != rank:
        raise OpTypeError(f"{what}={value} has {len(numbers)} numbers for {rank} spatial dimensions")
    if any(number < least for number in numbers):
        raise OpTypeError(f"{what}={value} has a number less than {least}")
    return numbers


def begins_ends(padding: int | Sequence[int], rank: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Padding before and after, for each spatial dimension, of a padding attribute: one number, one per dimension, or begins and ends.

    >>> begins_ends((1, 2), 2), begins_ends((0, 1, 2, 3), 2)
    (((1, 2), (1, 2)), ((0, 1), (2, 3)))
    """
    if isinstance(padding, int) or len(padding) != 2 * rank:
        both = per_axis(padding, rank, "padding", 0)
        return both, both
    numbers = per_axis(padding, 2 * rank, "padding", 0)
    return numbers[:rank], numbers[rank:]


def spans(window: Sequence[int], dilation: Sequence[int]) -> tuple[int, ...]:
    """How many elements a window reaches over, its gaps included."""
    return tuple(step * (size - 1) + 1 for size, step in zip(window, dilation, strict=True))


def positions(size: Dim, span: Dim, stride: int, padding: int) -> Dim:
    """How many windows of `span` elements fit into `size` and `padding` elements. Raises OpTypeError where not even one does."""
    room = size + padding - span
    if type(room) is int and room < 0:
        raise OpTypeError(f"a window over {span!r} elements does not fit into {size!r} elements and {padding} of padding")
    return room + 1 if stride == 1 else room // stride + 1


def windows(padded: Array, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int]) -> Array:
    """All windows of an array (N, C, spatial ...) as a view (N, C, positions ..., window ...)."""
    rank = len(window)
    view = np.lib.stride_tricks.sliding_window_view(padded, spans(window, dilation), tuple(range(2, 2 + rank)))
    index: tuple[AnyValue, ...] = (..., *(slice(None, None, step) for step in (*strides, *dilation)))
    found: Array = view[index]
    return found


def pad_spatial(array: Array, begins: Sequence[int], ends: Sequence[int], value: AnyValue = 0) -> Array:
    """An array (N, C, spatial ...) with elements of `value` around it."""
    if not any(begins) and not any(ends):
        return array
    return np.pad(array, [(0, 0), (0, 0), *zip(begins, ends, strict=True)], constant_values=value)


def read_numbers(node: OnnxNode, name: str, rank: int) -> tuple[int, ...]:
    """Strides or dilations of an ONNX node: 1 for each spatial dimension where they are absent."""
    return tuple(node.attrs.get(name) or (1,) * rank)


def read_padding(
    node: OnnxNode, sizes: Shape, window: Sequence[int], strides: Sequence[int], dilation: Sequence[int], *, clipped: bool
) -> tuple[int, ...] | None:
    """The padding of an ONNX node, begins and ends, auto_pad worked out. None where it depends on sizes that are not known.

    SAME pads so that the result has ceil(size / stride) elements. Where that takes less than no padding, Conv pads by nothing
    (`clipped`), while runtimes refuse or misread it for pooling; they differ on SAME with dilations. None for those too.
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
