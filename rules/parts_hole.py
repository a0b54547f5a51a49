"""Holes for any number of operands: one equation that holds of tuples however long."""

from collections.abc import Iterator
from typing import Final

from passat.rules.pattern import PVar, RuleError

MOST: Final = 7
"""Operands that a hole stands for at most, where it does not say how many."""


class LengthError(RuleError, TypeError):
    """How unpacking finds out that a length is not known."""


class PartsHole(PVar):
    """A hole for some operands in a tuple: `(x, *ys)`. What is made of each goes into a tuple the same way, `*(op.exp(y) for y in ys)`, and
    a guard about it holds of each.

    A rule with such holes stands for one rule for each number of operands, `Rule.directions()`.
    """

    __slots__ = ("least", "most")

    def __init__(self, name: str, least: int, most: int) -> None:
        super().__init__(name)
        self.least = least
        self.most = most
        self.key = ("parts", name, least, most)

    def __iter__(self) -> Iterator[PVar]:
        """The hole itself, once: in a tuple it stands for as many operands as there are."""
        yield self

    def __len__(self) -> int:
        """Refused: how many there are is known when a rule matches."""
        raise LengthError(f"{self!r} is as many operands as there are: count them in a guard, which gets them as (*{self.name},)")

    def meaning(self) -> str:
        """What the hole stands for, as in "*xs is 0 to 3 operands"."""
        return f"{self!r} is {self.least} to {self.most} operands"

    def __repr__(self) -> str:
        return f"*{self.name}"


def tensors_of(name: str, *, least: int = 0, most: int = MOST) -> PartsHole:
    """A hole for some operands of a tuple, for any expressions.

    >>> xs = tensors_of("xs", least=1)
    >>> from passat.rules.pattern import op, tensor
    >>> op.concatenate((*xs, tensor("y")), axis=0)
    concatenate((*xs, y), axis=0)

    Raises RuleError for bounds that leave nothing.
    """
    if not 0 <= least <= most:
        raise RuleError(f"tensors_of({name!r}): from {least} to {most} operands are none")
    return PartsHole(name, least, most)
