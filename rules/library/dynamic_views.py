"""Reshapes and copies to shapes that are computed. Operators: dyn.reshape dyn.broadcast_to dyn.full reshape expand_dims squeeze
nn.batch_flatten transpose where add subtract multiply divide minimum maximum.

What a dynamic operator does is often known though no list of numbers says it: that nothing but axes of size 1 comes in, that a copy is one
that the next operator makes by itself.
"""

from typing import Final

from passat.ir.shape import same_dim
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Term, condition, same_type
from passat.rules.drafts import Draft, Drafts
from passat.rules.library.arithmetic import CHOSEN_ZERO
from passat.rules.library.attention_forms import batch_axes, keeps_batches
from passat.rules.library.lookups import new_axes
from passat.rules.operator_hole import operator
from passat.rules.pattern import PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y, z = tensors("x y z")
c, d = constants("c d")
(p,) = attributes("p")
_VIEWS: Final = {"reshape": op.reshape(x), "expand_dims": op.expand_dims(x), "squeeze": op.squeeze(x), "flatten": op.nn.batch_flatten(x)}


@condition
def is_dynamic(x: Term) -> bool | str:
    """Not all sizes are known. (Where they are, `views.Views` makes one reshape of two views.)"""
    return not x.type.is_static or f"the sizes of {x.type!r} are known"


def _dynamic_views() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name, inner in {"": x, **{f"_of_{name}": view for name, view in _VIEWS.items()}, "_of_dynamic": op.dyn.reshape(x, z)}.items():
        whole: PCall = op.dyn.reshape(inner, y)
        rules[f"new_axes{name}"] = whole >> op.expand_dims(x, axis=new_axes(x, whole))
    again = op.reshape(op.expand_dims(x))
    rules["spread"] = (again >> op.expand_dims(x, axis=new_axes(x, again))).when(is_dynamic(x))
    doc = "Reshapes to a shape that is computed, of a tensor or of a view of it, of which it is known that they only put in new axes."
    return RuleSetMeta("DynamicViews", (RuleSet,), {"__doc__": doc, **rules})


DynamicViews = _dynamic_views()


@condition
def keeps_leading(axes: tuple[int, ...], x: Term, whole: Term) -> bool | str:
    """The result has the leading axes of the tensor, those that are one in the tensor between."""
    count = x.type.ndim - len(axes) + 1
    same = x.type.ndim == whole.type.ndim and all(map(same_dim, x.type.shape[:count], whole.type.shape[:count]))
    return same or f"{whole.type!r} has not the first axes of {x.type!r}"


def _turned_batches() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    merged, taken_apart = op.dyn.reshape(x, y), op.dyn.reshape
    for name, inner, outer in (
        ("dynamic", merged, lambda of: taken_apart(of, z)),
        ("taken_apart", op.reshape(x), lambda of: taken_apart(of, z)),
        ("merged", merged, op.reshape),
    ):
        whole: PCall = outer(op.transpose(inner, axes=p))
        rules[name] = (whole >> op.transpose(x, axes=batch_axes(p, whole))).when(
            keeps_batches(p, x, inner, whole), keeps_leading(p, x, whole)
        )
    doc = "A transpose between reshapes that merge batches and take the same ones apart again is a transpose of the last axes."
    return RuleSetMeta("TurnedBatches", (RuleSet,), {"__doc__": doc, **rules})


TurnedBatches = _turned_batches()


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


def _left(copy: PCall) -> Rule:
    return (g(copy, y) >> g(x, y)).when(same_type(g(x, y), g(copy, y)))


def _right(copy: PCall) -> Rule:
    return (h(y, copy) >> h(y, x)).when(same_type(h(y, x), h(y, copy)))


_CHOSEN, _CHOICE = op.where(op.dyn.broadcast_to(x, z), c, d), op.where(x, c, d)


class DynamicCopies(RuleSet):
    """What is copied to a shape that is computed, for arithmetic that would copy it by itself."""

    broadcast = _left(op.dyn.broadcast_to(x, z))
    broadcast_right = _right(op.dyn.broadcast_to(x, z))
    full = _left(op.dyn.full(x, z))
    full_right = _right(op.dyn.full(x, z))
    mask = (y + _CHOSEN >> y + _CHOICE).when(chooses_numbers(x, c, d), same_type(y + _CHOICE, y + _CHOSEN)).inexact(CHOSEN_ZERO)


_COPY = op.dyn.broadcast_to(c, y)
_FULL = op.dyn.full(op.reshape(c, newshape=()), y)


class Fulls(RuleSet):
    """One number copied to a shape is a tensor of that number: for it, ONNX has an operator that reads no number."""

    copied = (_COPY >> _FULL).when(is_one_number(c, _COPY, y))
