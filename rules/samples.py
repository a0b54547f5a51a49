"""What a guard says of the instances that it accepts, for those who draw some (`passat rules check`).

Few random tensors are the heads of an attention. A guard that holds seldom therefore says how to draw what it holds of:

>>> from passat.rules.guards import Term, guard
>>> def _a_power_of_two(sampler: "Sampler", x: Sample) -> Samples:
...     return [Sample(shape=(sampler.pick((1, 2, 4, 8)),))]
>>> @guard(strategy=_a_power_of_two)
... def is_foldable(x: Term) -> bool | str:
...     size = x.type.shape[0]
...     return x.type.ndim == 1 and isinstance(size, int) and size & (size - 1) == 0
>>> from passat.rules.pattern import tensors
>>> x, = tensors("x")
>>> is_foldable(x)
is_foldable(x)

It is advice, no more: the guard itself decides, and instances that are drawn without it are tried too.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias
from typing import Any as AnyValue

from passat.ir.tensor import Array

if TYPE_CHECKING:
    from passat.rules.checking.sampler import Sampler

Elements: TypeAlias = Sequence[float] | Callable[["Sampler", tuple[int, ...]], Array]
"""Elements of a constant: the numbers that they are of, or what makes an array for a shape."""


class Sample(NamedTuple):
    """What an instance has in the place of an argument of a guard; None is what is open.

    Of a term: `shape`, `dtype`, and for holes `elements`, which make it a constant. Of an attribute: `value`; of a hole for all attributes
    of a call a mapping, which may name some of them only.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    elements: Elements | None = None
    value: AnyValue = None


Samples: TypeAlias = Sequence[Sample | None] | None
"""A sample for each of the arguments, None for those of which there is nothing to say; None alone, where what has to be settled before is
still open: it is asked for again when other guards have said theirs."""
Strategy: TypeAlias = Callable[..., Samples]
"""`strategy(sampler, *arguments)`: the arguments are those of the guard, with a Sample of what is settled so far for each term and each
attribute. What was settled before stays."""
