"""Batch, instance, group and layer normalization, and RMS normalization."""

from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr, Tuple
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import cast, float_attr, only, reduced, same_dtype, scalar, transpose, unsqueeze
from passat.ir.ops.movement import repeat
from passat.ir.shape import may_equal, product, same_dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, Type, tensor_type

Optional = TensorType | TupleType
"""The type of an absent optional operand."""


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """About eight operations per element: mean, difference, square, variance, root, quotient, scale, shift."""
    data = args[0]
    return Cost(8.0 * elements(data), sum(map(nbytes, args)) + nbytes(data))


def _check_floats(data: TensorType) -> None:
    if data.dtype not in FLOATS:
        raise OpTypeError(f"data must have a floating-point type, but has {data.dtype}")


def _check_per_channel(data: TensorType, axis: int, **operands: TensorType) -> None:
    """Raises OpTypeError unless each operand is a vector as long as `axis` of data, of its element type."""
    _check_floats(data)
    channels = data.shape[data.axis(axis)]
    for name, operand in operands.items():
        if operand.dtype != data.dtype:
            raise OpTypeError(f"{name} has element type {operand.dtype}, but data has {data.dtype}; cast one")
        if len(operand.shape) != 1:
            raise OpTypeError(f"{name} must have one dimension, but has {operand.ndim}")
        if not may_equal(operand.shape[0], channels):
            raise OpTypeError(f"{name} has {counted(operand.shape[0], 'element')}, but axis {axis} of data has {channels!r}")


def _check_layer(data: TensorType, axis: int, **operands: Optional) -> None:
    """Raises OpTypeError unless each operand has the shape of data from `axis` on."""
    _check_floats(data)
    layer = data.shape[data.axis(axis) :]
    for name, operand in operands.items():
        if isinstance(operand, TupleType) and not operand.fields:
            continue
        tensor = tensor_type(operand, name)
        if tensor.dtype != data.dtype:
            raise OpTypeError(f"{name} has element type {tensor.dtype}, but data has {data.dtype}; cast one")
        if len(tensor.shape) != len(layer) or not all(map(may_equal, tensor.shape, layer)):
            raise OpTypeError(f"{name} has shape {tensor.shape}, but data has {layer} from axis {axis} on")


def _along(vector: Array, axis: int, rank: int) -> Array:
    return wide(vector).reshape(-1, *(1,) * (rank - axis % rank - 1))


def _standardized(x: Array, axes: tuple[int, ...], epsilon: float) -> Array:
    """Normalizes to zero mean and unit variance over the axes. ONNX stores epsilon as a 32-bit float."""
    if not x.size:
        return x
    centered = x - x.mean(axes, keepdims=True)
    found: Array = centered / np.sqrt((centered * centered).mean(axes, keepdims=True) + float(np.float32(epsilon)))
    return found


def _batch_norm(
    data: Array, gamma: Array, beta: Array, mean: Array, variance: Array, *, axis: int, epsilon: float, center: bool, scale: bool
) -> tuple[Array, Array, Array]:
    result = (wide(data) - _along(mean, axis, data.ndim)) / np.sqrt(_along(variance, axis, data.ndim) + float(np.float32(epsilon)))
    result = result * _along(gamma, axis, data.ndim) if scale else result
    result = result + _along(beta, axis, data.ndim) if center else result
    return narrow(result, data.dtype), mean, variance


@define_op("nn.batch_norm", kernel=_batch_norm, cost=_cost, pattern=4, results=3)
def batch_norm(
    data: TensorType,
    gamma: TensorType,
    beta: TensorType,
    moving_mean: TensorType,
    moving_var: TensorType,
    *,
    axis: int = 1,
    epsilon: float = 1e-5,
    center: bool = True,
    scale: bool = True,
) -> TupleType:
    """Batch normalization in inference mode: (data - mean) / sqrt(var + epsilon) * gamma + beta along `axis`, and mean and var unchanged.

    `scale` and `center` enable gamma and beta. ONNX: BatchNormalization (7, 9, 14, 15) in inference mode, as field 0.
    """
    _check_per_channel(data, axis, gamma=gamma, beta=beta, moving_mean=moving_mean, moving_var=moving_var)
    return TupleType((data, moving_mean, moving_var))


@from_onnx("BatchNormalization")
def _read_batch_norm(node: OnnxNode) -> list[Expr] | None:
    data = node.type(0)
    if node.n_outputs != 1 or data.ndim < 2 or node.attrs.get("training_mode", 0) or not node.attrs.get("spatial", 1):
        return None
    types = [node.type(i) for i in range(5)]
    if not only(node, "epsilon", "momentum", "training_mode", "spatial") or not same_dtype(*types):
        return None
    if any(type_.ndim != 1 for type_ in types[1:]):
        return None
    operands = [node.input(i) for i in range(5)]
    return [batch_norm(*operands, epsilon=float_attr(node, "epsilon", 1e-5), span=node.span)[0]]


@to_onnx(batch_norm)
def _write_batch_norm(call: Call, inputs: Sequence[str], emit: Emitter) -> list[str]:
    data, gamma = tensor_type(call.args[0].checked_type), tensor_type(call.args[1].checked_type)
    parts = list(inputs[1:])
    if not call.attrs.scale:
        parts[0] = _filled(emit, inputs[1], gamma, 1.0)
    if not call.attrs.center:
        parts[1] = _filled(emit, inputs[1], gamma, 0.0)
    attrs = {"epsilon": call.attrs.epsilon}
    if data.ndim == 1:  # ONNX requires a batch dimension
        result = emit.node("BatchNormalization", [unsqueeze(emit, inputs[0], [0]), *parts], attrs)
        return [emit.node("Reshape", [result, emit.constant(np.array([-1], np.int64))]), inputs[3], inputs[4]]
    swap = _swap(call.attrs.axis % data.ndim, 1, data.ndim)
    result = emit.node("BatchNormalization", [transpose(emit, inputs[0], swap), *parts], attrs)
    return [transpose(emit, result, swap), inputs[3], inputs[4]]


def _swap(a: int, b: int, rank: int) -> list[int]:
    """The permutation that swaps two axes."""
    perm = list(range(rank))
    perm[a], perm[b] = b, a
    return perm


def _filled(emit: Emitter, like: str, type_: TensorType, value: float) -> str:
    """Emits a constant vector as long as the value `like`."""
    length = type_.shape[0]
    if isinstance(length, int):
        return emit.constant(Tensor.splat(value, (length,), type_.dtype))
    return emit.node("Tile", [emit.constant(Tensor.splat(value, (1,), type_.dtype)), emit.node("Shape", [like])])


def _instance_norm(data: Array, gamma: Array, beta: Array, *, axis: int, epsilon: float) -> Array:
    axes = tuple(place for place in range(1, data.ndim) if place != axis % data.ndim)
    result = _standardized(wide(data), axes, epsilon) * _along(gamma, axis, data.ndim) + _along(beta, axis, data.ndim)
    return narrow(result, data.dtype)


@define_op("nn.instance_norm", kernel=_instance_norm, cost=_cost, pattern=4)
def instance_norm(data: TensorType, gamma: TensorType, beta: TensorType, *, axis: int = 1, epsilon: float = 1e-5) -> TensorType:
    """Normalizes to zero mean and unit variance over all axes but axis 0 and the channels at `axis`, then applies gamma and beta per
    channel.

    ONNX: InstanceNormalization (6, 22).
    """
    _check_per_channel(data, axis, gamma=gamma, beta=beta)
    if data.ndim < 3 or data.axis(axis) == 0:
        raise OpTypeError(f"data must have at least three dimensions and axis={axis} must not be the first, but data has {data.ndim}")
    return data


@from_onnx("InstanceNormalization")
def _read_instance_norm(node: OnnxNode) -> Expr | None:
    if node.type(0).ndim < 3 or not only(node, "epsilon"):
        return None
    return instance_norm(*(node.input(i) for i in range(3)), epsilon=float_attr(node, "epsilon", 1e-5), span=node.span)


@to_onnx(instance_norm)
def _write_instance_norm(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data = tensor_type(call.args[0].checked_type)
    swap = _swap(call.attrs.axis % data.ndim, 1, data.ndim)
    operands = [transpose(emit, inputs[0], swap), *inputs[1:]]
    return transpose(emit, emit.node("InstanceNormalization", operands, {"epsilon": call.attrs.epsilon}), swap)


def _group_norm(data: Array, gamma: Array, beta: Array, *, num_groups: int, axis: int, epsilon: float) -> Array:
    x = np.moveaxis(wide(data), axis, 1)
    grouped = x.reshape(x.shape[0], num_groups, x.shape[1] // num_groups, *x.shape[2:])
    result = np.moveaxis(_standardized(grouped, tuple(range(2, grouped.ndim)), epsilon).reshape(x.shape), 1, axis)
    return narrow(result * _along(gamma, axis, data.ndim) + _along(beta, axis, data.ndim), data.dtype)


@define_op("nn.group_norm", kernel=_group_norm, cost=_cost, pattern=4)
def group_norm(
    data: TensorType, gamma: TensorType, beta: TensorType, *, num_groups: int, axis: int = 1, epsilon: float = 1e-5
) -> TensorType:
    """Normalizes to zero mean and unit variance over each group of channels (at `axis`) of each sample (axis 0), then applies gamma and
    beta.

    gamma and beta have one element per channel. ONNX: GroupNormalization (21); version 18, with one element per group, is only read.
    Decomposed before opset 21, since `onnx.checker` rejects version 18, and for float64, which ONNX narrows.
    """
    _check_per_channel(data, axis, gamma=gamma, beta=beta)
    channels = data.shape[data.axis(axis)]
    if data.ndim < 3 or data.axis(axis) == 0:
        raise OpTypeError(f"data must have at least three dimensions and axis={axis} must not be the first, but data has {data.ndim}")
    if num_groups < 1 or (isinstance(channels, int) and channels % num_groups):
        raise OpTypeError(f"{counted(channels, 'channel')} cannot be divided into {counted(num_groups, 'group')}")
    return data


@from_onnx("GroupNormalization")
def _read_group_norm(node: OnnxNode) -> Expr | list[Expr] | None:
    data, groups = node.type(0), node.attrs.get("num_groups", 0)
    if data.ndim < 3 or not _in_float32(node, data) or not only(node, "epsilon", "num_groups", "stash_type"):
        return None
    operands, epsilon = [node.input(i) for i in range(3)], float_attr(node, "epsilon", 1e-5)
    if node.version >= 21:
        return group_norm(*operands, num_groups=groups, epsilon=epsilon, span=node.span)
    if not same_dim(data.shape[1], groups):
        channels = data.shape[1]
        if not isinstance(channels, int) or groups < 1 or channels % groups:
            return None
        operands[1:] = [repeat(operand, repeats=channels // groups, axis=0) for operand in operands[1:]]
    return [group_norm(*operands, num_groups=groups, epsilon=epsilon, span=node.span)]


def _in_float32(node: OnnxNode, data: TensorType) -> bool:
    """Whether a node computes in float32 or the wider element type of its data. Data in float64 would be narrowed first."""
    return bool(node.attrs.get("stash_type", 1) == 1) and data.dtype != "float64"


@to_onnx(group_norm)
def _write_group_norm(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs, data = call.attrs, tensor_type(call.args[0].checked_type)
    swap = _swap(attrs.axis % data.ndim, 1, data.ndim)
    x = transpose(emit, inputs[0], swap)
    shape = [data.shape[axis] for axis in swap]
    if emit.opset >= 21 and data.dtype != "float64":
        given = {"epsilon": attrs.epsilon, "num_groups": attrs.num_groups}
        return transpose(emit, emit.node("GroupNormalization", [x, *inputs[1:]], given), swap)
    if 0 in shape:  # Reshape would interpret 0 as a size of its operand
        return emit.node("Identity", inputs[:1])
    rest = product(shape[1:])
    length = rest // attrs.num_groups if isinstance(rest, int) else -1
    grouped = emit.node("Reshape", [x, emit.constant(np.array([0, attrs.num_groups, length], np.int64))])
    result = emit.node("Reshape", [_emit_standardized(emit, grouped, (2,), attrs.epsilon, data.dtype), emit.node("Shape", [x])])
    gamma, beta = (unsqueeze(emit, name, range(1, data.ndim - 1)) for name in inputs[1:])
    return transpose(emit, emit.node("Add", [emit.node("Mul", [result, gamma]), beta]), swap)


def _emit_standardized(emit: Emitter, name: str, axes: Sequence[int], epsilon: float, dtype: str) -> str:
    """Emits `_standardized`, in float32 for narrower elements."""
    inner = dtype if dtype == "float64" else "float32"
    x = cast(emit, name, dtype, inner)
    centered = emit.node("Sub", [x, reduced(emit, "ReduceMean", x, axes)])
    variance = reduced(emit, "ReduceMean", _emit_square(emit, centered, inner), axes)
    return cast(emit, _emit_divided(emit, centered, variance, epsilon, inner), inner, dtype)


def _emit_square(emit: Emitter, name: str, dtype: str) -> str:
    """Emits the square in the form that ONNX Runtime's normalization fusions match."""
    return emit.node("Pow", [name, scalar(emit, 2.0, dtype)])


def _emit_divided(emit: Emitter, name: str, square: str, epsilon: float, dtype: str) -> str:
    root = emit.node("Sqrt", [emit.node("Add", [square, scalar(emit, float(np.float32(epsilon)), dtype)])])
    return emit.node("Div", [name, root])


def _layer_norm(data: Array, gamma: Array, beta: Array | tuple[()], *, axis: int, epsilon: float) -> Array:
    result = _standardized(wide(data), tuple(range(axis % data.ndim, data.ndim)), epsilon) * wide(gamma)
    return narrow(result if isinstance(beta, tuple) else result + wide(beta), data.dtype)


@define_op("nn.layer_norm", kernel=_layer_norm, cost=_cost, pattern=4)
def layer_norm(data: TensorType, gamma: TensorType, beta: Optional, *, axis: int = -1, epsilon: float = 1e-5) -> TensorType:
    """Normalizes to zero mean and unit variance over the dimensions from `axis` on, then applies gamma and beta, which have their shape.

    `beta` may be absent (the empty tuple). With axis=-1 this is Relay's operator. ONNX: LayerNormalization (17) with one output. Decomposed
    before opset 17, and for float64, which ONNX narrows.
    """
    _check_layer(data, axis, gamma=gamma, beta=beta)
    return data


@from_onnx("LayerNormalization")
def _read_layer_norm(node: OnnxNode) -> Expr | None:
    data, axis = node.type(0), node.attrs.get("axis", -1)
    if node.n_outputs != 1 or not _in_float32(node, data) or not only(node, "axis", "epsilon", "stash_type"):
        return None
    if not all(_covers(data, node.type(i), axis) for i in (1, 2) if node.has(i)):
        return None
    beta = node.input(2) if node.has(2) else Tuple(())
    return layer_norm(node.input(0), node.input(1), beta, axis=axis, epsilon=float_attr(node, "epsilon", 1e-5), span=node.span)


def _covers(data: TensorType, part: TensorType, axis: int) -> bool:
    """Whether a tensor has the element type of data and exactly its shape from `axis` on, without broadcasting."""
    layer = data.shape[axis % data.ndim :] if -data.ndim <= axis < data.ndim else ()
    return bool(layer) and data.dtype == part.dtype and len(layer) == part.ndim and all(map(same_dim, layer, part.shape))


@to_onnx(layer_norm)
def _write_layer_norm(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs, data = call.attrs, tensor_type(call.args[0].checked_type)
    if emit.opset >= 17 and data.dtype != "float64":
        return emit.node("LayerNormalization", [name for name in inputs if name], {"axis": attrs.axis, "epsilon": attrs.epsilon})
    axes = range(attrs.axis % data.ndim, data.ndim)
    result = emit.node("Mul", [_emit_standardized(emit, inputs[0], axes, attrs.epsilon, data.dtype), inputs[1]])
    return emit.node("Add", [result, inputs[2]]) if any(inputs[2:]) else result


def _rms_norm(data: Array, gamma: Array, *, axis: int, epsilon: float) -> Array:
    x = wide(data)
    if not x.size:
        return data
    square = (x * x).mean(tuple(range(axis % data.ndim, data.ndim)), keepdims=True)
    return narrow(x / np.sqrt(square + float(np.float32(epsilon))) * wide(gamma), data.dtype)


@define_op("nn.rms_norm", kernel=_rms_norm, cost=_cost, pattern=4)
def rms_norm(data: TensorType, gamma: TensorType, *, axis: int = -1, epsilon: float = 1e-5) -> TensorType:
    """Divides data by its root mean square over the dimensions from `axis` on, then multiplies by gamma, which has their shape.

    ONNX: RMSNormalization (23). Decomposed before opset 23, and for float64, which ONNX narrows.
    """
    _check_layer(data, axis, gamma=gamma)
    return data


@from_onnx("RMSNormalization")
def _read_rms_norm(node: OnnxNode) -> Expr | None:
    data, axis = node.type(0), node.attrs.get("axis", -1)
    if not _in_float32(node, data) or not _covers(data, node.type(1), axis) or not only(node, "axis", "epsilon", "stash_type"):
        return None
    return rms_norm(node.input(0), node.input(1), axis=axis, epsilon=float_attr(node, "epsilon", 1e-5), span=node.span)


@to_onnx(rms_norm)
def _write_rms_norm(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs, data = call.attrs, tensor_type(call.args[0].checked_type)
    if emit.opset >= 23 and data.dtype != "float64":
        return emit.node("RMSNormalization", inputs, {"axis": attrs.axis, "epsilon": attrs.epsilon})
    inner = data.dtype if data.dtype == "float64" else "float32"
    x = cast(emit, inputs[0], data.dtype, inner)
    square = reduced(emit, "ReduceMean", _emit_square(emit, x, inner), range(attrs.axis % data.ndim, data.ndim))
    return emit.node("Mul", [cast(emit, _emit_divided(emit, x, square, attrs.epsilon, inner), inner, data.dtype), inputs[1]])
