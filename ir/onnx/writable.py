"""Checks whether calls can be written in an opset."""

from collections.abc import Sequence

from passat.ir.attrs import Attrs
from passat.ir.expr import Call, Var
from passat.ir.onnx.emitter import NodeEmitter, unusual_dtypes
from passat.ir.onnx.inference import newest_version
from passat.ir.onnx_mapping import OnnxVersionError
from passat.ir.op import Op
from passat.ir.types import TupleType, Type


def missing_from(opset: int, op: Op, types: Sequence[Type], result: Type, attrs: Attrs) -> str:
    """Describes why a call of `op` cannot be written in an ONNX model of an opset; empty if it can.

    Operators without an ONNX form count as writable: no opset has them, and they are lowered elsewhere. A call along an axis that an opset
    has only along another one, such as a softmax before opset 13, counts as missing: it is written between two transposes, which cost as
    much as any that it saves.

    >>> from passat.ir.attrs import Attrs
    >>> from passat.ir.op import get_op
    >>> from passat.ir.types import TensorType
    >>> t = TensorType((2,), "float32")
    >>> [missing_from(opset, get_op("where"), [TensorType((2,), "bool"), t, t], t, Attrs()) for opset in (8, 9)]
    ['where needs ONNX opset 9 or later', '']
    """
    if op.to_onnx is None:
        return ""
    call = Call(op, [Var(f"x{i}", type_) for i, type_ in enumerate(types)], attrs)
    for var, type_ in zip(call.args, types, strict=True):
        var._checked_type = type_
    call._checked_type = result
    named = [
        [f"x{i}.{j}" for j in range(len(type_.fields))] if isinstance(type_, TupleType) else [f"x{i}"] for i, type_ in enumerate(types)
    ]
    operands = [name for names in named for name in names]
    emitter = NodeEmitter(opset, lambda tensor: "constant", set())
    try:
        op.to_onnx(call, operands, emitter)
    except OnnxVersionError as error:
        return str(error).partition(";")[0]  # omits the opset, which the caller knows
    if "axis" in attrs and emitter.is_transposed:
        newest = NodeEmitter(newest_version(""), emitter.constant, set())
        op.to_onnx(call, operands, newest)
        if not newest.is_transposed:
            return f"{op.name} along axis {attrs['axis']} is written between transposes there"
    return emitter.mistyped(unusual_dtypes(types, named))
