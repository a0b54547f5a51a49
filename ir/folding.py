"""Values of calls on constants, for folding: what ONNX Runtime computes with its optimizations off.

A kernel that is shown to compute the same bits (`Op.exact`) takes its place, and so does any kernel where ONNX Runtime has none.
"""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final

from passat.ir.attrs import Attrs
from passat.ir.dtypes import COMPLEX, FLOATS
from passat.ir.evaluate import EvaluateError, Value, evaluate_call, gives_splat, tensors_in
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import Kernel, Op
from passat.ir.types import TensorType, TupleType, Type

MOST_SPREAD: Final = 1 << 26
"""Operands that hold one value repeated are read by a kernel element by element: not where they have more elements than this together."""
_NARROW: Final = frozenset({"float16", "bfloat16"})


def is_exact(op: Op, args: Sequence[Value]) -> bool:
    """Whether the operator's kernel computes the very bits that ONNX Runtime does, on such operands."""
    if op.movement:
        return True
    kinds = {tensor.dtype for tensor in tensors_in(args)}
    # ONNX Runtime gathers strings wrongly where they come in rows.
    return op.exact != "never" and "string" not in kinds and (op.exact == "always" or kinds.isdisjoint(FLOATS | COMPLEX))


def keeps_bits(op: Op, args: Sequence[Value], result: Type) -> bool:
    """Whether a constant in place of a call leaves every bit of the program as it is: its kernel is exact, and no rounding to 16 bits is
    involved. ONNX Runtime computes most operators on 16-bit floats as float32, and rounds where a chain of such nodes ends.
    """
    kinds = {tensor.dtype for tensor in tensors_in(args)} | set(_dtypes(result))
    return op.movement or (is_exact(op, args) and kinds.isdisjoint(_NARROW))


def is_endless(op: Op, args: Sequence[Value]) -> bool:
    """Whether a kernel would read splats so large that it does not end in time, or spreads them out in memory. A few bytes of a file can
    ask for 2^60 elements. What `evaluate_call` computes on one element of each is not."""
    tensors = list(tensors_in(args))
    spread = sum(tensor.size for tensor in tensors if tensor.is_splat)
    if spread <= MOST_SPREAD:
        return False
    return not gives_splat(op, tensors)


def folded_value(op: Op, args: Sequence[Value], attrs: Attrs, result: Type, opset: int = DEFAULT_OPSET) -> Value:
    """The value of a call on constants, of the type that inference found, in a model of an opset.

    Raises EvaluateError where the call is left to whoever runs it.
    """
    if is_endless(op, args):
        raise EvaluateError(f"{op.name} of splats with more than {MOST_SPREAD} elements")
    if is_exact(op, args) or op.to_onnx is None:
        return evaluate_call(op, args, attrs, result)
    if not all(tensor.size for tensor in tensors_in(args)):
        # ONNX Runtime ends the process over some of these calls, and reads what is not there in others.
        raise EvaluateError(f"{op.name} of no elements")
    return evaluate_call(op, args, attrs, result, _by_runtime(op, opset))


@lru_cache(None)
def _by_runtime(op: Op, opset: int) -> Kernel:
    """The operator as a kernel that asks ONNX Runtime first."""

    def kernel(*operands: AnyValue, **attrs: AnyValue) -> AnyValue:
        assert op.kernel is not None
        try:
            from passat.ir.onnx.call_evaluator import run_call
            from passat.ir.onnx.ort_evaluator import NoKernelError
        except ImportError:
            return op.kernel(*operands, **attrs)
        try:
            return run_call(op, operands, attrs, opset)
        except NoKernelError:
            return op.kernel(*operands, **attrs)

    return kernel


def _dtypes(type_: Type) -> Iterator[str]:
    if isinstance(type_, TupleType):
        for field in type_.fields:
            yield from _dtypes(field)
    elif isinstance(type_, TensorType):
        yield type_.dtype
