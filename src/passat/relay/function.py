"""`relay.function`: functions."""

from passat.ir.expr import BaseFunc, Function

__all__ = ["BaseFunc", "Function"]
