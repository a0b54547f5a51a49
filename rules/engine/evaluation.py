"""The value of a call on constants, as the engine computes it: at once, or when its elements are first needed."""

from collections.abc import Sequence

from passat.ir.attrs import Attrs
from passat.ir.evaluate import EvaluateError, Value, evaluate_call
from passat.ir.folding import folded_value
from passat.ir.op import Op
from passat.ir.types import TensorType, Type
from passat.rules.engine.deferred import deferred, is_worth_deferring


def evaluate(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type, opset: int) -> Value:
    """The value of a call in a model of an opset; one that takes long is computed when its elements are first needed. Raises
    EvaluateError."""

    def value_in_any_case(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        # A deferred call has become part of the program: the kernel computes it where ONNX Runtime refuses.
        try:
            return folded_value(op, values, attrs, type_, opset)
        except EvaluateError:
            return evaluate_call(op, values, attrs, type_)

    if isinstance(type_, TensorType) and is_worth_deferring(op, values, attrs, type_):
        return deferred(value_in_any_case, op, values, attrs, type_)
    return folded_value(op, values, attrs, type_, opset)
