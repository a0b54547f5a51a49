"""Gradients of operators, as the operator attribute `FPrimalGradient`.

A gradient is a function of a call and of the gradient of its result. It returns one expression per operand, or None for an operand that the
result does not depend on in a differentiable way.
"""

from collections.abc import Callable, Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.counting import counted
from passat.ir.expr import Call, Expr, Var
from passat.ir.op import Op, find_op, get_op, register_op_attr
from passat.ir.passat_error import PassatError
from passat.ir.traverse import rewrite
from passat.ir.types import TensorType, Type, leaves

Gradient = Callable[[Call, Expr], Sequence[Expr | None]]
"""Maps a call and the gradient of its result to the gradients of the operands. The operands have types."""

FPRIMAL_GRADIENT: Final = "FPrimalGradient"


class GradientError(PassatError, ValueError):
    """A program cannot be differentiated. The message names the operator or expression, and the reason."""


def register_gradient(op_name: str, fgradient: Gradient | None = None, level: int = 10) -> AnyValue:
    """Registers the gradient of an operator; without `fgradient`, returns a decorator.

    It replaces Passat's own gradient, which has level 5. Raises ValueError if a gradient of the same level is registered.
    """
    return register_op_attr(op_name, FPRIMAL_GRADIENT, fgradient, level)


def built_in(*op_names: str) -> Callable[[Gradient], Gradient]:
    """Returns a decorator that registers Passat's own gradient of some operators. Users may replace it."""

    def register(gradient: Gradient) -> Gradient:
        for name in op_names:
            get_op(name).set_attr(FPRIMAL_GRADIENT, gradient, 5)
        return gradient

    return register


def operand_gradients(call: Call, result: Var, gradient: Expr) -> Sequence[Expr | None]:
    """The gradients of the operands of an operator's call. `result` is the variable bound to its value.

    Raises GradientError for an operator without a registered gradient, and for a gradient that returns a wrong number of expressions.
    """
    op = call.op
    assert isinstance(op, Op)  # by contract
    function = op.get_attr(FPRIMAL_GRADIENT)
    if function is None:
        raise GradientError(f"the operator {op.name} does not have a registered gradient; register one with register_gradient")
    if _is_empty(call.checked_type):
        return [None] * len(call.args)  # nothing depends on the operands; reshapes to -1 and groups of no channels would be errors
    given = function(call, gradient)
    if len(given) != len(call.args):
        raise GradientError(
            f"the gradient of {op.name} returns {counted(len(given), 'expression')}, but the call has {counted(len(call.args), 'operand')}"
        )
    # A maximum of no elements, which the gradient of a pooling reads, is an error.
    found = [None if _is_empty(arg.checked_type) else part for part, arg in zip(given, call.args, strict=True)]
    return [None if part is None else rewrite(part, lambda old, new: result if old is call else new) for part in found]


def _is_empty(type_: Type) -> bool:
    """Whether a value is a tensor, or a tuple of them, without elements."""
    return all(isinstance(part, TensorType) and part.is_static and part.size == 0 for part in leaves(type_))


def has_gradient(name: str) -> bool:
    """Whether a gradient of an operator is registered."""
    op = find_op(name)
    return op is not None and op.has_attr(FPRIMAL_GRADIENT)
