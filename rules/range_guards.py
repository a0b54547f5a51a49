"""Guards about the ranges of elements (`passat.rules.ranges`): what no element of a tensor ever is, whatever the inputs are."""

from typing import TYPE_CHECKING, Final

import numpy as np

from passat.ir.tensor import Array
from passat.rules.conditions import Refuse, Term, condition
from passat.rules.drafts import Draft, Drafts
from passat.rules.ranges import RANGES, Range

if TYPE_CHECKING:
    from passat.rules.checking.dice import Dice

_NUMBERS: Final = (0.0, 0.5, 1.0, 1.0, 2.0, 3.5, 100.0)


def range_of(x: Term) -> Range:
    """The range of the elements. Refuses for tensors whose elements have no order."""
    found = x.fact(RANGES)
    if found is None:
        raise Refuse(f"nothing is known of the range of {x.type.dtype} elements")
    return found


def _lie(x: Range) -> str:
    return f"they lie in {x}"


def _drawn(low: float, high: float, *, zeros: tuple[float, ...] = ()) -> Drafts:
    """A constant of numbers between two, with NaN and bounds now and then."""

    def elements(dice: "Dice", shape: tuple[int, ...]) -> Array:
        some = [number for number in (*_NUMBERS, low, high, *zeros) if low <= number <= high]
        if dice.chance(0.2):
            some.append(np.nan)
        return dice.generator.choice(some, size=shape)

    return [Draft(elements=elements)]


def _unsigned(dice: "Dice", x: Draft) -> Drafts:
    return _drawn(0.0, np.inf)


@condition(draw=_unsigned)
def never_signed(x: Term) -> bool | str:
    """No element has a minus sign: none is below 0, nor is one -0.0. NaN may be among them."""
    found = range_of(x)
    return not found.signed or f"elements may have a minus sign: {_lie(found)}"


def _from_zero(dice: "Dice", x: Draft) -> Drafts:
    return _drawn(0.0, np.inf, zeros=(-0.0,))


@condition(draw=_from_zero)
def never_negative(x: Term) -> bool | str:
    """No element is below 0; -0.0 and NaN may be among them."""
    found = range_of(x)
    return found.low >= 0 or f"elements may be negative: {_lie(found)}"


def _above_zero(dice: "Dice", x: Draft) -> Drafts:
    return _drawn(0.5, np.inf)


@condition(draw=_above_zero)
def always_positive(x: Term) -> bool | str:
    """Every element is above 0, or NaN."""
    found = range_of(x)
    return found.low > 0 or f"elements may be 0 or less: {_lie(found)}"


def _between(dice: "Dice", x: Draft, low: float, high: float) -> Drafts:
    return _drawn(low, high)


@condition(draw=_between)
def lies_between(x: Term, low: float, high: float) -> bool | str:
    """Every element lies between two numbers, or is one of them, or is NaN."""
    found = range_of(x)
    return low <= found.low <= found.high <= high or f"elements may leave [{low:g}, {high:g}]: {_lie(found)}"


def _numbers(dice: "Dice", x: Draft) -> Drafts:
    return [Draft(elements=(0.0, -0.0, 1.0, -2.5, np.inf))]


@condition(draw=_numbers)
def never_nan(x: Term) -> bool | str:
    """No element is NaN."""
    found = range_of(x)
    return not found.nan or f"elements may be NaN: {_lie(found)}"
