"""Strategies of the library's guards: how `passat rules check` generates instances that satisfy them."""

from types import ModuleType
from typing import Final

from passat.rules.checking.strategies import layouts, movement, predefined, products
from passat.rules.guards import Guard
from passat.rules.pattern import Computed
from passat.rules.samples import Strategy, registered_strategy

FILES: Final[tuple[ModuleType, ...]] = (layouts, movement, predefined, products)
"""Importing them registers the strategies."""


def strategy_of(guard: Guard | Computed) -> Strategy | None:
    """The strategy of a guard or a computed attribute, of the library or of a user's file; None without one."""
    return registered_strategy(guard)
