"""Elementwise activation functions. Parameters are 32-bit floats, as in ONNX: 0.1 is the nearest float32.

For opsets that lack an operator, the writers decompose it into older ones.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.cost import transcendental
from passat.ir.expr import Call, Constant, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, need_opset, to_onnx
from passat.ir.op import Kernel, Op, OpTypeError, define_op
from passat.ir.ops.arithmetic import multiply
from passat.ir.ops.elementwise import FLOATING, SIGNED_NUMBERS, WIDE, broadcast_type, constant_like, in_float32, same_type
from passat.ir.ops.emitting import float_attr, shortest
from passat.ir.ops.erf import erf
from passat.ir.ops.unary import logistic, sigmoid
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, tensor_type


def _parameters(kernel: Callable[..., AnyValue]) -> Kernel:
    """Wraps a kernel to compute 16-bit operands in float32. Numeric parameters are rounded to float32 and then to the operand type."""

    def rounded(x: Array, **attrs: AnyValue) -> AnyValue:
        return kernel(x, **{name: x.dtype.type(np.float32(value)) for name, value in attrs.items()})

    return in_float32(rounded)


def _attributes(op: Op, op_type: str) -> None:
    """Registers the reader of an ONNX operator with the same attributes, all 32-bit floats."""

    def read(node: OnnxNode) -> Expr | None:
        if node.type(0).dtype not in FLOATING or any(name not in op.attr_params for name in node.attrs):
            return None
        return op(node.input(0), span=node.span, **{name: shortest(value) for name, value in node.attrs.items()})

    from_onnx(op_type)(read)


def _plain(op: Op, op_type: str, since: int = 1) -> None:
    """Registers the reader and the writer of an operator that differs from ONNX's only in the precision of its attributes."""
    _attributes(op, op_type)

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        need_opset(emit, since, op)
        return emit.node(op_type, inputs, dict(call.attrs))

    to_onnx(op)(write)


def _times(call: Call, factor: float, name: str, emit: Emitter) -> str:
    return name if factor == 1 else emit.node("Mul", [name, constant_like(call, float(np.float32(factor)), emit)])


@define_op(
    "nn.relu",
    exact="integers",
    kernel=lambda x: np.where(x < 0, x.dtype.type(0), x),
    onnx="Relu",
    elementwise=True,
    idempotent=True,
    monotonic=True,
)
def relu(x: TensorType) -> TensorType:
    """max(x, 0). Propagates NaN and keeps -0.0. ONNX Relu-14."""
    return same_type(x, SIGNED_NUMBERS)


@define_op("nn.leaky_relu", kernel=_parameters(lambda x, alpha: np.where(x >= 0, x, alpha * x)), elementwise=True)
def leaky_relu(x: TensorType, *, alpha: float = 0.01) -> TensorType:
    """`x` where non-negative, otherwise `alpha * x`. ONNX LeakyRelu-16."""
    return same_type(x, FLOATING)


_plain(leaky_relu, "LeakyRelu")


@define_op("nn.prelu", kernel=in_float32(lambda x, alpha: np.where(x < 0, alpha * x, x)), elementwise=True, unit=1)
def prelu(x: TensorType, alpha: TensorType) -> TensorType:
    """`x` where non-negative, otherwise `alpha * x`; `alpha` broadcasts to the shape of `x`. ONNX PRelu-16."""
    result = broadcast_type((x, alpha), WIDE)
    if result.ndim != x.ndim or any(dim == 1 != wide for dim, wide in zip(x.shape, result.shape, strict=True)):
        raise OpTypeError(f"alpha of shape {alpha.shape} does not broadcast to {x.shape}")
    return result


@from_onnx("PRelu")
def _read_prelu(node: OnnxNode) -> Expr | None:
    return None if node.attrs else prelu(node.input(0), node.input(1), span=node.span)


@to_onnx(prelu)
def _write_prelu(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("PRelu", inputs)


@define_op("nn.elu", kernel=_parameters(lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x))), cost=transcendental, elementwise=True)
def elu(x: TensorType, *, alpha: float = 1.0) -> TensorType:
    """`x` where non-negative, otherwise `alpha * (exp(x) - 1)`. ONNX Elu-22."""
    return same_type(x, FLOATING)


_plain(elu, "Elu")


@define_op(
    "nn.selu",
    kernel=_parameters(lambda x, alpha, gamma: gamma * np.where(x > 0, x, alpha * np.expm1(x))),
    cost=transcendental,
    elementwise=True,
)
def selu(x: TensorType, *, alpha: float = 1.6732632, gamma: float = 1.050701) -> TensorType:
    """`gamma * x` where non-negative, otherwise `gamma * alpha * (exp(x) - 1)`. ONNX Selu-22."""
    return same_type(x, FLOATING)


_plain(selu, "Selu")


@define_op(
    "nn.celu",
    kernel=_parameters(lambda x, alpha: np.maximum(x, 0) + np.minimum(alpha * np.expm1(x / alpha), 0)),
    cost=transcendental,
    elementwise=True,
)
def celu(x: TensorType, *, alpha: float = 1.0) -> TensorType:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1)). ONNX Celu-28."""
    return same_type(x, FLOATING)


_attributes(celu, "Celu")


@to_onnx(celu)
def _write_celu(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    need_opset(emit, 12 if tensor_type(call.args[0].checked_type).dtype == "float32" else 28, celu)
    return emit.node("Celu", inputs, dict(call.attrs))


@define_op(
    "nn.softplus",
    kernel=in_float32(lambda x: np.logaddexp(x, 0)),
    cost=transcendental,
    onnx="Softplus",
    elementwise=True,
    non_negative=True,
    monotonic=True,
)
def softplus(x: TensorType) -> TensorType:
    """log(1 + exp(x)). ONNX Softplus-22."""
    return same_type(x, FLOATING)


@define_op("nn.softsign", kernel=in_float32(lambda x: x / (1 + np.abs(x))), onnx="Softsign", elementwise=True)
def softsign(x: TensorType) -> TensorType:
    """x / (1 + |x|); NaN for infinities. ONNX Softsign-22."""
    return same_type(x, FLOATING)


@define_op("nn.hard_sigmoid", kernel=_parameters(lambda x, alpha, beta: np.clip(alpha * x + beta, 0, 1)), elementwise=True)
def hard_sigmoid(x: TensorType, *, alpha: float = 0.2, beta: float = 0.5) -> TensorType:
    """max(0, min(1, alpha * x + beta)). ONNX HardSigmoid-22."""
    return same_type(x, FLOATING)


_plain(hard_sigmoid, "HardSigmoid")


@define_op("nn.hard_swish", kernel=in_float32(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)), elementwise=True)
def hard_swish(x: TensorType) -> TensorType:
    """x * max(0, min(1, x / 6 + 0.5)). ONNX HardSwish-22."""
    return same_type(x, FLOATING)


_attributes(hard_swish, "HardSwish")


@to_onnx(hard_swish)
def _write_hard_swish(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    if emit.opset >= 14:
        return emit.node("HardSwish", inputs)
    return emit.node("Mul", [inputs[0], emit.node("HardSigmoid", inputs, {"alpha": 1 / 6, "beta": 0.5})])


@define_op("nn.mish", kernel=in_float32(lambda x: x * np.tanh(np.logaddexp(x, 0))), cost=transcendental, elementwise=True)
def mish(x: TensorType) -> TensorType:
    """x * tanh(softplus(x)). ONNX Mish-22."""
    return same_type(x, FLOATING)


_attributes(mish, "Mish")


@to_onnx(mish)
def _write_mish(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    if emit.opset >= 18:
        return emit.node("Mish", inputs)
    return emit.node("Mul", [inputs[0], emit.node("Tanh", [emit.node("Softplus", inputs)])])


@define_op("nn.swish", kernel=_parameters(lambda x, alpha: x * logistic(alpha * x)), cost=transcendental, elementwise=True)
def swish(x: TensorType, *, alpha: float = 1.0) -> TensorType:
    """x * sigmoid(alpha * x); SiLU for alpha = 1. ONNX Swish-24. Written as a product, since ONNX Runtime has no kernel for Swish."""
    return same_type(x, FLOATING)


@from_onnx("Swish")
def _read_swish(node: OnnxNode) -> Expr | None:
    """Reads the product that ONNX Runtime expands the node to. As one call, the input would be cheaper than any result with a swish."""
    if node.type(0).dtype not in FLOATING:
        return None
    x, alpha = node.input(0), float_attr(node, "alpha", 1.0)
    scaled = x if alpha == 1 else multiply(Constant(Tensor.splat(alpha, (), node.type(0).dtype)), x, span=node.span)
    return multiply(x, sigmoid(scaled, span=node.span), span=node.span)


@to_onnx(swish)
def _write_swish(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("Mul", [inputs[0], emit.node("Sigmoid", [_times(call, call.attrs.alpha, inputs[0], emit)])])


def gelu_of(x: Array, approximate: str) -> Array:
    """x times the normal cumulative distribution function of x, or its `tanh` approximation."""
    one = x.dtype.type(1)
    if approximate == "tanh":
        inner = np.tanh(x.dtype.type(math.sqrt(2 / math.pi)) * (x + x.dtype.type(0.044715) * x * x * x))
    else:
        inner = erf(x / x.dtype.type(math.sqrt(2)))
    return np.asarray(x * ((one + inner) / 2))


@define_op("nn.gelu", kernel=in_float32(gelu_of), cost=transcendental, elementwise=True)
def gelu(x: TensorType, *, approximate: str = "none") -> TensorType:
    """x times the normal cumulative distribution function of x, by the error function or the `tanh` approximation. ONNX Gelu-20."""
    if approximate not in ("none", "tanh"):
        raise OpTypeError(f"approximate must be 'none' or 'tanh', not {approximate!r}")
    return same_type(x, FLOATING)


@from_onnx("Gelu")
def _read_gelu(node: OnnxNode) -> Expr | None:
    approximate = node.attrs.get("approximate", "none")
    if approximate not in ("none", "tanh") or node.type(0).dtype not in FLOATING:
        return None
    return gelu(node.input(0), approximate=approximate, span=node.span)


@to_onnx(gelu)
def _write_gelu(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    if emit.opset >= 20:
        return emit.node("Gelu", inputs, dict(call.attrs))
    x = inputs[0]

    def constant(value: float) -> str:
        return constant_like(call, value, emit)

    if call.attrs.approximate == "tanh":
        cube = emit.node("Pow", [x, constant(3)])
        sum_ = emit.node("Add", [x, emit.node("Mul", [cube, constant(0.044715)])])
        inner = emit.node("Tanh", [emit.node("Mul", [sum_, constant(math.sqrt(2 / math.pi))])])
        # ONNX Runtime fuses this order of factors; for the error function it fuses a different one.
        return emit.node("Mul", [emit.node("Mul", [x, constant(0.5)]), emit.node("Add", [inner, constant(1)])])
    need_opset(emit, 9, gelu)
    inner = emit.node("Erf", [emit.node("Div", [x, constant(math.sqrt(2))])])
    return emit.node("Mul", [emit.node("Mul", [x, emit.node("Add", [inner, constant(1)])]), constant(0.5)])


@define_op(
    "nn.thresholded_relu", kernel=_parameters(lambda x, alpha: np.where(x > alpha, x, x.dtype.type(0))), elementwise=True, idempotent=True
)
def thresholded_relu(x: TensorType, *, alpha: float = 1.0) -> TensorType:
    """`x` where greater than `alpha`, otherwise 0. ONNX ThresholdedRelu-22."""
    return same_type(x, FLOATING)


_plain(thresholded_relu, "ThresholdedRelu", 10)


@define_op(
    "nn.shrink",
    kernel=_parameters(lambda x, lambd, bias: np.where(x < -lambd, x + bias, np.where(x > lambd, x - bias, x.dtype.type(0)))),
    elementwise=True,
)
def shrink(x: TensorType, *, lambd: float = 0.5, bias: float = 0.0) -> TensorType:
    """x + bias below -lambd, x - bias above lambd, 0 in between; floating-point only. ONNX Shrink-9."""
    return same_type(x, FLOATING - {"bfloat16"})


_plain(shrink, "Shrink", 9)
