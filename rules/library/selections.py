"""Choices that make no difference. Operators: where greater nn.softplus minimum add cast clip.

Sources: torch's softplus, which is the identity above a threshold; the buckets of T5's relative positions, where logarithms of 0 are
cast to integers and not chosen.
"""

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np

from passat.ir.dtypes import FLOATS, to_numpy
from passat.rules.checking.dice import Dice
from passat.rules.conditions import Condition, Term, condition, is_float, keeps_type, same_shape
from passat.rules.drafts import Draft, Drafts
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet, RuleSetMeta

x, y = tensors("x y")
b, c, e = constants("b c e")
(t,) = attributes("t")


def _past_the_bend(dice: Dice, c: Draft) -> Drafts:
    return [Draft((1,) * dice.integer(0, 1), elements=(dice.pick((20.0, 24.0, 40.0)),))]


@condition(draw=_past_the_bend)
def is_past_the_bend(c: Term) -> bool | str:
    """Above the number, softplus differs from its operand by less than rounding."""
    value = c.value().uniform()
    if value is None:
        return "the elements of the constant differ"
    step = float(ml_dtypes.finfo(to_numpy(c.type.dtype)).eps)  # type: ignore[no-untyped-call]  # ml_dtypes declares no types for it
    bound = float(value)
    return (bound > 0 and math.exp(-bound) < bound * step / 4) or f"above {value} softplus is not yet its operand"


class Thresholds(RuleSet):
    """A function, and what it is about from a place on: the function."""

    softplus = (
        (op.where(op.greater(x, c), x, op.nn.softplus(x)) >> op.nn.softplus(x))
        .when(is_float(x), is_past_the_bend(c), keeps_type(x, op.where(op.greater(x, c), x, op.nn.softplus(x))))
        .inexact("softplus is rounded where its operand was chosen")
    )


def _some_out_of_range(dice: Dice, c: Draft, e: Draft, dtype: Draft) -> Drafts:
    shape = tuple(dice.full() for _ in range(dice.integer(0, 3)))
    masked = np.asarray(dice.generator.random(shape) < 0.5)
    masked.flat[0] = True
    numbers = np.where(masked, dice.pick((1.5, -1.75)) * 2.0**30, 100 * dice.generator.normal(size=shape))
    return [
        Draft(shape, "bool", elements=lambda dice, shape: masked),
        Draft(shape, dice.pick(("float32", "float64")), elements=lambda dice, shape: numbers),
        Draft(value=dice.pick(("int32", "int64"))),
    ]


@condition(draw=_some_out_of_range)
def casts_in_range_where_read(c: Term, e: Term, dtype: str) -> bool | str:
    """Numbers are cast to integers of which some are out of range, but none of those that are chosen: where the mask is false."""
    if e.type.dtype not in FLOATS or dtype not in ("int32", "int64") or c.type.shape != e.type.shape:
        return f"{e.type!r} is not cast to integers where a mask of its shape chooses"
    bound = 2.0**30
    values = e.value().numpy().astype(np.float64)
    fits = np.abs(values) < bound
    if not np.all(fits | c.value().numpy()) or np.any(np.isnan(values)):
        return "a number is chosen that is out of range"
    return not np.all(fits) or "all numbers are in range"


def _casts() -> RuleSetMeta:
    def in_range(inner: Pattern) -> PCall:
        return op.cast(inner, dtype=t)

    held = op.clip(e, a_min=-(2.0**30), a_max=2.0**30)
    chains: dict[str, Callable[[PCall], PCall]] = {
        "cast": lambda of: of,
        "sum": lambda of: of + b,
        "least": lambda of: op.minimum(of + b, y),
    }
    rules: dict[str, Rule] = {}
    for name, chain in chains.items():
        before, after = chain(in_range(e)), chain(in_range(held))
        guards: tuple[Condition, ...] = (casts_in_range_where_read(c, e, t), same_shape(e, before))
        rules[name] = (op.where(c, x, before) >> op.where(c, x, after)).when(*guards)
    doc = "Integers of numbers that have none may be any where they are not chosen: those of the nearest number that has one."
    return RuleSetMeta("UnreadCasts", (RuleSet,), {"__doc__": doc, **rules})


UnreadCasts = _casts()
