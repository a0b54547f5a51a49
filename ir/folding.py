"""Computes calls on constants for constant folding, with the results of ONNX Runtime with its optimizations disabled.

A kernel is used if it is shown to compute the same bits (`Op.exact`), or if ONNX Runtime has no kernel.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any as AnyValue
from typing import Final, NamedTuple

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.dtypes import COMPLEX, FLOATS
from passat.ir.evaluate import EvaluateError, Value, evaluate_call, gives_splat, tensors_in
from passat.ir.onnx_mapping import DEFAULT_OPSET
from passat.ir.op import Kernel, Op
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, Type, leaves

MOST_SPREAD: Final = 1 << 26
"""Maximum total number of elements of splat operands that a kernel reads element by element."""
FEWEST_BYTES: Final = 1 << 10
"""Smaller constants do not remember their origin."""
_NARROW: Final = frozenset({"float16", "bfloat16"})


class Origin(NamedTuple):
    """The call on constants that a folded constant is the value of."""

    op: Op
    args: tuple[Value, ...]
    attrs: Attrs


def is_exact(op: Op, args: Sequence[Value]) -> bool:
    """Whether the operator's kernel computes exactly the same bits as ONNX Runtime on such operands."""
    if op.movement:
        return True
    kinds = {tensor.dtype for tensor in tensors_in(args)}
    # ONNX Runtime's Gather of strings from multidimensional tensors is wrong.
    return op.exact != "never" and "string" not in kinds and (op.exact == "always" or kinds.isdisjoint(FLOATS | COMPLEX))


def keeps_bits(op: Op, args: Sequence[Value], result: Type) -> bool:
    """Whether folding a call leaves every bit of the program's results unchanged: its kernel is exact and no rounding to 16 bits is
    involved.

    ONNX Runtime computes most operators on 16-bit floats as float32 and rounds at the end of a chain of such nodes.
    """
    kinds = {tensor.dtype for tensor in tensors_in(args)} | {part.dtype for part in leaves(result) if isinstance(part, TensorType)}
    return op.movement or (is_exact(op, args) and kinds.isdisjoint(_NARROW))


def is_endless(op: Op, args: Sequence[Value]) -> bool:
    """Whether a kernel would read or expand splats that exceed the time or memory limits; a few bytes of a file can describe 2^60 elements.

    Calls that `evaluate_call` computes on single elements are not affected.
    """
    tensors = list(tensors_in(args))
    spread = sum(tensor.size for tensor in tensors if tensor.is_splat)
    if spread <= MOST_SPREAD:
        return False
    return not gives_splat(op, tensors)


def folded_value(op: Op, args: Sequence[Value], attrs: Attrs, result: Type, opset: int = DEFAULT_OPSET) -> Value:
    """Computes a call on constants, of the inferred type, for a model of an opset.

    Raises EvaluateError if the call should not be folded.
    """
    if is_endless(op, args):
        raise EvaluateError(f"{op.name} of splats with more than {MOST_SPREAD} elements is not folded")
    if is_exact(op, args) or op.to_onnx is None:
        value = evaluate_call(op, args, attrs, result)
        remember_origin(value, op, args, attrs, result)
        return value
    if not all(tensor.size for tensor in tensors_in(args)):
        # ONNX Runtime crashes on some calls with empty operands, and reads out of bounds in others.
        raise EvaluateError(f"{op.name} of no elements")
    if "max_pool" in op.name and any(np.isnan(tensor.numpy()).any() for tensor in tensors_in(args)):
        # ONNX Runtime passes NaN on or skips it, depending on the position in the window.
        raise EvaluateError(f"{op.name} of NaN")
    value = evaluate_call(op, args, attrs, result, _by_runtime(op, opset))
    remember_origin(value, op, args, attrs, result)
    return value


def remember_origin(value: Value, op: Op, args: Sequence[Value], attrs: Attrs, result: Type) -> None:
    """Records how a constant was computed, unless it is small, or ONNX Runtime might compute other bits, or not when it loads a model.
    Calls on float32 that round are computed by ONNX Runtime here, too."""
    if not isinstance(value, Tensor) or value.is_splat or value.nbytes < FEWEST_BYTES or op.to_onnx is None:
        return
    if keeps_bits(op, args, result) or {tensor.dtype for tensor in (value, *tensors_in(args))} == {"float32"}:
        value.origin = Origin(op, tuple(args), attrs)


@lru_cache(None)
def _by_runtime(op: Op, opset: int) -> Kernel:
    """Returns a kernel that tries ONNX Runtime first."""

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
