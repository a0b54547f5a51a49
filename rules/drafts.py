"""What a condition says of the instances that it accepts, for those who draw some (`passat rules check`).

Few random tensors are the heads of an attention. A condition that holds seldom therefore says how to draw what it holds of:

>>> from passat.rules.conditions import Term, condition
>>> def _a_power_of_two(dice: "Dice", x: Draft) -> Drafts:
...     return [Draft(shape=(dice.pick((1, 2, 4, 8)),))]
>>> @condition(draw=_a_power_of_two)
... def is_foldable(x: Term) -> bool | str:
...     size = x.type.shape[0]
...     return x.type.ndim == 1 and isinstance(size, int) and size & (size - 1) == 0
>>> from passat.rules.pattern import tensors
>>> x, = tensors("x")
>>> is_foldable(x)
is_foldable(x)

It is advice, no more: the condition itself decides, and instances that are drawn without it are tried too.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from typing import Any as AnyValue

from passat.ir.tensor import Array

if TYPE_CHECKING:
    from passat.rules.checking.dice import Dice

Elements: TypeAlias = Sequence[float] | Callable[["Dice", tuple[int, ...]], Array]
"""Elements of a constant: the numbers that they are of, or what makes an array for a shape."""


class Draft(NamedTuple):
    """What an instance has in the place of an argument of a condition; None is what is open.

    Of a term: `shape`, `dtype`, and for holes `elements`, which make it a constant. Of an attribute: `value`; of a hole for all attributes
    of a call a mapping, which may name some of them only.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    elements: Elements | None = None
    value: AnyValue = None


Drafts: TypeAlias = Sequence[Draft | None] | None
"""A draft for each of the arguments, None for those of which there is nothing to say; None alone, where what has to be settled before is
still open: it is asked for again when other conditions have said theirs."""
Drawing: TypeAlias = Callable[..., Drafts]
"""`draw(dice, *arguments)`: the arguments are those of the condition, with a Draft of what is settled so far for each term and each
attribute. What was settled before stays."""
