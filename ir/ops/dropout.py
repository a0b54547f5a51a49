"""Dropout, an identity in inference that is kept until a pass removes it."""

from collections.abc import Sequence

import numpy as np

from passat.ir.dtypes import FLOATS
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, from_onnx, to_onnx
from passat.ir.op import OpTypeError, define_op
from passat.ir.ops.accumulate import Array
from passat.ir.ops.emitting import float_attr, only, shortest
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType


def _dropout(data: Array, *, rate: float) -> tuple[Array, Array]:
    return data, np.ones(data.shape, data.dtype)


@define_op("nn.dropout", kernel=_dropout, stateful=True, results=2)
def dropout(data: TensorType, *, rate: float = 0.5) -> TupleType:
    """The data unchanged, and a mask of ones. `rate` is the fraction that training drops.

    Stateful, as in Relay: only a dedicated pass (Relay's SimplifyInference) removes it. ONNX: Dropout (7, 10, 12, 13, 22) in inference
    mode, as field 0. The mask has no ONNX form, because runtimes disagree on it.
    """
    if data.dtype not in FLOATS:
        raise OpTypeError(f"data must have a floating-point type, but has {data.dtype}")
    if not 0 <= rate <= 1:
        raise OpTypeError(f"rate must be between 0 and 1, but is {rate}")
    return TupleType((data, data))


@from_onnx("Dropout")
def _read(node: OnnxNode) -> list[Expr] | None:
    if node.n_outputs != 1:
        return None
    if node.version < 12:
        return [dropout(node.input(0), rate=float_attr(node, "ratio", 0.5), span=node.span)[0]] if only(node, "ratio") else None
    ratio, training = node.constant(1), node.constant(2)
    if (node.has(1) and ratio is None) or (node.has(2) and (training is None or training.numpy().any())) or not only(node, "seed"):
        return None
    rate = 0.5 if ratio is None else shortest(float(ratio.numpy().reshape(-1)[0]))
    return [dropout(node.input(0), rate=rate, span=node.span)[0]]


@to_onnx(dropout)
def _write(call: Call, inputs: Sequence[str], emit: Emitter) -> list[str]:
    rate = call.attrs.rate
    if emit.opset < 12:
        return [emit.node("Dropout", inputs, {"ratio": rate}), ""]
    ratio = [] if rate == 0.5 else [emit.constant(Tensor.splat(rate, (), "float32"))]
    return [emit.node("Dropout", [inputs[0], *ratio]), ""]
