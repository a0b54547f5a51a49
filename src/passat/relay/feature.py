"""`relay.feature`: the constructs that programs may be made of."""

from passat.ir.features import Feature

__all__ = ["Feature"]
