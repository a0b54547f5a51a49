"""The conversions of Relay's operators to integers, for FakeQuantizationToInteger.

A conversion gets a call on integers and the affine types of its operands. It raises an exception if the operator cannot be computed on
them; the pass then keeps the region. Conversions are registered at level 5, so that those of users (level 10) override them.
"""

from collections.abc import Callable, Mapping
from typing import Any as AnyValue

import numpy as np

from passat.ir.affine_type import (
    CONVERSION,
    OPTIONAL_CONVERSION,
    AffineType,
    AffineTypes,
    Conversion,
    TensorAffineType,
    TupleAffineType,
)
from passat.ir.equality import structural_equal
from passat.ir.evaluate import evaluate_call
from passat.ir.expr import Call, Constant, Expr, Tuple, const
from passat.ir.infer import infer_type
from passat.ir.op import Op, call_op, find_op, get_op
from passat.ir.ops.quantization import along, quantize, quantized, requantize
from passat.ir.ops.quantized_arithmetic import FUNCTIONS
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType

Converted = tuple[Expr, AffineType]
_LEVEL = 5


def _register(*names: str, attribute: str = CONVERSION) -> Callable[[Conversion], Conversion]:
    def register(conversion: Conversion) -> Conversion:
        for name in names:
            get_op(name).set_attr(attribute, conversion, _LEVEL)
        return conversion

    return register


def _tensor(expr: Expr, types: AffineTypes) -> TensorAffineType:
    found = types[expr]
    if not isinstance(found, TensorAffineType):
        raise TypeError(f"expected the affine type of a tensor, got {found!r}")
    return found


def _type(expr: Expr) -> TensorType:
    found = infer_type(expr).checked_type
    assert isinstance(found, TensorType)
    return found


def _value(expr: Expr, what: str) -> Array:
    """The elements of a constant. Raises ValueError for other expressions."""
    if not isinstance(expr, Constant):
        raise ValueError(f"{what} must be a constant, not computed at run time")
    return expr.data.numpy()


def _number(expr: Expr, what: str) -> Array:
    """The element of a constant that has only one. Raises ValueError otherwise."""
    value = _value(expr, what)
    if value.size != 1:
        raise ValueError(f"{what} must be one number, but has {value.size}; {what}s per channel are not supported here")
    return value.reshape(())


def _folded(call: Call) -> Expr:
    """The value of a call on constants; other calls unchanged."""
    if isinstance(call.op, Op) and all(isinstance(arg, Constant) for arg in call.args):
        value = evaluate_call(call.op, [arg.data for arg in call.args if isinstance(arg, Constant)], call.attrs, _type(call))
        assert isinstance(value, Tensor)
        return Constant(value)
    return call


def _times(a: Expr, b: Expr) -> Expr:
    return _folded(call_op("multiply", a, b))


def _zeros(scale: Expr) -> Expr:
    return (
        const(np.zeros(scale.data.shape, np.int32))
        if isinstance(scale, Constant)
        else call_op("zeros_like", call_op("cast", scale, dtype="int32"))
    )


def _same(a: Expr, b: Expr) -> bool:
    """True if two scales or zero points are equal, up to rounding."""
    if isinstance(a, Constant) and isinstance(b, Constant):
        return bool(np.allclose(a.data.numpy(), b.data.numpy()))
    return structural_equal(a, b)


def _alike(a: TensorAffineType, b: TensorAffineType) -> bool:
    return a.dtype == b.dtype and _same(a.scale, b.scale) and _same(a.zero_point, b.zero_point)


def _rescaled(x: Expr, now: TensorAffineType, wanted: TensorAffineType, axis: int | None = None) -> Expr:
    """Integers of one affine type converted to another."""
    if _alike(now, wanted):
        return x
    operands = (x, now.scale, now.zero_point, wanted.scale, wanted.zero_point)
    return requantize(*operands, axis=now.axis if axis is None else axis, out_dtype=wanted.dtype)


def _is_per_channel(type_: TensorAffineType) -> bool:
    return any(_type(part).shape not in ((), (1,)) for part in (type_.scale, type_.zero_point))


def _with_one_scale(call: Call, types: AffineTypes, why: str) -> TensorAffineType:
    """The affine type of the first operand. Raises ValueError for scales per channel."""
    found = _tensor(call.args[0], types)
    if _is_per_channel(found):
        raise ValueError(f"{call.op!r} {why}")
    return found


_MOVES = "does not keep scales per channel in their places"
_COMPARES = "compares integers, whose scales must be equal"


@_register("qnn.dequantize")
def _dequantize(call: Call, types: AffineTypes) -> Converted:
    return call.args[0], types[call]


@_register("qnn.quantize")
def _quantize(call: Call, types: AffineTypes) -> Converted:
    wanted = TensorAffineType(call.args[1], call.args[2], call.attrs.out_dtype, call.attrs.axis)
    return _rescaled(call.args[0], _tensor(call.args[0], types), wanted), wanted


@_register("reshape", "squeeze", "strided_slice", "expand_dims", "nn.batch_flatten", "nn.depth_to_space", "broadcast_to", "copy", "take")
def _moved(call: Call, types: AffineTypes) -> Converted:
    return call, _with_one_scale(call, types, _MOVES)


@_register("nn.max_pool2d")
def _max_pool2d(call: Call, types: AffineTypes) -> Converted:
    return call, types[call.args[0]]


@_register("transpose")
def _transpose(call: Call, types: AffineTypes) -> Converted:
    found, rank = _tensor(call.args[0], types), _type(call.args[0]).ndim
    if not _is_per_channel(found):
        return call, found
    axes = [axis % rank for axis in call.attrs.axes or range(rank - 1, -1, -1)]
    return call, TensorAffineType(found.scale, found.zero_point, found.dtype, axes.index(found.axis % rank))


@_register("max", "min")
def _extremum(call: Call, types: AffineTypes) -> Converted:
    found = _with_one_scale(call, types, _COMPARES)
    return _in_int32(call, found), found


@_register("mean")
def _mean(call: Call, types: AffineTypes) -> Converted:
    found = _tensor(call.args[0], types)
    _number(found.scale, "the scale")
    return _in_int32(call, found), found


def _in_int32(call: Call, type_: TensorAffineType) -> Expr:
    """A call with its operand cast to 32 bits, and its result cast back."""
    assert isinstance(call.op, Op)
    return call_op("cast", call.op(call_op("cast", call.args[0], dtype="int32"), **call.attrs), dtype=type_.dtype)


@_register("nn.avg_pool2d")
def _avg_pool2d(call: Call, types: AffineTypes) -> Converted:
    """Uses the scale of the region's result only directly before the qnn.quantize; further up it may be too coarse."""
    now = _tensor(call.args[0], types)
    wanted = _tensor(call, types) if types.last is call else now
    out = TensorAffineType(wanted.scale, wanted.zero_point, now.dtype, wanted.axis)
    operands = (call.args[0], now.scale, now.zero_point, out.scale, out.zero_point)
    return call_op("qnn.avg_pool2d", *operands, **call.attrs), out


@_register("nn.global_avg_pool2d", "nn.adaptive_avg_pool1d")
def _pooled(call: Call, types: AffineTypes) -> Converted:
    """The mean of 32-bit integers that already have the scale of the result."""
    now = _tensor(call.args[0], types)
    wanted = types.get(call, now)
    assert isinstance(wanted, TensorAffineType)
    out = TensorAffineType(wanted.scale, wanted.zero_point, "int32", wanted.axis)
    x = call_op("cast", call.args[0], dtype="int32") if _alike(now, wanted) else _rescaled(call.args[0], now, out)
    layout = call.attrs["layout"]
    if call.op is get_op("nn.global_avg_pool2d"):
        return call_op("mean", x, axis=(layout.index("H"), layout.index("W")), keepdims=True), out
    assert isinstance(call.op, Op)
    return call.op(x, **call.attrs), out


@_register("nn.bias_add")
def _bias_add(call: Call, types: AffineTypes) -> Converted:
    x, bias = call.args
    found = _tensor(x, types)
    if bias in types:
        bias = _rescaled(bias, _tensor(bias, types), found, axis=0)
    else:
        bias = quantize(Constant(Tensor.dense(_value(bias, "the bias"))), found.scale, found.zero_point, axis=0, out_dtype=found.dtype)
    return call_op("nn.bias_add", x, bias, **call.attrs), found


@_register("nn.conv2d", "nn.conv2d_transpose")
def _convolution(call: Call, types: AffineTypes) -> Converted:
    assert isinstance(call.op, Op)
    result, scale = _product(call, types, "qnn." + call.op.name.removeprefix("nn."))
    return result, TensorAffineType(scale, _zeros(scale), "int32", call.attrs.data_layout.index("C"))


@_register("nn.dense")
def _dense(call: Call, types: AffineTypes) -> Converted:
    result, scale = _product(call, types, "qnn.dense")
    return result, TensorAffineType(scale, _zeros(scale), "int32", 1)


@_register("nn.batch_matmul")
def _batch_matmul(call: Call, types: AffineTypes) -> Converted:
    if call.attrs.transpose_a or not call.attrs.transpose_b:
        raise ValueError("qnn.batch_matmul needs transpose_a=False and transpose_b=True")
    result, scale = _product(call, types, "qnn.batch_matmul", {})
    return result, TensorAffineType(scale, const(0), "int32", _tensor(call.args[0], types).axis)


def _product(call: Call, types: AffineTypes, name: str, attrs: dict[str, AnyValue] | None = None) -> tuple[Call, Expr]:
    """The quantized form of a product, and the scale of its result."""
    x, weight = call.args
    of_x, of_weight = _tensor(x, types), _tensor(weight, types)
    operands = (x, weight, of_x.zero_point, of_weight.zero_point, of_x.scale, of_weight.scale)
    kept = call.attrs if attrs is None else attrs
    return call_op(name, *operands, **{**kept, "out_dtype": "int32"}), _times(of_x.scale, of_weight.scale)


@_register("concatenate")
def _concatenate(call: Call, types: AffineTypes) -> Converted:
    fields, out = types[call.args[0]], _tensor(call, types)
    assert isinstance(fields, TupleAffineType)
    scales, zero_points = Tuple([field.scale for field in fields.types]), Tuple([field.zero_point for field in fields.types])
    result = call_op("qnn.concatenate", call.args[0], scales, zero_points, out.scale, out.zero_point, **call.attrs)
    return result, TensorAffineType(out.scale, out.zero_point, fields.types[0].dtype, out.axis)


@_register("topk")
def _topk(call: Call, types: AffineTypes) -> Converted:
    found = _with_one_scale(call, types, _COMPARES)
    return call, TupleAffineType([found, found])


@_register("split")
def _split(call: Call, types: AffineTypes) -> Converted:
    found = _with_one_scale(call, types, _MOVES)
    result = infer_type(call).checked_type
    return call, TupleAffineType([found] * len(result.fields))  # type: ignore[attr-defined]  # the type of a split is a tuple


def _bound(value: float, x: Expr, type_: TensorAffineType) -> Expr:
    """A real number as integers of an affine type, in a shape that broadcasts to `x`."""
    rank = _type(x).ndim
    scale, zero_point = (
        along(_value(part, what), type_.axis, rank) for part, what in ((type_.scale, "the scale"), (type_.zero_point, "the zero point"))
    )
    return const(quantized(np.asarray(value, np.float32), scale, zero_point, type_.dtype), type_.dtype)


@_register("clip")
def _clip(call: Call, types: AffineTypes) -> Converted:
    x = call.args[0]
    found = _tensor(x, types)
    low, high = (None if bound is None else _bound(bound, x, found) for bound in (call.attrs.a_min, call.attrs.a_max))
    if not _is_per_channel(found):
        ends = {name: None if end is None else int(_number(end, "the bound")) for name, end in (("a_min", low), ("a_max", high))}
        return call_op("clip", x, **ends), found
    at_least = x if low is None else call_op("maximum", x, low)
    return at_least if high is None else call_op("minimum", at_least, high), found


@_register("nn.relu")
def _relu(call: Call, types: AffineTypes) -> Converted:
    x = call.args[0]
    found = _tensor(x, types)
    return call_op("maximum", x, _bound(0.0, x, found)), found


@_register("nn.pad")
def _pad(call: Call, types: AffineTypes) -> Converted:
    x = call.args[0]
    found = _tensor(x, types)
    scale, zero_point = _number(found.scale, "the scale"), _number(found.zero_point, "the zero point")
    value = int(quantized(np.asarray(call.attrs.pad_value, np.float32), scale, zero_point, found.dtype))
    return call_op("nn.pad", x, **{**call.attrs, "pad_value": value or 0.0}), found


def _function(call: Call, types: AffineTypes, name: str, attrs: Mapping[str, AnyValue]) -> Converted:
    """A function of one operand in the element type of its operand, and the scale of the region's result."""
    now, wanted = _tensor(call.args[0], types), _tensor(call, types)
    operands = (call.args[0], now.scale, now.zero_point, wanted.scale, wanted.zero_point)
    return call_op(name, *operands, **attrs), TensorAffineType(wanted.scale, wanted.zero_point, now.dtype, wanted.axis)


@_register(*(name for name in FUNCTIONS if find_op(name) is not None))
def _unary(call: Call, types: AffineTypes) -> Converted:
    assert isinstance(call.op, Op)
    return _function(call, types, f"qnn.{call.op.name}", {})


@_register("nn.leaky_relu")
@_register("nn.softmax", attribute=OPTIONAL_CONVERSION)
def _activation(call: Call, types: AffineTypes) -> Converted:
    assert isinstance(call.op, Op)
    return _function(call, types, f"qnn.{call.op.name.removeprefix('nn.')}", call.attrs)


def _operands(call: Call, types: AffineTypes) -> tuple[list[Expr], list[TensorAffineType]]:
    """Both operands in integers, and their affine types. A constant is quantized, too."""
    found = [_tensor(arg, types) if arg in types else None for arg in call.args]
    operands, kinds = list(call.args), []
    for i, (arg, type_, other) in enumerate(zip(call.args, found, reversed(found), strict=True)):
        if type_ is not None:
            kinds.append(type_)
            continue
        if other is None:
            raise TypeError(f"neither operand of {call.op!r} is quantized")
        kind = _kind_of_constant(_value(arg, f"an operand of {call.op!r} that is not dequantized"), other)
        operands[i] = quantize(arg, kind.scale, kind.zero_point, axis=kind.axis, out_dtype=kind.dtype)
        kinds.append(kind)
    return operands, kinds


def _kind_of_constant(value: Array, other: TensorAffineType) -> TensorAffineType:
    """The affine type of a constant operand next to another operand: the type of that operand for 32-bit integers, as for biases. Otherwise
    the constant has its own type, since the operand's scale may be too coarse for it, or the range too small."""
    if other.dtype == "int32":
        return other
    most = np.abs(value).max(initial=0) / np.float32((1 << 8 * np.dtype(other.dtype).itemsize - 1) - 1)
    middle = (1 << 8 * np.dtype(other.dtype).itemsize - 1) if other.dtype.startswith("u") else 0
    return TensorAffineType(const(np.float32(most or 1)), const(middle), other.dtype)


def _result(call: Call, types: AffineTypes, left: TensorAffineType) -> TensorAffineType:
    """The affine type of the region's result; that of the left operand if there is none or its element type differs."""
    out = types.get(call, left)
    return out if isinstance(out, TensorAffineType) and out.dtype == left.dtype else left


def _register_arithmetic(name: str, quantized_name: str) -> None:
    def convert(call: Call, types: AffineTypes) -> Converted:
        (left, right), (of_left, of_right) = _operands(call, types)
        out = _result(call, types, of_left)
        is_bias = name == "add" and of_left.dtype == "int32" and _alike(of_left, of_right) and _alike(of_left, out)
        if is_bias and not _value(out.zero_point, "the zero point").any():
            return call_op("add", left, right), of_left
        _number(out.scale, "the scale"), _number(out.zero_point, "the zero point")
        scales = (of_left.scale, of_left.zero_point, of_right.scale, of_right.zero_point, out.scale, out.zero_point)
        return call_op(quantized_name, left, right, *scales, lhs_axis=of_left.axis, rhs_axis=of_right.axis), out

    _register(name)(convert)


_register_arithmetic("add", "qnn.add")
_register_arithmetic("multiply", "qnn.mul")
_register_arithmetic("subtract", "qnn.subtract")


@_register("maximum", "minimum")
def _compared(call: Call, types: AffineTypes) -> Converted:
    (left, right), (of_left, of_right) = _operands(call, types)
    out = _result(call, types, of_left)
    assert isinstance(call.op, Op)
    return call.op(_rescaled(left, of_left, out), _rescaled(right, of_right, out)), out
