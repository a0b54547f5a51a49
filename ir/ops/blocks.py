"""Moves blocks between the channels and the spatial dimensions of an image: nn.depth_to_space and nn.space_to_depth."""

from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.shape import Dim, divide
from passat.ir.tensor import Array
from passat.ir.types import TensorType, tensor_type


def _checked(data: TensorType, block_size: int, mode: str) -> TensorType:
    if tensor_type(data, "data").ndim != 4:
        raise OpTypeError(f"data must have 4 dimensions (NCHW), but is {data!r}")
    if block_size < 1 or mode not in ("DCR", "CRD"):
        raise OpTypeError(f"block_size must be positive and mode DCR or CRD, not block_size={block_size}, mode={mode!r}")
    return data


def _exactly(size: Dim, divisor: int, what: str) -> Dim:
    if isinstance(size, int) and size % divisor:
        raise OpTypeError(f"{what} {size} is not a multiple of {divisor}")
    return divide(size, divisor)


def _depth_to_space(data: Array, block_size: int, mode: str) -> Array:
    n, c, h, w = data.shape
    depth = c // block_size**2
    if mode == "DCR":
        moved = data.reshape(n, block_size, block_size, depth, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        moved = data.reshape(n, depth, block_size, block_size, h, w).transpose(0, 1, 4, 2, 5, 3)
    return np.reshape(moved, (n, depth, h * block_size, w * block_size))


@define_op("nn.depth_to_space", kernel=_depth_to_space, movement=True)
def depth_to_space(data: TensorType, *, block_size: int, mode: str = "DCR") -> TensorType:
    """Moves channels of an NCHW image into spatial blocks. ONNX DepthToSpace (1, 11, 13, 28), Relay nn.depth_to_space.

    In mode DCR the position within a block is the outer part of the channel index, in mode CRD the inner part.
    """
    n, c, h, w = _checked(data, block_size, mode).shape
    return data.with_shape((n, _exactly(c, block_size**2, "the number of channels"), h * block_size, w * block_size))


def _space_to_depth(data: Array, block_size: int, mode: str) -> Array:
    n, c, h, w = data.shape
    apart = data.reshape(n, c, h // block_size, block_size, w // block_size, block_size)
    moved = apart.transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return np.reshape(moved, (n, c * block_size**2, h // block_size, w // block_size))


@define_op("nn.space_to_depth", kernel=_space_to_depth, movement=True)
def space_to_depth(data: TensorType, *, block_size: int, mode: str = "DCR") -> TensorType:
    """Moves spatial blocks of an NCHW image into channels: the inverse of nn.depth_to_space. ONNX SpaceToDepth (1, 13; 28 with modes)."""
    n, c, h, w = _checked(data, block_size, mode).shape
    return data.with_shape((n, c * block_size**2, _exactly(h, block_size, "the height"), _exactly(w, block_size, "the width")))


def _read(op: Op, node: OnnxNode, modes_since: int) -> Expr | None:
    if node.version < modes_since and "mode" in node.attrs:
        return None
    attrs = {"block_size": node.attrs.get("blocksize"), "mode": node.attrs.get("mode", "DCR")}
    return None if attrs["block_size"] is None else Call(op, [node.input(0)], op.bind_attrs(attrs), span=node.span)


@from_onnx("DepthToSpace")
def _read_depth_to_space(node: OnnxNode) -> Expr | None:
    return _read(depth_to_space, node, 11)


@from_onnx("SpaceToDepth")
def _read_space_to_depth(node: OnnxNode) -> Expr | None:
    return _read(space_to_depth, node, 28)


def _write(op_type: str, call: Call, name: str, emit: Emitter, modes_since: int) -> str:
    attrs = {"blocksize": call.attrs.block_size}
    if call.attrs.mode != "DCR":
        if emit.opset < modes_since:
            raise OnnxVersionError(f"{call.op!r} in the mode {call.attrs.mode} needs ONNX opset {modes_since} or later")
        attrs["mode"] = call.attrs.mode
    return emit.node(op_type, [name], attrs)


@to_onnx(depth_to_space)
def _write_depth_to_space(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write("DepthToSpace", call, inputs[0], emit, 11)


@to_onnx(space_to_depth)
def _write_space_to_depth(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write("SpaceToDepth", call, inputs[0], emit, 28)
