"""Normalization by a norm: along an axis, or over neighboring channels (local response normalization)."""

from collections.abc import Sequence

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, elements, nbytes
from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.accumulate import Array, narrow, wide
from passat.ir.ops.emitting import cast, float_attr, only, reduced, scalar, transpose
from passat.ir.types import TensorType, Type, tensor_type


def _cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    """Per element a square, an addition, and a quotient."""
    return Cost(4.0 * elements(result), nbytes(args[0]) + nbytes(result))


def _check_floats(data: TensorType) -> None:
    if data.dtype not in FLOATS:
        raise OpTypeError(f"data must have a floating-point type, but has {data.dtype}")


def _l2_normalize(data: Array, *, eps: float, axis: int | tuple[int, ...] | None) -> Array:
    x = wide(data)
    square = (x * x).sum(axis, keepdims=True)
    return narrow(x / np.sqrt(np.maximum(square, float(np.float32(eps)))), data.dtype)


@define_op("nn.l2_normalize", kernel=_l2_normalize, cost=_cost, pattern=4)
def l2_normalize(data: TensorType, *, eps: float, axis: int | tuple[int, ...] | None = None) -> TensorType:
    """data / sqrt(max(sum of squares over the axes, eps)); over all axes by default. Relay nn.l2_normalize.

    Written as a decomposition. LpNormalization is `nn.lp_normalize`, which has no eps and returns 0 for a norm of 0.
    """
    _check_floats(data)
    if axis == ():
        raise OpTypeError("axis must not be empty")
    places = [data.axis(place) for place in ((axis,) if isinstance(axis, int) else axis or ())]
    if len(set(places)) != len(places):
        raise OpTypeError(f"axis={axis} names an axis twice")
    return data


@to_onnx(l2_normalize)
def _write_l2(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, attrs = tensor_type(call.args[0].checked_type), call.attrs
    named = (attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis
    axes = range(data.ndim) if named is None else sorted(place % data.ndim for place in named)
    inner = data.dtype if data.dtype == "float64" else "float32"
    x, eps = cast(emit, inputs[0], data.dtype, inner), float(np.float32(attrs.eps))
    square = reduced(emit, "ReduceSumSquare", x, axes) if data.ndim else emit.node("Mul", [x, x])
    if emit.opset < 8:  # Max does not broadcast before opset 8
        bounded = emit.node("Clip", [square], {"min": eps, "max": float("inf")})
    else:
        bounded = emit.node("Max", [square, scalar(emit, eps, inner)])
    return cast(emit, emit.node("Div", [x, emit.node("Sqrt", [bounded])]), inner, data.dtype)


def _lp_normalize(data: Array, *, axis: int, p: int) -> Array:
    x = wide(data)
    norm = np.abs(x).sum(axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis, keepdims=True))
    return narrow(np.divide(x, norm, out=np.zeros_like(x), where=norm != 0), data.dtype)


@define_op("nn.lp_normalize", kernel=_lp_normalize, cost=_cost, pattern=4)
def lp_normalize(data: TensorType, *, axis: int = -1, p: int = 2) -> TensorType:
    """Divides data by its 1-norm or 2-norm along an axis; 0 where the norm is 0. ONNX: LpNormalization (1, 22)."""
    _check_floats(data)
    data.axis(axis)
    if p not in (1, 2):
        raise OpTypeError(f"p must be 1 or 2, not {p}")
    return data


@from_onnx("LpNormalization")
def _read_lp(node: OnnxNode) -> Expr | None:
    if not only(node, "axis", "p"):
        return None
    return lp_normalize(node.input(0), axis=node.attrs.get("axis", -1), p=node.attrs.get("p", 2), span=node.span)


@to_onnx(lp_normalize)
def _write_lp(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("LpNormalization", inputs, {"axis": call.attrs.axis, "p": call.attrs.p})


def _lrn(data: Array, *, size: int, axis: int, bias: float, alpha: float, beta: float) -> Array:
    x = np.moveaxis(wide(data), axis, -1)
    around = [(0, 0)] * (x.ndim - 1) + [((size - 1) // 2, size // 2)]
    total = np.lib.stride_tricks.sliding_window_view(np.pad(x * x, around), size, -1).sum(-1) if x.size else x
    bias, alpha, beta = (float(np.float32(value)) for value in (bias, alpha, beta))
    return narrow(np.moveaxis(x / (bias + alpha / size * total) ** beta, -1, axis), data.dtype)


@define_op("nn.lrn", kernel=_lrn, cost=_cost, pattern=8)
def lrn(data: TensorType, *, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 1e-5, beta: float = 0.75) -> TensorType:
    """Local response normalization: data / (bias + alpha / size * sum of squares of `size` neighbors along `axis`) ** beta.

    For an even size, the window has one more element after the center than before it. ONNX: LRN (1, 13).
    """
    _check_floats(data)
    if data.ndim < 2 or size < 1:
        raise OpTypeError(f"data must have two dimensions or more and size must be at least 1, but they are {data.ndim} and {size}")
    data.axis(axis)
    return data


@from_onnx("LRN")
def _read_lrn(node: OnnxNode) -> Expr | None:
    if node.type(0).ndim < 2 or not only(node, "alpha", "beta", "bias", "size"):
        return None
    bias, alpha, beta = float_attr(node, "bias", 1.0), float_attr(node, "alpha", 1e-4), float_attr(node, "beta", 0.75)
    return lrn(node.input(0), size=node.attrs["size"], bias=bias, alpha=alpha, beta=beta, span=node.span)


@to_onnx(lrn)
def _write_lrn(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs, rank = call.attrs, tensor_type(call.args[0].checked_type).ndim
    swap = list(range(rank))
    swap[attrs.axis], swap[1] = swap[1], swap[attrs.axis]
    given = {"alpha": attrs.alpha, "beta": attrs.beta, "bias": float(attrs.bias), "size": attrs.size}
    return transpose(emit, emit.node("LRN", [transpose(emit, inputs[0], swap)], given), swap)
