"""Contrib operators of ONNX Runtime: domain com.microsoft, version 1.

Passat introduces them only for targets that have the domain (`rules.domains`); models that contain them keep them.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from passat.ir.cost import transcendental
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.activation import gelu_of
from passat.ir.ops.elementwise import FLOATING, in_float32, same_type
from passat.ir.ops.emitting import shortest
from passat.ir.ops.linear import matrix_product, product_cost, stacked_product
from passat.ir.ops.unary import logistic
from passat.ir.shape import may_equal
from passat.ir.tensor import Array
from passat.ir.types import TensorType

DOMAIN: Final = "com.microsoft"


def _check_factor(alpha: float) -> None:
    if type(alpha) not in (int, float) or not math.isfinite(alpha):
        raise OpTypeError(f"alpha must be finite, not {alpha!r}")


def _only(node: OnnxNode, **kinds: type) -> bool:
    """Whether a node has only these attributes, each of the expected type. The onnx package has no schemas for this domain."""
    return all(type(value) is kinds.get(name) for name, value in node.attrs.items())


def _scaled_product(a: Array, b: Array, *, alpha: float, transpose_a: bool, transpose_b: bool) -> Array:
    product = matrix_product(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    return np.asarray(product * product.dtype.type(alpha))


@define_op("contrib.fused_matmul", kernel=in_float32(_scaled_product), cost=product_cost, pattern=4)
def fused_matmul(a: TensorType, b: TensorType, *, alpha: float = 1.0, transpose_a: bool = False, transpose_b: bool = False) -> TensorType:
    """`alpha` times the batched matrix product, with optional transposition of the last two dimensions of each operand.

    Operands have rank 2 or more. ONNX Runtime: com.microsoft FusedMatMul (1), without transBatchA and transBatchB.
    """
    if a.ndim < 2 or b.ndim < 2 or a.dtype not in FLOATING:
        raise OpTypeError(f"operands must be floating-point matrices or batches of them, not {a!r} and {b!r}")
    _check_factor(alpha)
    return stacked_product(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@from_onnx("FusedMatMul", domain=DOMAIN)
def _read_product(node: OnnxNode) -> Expr | None:
    attrs = node.attrs
    if not _only(node, alpha=float, transA=int, transB=int, transBatchA=int, transBatchB=int) or len(node.inputs) != 2:
        return None
    if attrs.get("transBatchA") or attrs.get("transBatchB") or min(node.type(0).ndim, node.type(1).ndim) < 2:
        return None
    return fused_matmul(
        node.input(0),
        node.input(1),
        alpha=shortest(attrs.get("alpha", 1.0)),
        transpose_a=bool(attrs.get("transA")),
        transpose_b=bool(attrs.get("transB")),
        span=node.span,
    )


@to_onnx(fused_matmul)
def _write_product(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    attrs = call.attrs
    given = {"alpha": attrs.alpha, "transA": int(attrs.transpose_a), "transB": int(attrs.transpose_b)}
    return emit.node("FusedMatMul", inputs, given, domain=DOMAIN)


def _biased(x: TensorType, bias: TensorType) -> TensorType:
    """The type of the sum of a tensor and a vector along its last axis."""
    if bias.ndim != 1 or bias.dtype != x.dtype or not x.ndim or not may_equal(bias.shape[0], x.shape[-1]):
        raise OpTypeError(f"the bias of {x!r} must be a vector as long as its last axis, not {bias!r}")
    return same_type(x, FLOATING)


@define_op("contrib.bias_gelu", kernel=in_float32(lambda x, bias: gelu_of(x + bias, "none")), cost=transcendental, pattern=1)
def bias_gelu(x: TensorType, bias: TensorType) -> TensorType:
    """Gelu by the error function, of `x` plus a vector along its last axis. ONNX Runtime: com.microsoft BiasGelu (1)."""
    return _biased(x, bias)


@define_op("contrib.fast_gelu", kernel=in_float32(lambda x, bias: gelu_of(x + bias, "tanh")), cost=transcendental, pattern=1)
def fast_gelu(x: TensorType, bias: TensorType) -> TensorType:
    """Gelu by the tanh approximation, of `x` plus a vector along its last axis. ONNX Runtime: com.microsoft FastGelu (1)."""
    return _biased(x, bias)


def _biased_gelu(op: Op, op_type: str) -> None:
    def read(node: OnnxNode) -> Expr | None:
        fits = not node.attrs and len(node.inputs) == 2 and node.has(1) and node.type(0).dtype in FLOATING
        return op(node.input(0), node.input(1), span=node.span) if fits else None

    from_onnx(op_type, domain=DOMAIN)(read)

    def write(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
        return emit.node(op_type, inputs, domain=DOMAIN)

    to_onnx(op)(write)


_biased_gelu(bias_gelu, "BiasGelu")
_biased_gelu(fast_gelu, "FastGelu")


def _quick(x: Array, alpha: float) -> Array:
    found: Array = x * logistic(x.dtype.type(np.float32(alpha)) * x)
    return found


@define_op("contrib.quick_gelu", kernel=in_float32(_quick), cost=transcendental, elementwise=True)
def quick_gelu(x: TensorType, *, alpha: float = 1.702) -> TensorType:
    """x * sigmoid(alpha * x). ONNX Runtime: com.microsoft QuickGelu (1)."""
    _check_factor(alpha)
    return same_type(x, FLOATING)


@from_onnx("QuickGelu", domain=DOMAIN)
def _read_quick_gelu(node: OnnxNode) -> Expr | None:
    if not _only(node, alpha=float) or len(node.inputs) != 1 or node.type(0).dtype not in FLOATING:
        return None
    return quick_gelu(node.input(0), alpha=shortest(node.attrs.get("alpha", 1.702)), span=node.span)


@to_onnx(quick_gelu)
def _write_quick_gelu(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return emit.node("QuickGelu", inputs, {"alpha": call.attrs.alpha}, domain=DOMAIN)
