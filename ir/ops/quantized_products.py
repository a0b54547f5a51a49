"""Products and convolutions of quantized tensors, such as `qnn.dense`. Results are 32-bit integers whose scale is the product of the
scales.

The scales are operands for passes and rewrites; they do not change the integers. Sums are exact: they are computed in float64, and wrap
around like integers.
"""

from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.op import Op, define_op
from passat.ir.ops.convolution import CONVOLUTIONS, TRANSPOSED
from passat.ir.ops.linear import batch_matmul, dense
from passat.ir.ops.quantization import NARROW_QUANTIZED, along, check_scales, cost_of, one_of, with_attributes_of
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

_BYTES: Final = frozenset({"int8", "uint8"})
_SUMS: Final = frozenset({"int32", "int64"})
_DATA_SUMS: Final = frozenset({"int16", "int32", "int64"})


def _shifted(x: Array, zero_point: Array, axis: int) -> Array:
    return np.asarray(x.astype(np.float64) - along(zero_point, axis, x.ndim))


def _integers(sums: Array, dtype: str) -> Array:
    return sums.astype(np.int64).astype(np.dtype(dtype))


def _as_sums(x: TensorType) -> TensorType:
    """The operand as int32, which the type relation of the operator on real numbers accepts."""
    return x.with_dtype("int32")


def _dense(
    data: Array,
    weight: Array,
    input_zero_point: Array,
    kernel_zero_point: Array,
    input_scale: Array,
    kernel_scale: Array,
    *,
    out_dtype: str,
) -> Array:
    return _integers(np.matmul(_shifted(data, input_zero_point, -1), _shifted(weight, kernel_zero_point, 0).T), out_dtype)


@define_op("qnn.dense", kernel=_dense, cost=cost_of(dense, 2), pattern=4, non_computational=True)
def quantized_dense(
    data: TensorType,
    weight: TensorType,
    input_zero_point: TensorType,
    kernel_zero_point: TensorType,
    input_scale: TensorType,
    kernel_scale: TensorType,
    *,
    out_dtype: str = "int32",
) -> TensorType:
    """`nn.dense` of quantized tensors. The scale and zero point of the weight may be vectors, one element for each row."""
    one_of("the element type of data", data.dtype, NARROW_QUANTIZED)
    one_of("the element type of weight", weight.dtype, _BYTES)
    one_of("out_dtype", out_dtype, _SUMS)
    result = tensor_type(dense.infer([_as_sums(data), _as_sums(weight)], dense.bind_attrs({})))
    check_scales(data, input_scale, input_zero_point, None, "input")
    check_scales(weight, kernel_scale, kernel_zero_point, 0, "kernel")
    return result.with_dtype(out_dtype)


def _batch_matmul(x: Array, y: Array, x_zero_point: Array, y_zero_point: Array, x_scale: Array, y_scale: Array, *, out_dtype: str) -> Array:
    return _integers(np.matmul(_shifted(x, x_zero_point, -1), _shifted(y, y_zero_point, -1).swapaxes(1, 2)), out_dtype)


@define_op("qnn.batch_matmul", kernel=_batch_matmul, cost=cost_of(batch_matmul, 2), pattern=4, non_computational=True)
def quantized_batch_matmul(
    x: TensorType,
    y: TensorType,
    x_zero_point: TensorType,
    y_zero_point: TensorType,
    x_scale: TensorType,
    y_scale: TensorType,
    *,
    out_dtype: str = "int32",
) -> TensorType:
    """`nn.batch_matmul` of quantized tensors, the second one transposed."""
    for name, operand, scale, zero_point in (("x", x, x_scale, x_zero_point), ("y", y, y_scale, y_zero_point)):
        one_of(f"the element type of {name}", operand.dtype, NARROW_QUANTIZED)
        check_scales(operand, scale, zero_point, None, name)
    one_of("out_dtype", out_dtype, _SUMS)
    return tensor_type(batch_matmul.infer([_as_sums(x), _as_sums(y)], batch_matmul.bind_attrs({}))).with_dtype(out_dtype)


def _declare(name: str, real: Op) -> Op:
    """Declares the quantized form of a convolution over two spatial dimensions."""

    def kernel(
        data: Array,
        weight: Array,
        input_zero_point: Array,
        kernel_zero_point: Array,
        input_scale: Array,
        kernel_scale: Array,
        *,
        out_dtype: str,
        **attrs: AnyValue,
    ) -> Array:
        assert real.kernel is not None
        outputs = attrs["kernel_layout"].index("O")
        sums = real.kernel(_shifted(data, input_zero_point, -1), _shifted(weight, kernel_zero_point, outputs), **attrs)
        return _integers(sums, out_dtype)

    def relation(
        data: TensorType,
        weight: TensorType,
        input_zero_point: TensorType,
        kernel_zero_point: TensorType,
        input_scale: TensorType,
        kernel_scale: TensorType,
        *,
        out_dtype: str = "int32",
        **attrs: AnyValue,
    ) -> TensorType:
        one_of("the element type of data", data.dtype, _BYTES | {"int16"})
        one_of("the element type of weight", weight.dtype, _BYTES)
        one_of("out_dtype", out_dtype, _DATA_SUMS)
        result = tensor_type(real.infer([_as_sums(data), _as_sums(weight)], Attrs(attrs)))
        check_scales(data, input_scale, input_zero_point, None, "input")
        check_scales(weight, kernel_scale, kernel_zero_point, attrs["kernel_layout"].index("O"), "kernel")
        return result.with_dtype(out_dtype)

    relation.__doc__ = f"""`{real.name}` of quantized tensors, with its attributes; data are padded with their zero point.

    The scale and zero point of the weight may be vectors, one element for each output channel.
    """
    declare = define_op(name, kernel=kernel, cost=cost_of(real, 2), pattern=4, non_computational=True)
    return declare(with_attributes_of(real, relation))


quantized_conv2d = _declare("qnn.conv2d", CONVOLUTIONS[2])
quantized_conv2d_transpose = _declare("qnn.conv2d_transpose", TRANSPOSED[2])
