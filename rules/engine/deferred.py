"""The value of a call on constants, as the engine computes it: at once, or, where that takes long, when its elements are first needed."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.cost import elements
from passat.ir.evaluate import EvaluateError, Value, evaluate_call, tensors_in
from passat.ir.folding import folded_value
from passat.ir.op import Op
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, TupleType, Type

Evaluate = Callable[[Op, Sequence[Value], Attrs, Type], Value]

_FEWEST_FLOPS: Final = 1 << 20
"""A call of fewer operations takes less than a millisecond, and is computed at once."""
_FLOPS_PER_ELEMENT: Final = 32
"""Products and convolutions alone take as many operations for each element of their result; their kernels take every operand
of the right type, so that nothing fails later."""

_serial = itertools.count()


def is_worth_deferring(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> bool:
    """Whether a call on constants takes long enough that it is computed only where its elements are needed."""
    if not isinstance(type_, TensorType) or not type_.is_static:
        return False
    operands = [_type_of(value) for value in values]
    flops = op.cost(operands, type_, attrs).flops
    return flops >= _FEWEST_FLOPS and flops >= _FLOPS_PER_ELEMENT * elements(type_)


def deferred(evaluate: Evaluate, op: Op, values: Sequence[Value], attrs: Attrs, type_: TensorType) -> Tensor:
    """The constant that a call on constants is, not computed yet. The result must have a static shape."""
    shape = tuple(dim for dim in type_.shape if isinstance(dim, int))
    return Tensor.lazy(type_.dtype, shape, _DeferredCall(evaluate, op, values, attrs, type_), key=("deferred", next(_serial)))


class _DeferredCall:
    """Computes a call when its elements are needed. Deferred operands are computed before it, without recursion: chains may be long."""

    __slots__ = ("_largest", "attrs", "evaluate", "op", "type_", "values")

    def __init__(self, evaluate: Evaluate, op: Op, values: Sequence[Value], attrs: Attrs, type_: TensorType) -> None:
        self.evaluate = evaluate
        self.op = op
        self.values = values
        self.attrs = attrs
        self.type_ = type_
        self._largest: float | None = None

    def __call__(self) -> Array:
        """The elements. Raises EvaluateError."""
        stack = self._waiting()
        while stack:
            loader = stack[-1].loader
            waiting = loader._waiting() if isinstance(loader, _DeferredCall) else []
            if waiting:
                stack += waiting
            else:
                stack.pop().numpy()
        value = self.evaluate(self.op, self.values, self.attrs, self.type_)
        assert isinstance(value, Tensor)
        return value.numpy()

    def largest(self) -> float:
        """As many times the product of the largest operands as a sum of products has terms."""
        stack: list[_DeferredCall] = [self]
        while stack:
            call = stack[-1]
            below = [tensor.loader for tensor in call._waiting()]
            unknown = [loader for loader in below if isinstance(loader, _DeferredCall) and loader._largest is None]
            if unknown:
                stack += unknown
                continue
            operands = tensors_in(call.values)
            flops = call.op.cost([_type_of(value) for value in call.values], call.type_, call.attrs).flops
            call._largest = flops / elements(call.type_) * math.prod(operand.largest() for operand in operands)
            stack.pop()
        assert self._largest is not None
        return self._largest

    def _waiting(self) -> list[Tensor]:
        """The operands that are deferred and not computed yet."""
        return [tensor for tensor in tensors_in(self.values) if isinstance(tensor.loader, _DeferredCall)]


def _type_of(value: Value) -> Type:
    return TupleType(list(map(_type_of, value))) if isinstance(value, tuple) else TensorType(value.shape, value.dtype)


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
