"""Relay's functions of tensors, derived from the declarations of the operators. `derived.pyi` declares them for type checkers."""

from passat.relay.building import namespace
from passat.relay.tensor import __all__ as spelled_out

_functions = namespace("", spelled_out)
globals().update(_functions)
__all__ = list(_functions)
