"""Data movement: transpose, concatenate, split, broadcast_to, tile and others, which move, repeat or join elements."""

from collections.abc import Iterable, Sequence

import numpy as np

from passat.ir.expr import Call, Expr, Tuple
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.emitting import unsqueeze
from passat.ir.ops.reshaping import emit_reshape, int64
from passat.ir.shape import ANY, Any, Dim, Shape, broadcast
from passat.ir.tensor import Array
from passat.ir.types import TensorType, TupleType, Type, tensor_type

# ---- transpose


def permutation(rank: int, axes: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the permutation of a transpose with non-negative axes; without axes it reverses them. Raises OpTypeError."""
    if axes is None:
        return tuple(reversed(range(rank)))
    found = tuple(axis + rank if axis < 0 else axis for axis in axes)
    if sorted(found) != list(range(rank)):
        raise OpTypeError(f"axes={tuple(axes)} is not a permutation of {rank} axes")
    return found


def _transpose(data: Array, axes: Sequence[int] | None) -> Array:
    return np.transpose(data, permutation(data.ndim, axes))


@define_op("transpose", kernel=_transpose, movement=True, shape_arith=True)
def transpose(data: TensorType, *, axes: tuple[int, ...] | None = None) -> TensorType:
    """Permutes the axes: axis i of the result is axis `axes[i]` of `data`. Reverses them without `axes`. ONNX Transpose (1, 13 ... 25),
    Relay transpose."""
    order = permutation(tensor_type(data, "data").ndim, axes)
    return data.with_shape(data.shape[axis] for axis in order)


@from_onnx("Transpose")
def _read_transpose(node: OnnxNode) -> Expr | None:
    axes = node.attrs.get("perm", tuple(reversed(range(node.type(0).ndim))))
    return Call(transpose, [node.input(0)], transpose.bind_attrs({"axes": axes}), span=node.span)


@to_onnx(transpose)
def _write_transpose(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    axes = permutation(tensor_type(call.args[0].checked_type).ndim, call.attrs.axes)
    return emit.node("Transpose", inputs, {"perm": axes} if axes else {})


def is_identity_permutation(axes: Sequence[int]) -> bool:
    """Whether a permutation keeps every axis in place. Axes may be negative."""
    return all(axis % len(axes) == i for i, axis in enumerate(axes))


def compose_permutations(first: Sequence[int], then: Sequence[int]) -> tuple[int, ...]:
    """Returns the permutation that applies `first`, then `then`.

    >>> compose_permutations((1, 2, 0), (1, 2, 0))
    (2, 0, 1)
    """
    rank = len(first)
    return tuple(first[axis % rank] % rank for axis in then)


def inverse_permutation(axes: Sequence[int]) -> tuple[int, ...]:
    """Returns the inverse permutation.

    >>> inverse_permutation((1, 2, 0))
    (2, 0, 1)
    """
    result = [0] * len(axes)
    for i, axis in enumerate(axes):
        result[axis % len(axes)] = i
    return tuple(result)


def is_reshaping_permutation(shape: Shape, axes: Sequence[int]) -> bool:
    """Whether a transpose of a tensor of `shape` only moves axes of size 1 and thus equals a reshape.

    >>> is_reshaping_permutation((8, 1, 5), (0, 2, 1)), is_reshaping_permutation((8, 2, 5), (0, 2, 1))
    (True, False)
    """
    moved = [axis % len(axes) for axis in axes if shape[axis % len(axes)] != 1]
    return moved == sorted(moved)


# ---- concatenate and stack


def _tensors(data: Type) -> tuple[TensorType, ...]:
    if not isinstance(data, TupleType) or not data.fields:
        raise OpTypeError(f"takes a tuple of at least one tensor, not {data!r}")
    fields = tuple(tensor_type(field, f"field {i}") for i, field in enumerate(data.fields))
    for i, field in enumerate(fields):
        if field.dtype != fields[0].dtype or field.ndim != fields[0].ndim:
            raise OpTypeError(
                f"all fields must have the same element type and rank, but field {i} is {field!r} and field 0 is {fields[0]!r}"
            )
    return fields


def one_size(dims: Iterable[Dim], what: str) -> Dim:
    """Unifies dimensions that must be equal: integers win over symbols, symbols over `Any`. Raises OpTypeError for two different
    integers."""
    known: Dim = ANY
    for dim in dims:
        if isinstance(known, Any) or dim == known:
            known = dim
        elif isinstance(dim, int):
            if isinstance(known, int):
                raise OpTypeError(f"{what}: sizes {known} and {dim} must be equal")
            known = dim
    return known


def _concatenate(data: tuple[Array, ...], axis: int) -> Array:
    return np.concatenate(data, axis)


@define_op("concatenate", kernel=_concatenate, movement=True, shape_arith=True)
def concatenate(data: TupleType, *, axis: int = 0) -> TensorType:
    """Concatenates the tensors of a tuple along `axis`; all other sizes must be equal. ONNX Concat (4, 11, 13), Relay concatenate."""
    fields = _tensors(data)
    at = fields[0].axis(axis)
    if len(fields) == 1:
        return fields[0]
    shape: list[Dim] = []
    for i, dims in enumerate(zip(*(field.shape for field in fields), strict=True)):
        if i == at:
            total: Dim = 0
            for dim in dims:
                total = total + dim
            shape.append(total)
        else:
            shape.append(dims[0] if dims.count(dims[0]) == len(dims) else one_size(dims, f"axis {i}"))
    return TensorType(tuple(shape), fields[0].dtype)


@from_onnx("Concat")
def _read_concat(node: OnnxNode) -> Expr | None:
    if "axis" not in node.attrs:
        return None
    fields = [node.input(i) for i in range(len(node.inputs)) if node.has(i)]
    if not fields or len(fields) != len(node.inputs):
        return None
    return Call(concatenate, [Tuple(fields)], concatenate.bind_attrs({"axis": node.axis()}), span=node.span)


@to_onnx(concatenate)
def _write_concatenate(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Concat", inputs, {"axis": tensor_type(call.checked_type).axis(call.attrs.axis)})


def _stack(data: tuple[Array, ...], axis: int) -> Array:
    return np.stack(data, axis)


@define_op("stack", kernel=_stack, movement=True, shape_arith=True)
def stack(data: TupleType, *, axis: int = 0) -> TensorType:
    """Stacks tensors of one shape along a new axis, which is `axis` of the result. Relay stack; written as Unsqueeze and Concat."""
    fields = _tensors(data)
    rank = fields[0].ndim + 1
    if not -rank <= axis < rank:
        raise OpTypeError(f"axis={axis} is out of range for a result of {rank} dimensions")
    shape = [one_size(dims, f"axis {i}") for i, dims in enumerate(zip(*(field.shape for field in fields), strict=True))]
    shape.insert(axis % rank, len(fields))
    return TensorType(tuple(shape), fields[0].dtype)


@to_onnx(stack)
def _write_stack(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    axis = tensor_type(call.checked_type).axis(call.attrs.axis)
    return emit.node("Concat", [unsqueeze(emit, name, [axis]) for name in inputs], {"axis": axis})


# ---- broadcast_to, tile, repeat


def _broadcast_to(data: Array, shape: Sequence[int]) -> Array:
    return np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(shape)))


@define_op("broadcast_to", kernel=_broadcast_to, movement=True, pattern=1, shape_arith=True)
def broadcast_to(data: TensorType, *, shape: tuple[int, ...]) -> TensorType:
    """Broadcasts `data` with `shape`: an entry of 1 keeps the size of `data`.

    ONNX Expand (8, 13). In Relay's broadcast_to, `shape` is the shape of the result.
    """
    if any(entry < 0 for entry in shape):
        raise OpTypeError(f"shape={tuple(shape)} has a negative entry")
    return data.with_shape(broadcast(tensor_type(data, "data").shape, shape))


@from_onnx("Expand")
def _read_expand(node: OnnxNode) -> Expr | None:
    shape = node.ints(1)
    if shape is not None:
        if any(entry < 0 for entry in shape):
            return None
        return Call(broadcast_to, [node.input(0)], broadcast_to.bind_attrs({"shape": shape}), span=node.span)
    if not all(isinstance(dim, int) for dim in node.type(1).shape):
        return None
    return Call(get_op("dyn.broadcast_to"), [node.input(0), node.input(1)], span=node.span)


@to_onnx(broadcast_to)
def _write_broadcast_to(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, result = tensor_type(call.args[0].checked_type), tensor_type(call.checked_type)
    return emit_expand(emit, inputs[0], data, result, int64(emit, call.attrs.shape))


def emit_expand(emit: Emitter, name: str, data: TensorType, result: TensorType, shape: str) -> str:
    """Broadcasts a value to a shape, both by name: Expand, or Tile before opset 8 if both shapes are static."""
    if emit.opset >= 8:
        return emit.node("Expand", [name, shape])
    if not (data.is_static and result.is_static):
        need_opset(emit, 8, broadcast_to)
    sizes = (1,) * (result.ndim - data.ndim) + data.shape
    reps = [1 if size == wanted else wanted for size, wanted in zip(sizes, result.shape, strict=True)]
    return emit.node("Tile", [unsqueeze(emit, name, range(result.ndim - data.ndim)), emit.constant(np.array(reps, np.int64))])


def _tile(data: Array, reps: Sequence[int]) -> Array:
    return np.tile(data, tuple(reps))


def tiled(shape: Shape, reps: Sequence[Dim]) -> Shape:
    """The shape of a tensor of `shape` repeated `reps` times along its last axes, with new leading axes if `reps` is longer."""
    rank = max(len(shape), len(reps))
    sizes = (1,) * (rank - len(shape)) + shape
    counts = (1,) * (rank - len(reps)) + tuple(reps)
    return tuple(dim if count == 1 else dim * count for dim, count in zip(sizes, counts, strict=True))


@define_op("tile", kernel=_tile, movement=True, pattern=1, shape_arith=True)
def tile(data: TensorType, *, reps: tuple[int, ...]) -> TensorType:
    """Repeats `data` by `reps` along its axes, as in NumPy: the shorter of shape and `reps` is padded with leading ones. ONNX Tile (6,
    13)."""
    if any(count < 0 for count in reps):
        raise OpTypeError(f"reps={tuple(reps)} has a negative entry")
    return data.with_shape(tiled(tensor_type(data, "data").shape, reps))


@from_onnx("Tile")
def _read_tile(node: OnnxNode) -> Expr | None:
    data, reps = node.type(0), node.ints(1)
    if node.type(1).shape != (data.ndim,):
        return None
    if reps is not None:
        return Call(tile, [node.input(0)], tile.bind_attrs({"reps": reps}), span=node.span)
    return Call(get_op("dyn.tile"), [node.input(0), node.input(1)], span=node.span)


@to_onnx(tile)
def _write_tile(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    rank, reps = tensor_type(call.args[0].checked_type).ndim, call.attrs.reps
    data = unsqueeze(emit, inputs[0], range(len(reps) - rank))
    return emit.node("Tile", [data, int64(emit, (1,) * (rank - len(reps)) + tuple(reps))])


def _repeat(data: Array, repeats: int, axis: int | None) -> Array:
    return np.repeat(data, repeats, axis)


@define_op("repeat", kernel=_repeat, movement=True, pattern=1, shape_arith=True)
def repeat(data: TensorType, *, repeats: int, axis: int | None = None) -> TensorType:
    """Repeats each element `repeats` times along `axis`; without an axis, of the flattened tensor. Relay repeat.

    Written as Unsqueeze, Tile and Reshape.
    """
    if repeats < 0:
        raise OpTypeError(f"repeats={repeats} is negative")
    if axis is None:
        return data.with_shape((tensor_type(data, "data").size * repeats,))
    at = tensor_type(data, "data").axis(axis)
    return data.with_shape(dim * repeats if i == at else dim for i, dim in enumerate(data.shape))


@to_onnx(repeat)
def _write_repeat(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, name, repeats = tensor_type(call.args[0].checked_type), inputs[0], call.attrs.repeats
    if call.attrs.axis is None:
        name, data = emit.node("Reshape", [name, int64(emit, (-1,))]), data.with_shape((data.size,))
    at = data.axis(call.attrs.axis or 0)
    tiled_ = emit.node("Tile", [unsqueeze(emit, name, [at + 1]), int64(emit, [1] * (at + 1) + [repeats] + [1] * (data.ndim - at - 1))])
    apart = data.with_shape((*data.shape[: at + 1], repeats, *data.shape[at + 1 :]))
    return emit_reshape(emit, tiled_, apart, tensor_type(call.checked_type), (0,) * at + (-3, -2))
