"""Relay's functions of products, normalizations and similar operators whose parameters differ from those of Passat's operators, and the
functions that training uses.

Arguments that Passat's operator does not support raise ValueError.
"""

from collections.abc import Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.expr import Call, Constant, Expr, TupleGetItem, const
from passat.ir.gradients.windows import laid_out_as, weight_gradient
from passat.ir.op import call_op
from passat.ir.ops.padding import plain_value
from passat.ir.types import TensorType
from passat.relay.building import Numbers, call, known_type, only, only_dtype, operand, rank, result_dtype, type_weights, window_attributes
from passat.relay.names import explain_arguments

__all__ = [
    "batch_matmul",
    "batch_to_space_nd",
    "conv2d_backward_weight",
    "cross_entropy",
    "cross_entropy_with_logits",
    "dense",
    "depth_to_space",
    "dropout",
    "dropout_raw",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "matmul",
    "pad",
    "prelu",
    "space_to_batch_nd",
    "space_to_depth",
]


def dense(data: Expr, weight: Expr, units: int | None = None, out_dtype: str = "") -> Call:
    """`data` times the transpose of `weight`; `units`, if given, is the number of rows of `weight`."""
    _check_units("nn.dense", operand("nn.dense", "weight", weight), units, 0)
    dtype = result_dtype(out_dtype, operand("nn.dense", "data", data))
    type_weights("nn.dense", (data, weight), {}, units)
    return call("nn.dense", data, weight, out_dtype=dtype)


def matmul(
    tensor_a: Expr, tensor_b: Expr, units: int | None = None, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = False
) -> Call:
    """The product of matrices; `units`, if given, is the number of columns of the result."""
    _check_units("nn.matmul", operand("nn.matmul", "tensor_b", tensor_b), units, 0 if transpose_b else -1)
    dtype = result_dtype(out_dtype, operand("nn.matmul", "tensor_a", tensor_a))
    return call("nn.matmul", tensor_a, tensor_b, transpose_a=transpose_a, transpose_b=transpose_b, out_dtype=dtype)


def batch_matmul(tensor_a: Expr, tensor_b: Expr, out_dtype: str = "", transpose_a: bool = False, transpose_b: bool = True) -> Call:
    """The products of two batches of matrices; by default, those of `tensor_b` are transposed."""
    dtype = result_dtype(out_dtype, operand("nn.batch_matmul", "tensor_a", tensor_a))
    return call("nn.batch_matmul", tensor_a, tensor_b, transpose_a=transpose_a, transpose_b=transpose_b, out_dtype=dtype)


def _check_units(name: str, weight: Expr, units: int | None, axis: int) -> None:
    """Raises ValueError if the weight is known to have another size."""
    type_ = None if units is None else known_type(weight)
    if isinstance(type_, TensorType) and type_.ndim and isinstance(type_.shape[axis], int) and type_.shape[axis] != units:
        raise ValueError(f"relay.{name}: units={units}, but the weight {type_!r} gives {type_.shape[axis]!r}")


def dropout(data: Expr, rate: float = 0.5) -> Expr:
    """The data, unchanged in inference; marks the place where training drops elements."""
    return TupleGetItem(dropout_raw(data, rate), 0)


def dropout_raw(data: Expr, rate: float = 0.5) -> Call:
    """Dropout with both of its results: the data and the mask."""
    return call("nn.dropout", data, rate=rate)


def layer_norm(data: Expr, gamma: Expr, beta: Expr, axis: int = -1, epsilon: float = 1e-5, center: bool = True, scale: bool = True) -> Call:
    """Normalization by the mean and variance along the last axis; `center` and `scale` say whether beta and gamma are used."""
    if axis != -1 and axis != rank("nn.layer_norm", "data", operand("nn.layer_norm", "data", data)) - 1:
        raise ValueError(f"relay.nn.layer_norm: axis={axis} is not supported; the last axis is")
    return _norm("nn.layer_norm", data, gamma, beta, center, scale, axis=-1, epsilon=epsilon)


def instance_norm(
    data: Expr, gamma: Expr, beta: Expr, axis: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Call:
    """Normalization of each sample and channel by its mean and variance."""
    return _norm("nn.instance_norm", data, gamma, beta, center, scale, axis=axis, epsilon=epsilon)


def group_norm(
    data: Expr, gamma: Expr, beta: Expr, num_groups: int, axis: int = 1, epsilon: float = 1e-5, center: bool = True, scale: bool = True
) -> Call:
    """Normalization of each sample and group of channels by its mean and variance."""
    return _norm("nn.group_norm", data, gamma, beta, center, scale, num_groups=num_groups, axis=axis, epsilon=epsilon)


def _norm(name: str, data: Expr, gamma: Expr, beta: Expr, center: bool, scale: bool, **attrs: float) -> Call:
    """A normalization whose scale and shift are ones and zeros if they are not used."""
    operands = [operand(name, "data", data), operand(name, "gamma", gamma), operand(name, "beta", beta)]
    type_weights(name, operands, attrs)
    factor, shift = operands[1:]
    return call(name, data, factor if scale else call("ones_like", factor), shift if center else call("zeros_like", shift), **attrs)


def prelu(data: Expr, alpha: Expr, axis: int = 1) -> Call:
    """`data`, with negative elements multiplied by `alpha`, a vector along `axis`."""
    count = rank("nn.prelu", "data", operand("nn.prelu", "data", data))
    behind = count - 1 - axis % count
    type_weights("nn.prelu", (data, operand("nn.prelu", "alpha", alpha)), {"axis": axis})
    return call("nn.prelu", data, call("expand_dims", alpha, axis=1, num_newaxis=behind) if behind else alpha)


def pad(data: Expr, pad_width: Sequence[Sequence[int]] | Expr, pad_value: float | Expr = 0, pad_mode: str = "constant") -> Call:
    """`data` with elements added before and after each axis."""
    value = plain_value(pad_value.data) if isinstance(pad_value, Constant) and pad_value.data.size == 1 else pad_value
    if isinstance(value, Expr) or (isinstance(pad_width, Expr) and not isinstance(pad_width, Constant)):
        return _dynamic_pad(operand("nn.pad", "data", data), pad_width, value, pad_mode)
    return call("nn.pad", data, pad_width=pad_width, pad_mode=pad_mode, pad_value=value or 0.0)


def _dynamic_pad(data: Expr, pad_width: Sequence[Sequence[int]] | Expr, value: float | str | Expr | None, pad_mode: str) -> Call:
    """A pad with computed widths or a computed value. Relay's widths are a row (before, after) for each axis; Passat's operator, like ONNX,
    has all widths before the axes, then all widths after them."""
    if not isinstance(value, Expr):
        type_ = known_type(data)
        if not isinstance(type_, TensorType):
            raise ValueError("relay.nn.pad: the element type of data must be known, or pad_value must be a constant; give variables types")
        value = const(value or 0, type_.dtype)
    rows = pad_width if isinstance(pad_width, Expr) else const(np.asarray(pad_width, np.int64), "int64")
    return call("dyn.pad", data, call("reshape", call("transpose", rows, axes=(1, 0)), newshape=(-1,)), value, pad_mode=pad_mode)


def depth_to_space(data: Expr, block_size: int, layout: str = "NCHW", mode: str = "DCR") -> Call:
    """Moves channels of an image into blocks of its plane."""
    only("nn.depth_to_space", "layout", layout, "NCHW")
    return call("nn.depth_to_space", data, block_size=block_size, mode=mode)


def space_to_depth(data: Expr, block_size: int, layout: str = "NCHW") -> Call:
    """Moves blocks of the plane of an image into channels."""
    only("nn.space_to_depth", "layout", layout, "NCHW")
    return call("nn.space_to_depth", data, block_size=block_size)


def space_to_batch_nd(data: Expr, block_shape: Sequence[int], paddings: Sequence[Sequence[int]], pad_value: float = 0) -> Call:
    """Blocks of the axes behind the batch, which are padded, become parts of the batch."""
    return call("nn.space_to_batch_nd", data, block_shape=block_shape, paddings=paddings, pad_value=pad_value or 0.0)


def batch_to_space_nd(data: Expr, block_shape: Sequence[int], crops: Sequence[Sequence[int]]) -> Call:
    """Parts of the batch become blocks of the axes behind it, which are cropped."""
    return call("nn.batch_to_space_nd", data, block_shape=block_shape, crops=crops)


def cross_entropy(predictions: Expr, targets: Expr) -> Call:
    """The mean over the rows of the cross entropy between two matrices of probabilities."""
    logits = call("log", operand("nn.cross_entropy", "predictions", predictions))
    return cross_entropy_with_logits(logits, operand("nn.cross_entropy", "targets", targets))


def cross_entropy_with_logits(predictions: Expr, targets: Expr) -> Call:
    """The mean over the rows of the cross entropy between a matrix of probabilities and one of logarithms of predicted ones."""
    products = call("multiply", predictions, targets)
    return call_op("negative", call_op("mean", call_op("sum", products, axis=(1,))))


def conv2d_backward_weight(
    grad: Expr,
    data: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    grad_layout: str = "NCHW",
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str = "",
) -> Expr:
    """The gradient of a convolution's weight, given that of its result: a convolution of the data with `grad`.

    `kernel_size` is the window of the convolution. The shape of the data must be known.
    """
    name = "nn.conv2d_backward_weight"
    type_, result = known_type(operand(name, "data", data)), known_type(operand(name, "grad", grad))
    if not isinstance(type_, TensorType) or not isinstance(result, TensorType) or not type_.is_static or type_.ndim != 4:
        raise ValueError(f"relay.{name}: data and grad must have known shapes of 4 dimensions, not {type_} and {result}")
    if kernel_size is None:
        raise ValueError(f"relay.{name}: kernel_size is missing")
    only_dtype(name, out_dtype, data)
    only(name, "channels", channels, None, result.shape[grad_layout.index("C")])
    attrs: dict[str, AnyValue] = {**window_attributes(name, 2, strides, padding, dilation, kernel_size), "groups": groups}
    window = attrs.pop("kernel_size")
    shape = tuple(type_.concrete_shape[data_layout.index(letter)] for letter in "NCHW")
    found = weight_gradient(laid_out_as(data, data_layout, "NCHW"), shape, laid_out_as(grad, grad_layout, "NCHW"), window, attrs)
    return laid_out_as(found, "OIHW", kernel_layout)


explain_arguments(globals(), __all__, "nn.")
