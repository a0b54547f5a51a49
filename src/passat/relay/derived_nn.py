"""Relay's functions of neural networks, derived from the operators' declarations. `derived_nn.pyi` declares them for type checkers."""

from passat.relay.building import namespace
from passat.relay.nn_functions import __all__ as functions
from passat.relay.nn_windows import __all__ as windows

_functions = namespace("nn.", {*functions, *windows})
globals().update(_functions)
__all__ = list(_functions)
