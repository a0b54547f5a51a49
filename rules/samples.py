"""Sampling strategies of guards: how to generate instances that a guard accepts, for `passat rules check`.

Random tensors rarely have the shapes of attention heads, for example. A guard that seldom holds therefore has a strategy:

>>> from passat.rules.guards import Term, guard
>>> @guard
... def is_foldable(x: Term) -> bool | str:
...     size = x.type.shape[0]
...     return x.type.ndim == 1 and isinstance(size, int) and size & (size - 1) == 0
>>> @strategy_for(is_foldable)
... def a_power_of_two(sampler: "Sampler", x: Sample) -> Samples:
...     return [Sample(shape=(sampler.pick((1, 2, 4, 8)),))]

The strategy is only advice: the guard itself decides, and instances generated without it are tried too. The strategies of the library's
guards are in `rules/checking/strategies/`.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias, TypeVar
from typing import Any as AnyValue

from passat.ir.tensor import Array
from passat.rules.pattern import RuleError

if TYPE_CHECKING:
    from passat.rules.checking.sampler import Sampler
    from passat.rules.guards import Guard
    from passat.rules.pattern import Computed

Elements: TypeAlias = Sequence[float] | Callable[["Sampler", tuple[int, ...]], Array]
"""Elements of a constant: the numbers to choose from, or a function that makes an array of a given shape."""


class Sample(NamedTuple):
    """The sampled properties of one argument of a guard; a property that is None is open.

    For a term: `shape`, `dtype`, and for a hole `elements`, which makes it a constant. For an attribute: `value`; for a hole that binds all
    attributes of a call, a mapping that may be partial.
    """

    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    elements: Elements | None = None
    value: AnyValue = None


Samples: TypeAlias = Sequence[Sample | Sequence[Sample] | None] | None
"""A sample for each argument, several for a tuple of terms, None for arguments left open. None alone means that a prerequisite is still
open; the strategy is called again after those of other guards."""
Strategy: TypeAlias = Callable[..., Samples]
"""`strategy(sampler, *arguments)`: gets, for each argument of the guard, a Sample of the properties that are already fixed. The strategy
cannot change these."""
_Advice = TypeVar("_Advice", bound=Strategy)
_STRATEGIES: Final[dict[Callable[..., bool | str], Strategy]] = {}


def strategy_for(*guards: "Callable[..., Guard | Computed]") -> Callable[[_Advice], _Advice]:
    """Makes a function the strategy of guards, which are functions that `@guard` decorates, or of computed attributes, which may reject
    instances, too. Raises RuleError for anything else, and for a guard that has a strategy."""

    def register(strategy: _Advice) -> _Advice:
        for guard in guards:
            function = getattr(guard, "__wrapped__", None)
            if not callable(guard) or function is None:
                raise RuleError(f"strategy_for takes functions that @guard or @computed decorates, not {guard!r}")
            if function in _STRATEGIES:
                raise RuleError(f"the guard {function.__name__} has a strategy; a guard has one")
            _STRATEGIES[function] = strategy
        return strategy

    return register


def always(*samples: Sample | None) -> Strategy:
    """A strategy that returns the same samples for all instances."""
    return lambda sampler, *arguments: samples


def strategy_of(guard: "Guard | Computed") -> Strategy | None:
    """The strategy of a guard or a computed attribute, or None. Guards of the library have theirs once `passat.rules.checking.strategies`
    is imported."""
    return _STRATEGIES.get(guard.function)
