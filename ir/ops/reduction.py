"""Reductions with Relay's attributes: `axis` (None: all axes), `keepdims`, and `exclude` (reduce over all other axes)."""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.cost import reduction
from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Kernel, Op, OpTypeError, define_op
from passat.ir.ops.dims import product, total
from passat.ir.ops.elementwise import BOOLEAN, FLOATING, WIDE, finite_limits, in_float32, same_type
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type

_COMPARED = WIDE | {"int8", "uint8"}
Axis = int | tuple[int, ...] | None


def reduced_axes(ndim: int, axis: Axis, exclude: bool) -> tuple[int, ...]:
    """Returns the axes that a reduction of a tensor of rank `ndim` reduces, non-negative and sorted.

    Raises OpTypeError for axes that are out of range or duplicate, and if no axis remains.

    >>> reduced_axes(4, -1, False), reduced_axes(4, (0, 1), True), reduced_axes(2, None, False)
    ((3,), (2, 3), (0, 1))
    """
    if axis is None:
        if exclude:
            raise OpTypeError("exclude=True requires an axis")
        return tuple(range(ndim))
    named = (axis,) if isinstance(axis, int) else axis
    if any(not -ndim <= number < ndim for number in named):
        raise OpTypeError(f"axis={axis} is out of range for {counted(ndim, 'dimension')}")
    places = {number % ndim for number in named}
    if len(places) != len(named):
        raise OpTypeError(f"axis={axis} names an axis twice")
    found = tuple(number for number in range(ndim) if (number in places) != exclude)
    if not found:
        raise OpTypeError(f"axis={axis} leaves no axis to reduce")
    return found


def _reduced(x: TensorType, axis: Axis, keepdims: bool, exclude: bool, allowed: frozenset[str] = WIDE) -> TensorType:
    gone = set(reduced_axes(same_type(x, allowed).ndim, axis, exclude))
    if keepdims:
        return x.with_shape(1 if i in gone else dim for i, dim in enumerate(x.shape))
    return x.with_shape(dim for i, dim in enumerate(x.shape) if i not in gone)


def _over_axes(function: Callable[[Array, tuple[int, ...], bool], AnyValue]) -> Kernel:
    """Converts a function of (array, axes, keepdims) into the kernel of a reduction; 16-bit floats are accumulated in float32."""
    wide = in_float32(lambda x, axes, keepdims: np.asarray(function(x, axes, keepdims)))

    def kernel(x: Array, axis: Axis, keepdims: bool, exclude: bool) -> AnyValue:
        return wide(x, axes=reduced_axes(x.ndim, axis, exclude), keepdims=keepdims)

    return kernel


def _sum(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if x.dtype == np.object_:
        return np.asarray(total(x, axes, keepdims), np.object_)
    return np.asarray(np.sum(x, axis=axes, dtype=x.dtype, keepdims=keepdims))


def _prod(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    if x.dtype == np.object_:
        return np.asarray(product(x, axes, keepdims), np.object_)
    return np.asarray(np.prod(x, axis=axes, dtype=x.dtype, keepdims=keepdims))


def _mean(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    count = int(np.prod([x.shape[axis] for axis in axes], dtype=np.int64))
    if count == 0:
        raise ValueError("the mean of no elements is undefined in ONNX")
    if x.dtype.kind not in "iu":
        return np.asarray(np.mean(x, axis=axes, keepdims=keepdims))
    sums = np.sum(x, axis=axes, keepdims=keepdims)
    return np.asarray(np.sign(sums) * (np.abs(sums) // sums.dtype.type(count))).astype(x.dtype)


def _max(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    lowest = -np.inf if x.dtype.kind == "f" else finite_limits(x.dtype)[0]
    return np.asarray(np.max(x, axis=axes, keepdims=keepdims, initial=lowest))


def _min(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    highest = np.inf if x.dtype.kind == "f" else finite_limits(x.dtype)[1]
    return np.asarray(np.min(x, axis=axes, keepdims=keepdims, initial=highest))


def _logsumexp(x: Array, axes: tuple[int, ...], keepdims: bool) -> Array:
    top = _max(x, axes, True)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    sums = np.log(np.sum(np.exp(x - top), axis=axes, keepdims=True)) + top
    return sums if keepdims else np.asarray(sums.squeeze(axes))


@define_op("sum", kernel=_over_axes(_sum), cost=reduction, pattern=3, shape_arith=True)
def sum_(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The sum of the elements; 0 for no elements. ONNX ReduceSum-13."""
    return _reduced(x, axis, keepdims, exclude)


@define_op("mean", kernel=_over_axes(_mean), cost=reduction, pattern=3)
def mean(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The mean of the elements, rounded toward zero for integers. The kernel rejects empty reductions. ONNX ReduceMean-18."""
    return _reduced(x, axis, keepdims, exclude)


@define_op("prod", kernel=_over_axes(_prod), cost=reduction, pattern=3, shape_arith=True)
def prod(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The product of the elements; 1 for no elements. ONNX ReduceProd-18."""
    return _reduced(x, axis, keepdims, exclude)


@define_op("max", kernel=_over_axes(_max), cost=reduction, pattern=3)
def max_(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The maximum; propagates NaN. Minus infinity or the lowest integer for no elements. ONNX ReduceMax-20 of numbers."""
    return _reduced(x, axis, keepdims, exclude, _COMPARED)


@define_op("min", kernel=_over_axes(_min), cost=reduction, pattern=3)
def min_(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The minimum; propagates NaN. Infinity or the highest integer for no elements. ONNX ReduceMin-20 of numbers."""
    return _reduced(x, axis, keepdims, exclude, _COMPARED)


@define_op("logsumexp", kernel=_over_axes(_logsumexp), cost=reduction, pattern=3)
def logsumexp(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The logarithm of the sum of the exponentials; minus infinity for no elements. ONNX ReduceLogSumExp-18, floating-point only.

    Version 28 overflows in ONNX Runtime if the exponentials do.
    """
    return _reduced(x, axis, keepdims, exclude, FLOATING)


@define_op("reduce_l1", kernel=_over_axes(lambda x, axes, keepdims: _sum(np.abs(x), axes, keepdims)), cost=reduction, pattern=3)
def reduce_l1(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The sum of the absolute values. ONNX ReduceL1-18."""
    return _reduced(x, axis, keepdims, exclude)


@define_op("reduce_l2", kernel=_over_axes(lambda x, axes, keepdims: np.sqrt(_sum(x * x, axes, keepdims))), cost=reduction, pattern=3)
def reduce_l2(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The square root of the sum of the squares. ONNX ReduceL2-18, floating-point only."""
    return _reduced(x, axis, keepdims, exclude, FLOATING)


@define_op("reduce_log_sum", kernel=_over_axes(lambda x, axes, keepdims: np.log(_sum(x, axes, keepdims))), cost=reduction, pattern=3)
def reduce_log_sum(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The logarithm of the sum. ONNX ReduceLogSum-18, floating-point only."""
    return _reduced(x, axis, keepdims, exclude, FLOATING)


@define_op("reduce_sum_square", kernel=_over_axes(lambda x, axes, keepdims: _sum(x * x, axes, keepdims)), cost=reduction, pattern=3)
def reduce_sum_square(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """The sum of the squares. ONNX ReduceSumSquare-18."""
    return _reduced(x, axis, keepdims, exclude)


@define_op(
    "all", exact="always", kernel=_over_axes(lambda x, axes, keepdims: np.all(x, axis=axes, keepdims=keepdims)), cost=reduction, pattern=3
)
def all_(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """Whether all elements are true; true for no elements. ONNX ReduceMin-20 of bool; before, ReduceProd between two casts."""
    return _reduced(x, axis, keepdims, exclude, BOOLEAN)


@define_op(
    "any", exact="always", kernel=_over_axes(lambda x, axes, keepdims: np.any(x, axis=axes, keepdims=keepdims)), cost=reduction, pattern=3
)
def any_(x: TensorType, *, axis: Axis = None, keepdims: bool = False, exclude: bool = False) -> TensorType:
    """Whether any element is true; false for no elements. ONNX ReduceMax-20 of bool; before, ReduceSum between two casts."""
    return _reduced(x, axis, keepdims, exclude, BOOLEAN)


def is_reduced(data: TensorType, axes: Sequence[int]) -> bool:
    """Whether ONNX Runtime reduces a tensor over these axes. It ignores negative axes of empty tensors."""
    return 0 not in data.shape or min(axes) >= 0


def _mapping(
    op_type: str, op: Op, allowed: frozenset[str], *, input_since: int = 18, until: int | None = None, of_bool: Op | None = None
) -> None:
    """Registers the reader and the writer of a reduction whose axes are an input since opset `input_since`, and an attribute before.

    From opset `until` on the ONNX operator has a different meaning. `of_bool` is the meaning for bool, supported since opset 20.
    """

    def read(node: OnnxNode) -> Expr | None:
        dtype = node.type(0).dtype
        if dtype not in allowed and (of_bool is None or dtype != "bool"):
            return None
        if until is not None and node.version >= until:
            return None
        ndim = node.type(0).ndim
        axes = node.ints(1) if node.version >= input_since and node.has(1) else node.attrs.get("axes")
        keeps = bool(node.attrs.get("noop_with_empty_axes", 0))
        if not ndim and node.has(1) and (axes or not keeps):  # ONNX Runtime ignores the axes, but not when it infers shapes and knows them
            axes = ()
        elif (axes is None and node.has(1)) or (not axes and keeps):
            return None
        if axes and not is_reduced(node.type(0), axes):
            return None
        counted = None if not axes else tuple(sorted(axis + ndim if -ndim <= axis < 0 else axis for axis in axes))
        chosen = op if dtype in allowed or of_bool is None else of_bool
        return chosen(node.input(0), axis=counted, keepdims=bool(node.attrs.get("keepdims", 1)), span=node.span)

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        return _emit(op_type, input_since, call, inputs[0], emit)

    from_onnx(op_type)(read)
    if until is None:
        to_onnx(op)(write)


_OVERFLOWS: Final = 28
"""The opset since which ONNX Runtime has no kernel for ReduceLogSumExp and expands ONNX's function body, which overflows."""


@to_onnx(logsumexp)
def _write_logsumexp(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    if emit.opset < _OVERFLOWS:
        return _emit("ReduceLogSumExp", 18, call, inputs[0], emit)
    data = tensor_type(call.args[0].checked_type)
    axes = reduced_axes(data.ndim, call.attrs.axis, call.attrs.exclude)
    over, keepdims = emit.constant(np.array(axes, np.int64)), {"keepdims": 1}
    greatest = emit.node("ReduceMax", [inputs[0], over], keepdims)
    zero = emit.constant(np.zeros((), to_numpy(data.dtype)))
    shift = emit.node("Where", [emit.node("IsInf", [greatest]), zero, greatest])
    powers = emit.node("Exp", [emit.node("Sub", [inputs[0], shift])])
    found = emit.node("Add", [emit.node("Log", [emit.node("ReduceSum", [powers, over], keepdims)]), shift])
    return found if call.attrs.keepdims else emit.node("Squeeze", [found, over])


def _emit(op_type: str, input_since: int, call: Call, x: str, emit: Emitter) -> str:
    attrs: dict[str, AnyValue] = {"keepdims": int(call.attrs.keepdims)}
    if call.attrs.axis is None:
        return emit.node(op_type, [x], attrs)
    axes = reduced_axes(tensor_type(call.args[0].checked_type).ndim, call.attrs.axis, call.attrs.exclude)
    if emit.opset >= input_since:
        return emit.node(op_type, [x, emit.constant(np.array(axes, np.int64))], attrs)
    return emit.node(op_type, [x], {**attrs, "axes": axes})


_mapping("ReduceSum", sum_, WIDE, input_since=13)
_mapping("ReduceMean", mean, WIDE)
_mapping("ReduceProd", prod, WIDE)
_mapping("ReduceMax", max_, _COMPARED, of_bool=any_)
_mapping("ReduceMin", min_, _COMPARED, of_bool=all_)
_mapping("ReduceLogSumExp", logsumexp, FLOATING, until=_OVERFLOWS)
_mapping("ReduceL1", reduce_l1, WIDE)
_mapping("ReduceL2", reduce_l2, FLOATING)
_mapping("ReduceLogSum", reduce_log_sum, FLOATING)
_mapping("ReduceSumSquare", reduce_sum_square, WIDE)


def _of_bool(op: Op, op_type: str, of_numbers: str, input_since: int) -> None:
    """Registers the writer of a reduction of bool. Sums and products of 0 and 1 are also correct if nothing is reduced."""

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        if emit.opset >= 20:
            return _emit(op_type, 18, call, inputs[0], emit)
        numbers = emit.node("Cast", inputs, {"to": _INT32})
        return emit.node("Cast", [_emit(of_numbers, input_since, call, numbers, emit)], {"to": _BOOL})

    to_onnx(op)(write)


_INT32, _BOOL = 6, 9  # ONNX numbers of the types

_of_bool(any_, "ReduceMax", "ReduceSum", 13)
_of_bool(all_, "ReduceMin", "ReduceProd", 18)
