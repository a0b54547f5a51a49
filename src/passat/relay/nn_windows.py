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
from passat.relay.building import Numbers, call, known_type, numbers, only, only_dtype, operand, plain, result_dtype, window_attributes
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


def conv1d(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1,),
    padding: Numbers = (0,),
    dilation: Numbers = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "OIW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """A convolution over one spatial dimension."""
    window = (strides, padding, dilation, kernel_size)
    return _convolution("nn.conv1d", 1, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, out_dtype=out_dtype)


def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1,),
    padding: Numbers = (0,),
    dilation: Numbers = (1,),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str = "",
    output_padding: Numbers = (0,),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over one spatial dimension."""
    window = (strides, padding, dilation, kernel_size)
    only_dtype("nn.conv1d_transpose", out_dtype, operand("nn.conv1d_transpose", "data", data))
    return _convolution(
        "nn.conv1d_transpose", 1, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, output_padding
    )


def conv2d(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """A convolution over two spatial dimensions; `nn.contrib_conv2d_nchwc` if a layout has blocks."""
    window = (strides, padding, dilation, kernel_size)
    name = fitting(get_op("nn.conv2d"), data_layout, kernel_layout).name
    return _convolution(name, 2, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, out_dtype=out_dtype)


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
    window = (strides, padding, dilation, kernel_size)
    return _convolution(
        "nn.contrib_conv2d_nchwc", 2, data, kernel, window, groups, channels, data_layout, kernel_layout, out_layout, out_dtype=out_dtype
    )


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Numbers = (0, 0),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over two spatial dimensions."""
    window = (strides, padding, dilation, kernel_size)
    only_dtype("nn.conv2d_transpose", out_dtype, operand("nn.conv2d_transpose", "data", data))
    return _convolution(
        "nn.conv2d_transpose", 2, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, output_padding
    )


def conv3d(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    dilation: Numbers = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "OIDHW",
    out_layout: str = "",
    out_dtype: str = "",
) -> Call:
    """A convolution over three spatial dimensions; `nn.contrib_conv3d_nchwc` where a layout has blocks."""
    window = (strides, padding, dilation, kernel_size)
    name = fitting(get_op("nn.conv3d"), data_layout, kernel_layout).name
    return _convolution(name, 3, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, out_dtype=out_dtype)


def conv3d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    dilation: Numbers = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str = "",
    output_padding: Numbers = (0, 0, 0),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over three spatial dimensions."""
    window = (strides, padding, dilation, kernel_size)
    only_dtype("nn.conv3d_transpose", out_dtype, operand("nn.conv3d_transpose", "data", data))
    return _convolution(
        "nn.conv3d_transpose", 3, data, weight, window, groups, channels, data_layout, kernel_layout, out_layout, output_padding
    )


Window = tuple[Numbers, Numbers, Numbers, Numbers | None]
"""Strides, padding, dilation, and the size of the window."""


def _convolution(
    name: str,
    spatial: int,
    data: Expr,
    weight: Expr,
    window: Window,
    groups: int,
    channels: int | None,
    data_layout: str,
    kernel_layout: str,
    out_layout: str,
    output_padding: Numbers | None = None,
    out_dtype: str = "",
) -> Call:
    attrs: dict[str, object] = {**window_attributes(name, spatial, *window)}
    if output_padding is not None:
        attrs["output_padding"] = per_axis(numbers(name, "output_padding", output_padding), spatial, "output_padding", 0)
    else:
        attrs["out_dtype"] = result_dtype(out_dtype, operand(name, "data", data))
    made = call(name, data, weight, **attrs, groups=groups, channels=channels, data_layout=data_layout, kernel_layout=kernel_layout)
    try:
        found = in_layout(made, data_layout, out_layout or data_layout)
    except OpTypeError as error:
        raise ValueError(f"relay.{name}: out_layout: {error}") from None
    assert isinstance(found, Call)
    return found


def _pool(name: str, spatial: int, data: Expr, window: Window, layout: str, out_layout: str, **others: bool) -> Call:
    only(name, "out_layout", out_layout, "", layout)
    name = fitting(get_op(name), layout).name
    attrs = window_attributes(name, spatial, *window)
    return call(name, data, pool_size=attrs.pop("kernel_size"), **attrs, **others, layout=layout)


def max_pool1d(
    data: Expr,
    pool_size: Numbers = (1,),
    strides: Numbers = (1,),
    dilation: Numbers = (1,),
    padding: Numbers = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """The greatest element of each window, over one spatial dimension."""
    return _pool("nn.max_pool1d", 1, data, (strides, padding, dilation, pool_size), layout, out_layout, ceil_mode=ceil_mode)


def max_pool2d(
    data: Expr,
    pool_size: Numbers = (1, 1),
    strides: Numbers = (1, 1),
    dilation: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """The greatest element of each window, over two spatial dimensions."""
    return _pool("nn.max_pool2d", 2, data, (strides, padding, dilation, pool_size), layout, out_layout, ceil_mode=ceil_mode)


def max_pool3d(
    data: Expr,
    pool_size: Numbers = (1, 1, 1),
    strides: Numbers = (1, 1, 1),
    dilation: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
) -> Call:
    """The greatest element of each window, over three spatial dimensions."""
    return _pool("nn.max_pool3d", 3, data, (strides, padding, dilation, pool_size), layout, out_layout, ceil_mode=ceil_mode)


def avg_pool1d(
    data: Expr,
    pool_size: Numbers = (1,),
    strides: Numbers = (1,),
    dilation: Numbers = (1,),
    padding: Numbers = (0,),
    layout: str = "NCW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The mean of each window, over one spatial dimension."""
    window = (strides, padding, dilation, pool_size)
    return _pool("nn.avg_pool1d", 1, data, window, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


def avg_pool2d(
    data: Expr,
    pool_size: Numbers = (1, 1),
    strides: Numbers = (1, 1),
    dilation: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    layout: str = "NCHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The mean of each window, over two spatial dimensions."""
    window = (strides, padding, dilation, pool_size)
    return _pool("nn.avg_pool2d", 2, data, window, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


def avg_pool3d(
    data: Expr,
    pool_size: Numbers = (1, 1, 1),
    strides: Numbers = (1, 1, 1),
    dilation: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    layout: str = "NCDHW",
    out_layout: str = "",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call:
    """The mean of each window, over three spatial dimensions."""
    window = (strides, padding, dilation, pool_size)
    return _pool("nn.avg_pool3d", 3, data, window, layout, out_layout, ceil_mode=ceil_mode, count_include_pad=count_include_pad)


def _global_pool(name: str, data: Expr, layout: str, out_layout: str) -> Call:
    only(name, "out_layout", out_layout, "", layout)
    return call(fitting(get_op(name), layout).name, data, layout=layout)


def global_max_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """The greatest element of each channel, over one spatial dimension."""
    return _global_pool("nn.global_max_pool1d", data, layout, out_layout)


def global_max_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """The greatest element of each channel, over two spatial dimensions."""
    return _global_pool("nn.global_max_pool2d", data, layout, out_layout)


def global_max_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """The greatest element of each channel, over three spatial dimensions."""
    return _global_pool("nn.global_max_pool3d", data, layout, out_layout)


def global_avg_pool1d(data: Expr, layout: str = "NCW", out_layout: str = "") -> Call:
    """The mean of each channel, over one spatial dimension."""
    return _global_pool("nn.global_avg_pool1d", data, layout, out_layout)


def global_avg_pool2d(data: Expr, layout: str = "NCHW", out_layout: str = "") -> Call:
    """The mean of each channel, over two spatial dimensions."""
    return _global_pool("nn.global_avg_pool2d", data, layout, out_layout)


def global_avg_pool3d(data: Expr, layout: str = "NCDHW", out_layout: str = "") -> Call:
    """The mean of each channel, over three spatial dimensions."""
    return _global_pool("nn.global_avg_pool3d", data, layout, out_layout)


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
