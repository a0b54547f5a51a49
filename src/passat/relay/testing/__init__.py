"""`relay.testing`: helpers shared by tests of passes, and networks to test passes on.

mod, params = relay.testing.resnet.get_workload(batch_size=1)
"""

from typing import TYPE_CHECKING

from passat.relay.names import missing_name
from passat.relay.testing import (
    byoc,
    dcgan,
    densenet,
    dqn,
    inception_v3,
    init,
    layers,
    lstm,
    mlp,
    mobilenet,
    py_converter,
    resnet,
    squeezenet,
    synthetic,
    temp_op_attr,
)
from passat.relay.testing.helpers import _np_randn_from_type as _np_randn_from_type  # the name that TVM scripts import
from passat.relay.testing.helpers import check_grad, count, count_ops, make_nat_expr, make_nat_value, rand, run_infer_type, run_opt_pass
from passat.relay.testing.init import create_workload
from passat.relay.testing.py_converter import run_as_python, to_python
from passat.relay.testing.temp_op_attr import TempOpAttr
from passat.testing import enabled_targets

__all__ = [
    "TempOpAttr",
    "byoc",
    "check_grad",
    "count",
    "count_ops",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "enabled_targets",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "py_converter",
    "rand",
    "resnet",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "to_python",
]


if not TYPE_CHECKING:  # hidden from type checkers, which would accept any misspelled name
    __getattr__ = missing_name("relay.testing", __all__)
