"""The convolution over two spatial dimensions of data in blocks of channels: nn.contrib_conv2d_nchwc."""

from collections.abc import Sequence

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, nbytes
from passat.ir.op import define_op
from passat.ir.ops.blocked_layouts import joined, joined_shape, split, split_shape, without_blocks
from passat.ir.ops.convolution import CONVOLUTIONS, Numbers
from passat.ir.shape import static_size
from passat.ir.tensor import Array
from passat.ir.types import TensorType, Type, tensor_type


def _whole(attrs: Attrs) -> Attrs:
    return Attrs(attrs, **{name: without_blocks(attrs[name]) for name in ("data_layout", "kernel_layout")})


def _convolve(data: Array, weight: Array, **attrs: object) -> Array:
    """Computes with whole axes."""
    given = Attrs(attrs)
    kernel = CONVOLUTIONS[2].kernel
    assert kernel is not None
    result: Array = kernel(joined(data, given["data_layout"]), joined(weight, given["kernel_layout"]), **_whole(given))
    return split(result, given["data_layout"])


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    layout = attrs["kernel_layout"]
    sizes = dict(zip(without_blocks(layout), joined_shape(tensor_type(args[1]).shape, layout), strict=True))
    window = tuple(size for letter, size in sizes.items() if letter != "O")
    return Cost(2.0 * static_size(tensor_type(result).shape) * static_size(window), sum(map(nbytes, args)) + nbytes(result))


@define_op("nn.contrib_conv2d_nchwc", kernel=_convolve, cost=_cost, pattern=4)
def contrib_conv2d_nchwc(
    data: TensorType,
    weight: TensorType,
    *,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0, 0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str,
    kernel_layout: str,
) -> TensorType:
    """`nn.conv2d` of data and a weight in layouts with blocks, such as NCHW16c and OIHW16i16o; the result is in the layout of data.

    Blocks divide the axes. Relay's nn.contrib_conv2d_NCHWc, and its nn.conv2d in layouts with blocks.
    """
    attrs = Attrs(strides=strides, padding=padding, dilation=dilation, groups=groups, channels=channels, kernel_size=kernel_size)
    layouts = {"data_layout": without_blocks(data_layout), "kernel_layout": without_blocks(kernel_layout)}
    whole = [data.with_shape(joined_shape(data.shape, data_layout)), weight.with_shape(joined_shape(weight.shape, kernel_layout))]
    found = tensor_type(CONVOLUTIONS[2].relation(*whole, **attrs, **layouts))
    return found.with_shape(split_shape(found.shape, data_layout))
