"""`relay.qnn.op`: the functions of quantized operators."""

from typing import TYPE_CHECKING

from passat.relay.names import missing_name
from passat.relay.qnn.op import qnn
from passat.relay.qnn.op.qnn import *  # noqa: F403  # all of them belong here

__all__ = ["qnn"]
__all__ += qnn.__all__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.qnn.op", __all__)
