"""`relay.qnn.op.qnn`: Relay's functions of quantized operators.

A quantized tensor holds integers that represent `scale * (integer - zero_point)`. Scales and zero points are operands: constants of float32
and int32.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from passat.ir.expr import Call, Expr
from passat.ir.ops.windows import per_axis
from passat.relay.building import Exprs, Numbers, call, numbers, only, window_attributes
from passat.relay.names import explain_arguments

__all__ = [
    "RequantizeConfig",
    "abs",
    "add",
    "avg_pool2d",
    "batch_matmul",
    "concatenate",
    "conv2d",
    "conv2d_transpose",
    "current_requantize_config",
    "dense",
    "dequantize",
    "erf",
    "exp",
    "hardswish",
    "leaky_relu",
    "log",
    "mul",
    "quantize",
    "requantize",
    "requantize_config",
    "rsqrt",
    "sigmoid",
    "softmax",
    "sqrt",
    "subtract",
    "tanh",
]


@dataclass(frozen=True)
class RequantizeConfig:
    """How integers are rescaled if a call of `requantize` does not specify it."""

    rounding: str = "UPWARD"
    compute_dtype: str = "int64"


_CONFIG: Final[ContextVar[RequantizeConfig | None]] = ContextVar("requantize_config", default=None)


@contextmanager
def requantize_config(rounding: str = "UPWARD", compute_dtype: str = "int64") -> Iterator[RequantizeConfig]:
    """A context manager that sets the meaning of "None" in calls of `requantize`."""
    config = RequantizeConfig(rounding, compute_dtype)
    token = _CONFIG.set(config)
    try:
        yield config
    finally:
        _CONFIG.reset(token)


def current_requantize_config() -> RequantizeConfig:
    """The configuration of the innermost `requantize_config`; Relay's default outside of one."""
    return _CONFIG.get() or RequantizeConfig()


def quantize(data: Expr, output_scale: Expr, output_zero_point: Expr, axis: int = -1, out_dtype: str = "int8") -> Call:
    """Quantizes real numbers to integers."""
    return call("qnn.quantize", data, output_scale, output_zero_point, axis=axis, out_dtype=out_dtype)


def dequantize(data: Expr, input_scale: Expr, input_zero_point: Expr, axis: int = -1, out_dtype: str = "float32") -> Call:
    """Dequantizes integers to real numbers."""
    return call("qnn.dequantize", data, input_scale, input_zero_point, axis=axis, out_dtype=out_dtype)


def requantize(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    axis: int = -1,
    rounding: str = "None",
    compute_dtype: str = "None",
    out_dtype: str = "int8",
) -> Call:
    """Converts integers to another scale and zero point. "None" means the value of `requantize_config`."""
    scales = (input_scale, input_zero_point, output_scale, output_zero_point)
    config = _CONFIG.get()
    if config is not None:
        rounding = config.rounding if rounding == "None" else rounding
        compute_dtype = config.compute_dtype if compute_dtype == "None" else compute_dtype
    attrs = {"axis": axis, "rounding": rounding, "compute_dtype": compute_dtype, "out_dtype": out_dtype}
    return call("qnn.requantize", data, *scales, **attrs)


def concatenate(data: Exprs, input_scales: Exprs, input_zero_points: Exprs, output_scale: Expr, output_zero_point: Expr, axis: int) -> Call:
    """Quantized tensors joined along an axis."""
    return call("qnn.concatenate", data, input_scales, input_zero_points, output_scale, output_zero_point, axis=axis)


def conv2d(
    data: Expr,
    kernel: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    kernel_size: Numbers | None,
    channels: int | None,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_layout: str = "",
    out_dtype: str = "int32",
) -> Call:
    """A convolution of quantized tensors, in integers of 32 bits."""
    only("qnn.conv2d", "out_layout", out_layout, "", data_layout)
    attrs = window_attributes("qnn.conv2d", 2, strides, padding, dilation, kernel_size)
    operands = (data, kernel, input_zero_point, kernel_zero_point, input_scale, kernel_scale)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call("qnn.conv2d", *operands, **attrs, **layouts, groups=groups, channels=channels, out_dtype=out_dtype)


def conv2d_transpose(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
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
    out_dtype: str = "int32",
) -> Call:
    """A transposed convolution of quantized tensors, in integers of 32 bits."""
    name = "qnn.conv2d_transpose"
    only(name, "out_layout", out_layout, "", data_layout)
    attrs = window_attributes(name, 2, strides, padding, dilation, kernel_size)
    attrs["output_padding"] = per_axis(numbers(name, "output_padding", output_padding), 2, "output_padding", 0)
    operands = (data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale)
    layouts = {"data_layout": data_layout, "kernel_layout": kernel_layout}
    return call(name, *operands, **attrs, **layouts, groups=groups, channels=channels, out_dtype=out_dtype)


def dense(
    data: Expr,
    weight: Expr,
    input_zero_point: Expr,
    kernel_zero_point: Expr,
    input_scale: Expr,
    kernel_scale: Expr,
    units: int | None,
    out_dtype: str = "int32",
) -> Call:
    """`data` times the transpose of `weight`, in integers of 32 bits. `units` is the number of rows of `weight`, and is optional."""
    return call("qnn.dense", data, weight, input_zero_point, kernel_zero_point, input_scale, kernel_scale, out_dtype=out_dtype)


def batch_matmul(x: Expr, y: Expr, x_zero_point: Expr, y_zero_point: Expr, x_scale: Expr, y_scale: Expr, out_dtype: str = "int32") -> Call:
    """The products of two batches of quantized matrices, those of `y` transposed, in integers of 32 bits."""
    return call("qnn.batch_matmul", x, y, x_zero_point, y_zero_point, x_scale, y_scale, out_dtype=out_dtype)


def add(
    lhs: Expr,
    rhs: Expr,
    lhs_scale: Expr,
    lhs_zero_point: Expr,
    rhs_scale: Expr,
    rhs_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    lhs_axis: int = -1,
    rhs_axis: int = -1,
) -> Call:
    """The sum of two quantized tensors."""
    scales = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
    return call("qnn.add", lhs, rhs, *scales, lhs_axis=lhs_axis, rhs_axis=rhs_axis)


def subtract(
    lhs: Expr,
    rhs: Expr,
    lhs_scale: Expr,
    lhs_zero_point: Expr,
    rhs_scale: Expr,
    rhs_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    lhs_axis: int = -1,
    rhs_axis: int = -1,
) -> Call:
    """The difference of two quantized tensors."""
    scales = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
    return call("qnn.subtract", lhs, rhs, *scales, lhs_axis=lhs_axis, rhs_axis=rhs_axis)


def mul(
    lhs: Expr,
    rhs: Expr,
    lhs_scale: Expr,
    lhs_zero_point: Expr,
    rhs_scale: Expr,
    rhs_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    lhs_axis: int = -1,
    rhs_axis: int = -1,
) -> Call:
    """The product of two quantized tensors."""
    scales = (lhs_scale, lhs_zero_point, rhs_scale, rhs_zero_point, output_scale, output_zero_point)
    return call("qnn.mul", lhs, rhs, *scales, lhs_axis=lhs_axis, rhs_axis=rhs_axis)


def leaky_relu(x: Expr, alpha: float, input_scale: Expr, input_zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The elements, with negative ones multiplied by `alpha`."""
    return call("qnn.leaky_relu", x, input_scale, input_zero_point, output_scale, output_zero_point, alpha=alpha)


def softmax(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr, axis: int = -1) -> Call:
    """An approximate softmax of int8."""
    return call("qnn.softmax", x, scale, zero_point, output_scale, output_zero_point, axis=axis)


def avg_pool2d(
    data: Expr,
    input_scale: Expr,
    input_zero_point: Expr,
    output_scale: Expr,
    output_zero_point: Expr,
    pool_size: Numbers,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    layout: str = "NHWC",
    out_layout: str = "",
) -> Call:
    """The mean of each window of a quantized tensor."""
    name = "qnn.avg_pool2d"
    only(name, "out_layout", out_layout, "", layout)
    attrs: dict[str, object] = dict(window_attributes(name, 2, strides, padding, dilation, pool_size))
    attrs |= {"pool_size": attrs.pop("kernel_size"), "ceil_mode": ceil_mode, "count_include_pad": count_include_pad, "layout": layout}
    return call(name, data, input_scale, input_zero_point, output_scale, output_zero_point, **attrs)


def tanh(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The hyperbolic tangent of a quantized tensor."""
    return call("qnn.tanh", x, scale, zero_point, output_scale, output_zero_point)


def exp(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The exponential of a quantized tensor."""
    return call("qnn.exp", x, scale, zero_point, output_scale, output_zero_point)


def sqrt(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The square root of a quantized tensor."""
    return call("qnn.sqrt", x, scale, zero_point, output_scale, output_zero_point)


def rsqrt(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """One over the square root of a quantized tensor."""
    return call("qnn.rsqrt", x, scale, zero_point, output_scale, output_zero_point)


def erf(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The error function of a quantized tensor."""
    return call("qnn.erf", x, scale, zero_point, output_scale, output_zero_point)


def abs(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:  # Relay's name
    """The absolute value of a quantized tensor."""
    return call("qnn.abs", x, scale, zero_point, output_scale, output_zero_point)


def sigmoid(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """1 / (1 + exp(-x)) of a quantized tensor."""
    return call("qnn.sigmoid", x, scale, zero_point, output_scale, output_zero_point)


def hardswish(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """x * clip(x + 3, 0, 6) / 6 of a quantized tensor."""
    return call("qnn.hardswish", x, scale, zero_point, output_scale, output_zero_point)


def log(x: Expr, scale: Expr, zero_point: Expr, output_scale: Expr, output_zero_point: Expr) -> Call:
    """The natural logarithm of a quantized tensor."""
    return call("qnn.log", x, scale, zero_point, output_scale, output_zero_point)


explain_arguments(globals(), __all__, "qnn.op.")
