"""`relay.op`: operators by name, and the functions that build calls of them."""

from typing import TYPE_CHECKING

from passat.ir.affine_type import register_fake_quantization_to_integer, register_optional_fake_quantization_to_integer
from passat.ir.gradients.registry import register_gradient
from passat.ir.op import Op, OpTypeError, define_op, list_ops
from passat.ir.op_attributes import OpPattern
from passat.ir.registered_op import register, register_alter_op_layout, register_legalize, register_pattern, register_stateful
from passat.relay import annotation, contrib, derived, nn, statistics, tensor
from passat.relay.derived import *  # noqa: F403  # relay.op.add and so on
from passat.relay.expr import const
from passat.relay.names import missing_name
from passat.relay.statistics import *  # noqa: F403
from passat.relay.tensor import *  # noqa: F403

__all__ = [
    "Op",
    "OpPattern",
    "OpTypeError",
    "annotation",
    "const",
    "contrib",
    "define_op",
    "get",
    "list_ops",
    "nn",
    "register",
    "register_alter_op_layout",
    "register_gradient",
    "register_legalize",
    "register_pattern",
    "register_stateful",
]
__all__ += ["register_fake_quantization_to_integer", "register_optional_fake_quantization_to_integer"]
__all__ += derived.__all__
__all__ += statistics.__all__
__all__ += tensor.__all__


get = Op.get


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name as an operator
    __getattr__ = missing_name("relay.op", __all__)


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
