"""Tensors of one value repeated, or made like others. Operators: zeros_like ones_like full_like full zeros ones, arithmetic on them,
cast_like reshape_like broadcast_to_like collapse_sum_like.

Relay's SimplifyExpr: the Concretize...Like rewrites, FullElementwise, and the part of EliminateIdentity
that knows `zeros(...)` and `ones(...)`.
"""

from typing import Final

from passat.ir.ops.like import collapsed_axes
from passat.rules.case_hole import cases
from passat.rules.conditions import Refuse, Term, computed, dtype_of, is_float, same_type, shape_of
from passat.rules.library.views import new_shape
from passat.rules.operator_hole import operator
from passat.rules.pattern import op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")


@computed
def summed_axes(x: Term, whole: Term) -> tuple[int, ...]:
    """The axes that are summed, of which there is one at least."""
    axes = collapsed_axes(x.type, whole.type)
    if not axes:
        raise Refuse(f"{x.type!r} is not summed to be {whole.type!r}")
    return axes


@computed
def full_shape(x: Term) -> tuple[int, ...]:
    """The shape of a tensor that has elements, all sizes known: 0 stands for another size in a newshape."""
    if not x.type.is_static or 0 in x.type.shape:
        raise Refuse(f"{x.type!r} is not static, or empty")
    return tuple(int(dim) for dim in x.type.shape)  # type: ignore[arg-type]  # static: all are integers


class LikeForms(RuleSet):
    """Tensors made in the shape or element type of another are made in that, where it is known: then the other need not be computed."""

    zeros_like = op.zeros_like(x) >> op.zeros(shape=shape_of(x), dtype=dtype_of(x))
    ones_like = op.ones_like(x) >> op.ones(shape=shape_of(x), dtype=dtype_of(x))
    full_like = op.full_like(x, y) >> op.full(y, shape=shape_of(x))
    cast_like = op.cast_like(x, y) >> op.cast(x, dtype=dtype_of(y))
    reshape_like = op.reshape_like(x, y) >> op.reshape(x, newshape=new_shape(x, op.reshape_like(x, y)))
    broadcast_to_like = op.broadcast_to_like(x, y) >> op.broadcast_to(x, shape=shape_of(y))
    collapse_sum_like = (
        (
            op.collapse_sum_like(x, y)
            >> op.reshape(op.sum(x, axis=summed_axes(x, op.collapse_sum_like(x, y)), keepdims=True), newshape=full_shape(y))
        )
        .inexact("a sum of nothing but -0.0 is 0.0")
        .lowering()  # two operators for one that nothing else knows
    )
    collapse_nothing = (op.collapse_sum_like(x, y) >> x).when(same_type(x, op.collapse_sum_like(x, y)))


form = cases("form", "full", "full_like", "zeros", "ones", "zeros_like", "ones_like")
_FILLED: Final = form(
    full=op.full(y), full_like=op.full_like(z, y), zeros=op.zeros(), ones=op.ones(), zeros_like=op.zeros_like(z), ones_like=op.ones_like(z)
)
_VALUE: Final = form(full=y, full_like=y, zeros=0, ones=1, zeros_like=0, ones_like=1)
f = operator("f", "add", "multiply", "maximum", "minimum", "subtract")
g = operator("g", "subtract", "divide")


class Fills(RuleSet):
    """Arithmetic with one value repeated, in the shape of the other operand or a smaller one, is arithmetic with that value."""

    right = (f(x, _FILLED) >> f(x, _VALUE)).when(same_type(x, f(x, _FILLED)))
    left = (g(_FILLED, x) >> g(_VALUE, x)).when(same_type(x, g(_FILLED, x)))
    # ONNX Runtime does not load a quotient by an integer 0, even where there is nothing to divide.
    divisor = (x / _FILLED >> x / _VALUE).when(same_type(x, x / _FILLED), *form.only("full full_like zeros zeros_like", is_float(x)))
