"""Imports opaque calls again, after their operands have become known by folding."""

from collections.abc import Sequence
from typing import Final

import numpy as np

import passat.ir.ops  # noqa: F401  # importing registers the readers
from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.infer import InferError, infer_type
from passat.ir.known import known_value
from passat.ir.onnx.attributes import has_invalid_text, signature_of
from passat.ir.onnx.opaque import RESERVED, OpaqueOp, own_attributes
from passat.ir.onnx_mapping import READERS, OnnxNode
from passat.ir.op import OpTypeError
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, TupleType, compatible

_PLAIN: Final = frozenset({"opset", "outputs", "types"})
"""The bookkeeping attributes of opaque calls with one output whose attributes can all be converted."""


def read_again(call: Call) -> Expr | None:
    """Returns the expression of Passat's own operators for an opaque call with one result; None if there is none.

    Operands with fully known elements count as constants. The call must have a type.
    """
    op, attrs = call.op, call.attrs
    if not isinstance(op, OpaqueOp) or op.domain or attrs["outputs"] != "1" or not RESERVED.intersection(attrs) <= _PLAIN:
        return None
    reader = READERS.get(op.op_type)
    signature = signature_of(op.op_type, attrs["opset"])
    if reader is None or signature is None or not signature.least_inputs <= len(call.args) <= signature.most_inputs:
        return None
    own = own_attributes(attrs)
    if has_invalid_text(own):
        return None
    operands = [_operand(arg) for arg in call.args]
    if any(value is not None and not isinstance(value.checked_type, TensorType) for value in operands):
        return None
    try:
        found = reader(OnnxNode(op.op_type, attrs["opset"], operands, own, 1, call.span))
        made = found[0] if isinstance(found, Sequence) and len(found) == 1 else found
        if not isinstance(made, Expr):
            return None
        if isinstance(infer_type(made).checked_type, TupleType):
            made = infer_type(TupleGetItem(made, 0, call.span))
    except (OpTypeError, InferError):  # Passat's operator is stricter than ONNX's
        return None
    return made if compatible(call.checked_type, made.checked_type) else None


def _operand(arg: Expr) -> Expr | None:
    """An operand as readers get it: None if absent, a constant if fully known."""
    if isinstance(arg, Tuple) and not arg.fields:
        return None
    value = None if isinstance(arg, Constant) else known_value(arg)
    if isinstance(value, np.ndarray) and all(isinstance(element, int) for element in value.reshape(-1).tolist()):
        type_ = arg.checked_type
        assert isinstance(type_, TensorType)
        return infer_type(Constant(Tensor.dense(value.astype(np.int64), type_.dtype), arg.span))
    return arg
