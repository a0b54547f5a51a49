"""`relay.testing`: helpers that tests of passes share, and networks to try passes on.

mod, params = relay.testing.resnet.get_workload(batch_size=1)
"""

from passat.relay.testing import (
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
from passat.relay.testing.helpers import count, make_nat_expr, make_nat_value, run_infer_type, run_opt_pass
from passat.relay.testing.init import create_workload
from passat.relay.testing.py_converter import run_as_python, to_python
from passat.relay.testing.temp_op_attr import TempOpAttr

__all__ = [
    "TempOpAttr",
    "count",
    "create_workload",
    "dcgan",
    "densenet",
    "dqn",
    "inception_v3",
    "init",
    "layers",
    "lstm",
    "make_nat_expr",
    "make_nat_value",
    "mlp",
    "mobilenet",
    "py_converter",
    "resnet",
    "run_as_python",
    "run_infer_type",
    "run_opt_pass",
    "squeezenet",
    "synthetic",
    "temp_op_attr",
    "to_python",
]
