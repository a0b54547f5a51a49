"""Tensors of one value repeated, or made like others. Operators: zeros_like ones_like full_like full zeros ones, arithmetic on them,
cast_like reshape_like broadcast_to_like collapse_sum_like.

Relay's SimplifyExpr: the Concretize...Like rewrites, FullElementwise, and the part of EliminateIdentity
that knows `zeros(...)` and `ones(...)`.
"""

from typing import Final

from passat.ir.ops.like import collapsed_axes
from passat.rules.conditions import Refuse, Term, computed, dtype_of, is_float, same_type, shape_of
from passat.rules.library.views import new_shape
from passat.rules.operator_hole import operator
from passat.rules.pattern import Pattern, PCall, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

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


_FORMS: Final[dict[str, tuple[PCall, Pattern | float]]] = {
    "full": (op.full(y), y),
    "full_like": (op.full_like(z, y), y),
    "zeros": (op.zeros(), 0),
    "ones": (op.ones(), 1),
    "zeros_like": (op.zeros_like(z), 0),
    "ones_like": (op.ones_like(z), 1),
}
f = operator("f", "add", "multiply", "maximum", "minimum", "subtract")
g = operator("g", "subtract", "divide")


def _rules() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for form, (filled, value) in _FORMS.items():
        rules[form] = (f(x, filled) >> f(x, value)).when(same_type(x, f(x, filled)))
        rules[f"{form}_left"] = (g(filled, x) >> g(value, x)).when(same_type(x, g(filled, x)))
        divided = (x / filled >> x / value).when(same_type(x, x / filled))
        # ONNX Runtime does not load a quotient by an integer 0, even where there is nothing to divide.
        rules[f"{form}_divisor"] = divided.when(is_float(x)) if value != 1 else divided
    doc = "Arithmetic with one value repeated, in the shape of the other operand or a smaller one, is arithmetic with that value."
    return RuleSetMeta("Fills", (RuleSet,), {"__doc__": doc, **rules})


Fills = _rules()
