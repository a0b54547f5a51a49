"""Holes for any number of operands: one equation that holds of tuples however long."""

from collections.abc import Iterator
from typing import Final

from passat.rules.pattern import PConst, PVar, RuleError

MOST: Final = 7
"""Operands that a hole stands for at most, where it does not say how many."""


class LengthError(RuleError, TypeError):
    """How unpacking finds out that a length is not known."""


class PartsHole(PVar):
    """A hole for some operands of a call, `f(*xs)`, or in a tuple, `(x, *ys)`. What is made of each goes into a tuple the same way,
    `*(op.exp(y) for y in ys)`, and a guard about it holds of each. With `constant` each operand is a constant, or a tuple of constants.

    A rule with such holes stands for one rule for each number of operands, `Rule.directions()`.
    """

    __slots__ = ("constant", "least", "most")

    def __init__(self, name: str, least: int, most: int, *, constant: bool = False) -> None:
        super().__init__(name)
        self.least = least
        self.most = most
        self.constant = constant
        self.key = ("parts", name, least, most, constant)

    def part(self, place: int) -> PVar | PConst:
        """The hole for one of the operands, which are counted from 0."""
        name = f"{self.name}{place + 1}"
        return PConst(name) if self.constant else PVar(name)

    def __iter__(self) -> Iterator[PVar]:
        """The hole itself, once: in a tuple it stands for as many operands as there are."""
        yield self

    def __len__(self) -> int:
        """Refused: how many there are is known when a rule matches."""
        raise LengthError(f"{self!r} is as many operands as there are: count them in a guard, which gets them as (*{self.name},)")

    def meaning(self) -> str:
        """What the hole stands for, as in "*xs is 0 to 3 operands"."""
        return f"{self!r} is {self.least} to {self.most} {'constants' if self.constant else 'operands'}"

    def __repr__(self) -> str:
        return f"*{self.name}"


def tensors_of(name: str, *, least: int = 0, most: int = MOST) -> PartsHole:
    """A hole for some operands of a tuple, for any expressions.

    >>> xs = tensors_of("xs", least=1)
    >>> from passat.rules.pattern import op, tensor
    >>> op.concatenate((*xs, tensor("y")), axis=1)
    concatenate((*xs, y), axis=1)

    Raises RuleError for bounds that leave nothing.
    """
    if not 0 <= least <= most:
        raise RuleError(f"tensors_of({name!r}): from {least} to {most} operands are none")
    return PartsHole(name, least, most)


def constants_of(name: str, *, least: int = 0, most: int = MOST) -> PartsHole:
    """A hole for some operands that are constants, or tuples of constants: `f(*cs)`. Raises RuleError for bounds that leave nothing."""
    if not 0 <= least <= most:
        raise RuleError(f"constants_of({name!r}): from {least} to {most} operands are none")
    return PartsHole(name, least, most, constant=True)
