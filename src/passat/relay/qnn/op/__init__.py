"""`relay.qnn.op`: the functions of quantized operators."""

from passat.relay.qnn.op import qnn
from passat.relay.qnn.op.qnn import *  # noqa: F403  # all of them belong here

__all__ = ["qnn"]
__all__ += qnn.__all__
