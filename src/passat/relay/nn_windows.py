"""Relay's functions of operators that move windows over their operand: convolutions and poolings.

Strides, dilations and windows may be one number for all spatial dimensions; padding one number, one for each spatial dimension, or begins
and ends. Attributes hold them written out. What an operator of ours has no form for is a ValueError.
"""

from passat.ir.expr import Call, Expr
from passat.ir.ops.windows import begins_ends, per_axis
from passat.relay.building import Numbers, call, numbers, only, only_dtype, operand

__all__ = [
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "conv1d",
    "conv1d_transpose",
    "conv2d",
    "conv2d_transpose",
    "conv3d",
    "conv3d_transpose",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
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
    name = "nn.conv1d"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 1, strides, padding, dilation, kernel_size)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, groups=groups, channels=channels, **layouts)


def conv1d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1,),
    padding: Numbers = (0,),
    dilation: Numbers = (1,),
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    groups: int = 1,
    data_layout: str = "NCW",
    kernel_layout: str = "IOW",
    out_layout: str = "",
    output_padding: Numbers = (0,),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over one spatial dimension."""
    name = "nn.conv1d_transpose"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 1, strides, padding, dilation, kernel_size)
    extra = per_axis(numbers(name, "output_padding", output_padding), 1, "output_padding", 0)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, output_padding=extra, groups=groups, channels=channels, **layouts)


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
    """A convolution over two spatial dimensions."""
    name = "nn.conv2d"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 2, strides, padding, dilation, kernel_size)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, groups=groups, channels=channels, **layouts)


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "IOHW",
    out_layout: str = "",
    output_padding: Numbers = (0, 0),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over two spatial dimensions."""
    name = "nn.conv2d_transpose"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 2, strides, padding, dilation, kernel_size)
    extra = per_axis(numbers(name, "output_padding", output_padding), 2, "output_padding", 0)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, output_padding=extra, groups=groups, channels=channels, **layouts)


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
    """A convolution over three spatial dimensions."""
    name = "nn.conv3d"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 3, strides, padding, dilation, kernel_size)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, groups=groups, channels=channels, **layouts)


def conv3d_transpose(
    data: Expr,
    weight: Expr,
    strides: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    dilation: Numbers = (1, 1, 1),
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    groups: int = 1,
    data_layout: str = "NCDHW",
    kernel_layout: str = "IODHW",
    out_layout: str = "",
    output_padding: Numbers = (0, 0, 0),
    out_dtype: str = "",
) -> Call:
    """A transposed convolution over three spatial dimensions."""
    name = "nn.conv3d_transpose"
    _check_output(name, data, data_layout, out_layout, out_dtype)
    attrs = _window(name, 3, strides, padding, dilation, kernel_size)
    extra = per_axis(numbers(name, "output_padding", output_padding), 3, "output_padding", 0)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, data, weight, **attrs, output_padding=extra, groups=groups, channels=channels, **layouts)


def _window(
    name: str, spatial: int, strides: Numbers, padding: Numbers, dilation: Numbers, kernel_size: Numbers | None
) -> dict[str, tuple[int, ...] | None]:
    """The attributes of a window, written out for each spatial dimension."""
    begins, ends = begins_ends(numbers(name, "padding", padding), spatial)
    return {
        "strides": per_axis(numbers(name, "strides", strides), spatial, "strides"),
        "padding": (*begins, *ends),
        "dilation": per_axis(numbers(name, "dilation", dilation), spatial, "dilation"),
        "kernel_size": None if kernel_size is None else per_axis(numbers(name, "kernel_size", kernel_size), spatial, "kernel_size"),
    }


def _check_output(name: str, data: Expr, layout: str, out_layout: str, out_dtype: str) -> None:
    only(name, "out_layout", out_layout, "", layout)
    only_dtype(name, out_dtype, operand(name, "data", data))


def max_pool1d(
    data: Expr,
    pool_size: Numbers = (1,),
    strides: Numbers = (1,),
    dilation: Numbers = (1,),
    padding: Numbers = (0,),
    layout: str = "NCW",
    ceil_mode: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The greatest element of each window, over one spatial dimension."""
    name = "nn.max_pool1d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 1, strides, padding, dilation, pool_size)
    return call(name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, layout=layout)


def max_pool2d(
    data: Expr,
    pool_size: Numbers = (1, 1),
    strides: Numbers = (1, 1),
    dilation: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    layout: str = "NCHW",
    ceil_mode: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The greatest element of each window, over two spatial dimensions."""
    name = "nn.max_pool2d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 2, strides, padding, dilation, pool_size)
    return call(name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, layout=layout)


def max_pool3d(
    data: Expr,
    pool_size: Numbers = (1, 1, 1),
    strides: Numbers = (1, 1, 1),
    dilation: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    layout: str = "NCDHW",
    ceil_mode: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The greatest element of each window, over three spatial dimensions."""
    name = "nn.max_pool3d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 3, strides, padding, dilation, pool_size)
    return call(name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, layout=layout)


def avg_pool1d(
    data: Expr,
    pool_size: Numbers = (1,),
    strides: Numbers = (1,),
    dilation: Numbers = (1,),
    padding: Numbers = (0,),
    layout: str = "NCW",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The mean of each window, over one spatial dimension."""
    name = "nn.avg_pool1d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 1, strides, padding, dilation, pool_size)
    return call(
        name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout=layout
    )


def avg_pool2d(
    data: Expr,
    pool_size: Numbers = (1, 1),
    strides: Numbers = (1, 1),
    dilation: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    layout: str = "NCHW",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The mean of each window, over two spatial dimensions."""
    name = "nn.avg_pool2d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 2, strides, padding, dilation, pool_size)
    return call(
        name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout=layout
    )


def avg_pool3d(
    data: Expr,
    pool_size: Numbers = (1, 1, 1),
    strides: Numbers = (1, 1, 1),
    dilation: Numbers = (1, 1, 1),
    padding: Numbers = (0, 0, 0),
    layout: str = "NCDHW",
    ceil_mode: bool = False,
    count_include_pad: bool = False,
    *,
    out_layout: str = "",
) -> Call:
    """The mean of each window, over three spatial dimensions."""
    name = "nn.avg_pool3d"
    only(name, "out_layout", out_layout, "", layout)
    attrs = _window(name, 3, strides, padding, dilation, pool_size)
    return call(
        name, data, pool_size=attrs.pop("kernel_size"), **attrs, ceil_mode=ceil_mode, count_include_pad=count_include_pad, layout=layout
    )
