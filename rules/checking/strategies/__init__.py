"""Strategies of the library's guards: how `passat rules check` generates instances that satisfy them."""

from passat.rules.checking.strategies import layouts, movement, predefined, products  # noqa: F401  # they register the strategies
from passat.rules.samples import strategy_of

__all__ = ["strategy_of"]
