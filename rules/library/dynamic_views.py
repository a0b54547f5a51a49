"""Reshapes and copies to shapes that are computed. Operators: dyn.reshape dyn.broadcast_to dyn.full reshape expand_dims squeeze
nn.batch_flatten transpose where add subtract multiply divide minimum maximum.

What a dynamic operator does is often known though no list of numbers says it: that nothing but axes of size 1 comes in, that a copy is one
that the next operator makes by itself.
"""

from typing import Final

from passat.ir.shape import same_dim
from passat.rules.case_hole import cases
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Term, condition, same_type
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.arithmetic import CHOSEN_ZERO
from passat.rules.library.attention_forms import batch_axes, keeps_batches
from passat.rules.library.lookups import new_axes
from passat.rules.operator_hole import operator
from passat.rules.pattern import Pattern, attributes, constants, op, tensors
from passat.rules.rule import RuleSet

x, y, z = tensors("x y z")
c, d = constants("c d")
(p,) = attributes("p")
inner = cases("inner", "plain", "reshape", "expand_dims", "squeeze", "flatten", "dynamic")


@condition
def is_dynamic(x: Term) -> bool | str:
    """Not all sizes are known. (Where they are, `views.Views` makes one reshape of two views.)"""
    return not x.type.is_static or f"the sizes of {x.type!r} are known"


_VIEWED: Final = op.dyn.reshape(
    inner(
        plain=x,
        reshape=op.reshape(x),
        expand_dims=op.expand_dims(x),
        squeeze=op.squeeze(x),
        flatten=op.nn.batch_flatten(x),
        dynamic=op.dyn.reshape(x, z),
    ),
    y,
)
_AGAIN: Final = op.reshape(op.expand_dims(x))


class DynamicViews(RuleSet):
    """Reshapes to a shape that is computed, of a tensor or of a view of it, of which it is known that they only put in new axes."""

    reshape = _VIEWED >> op.expand_dims(x, axis=new_axes(x, _VIEWED))
    spread = (_AGAIN >> op.expand_dims(x, axis=new_axes(x, _AGAIN))).when(is_dynamic(x))


@condition
def keeps_leading(axes: tuple[int, ...], x: Term, whole: Term) -> bool | str:
    """The result has the leading axes of the tensor, those that are one in the tensor between."""
    count = x.type.ndim - len(axes) + 1
    same = x.type.ndim == whole.type.ndim and all(map(same_dim, x.type.shape[:count], whole.type.shape[:count]))
    return same or f"{whole.type!r} has not the first axes of {x.type!r}"


computed_shape = cases("computed", "both", "last", "first")
_MERGED: Final = computed_shape(both=op.dyn.reshape(x, y), last=op.reshape(x), first=op.dyn.reshape(x, y))
_TURNED: Final = op.transpose(_MERGED, axes=p)
_APART: Final = computed_shape(both=op.dyn.reshape(_TURNED, z), last=op.dyn.reshape(_TURNED, z), first=op.reshape(_TURNED))


class TurnedBatches(RuleSet):
    """A transpose between reshapes that merge batches and take the same ones apart again is a transpose of the last axes."""

    turned = (_APART >> op.transpose(x, axes=batch_axes(p, _APART))).when(keeps_batches(p, x, _MERGED, _APART), keeps_leading(p, x, _APART))


def _a_number(dice: Dice, c: Draft, whole: Draft, shape: Draft) -> Drafts:
    return [Draft((1,) * dice.integer(0, 1)), None, None]


@condition(draw=_a_number)
def is_one_number(c: Term, whole: Term, shape: Term) -> bool | str:
    """The constant is one number, and what is made of it has just the shape that is asked for."""
    known = shape.known
    if c.type.size != 1:
        return f"{c.type!r} is not one number"
    return (known is not None and len(known) == whole.type.ndim and all(map(same_dim, known, whole.type.shape))) or (
        f"{whole.type!r} has not the shape {known}"
    )


def _a_mask(dice: Dice, x: Draft, c: Draft, d: Draft) -> Drafts:
    return [Draft(dtype="bool"), Draft((), "float32"), Draft((), "float32")]


@condition(draw=_a_mask)
def chooses_numbers(x: Term, c: Term, d: Term) -> bool | str:
    """A mask chooses between two numbers."""
    return c.type.size == d.type.size == 1 or f"{c.type!r} and {d.type!r} are no numbers that {x.type!r} chooses between"


g = operator("g", "add", "multiply", "minimum", "maximum", "subtract", "divide")
h = operator("h", "subtract", "divide")  # those that are not commutative


side, copy = cases("side", "left", "right"), cases("copy", "broadcast", "full")


def _met(of: Pattern) -> Pattern:
    """Arithmetic with something else, which comes first or last."""
    return side(left=g(of, y), right=h(y, of))


_COPIED: Final = copy(broadcast=op.dyn.broadcast_to(x, z), full=op.dyn.full(x, z))
_CHOSEN, _CHOICE = op.where(op.dyn.broadcast_to(x, z), c, d), op.where(x, c, d)


class DynamicCopies(RuleSet):
    """What is copied to a shape that is computed, for arithmetic that would copy it by itself."""

    operand = (_met(_COPIED) >> _met(x)).when(same_type(_met(x), _met(_COPIED)))
    mask = (y + _CHOSEN >> y + _CHOICE).when(chooses_numbers(x, c, d), same_type(y + _CHOICE, y + _CHOSEN)).inexact(CHOSEN_ZERO)


_COPY = op.dyn.broadcast_to(c, y)
_FULL = op.dyn.full(op.reshape(c, newshape=()), y)


class Fulls(RuleSet):
    """One number copied to a shape is a tensor of that number: for it, ONNX has an operator that reads no number."""

    copied = (_COPY >> _FULL).when(is_one_number(c, _COPY, y))
