"""Strategies of the library's guards: how `passat rules check` generates instances that satisfy them."""

from passat.rules.checking.strategies import layouts, movement, predefined, products  # noqa: F401  # they register the strategies
from passat.rules.guards import Guard
from passat.rules.pattern import Computed
from passat.rules.samples import Strategy, registered_strategy


def strategy_of(guard: Guard | Computed) -> Strategy | None:
    """The strategy of a guard or a computed attribute, of the library or of a user's file; None without one."""
    return registered_strategy(guard)
