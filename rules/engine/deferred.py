"""Values of calls on constants: computed immediately, or lazily if expensive."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.cost import elements
from passat.ir.dtypes import FLOATS, itemsize
from passat.ir.evaluate import EvaluateError, Value, evaluate_call, tensors_in, type_of_value
from passat.ir.folding import folded_value, remember_origin
from passat.ir.op import Op, get_op
from passat.ir.tensor import Array, Tensor
from passat.ir.types import TensorType, Type

Evaluate = Callable[[Op, Sequence[Value], Attrs, Type], Value]

_FEWEST_FLOPS: Final = 1 << 20
"""A call with fewer operations takes less than a millisecond and is computed immediately."""
_FLOPS_PER_ELEMENT: Final = 32
"""Only products and convolutions take this many operations per element of their result."""
_MULTIPLY: Final = get_op("multiply")
_LARGE: Final = 1 << 20
"""Minimum size in bytes of a scaled weight that is computed lazily: the result needs none of the 793 MB of GPT-2 with 12 layers."""

_serial = itertools.count()


def is_worth_deferring(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> bool:
    """True if a call on constants is expensive enough to compute it lazily: a product, a convolution, or a scaled weight. Their kernels
    accept every well-typed operand, so deferred evaluation cannot fail."""
    if not isinstance(type_, TensorType) or not type_.is_static:
        return False
    if op is _MULTIPLY and type_.dtype in FLOATS and elements(type_) * itemsize(type_.dtype) >= _LARGE:
        return not all(tensor.is_splat for tensor in tensors_in(values))
    operands = list(map(type_of_value, values))
    flops = op.cost(operands, type_, attrs).flops
    return flops >= _FEWEST_FLOPS and flops >= _FLOPS_PER_ELEMENT * elements(type_)


def deferred(evaluate: Evaluate, op: Op, values: Sequence[Value], attrs: Attrs, type_: TensorType) -> Tensor:
    """The lazy constant for a call on constants. The result must have a static shape."""
    shape = tuple(dim for dim in type_.shape if isinstance(dim, int))
    made = Tensor.lazy(type_.dtype, shape, _DeferredCall(evaluate, op, values, attrs, type_), key=("deferred", next(_serial)))
    remember_origin(made, op, values, attrs, type_)
    return made


@dataclass(slots=True, eq=False)
class _DeferredCall:
    """Computes a call on demand. Computes deferred operands first, without recursion, since chains may be long."""

    evaluate: Evaluate
    op: Op
    values: Sequence[Value]
    attrs: Attrs
    type_: TensorType
    _largest: float | None = None

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
        """An upper bound: the product of the operands' largest elements, times the number of terms of a sum of products."""
        stack: list[_DeferredCall] = [self]
        while stack:
            call = stack[-1]
            below = [tensor.loader for tensor in call._waiting()]
            unknown = [loader for loader in below if isinstance(loader, _DeferredCall) and loader._largest is None]
            if unknown:
                stack += unknown
                continue
            operands = tensors_in(call.values)
            flops = call.op.cost(list(map(type_of_value, call.values)), call.type_, call.attrs).flops
            call._largest = flops / elements(call.type_) * math.prod(operand.largest() for operand in operands)
            stack.pop()
        assert self._largest is not None
        return self._largest

    def _waiting(self) -> list[Tensor]:
        """The deferred operands that are not yet computed."""
        return [tensor for tensor in tensors_in(self.values) if isinstance(tensor.loader, _DeferredCall)]


def evaluate(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type, opset: int) -> Value:
    """The value of a call in a model of the given opset; an expensive one is computed lazily. Raises EvaluateError."""

    def value_in_any_case(op: Op, values: Sequence[Value], attrs: Attrs, type_: Type) -> Value:
        # A deferred call is already part of the program: the kernel computes it if ONNX Runtime fails.
        try:
            return folded_value(op, values, attrs, type_, opset)
        except EvaluateError:
            return evaluate_call(op, values, attrs, type_)

    if isinstance(type_, TensorType) and is_worth_deferring(op, values, attrs, type_):
        return deferred(value_in_any_case, op, values, attrs, type_)
    return folded_value(op, values, attrs, type_, opset)
