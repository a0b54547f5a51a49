"""`relay.qnn`: quantized operators and the passes over them."""

from typing import TYPE_CHECKING

from passat.relay.names import missing_name
from passat.relay.qnn import op, transform
from passat.relay.qnn.op.qnn import *  # noqa: F403  # relay.qnn.quantize and so on

__all__ = ["op", "transform"]
__all__ += op.qnn.__all__


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.qnn", __all__)
