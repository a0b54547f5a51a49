"""`relay.qnn`: quantized operators and the passes over them."""

from passat.relay.qnn import op, transform
from passat.relay.qnn.op.qnn import *  # noqa: F403  # relay.qnn.quantize and so on

__all__ = ["op", "transform"]
__all__ += op.qnn.__all__
