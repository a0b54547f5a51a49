"""Layers that create their parameters: `name_weight`, `name_bias`, `name_gamma` and so on."""

from typing import Any as AnyValue

from passat.ir.expr import Call, Expr, TupleGetItem, Var, var
from passat.relay import nn


def conv2d(data: Expr, weight: Expr | None = None, *, name: str, **attrs: AnyValue) -> Call:
    """A convolution, with a new weight unless one is given."""
    return nn.conv2d(data, weight or var(f"{name}_weight"), **attrs)


def conv2d_transpose(data: Expr, weight: Expr | None = None, *, name: str, **attrs: AnyValue) -> Call:
    """A transposed convolution, with a new weight unless one is given."""
    return nn.conv2d_transpose(data, weight or var(f"{name}_weight"), **attrs)


def batch_norm_infer(data: Expr, *, name: str, **attrs: AnyValue) -> Expr:
    """The normalized data of a batch normalization with new parameters."""
    gamma, beta, mean, variance = (var(f"{name}_{part}") for part in ("gamma", "beta", "moving_mean", "moving_var"))
    return TupleGetItem(nn.batch_norm(data, gamma, beta, mean, variance, **attrs), 0)


def dense_add_bias(data: Expr, weight: Expr | None = None, bias: Expr | None = None, *, units: int, name: str) -> Call:
    """A fully connected layer with a bias; weight and bias are new variables unless given."""
    product = nn.dense(data, weight or var(f"{name}_weight"), units)
    return nn.bias_add(product, bias or var(f"{name}_bias"), -1)


def conv_relu(data: Expr, channels: int, kernel: int | tuple[int, int], name: str, **attrs: AnyValue) -> Call:
    """A convolution with a bias and a ReLU."""
    size = (kernel, kernel) if isinstance(kernel, int) else kernel
    conv = conv2d(data, name=name, channels=channels, kernel_size=size, **attrs)
    return nn.relu(nn.bias_add(conv, var(f"{name}_bias")))


def conv_bn_relu(data: Expr, channels: int, kernel: int | tuple[int, int], name: str, epsilon: float = 1e-5, **attrs: AnyValue) -> Call:
    """A convolution, a batch normalization and a ReLU."""
    size = (kernel, kernel) if isinstance(kernel, int) else kernel
    conv = conv2d(data, name=f"{name}_conv", channels=channels, kernel_size=size, **attrs)
    return nn.relu(batch_norm_infer(conv, name=f"{name}_bn", epsilon=epsilon))


def input_of(batch_size: int, image_shape: tuple[int, ...], dtype: str) -> Var:
    """The input of a network: `data`."""
    return var("data", shape=(batch_size, *image_shape), dtype=dtype)
