"""Relay's functions of operators that move windows over their operand: convolutions and poolings.

Strides, dilations and windows may be one number for all spatial dimensions. Padding may be one number, one for each spatial dimension, or
begins and ends. The attributes have one number for each dimension. Results of convolutions in another layout (`out_layout`) are transposed,
or changed by `layout_transform` if there are blocks. Arguments that Passat's operator does not support raise ValueError.
"""

from passat.ir.expr import Call, Constant, Expr
from passat.ir.op import OpTypeError, get_op
from passat.ir.ops.blocked_layouts import blocks_of, in_layout, names_of
from passat.ir.ops.blocked_windows import fitting
from passat.ir.ops.windows import per_axis
from passat.ir.types import TensorType
from passat.relay.building import (
    Numbers,
    call,
    known_type,
    numbers,
    of_operator,
    only,
    only_dtype,
    operand,
    plain,
    result_dtype,
    window_attributes,
)
from passat.relay.names import explain_arguments

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "contrib_conv2d_nchwc",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "global_avg_pool1d",
    "global_avg_pool2d",
    "global_avg_pool3d",
    "global_max_pool1d",
    "global_max_pool2d",
    "global_max_pool3d",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "upsampling",
]


def _convolution(
    name: str,
    data: Expr,
    weight: Expr,
    strides: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "",
    kernel_layout: str = "",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """A convolution; the operator for blocks if a layout has blocks."""
    name = fitting(get_op(name), data_layout, kernel_layout).name
    attrs = window_attributes(name, strides, padding, dilation, kernel_size)
    others = {"groups": groups, "channels": channels, "data_layout": data_layout, "kernel_layout": kernel_layout}
    dtype = result_dtype(out_dtype, operand(name, "data", data))
    return _laid_out(call(name, data, weight, **attrs, **others, out_dtype=dtype), name, data_layout, out_layout)


def _transposed(
    name: str,
    data: Expr,
    weight: Expr,
    strides: Numbers = 1,
    padding: Numbers = 0,
    dilation: Numbers = 1,
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "",
    kernel_layout: str = "",
    out_layout: str = "",
    output_padding: Numbers = 0,
    out_dtype: str = "",
) -> Call:
    """A transposed convolution."""
    only_dtype(name, out_dtype, operand(name, "data", data))
    attrs = window_attributes(name, strides, padding, dilation, kernel_size)
    others = {"groups": groups, "channels": channels, "data_layout": data_layout, "kernel_layout": kernel_layout}
    assert attrs["strides"] is not None
    extra = per_axis(numbers(name, "output_padding", output_padding), len(attrs["strides"]), "output_padding", 0)
    return _laid_out(call(name, data, weight, **attrs, **others, output_padding=extra), name, data_layout, out_layout)


def _laid_out(made: Call, name: str, data_layout: str, out_layout: str) -> Call:
    """The result of a convolution in a layout, by default that of the data."""
    try:
        found = in_layout(made, data_layout, out_layout or data_layout)
    except OpTypeError as error:
        raise ValueError(f"relay.{name}: out_layout: {error}") from None
    assert isinstance(found, Call)
    return found


conv1d = of_operator("nn.conv1d", _convolution)
conv1d_transpose = of_operator("nn.conv1d_transpose", _transposed)
conv2d = of_operator("nn.conv2d", _convolution)
conv2d_transpose = of_operator("nn.conv2d_transpose", _transposed)
conv3d = of_operator("nn.conv3d", _convolution)
conv3d_transpose = of_operator("nn.conv3d_transpose", _transposed)


def contrib_conv2d_nchwc(
    data: Expr,
    kernel: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCHW8c",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """A convolution over two spatial dimensions of data in blocks of channels. If the weight has six axes, the last two are blocks of
    inputs and outputs, even if the kernel layout omits them."""
    weight = known_type(kernel)
    if kernel_layout == "OIHW" and isinstance(weight, TensorType) and weight.ndim == 6:
        kernel_layout = f"OIHW{weight.shape[4]}i{weight.shape[5]}o"
    window = (strides, padding, dilation, groups, channels, kernel_size)
    return _convolution("nn.contrib_conv2d_nchwc", data, kernel, *window, data_layout, kernel_layout, out_layout, out_dtype)


def _max_pool(
    name: str,
    data: Expr,
    pool_size: Numbers = 1,
    strides: Numbers = 1,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    layout: str = "",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """The greatest element of each window."""
    return _pool(name, data, pool_size, strides, dilation, padding, layout, out_layout, ceil_mode=ceil_mode)


def _avg_pool(
    name: str,
    data: Expr,
    pool_size: Numbers = 1,
    strides: Numbers = 1,
    dilation: Numbers = 1,
    padding: Numbers = 0,
    layout: str = "",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The mean of each window."""
    counted = {"ceil_mode": ceil_mode, "count_include_pad": count_include_pad}
    return _pool(name, data, pool_size, strides, dilation, padding, layout, out_layout, **counted)


def _pool(
    name: str,
    data: Expr,
    size: Numbers,
    strides: Numbers,
    dilation: Numbers,
    padding: Numbers,
    layout: str,
    out_layout: str,
    **others: bool,
) -> Call:
    only(name, "out_layout", out_layout, "", layout)
    name = fitting(get_op(name), layout).name
    attrs = window_attributes(name, strides, padding, dilation, size)
    return call(name, data, pool_size=attrs.pop("kernel_size"), **attrs, **others, layout=layout)


def _global_pool(name: str, data: Expr, layout: str = "", out_layout: str = "") -> Call:
    """One element for each channel."""
    only(name, "out_layout", out_layout, "", layout)
    return call(fitting(get_op(name), layout).name, data, layout=layout)


max_pool1d = of_operator("nn.max_pool1d", _max_pool)
max_pool2d = of_operator("nn.max_pool2d", _max_pool)
max_pool3d = of_operator("nn.max_pool3d", _max_pool)
avg_pool1d = of_operator("nn.avg_pool1d", _avg_pool)
avg_pool2d = of_operator("nn.avg_pool2d", _avg_pool)
avg_pool3d = of_operator("nn.avg_pool3d", _avg_pool)
global_max_pool1d = of_operator("nn.global_max_pool1d", _global_pool)
global_max_pool2d = of_operator("nn.global_max_pool2d", _global_pool)
global_max_pool3d = of_operator("nn.global_max_pool3d", _global_pool)
global_avg_pool1d = of_operator("nn.global_avg_pool1d", _global_pool)
global_avg_pool2d = of_operator("nn.global_avg_pool2d", _global_pool)
global_avg_pool3d = of_operator("nn.global_avg_pool3d", _global_pool)


def upsampling(
    data: Expr,
    scale_h: float | Constant = 1,
    scale_w: float | Constant = 1,
    layout: str = "NCHW",
    method: str = "nearest_neighbor",
    align_corners: bool = False,
) -> Expr:
    """Each element of an image, repeated along its height and width: `repeat` along both axes. Raises ValueError for factors that are not
    integers, and for methods other than nearest neighbor."""
    only("nn.upsampling", "method", method, "nearest_neighbor")
    only("nn.upsampling", "align_corners", align_corners, False)
    names = names_of(layout)
    for letter, scale in (("H", plain(scale_h)), ("W", plain(scale_w))):
        if not isinstance(scale, (int, float)) or scale < 1 or scale != int(scale):
            raise ValueError(f"relay.nn.upsampling: scale_{letter.lower()}={scale!r} is not supported; an integer of 1 or more is")
        if letter not in names or len(blocks_of(layout, letter)):
            raise ValueError(f"relay.nn.upsampling: layout={layout!r} is not supported; a layout with the whole axis {letter} is")
        if scale != 1:
            data = call("repeat", data, repeats=int(scale), axis=names.index(letter))
    return data


explain_arguments(globals(), __all__, "nn.")
