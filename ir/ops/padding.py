"""nn.pad: pads or crops a tensor at the ends of its axes."""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.counting import counted
from passat.ir.dtypes import FLOATS, INTEGERS, to_numpy
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, need_opset, to_onnx
from passat.ir.op import OpTypeError, define_op, get_op
from passat.ir.ops.reshaping import int64
from passat.ir.shape import Dim, Shape
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, tensor_type

MODES = ("constant", "edge", "reflect", "wrap")
PadValue = float | int | bool | str


def pad_array(data: Array, pad_width: Sequence[Sequence[int]], pad_mode: str, pad_value: PadValue | Array) -> Array:
    """Crops `data` where a width is negative, then pads where it is positive."""
    kept = data[tuple(slice(max(-before, 0), size - max(-after, 0)) for (before, after), size in zip(pad_width, data.shape, strict=True))]
    widths = [(max(before, 0), max(after, 0)) for before, after in pad_width]
    if not any(map(any, widths)):
        return kept
    if pad_mode == "constant":
        return np.pad(kept, widths, constant_values=np.asarray(pad_value).astype(data.dtype))
    return np.pad(kept, widths, mode=pad_mode)  # type: ignore[call-overload, no-any-return]  # the mode is one of MODES, checked earlier


def padded(shape: Shape, pad_width: Sequence[tuple[Dim, Dim]], pad_mode: str) -> Shape:
    """The shape of a padded tensor. Raises OpTypeError."""
    if pad_mode not in MODES:
        raise OpTypeError(f"pad_mode must be one of {', '.join(MODES)}, not {pad_mode!r}")
    if len(pad_width) != len(shape):
        raise OpTypeError(f"pad_width has {counted(len(pad_width), 'pair')} for {counted(len(shape), 'dimension')}")
    for size, pair in zip(shape, pad_width, strict=True):
        if isinstance(size, int) and sum(min(width, 0) for width in pair if isinstance(width, int)) + size < 0:
            raise OpTypeError(f"pad_width {tuple(pair)} crops more than a size of {size}")
    return tuple(size + before + after for size, (before, after) in zip(shape, pad_width, strict=True))


def _pad(data: Array, pad_width: Sequence[Sequence[int]], pad_mode: str, pad_value: PadValue) -> Array:
    return pad_array(data, pad_width, pad_mode, "" if data.dtype == np.object_ and pad_value == 0 else pad_value)


@define_op("nn.pad", exact="always", kernel=_pad, pattern=2)
def pad(data: TensorType, *, pad_width: tuple[tuple[int, int], ...], pad_mode: str = "constant", pad_value: PadValue = 0.0) -> TensorType:
    """Pads each axis before and after by the widths in `pad_width`. Negative widths crop, before any padding.

    The modes are NumPy's: `constant` pads with `pad_value` (0.0 also means the zero of other element types), `edge`, `reflect`,
    `wrap`. ONNX Pad (2, 11, 13, 18 ... 25) with constant pads and value, Relay nn.pad.
    """
    if tensor_type(data, "data").dtype in INTEGERS and int(pad_value) != pad_value:
        raise OpTypeError(f"pad_value={pad_value} is not a valid {data.dtype}")
    return data.with_shape(padded(data.shape, pad_width, pad_mode))


def plain_value(value: Tensor) -> PadValue | None:
    """Returns a single-element tensor as an attribute of nn.pad; None for types that attributes cannot represent (complex numbers)."""
    element = value.numpy().reshape(-1)[0]
    if value.dtype == "string":
        return element.decode() if isinstance(element, bytes) else str(element)
    if value.dtype in FLOATS:
        return float(element)
    if value.dtype == "bool" or value.dtype in INTEGERS:
        return int(element) or 0.0
    return None


@from_onnx("Pad")
def _read_pad(node: OnnxNode) -> Expr | None:
    data, mode = node.type(0), node.attrs.get("mode", "constant")
    if mode not in MODES or (mode == "wrap" and node.version < 19) or data.dtype.startswith("complex"):
        return None
    value: PadValue | None = "" if data.dtype == "string" else 0.0
    if node.version < 11:
        pads, axes, value = node.attrs.get("pads"), None, float(node.attrs.get("value", 0.0))
    else:
        pads, axes = node.ints(1), node.ints(3)
        fixed = node.constant(2)
        if (node.has(3) and axes is None) or (node.has(2) and node.type(2).size != 1):
            return None
        if mode == "constant" and fixed is not None:
            value = plain_value(fixed)
        if pads is None or (mode == "constant" and node.has(2) and fixed is None):
            return _read_dynamic_pad(node, mode)
    if pads is None or value is None or len(pads) % 2:
        return None
    places = range(data.ndim) if axes is None else axes
    widths = {axis % data.ndim if data.ndim else axis: pair for axis, pair in zip(places, zip_pads(pads), strict=False)}
    if len(pads) != 2 * len(places) or len(widths) != len(places) or (mode != "constant" and min(pads, default=0) < 0):
        return None
    attrs = {"pad_width": tuple(widths.get(axis, (0, 0)) for axis in range(data.ndim)), "pad_mode": mode, "pad_value": value}
    return Call(pad, [node.input(0)], pad.bind_attrs(attrs), span=node.span)


def _read_dynamic_pad(node: OnnxNode, mode: str) -> Expr | None:
    data = node.type(0)
    if node.type(1).shape != (2 * data.ndim,) or (node.has(3) and node.ints(3) != tuple(range(data.ndim))):
        return None
    value = node.input(2) if node.has(2) else Constant(Tensor.splat("" if data.dtype == "string" else 0, (), data.dtype))
    op = get_op("dyn.pad")
    return Call(op, [node.input(0), node.input(1), value], op.bind_attrs({"pad_mode": mode}), span=node.span)


def zip_pads(pads: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Converts ONNX's list of pads (all begins, then all ends) to pairs."""
    return list(zip(pads[: len(pads) // 2], pads[len(pads) // 2 :], strict=True))


@to_onnx(pad)
def _write_pad(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, attrs = tensor_type(call.args[0].checked_type), call.attrs
    if not data.ndim:
        return emit.node("Identity", inputs)  # ONNX Runtime pads no scalars
    pads = [before for before, _ in attrs.pad_width] + [after for _, after in attrs.pad_width]
    mode = {} if attrs.pad_mode == "constant" else {"mode": attrs.pad_mode}
    if attrs.pad_mode == "wrap":
        need_opset(emit, 19, pad)
    value = attrs.pad_value
    zero = value == 0 and math.copysign(1.0, value) > 0 if not isinstance(value, str) else not value
    if emit.opset < 11:
        if data.dtype not in FLOATS or (not math.isnan(value) and float(np.float32(value)) != value):
            raise OnnxVersionError(f"nn.pad of {data!r} with the value {value} needs ONNX opset 11 or later")
        return emit.node("Pad", inputs, {**mode, "pads": tuple(pads), **({} if zero else {"value": float(value)})})
    padding = [inputs[0], int64(emit, pads)]
    if attrs.pad_mode == "constant" and not zero:
        padding.append(emit.constant(Tensor.dense(np.asarray(value).astype(to_numpy(data.dtype)))))
    return emit.node("Pad", padding, mode)
