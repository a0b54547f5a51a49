"""Binary arithmetic with NumPy broadcasting on equal element types, and ONNX's variadic operators on tuples of tensors."""

import functools
from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes, transcendental
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Constant, Expr, Tuple
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Kernel, Op, define_op
from passat.ir.ops.dims import floor_remainder, greatest, on_dims, quotient, smallest
from passat.ir.ops.elementwise import ARITHMETIC, FLOATING, INTEGRAL, broadcast_type, in_float32
from passat.ir.ops.emitting import cast
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type, tensor_type


def _divide(x: Array, y: Array) -> Array:
    if x.dtype.kind not in "iu":
        return np.asarray(np.divide(x, y))
    _reject_zero(x, y)
    whole, rest = np.divmod(x, y)
    return np.asarray(whole + ((rest != 0) & ((x < 0) != (y < 0))).astype(x.dtype))


def _remainder(function: np.ufunc) -> Kernel:
    wide = in_float32(function)

    def kernel(x: Array, y: Array) -> Array:
        if x.dtype.kind in "iu":
            _reject_zero(x, y)
        return np.asarray(wide(x, y))

    return kernel


def _reject_zero(dividend: Array, divisor: Array) -> None:
    if dividend.size and not np.all(divisor):
        raise ZeroDivisionError("integer division by zero, which is undefined in ONNX")


@define_op("add", exact="always", kernel=np.add, onnx="Add", elementwise=True, commutative=True, associative=True, unit=0, shape_arith=True)
def add(x: TensorType, y: TensorType) -> TensorType:
    """The sum; integers wrap around. ONNX Add-14."""
    return broadcast_type((x, y), ARITHMETIC)


@define_op("subtract", exact="always", kernel=np.subtract, onnx="Sub", elementwise=True, unit=0, shape_arith=True)
def subtract(x: TensorType, y: TensorType) -> TensorType:
    """The difference; integers wrap around. ONNX Sub-14."""
    return broadcast_type((x, y), ARITHMETIC)


@define_op(
    "multiply",
    exact="always",
    kernel=np.multiply,
    onnx="Mul",
    elementwise=True,
    commutative=True,
    associative=True,
    unit=1,
    zero=0,
    shape_arith=True,
)
def multiply(x: TensorType, y: TensorType) -> TensorType:
    """The product; integers wrap around. ONNX Mul-14."""
    return broadcast_type((x, y), ARITHMETIC)


@define_op("divide", exact="always", kernel=on_dims(quotient, _divide), onnx="Div", elementwise=True, unit=1, shape_arith=True)
def divide(x: TensorType, y: TensorType) -> TensorType:
    """The quotient, rounded toward zero for integers. The kernel rejects integer division by zero. ONNX Div-14."""
    return broadcast_type((x, y), ARITHMETIC)


def _floor_divide(x: Array, y: Array) -> Array:
    _reject_zero(x, y)
    return np.asarray(np.floor_divide(x, y))


@define_op("floor_divide", exact="always", kernel=_floor_divide, elementwise=True)
def floor_divide(x: TensorType, y: TensorType) -> TensorType:
    """The quotient of integers, rounded down, like Python's `//`. The kernel rejects division by zero. ONNX Div-14, corrected
    by Mod-10, Equal-19, Not-1, Cast-19 and Sub-14 for signed integers."""
    return broadcast_type((x, y), INTEGRAL)


@define_op("floor_mod", exact="integers", kernel=on_dims(floor_remainder, _remainder(np.remainder)), elementwise=True, shape_arith=True)
def floor_mod(x: TensorType, y: TensorType) -> TensorType:
    """The remainder with the sign of the divisor, like Python's `%`. ONNX Mod-28 with fmod=0; Mod-10 for integers."""
    return broadcast_type((x, y), ARITHMETIC)


@define_op("fmod", kernel=_remainder(np.fmod), elementwise=True)
def fmod(x: TensorType, y: TensorType) -> TensorType:
    """The remainder with the sign of the dividend, like C's `fmod` and `%`. ONNX Mod-10 with fmod=1."""
    return broadcast_type((x, y), ARITHMETIC)


@from_onnx("Mod")
def _read_mod(node: OnnxNode) -> Expr | None:
    truncates = bool(node.attrs.get("fmod", 0))
    if not truncates and node.version < 28 and node.type(0).dtype not in INTEGRAL:
        return None  # not allowed in earlier opsets
    return (fmod if truncates else floor_mod)(node.input(0), node.input(1), span=node.span)


@to_onnx(floor_mod)
def _write_floor_mod(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 10 if tensor_type(call.args[0].checked_type).dtype in INTEGRAL else 28, floor_mod)
    return emit.node("Mod", inputs)


@to_onnx(floor_divide)
def _write_floor_divide(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 10, floor_divide)
    toward_zero = emit.node("Div", inputs)
    dtype = tensor_type(call.checked_type).dtype
    if dtype.startswith("u"):
        return toward_zero
    # Where rounding toward zero is not rounding down, the two remainders differ. (x - x mod y) / y overflows near the limits.
    same = emit.node("Equal", [emit.node("Mod", inputs), emit.node("Mod", inputs, {"fmod": 1})])
    return emit.node("Sub", [toward_zero, cast(emit, emit.node("Not", [same]), "bool", dtype)])


@to_onnx(fmod)
def _write_fmod(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 10, fmod)
    return emit.node("Mod", inputs, {"fmod": 1})


def _power(x: Array, y: Array) -> Array:
    found = np.asarray(np.power(x, y))
    if found.dtype.kind == "i":
        with np.errstate(all="ignore"):
            size = np.abs(np.power(x.astype(np.float64), y.astype(np.float64)))
        if np.any(size > np.iinfo(found.dtype).max):
            raise ValueError(f"a power overflows {found.dtype}, which is undefined in ONNX")
    return found


@define_op("power", kernel=in_float32(_power), cost=transcendental, elementwise=True, unit=1)
def power(x: TensorType, y: TensorType) -> TensorType:
    """`x` to the power of `y`. ONNX Pow-15 with one element type.

    The kernel rejects negative exponents of integers, and integer powers that overflow.
    """
    return broadcast_type((x, y), FLOATING | {"int32", "int64"})


@from_onnx("Pow")
def _read_power(node: OnnxNode) -> Expr | None:
    base, exponent = node.input(0), node.input(1)
    dtype = node.type(0).dtype
    if node.type(1).dtype != dtype:
        # ONNX allows an exponent of a different type; a constant exponent is converted if its value is preserved.
        tensor = node.constant(1)
        if tensor is None or dtype not in ARITHMETIC or tensor.dtype not in ARITHMETIC:
            return None
        given = tensor.numpy()
        with np.errstate(all="ignore"):
            converted = given.astype(to_numpy(dtype))
            if not np.array_equal(converted.astype(given.dtype), given):
                return None
        exponent = Constant(converted)
    return power(base, exponent, span=node.span)


@to_onnx(power)
def _write_power(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Pow", inputs)


@define_op(
    "maximum",
    kernel=on_dims(greatest, np.maximum),
    elementwise=True,
    commutative=True,
    associative=True,
    idempotent=True,
    shape_arith=True,
)
def maximum(x: TensorType, y: TensorType) -> TensorType:
    """The elementwise maximum. Propagates NaN; returns either of 0.0 and -0.0. ONNX Max-13 of two tensors."""
    return broadcast_type((x, y), ARITHMETIC)


@define_op(
    "minimum",
    kernel=on_dims(smallest, np.minimum),
    elementwise=True,
    commutative=True,
    associative=True,
    idempotent=True,
    shape_arith=True,
)
def minimum(x: TensorType, y: TensorType) -> TensorType:
    """The elementwise minimum. Propagates NaN; returns either of 0.0 and -0.0. ONNX Min-13 of two tensors."""
    return broadcast_type((x, y), ARITHMETIC)


def _many(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    operands = args[0].fields if isinstance(args[0], TupleType) else args
    return Cost(len(operands) * elements(result), sum(map(nbytes, operands)) + nbytes(result))


def _over_tuple(function: Callable[..., AnyValue]) -> Kernel:
    """Converts a function of tensors into the kernel of an operator on a tuple."""
    wide = in_float32(function)
    return lambda tensors: wide(*tensors)


def _mean(*tensors: Array) -> Array:
    return np.asarray(functools.reduce(np.add, tensors) / tensors[0].dtype.type(len(tensors)))


def _folded(function: np.ufunc) -> Kernel:
    return _over_tuple(lambda *tensors: np.asarray(functools.reduce(function, tensors)))


@define_op("elemwise_sum", kernel=_folded(np.add), cost=_many, elementwise=True, pattern=1)
def elemwise_sum(tensors: TupleType) -> TensorType:
    """The elementwise sum of a tuple of tensors, with broadcasting. ONNX Sum-13."""
    return broadcast_type(tensors.fields, FLOATING)


@define_op("elemwise_mean", kernel=_over_tuple(_mean), cost=_many, elementwise=True, pattern=1)
def elemwise_mean(tensors: TupleType) -> TensorType:
    """The elementwise mean of a tuple of tensors, with broadcasting. ONNX Mean-13."""
    return broadcast_type(tensors.fields, FLOATING)


@define_op("elemwise_max", kernel=_folded(np.maximum), cost=_many, elementwise=True, pattern=1)
def elemwise_max(tensors: TupleType) -> TensorType:
    """The elementwise maximum of a tuple of tensors, with broadcasting. ONNX Max-13; two tensors are imported as `maximum`."""
    return broadcast_type(tensors.fields, ARITHMETIC)


@define_op("elemwise_min", kernel=_folded(np.minimum), cost=_many, elementwise=True, pattern=1)
def elemwise_min(tensors: TupleType) -> TensorType:
    """The elementwise minimum of a tuple of tensors, with broadcasting. ONNX Min-13; two tensors are imported as `minimum`."""
    return broadcast_type(tensors.fields, ARITHMETIC)


def _variadic(op_type: str, op: Op, of_two: Op | None = None) -> None:
    """Registers the reader and the writers of a variadic ONNX operator. Nodes with exactly two operands map to `of_two`, if given."""

    def read(node: OnnxNode) -> Expr | None:
        operands = [node.input(i) for i in range(len(node.inputs)) if node.has(i)]
        if len(operands) != len(node.inputs) or node.attrs:
            return None
        if of_two is not None and len(operands) == 2:
            return of_two(*operands, span=node.span)
        return op(Tuple(operands), span=node.span)

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        return emit.node(op_type, inputs)

    from_onnx(op_type)(read)
    to_onnx(op)(write)
    if of_two is not None:
        to_onnx(of_two)(write)


_variadic("Sum", elemwise_sum)
_variadic("Mean", elemwise_mean)
_variadic("Max", elemwise_max, maximum)
_variadic("Min", elemwise_min, minimum)
