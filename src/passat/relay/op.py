"""`relay.op`: operators by name, and the functions that build calls of them."""

from passat.ir.op import Op, OpTypeError, define_op, list_ops
from passat.ir.op import get_op as get
from passat.relay import derived, nn, tensor
from passat.relay.derived import *  # noqa: F403  # relay.op.add and so on
from passat.relay.tensor import *  # noqa: F403

__all__ = ["Op", "OpTypeError", "define_op", "get", "list_ops", "nn"]
__all__ += derived.__all__
__all__ += tensor.__all__
