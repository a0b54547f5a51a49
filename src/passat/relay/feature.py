"""`relay.feature`: the constructs that programs may contain."""

from passat.ir.features import Feature

__all__ = ["Feature"]
