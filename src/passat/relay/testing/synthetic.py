"""A tiny network: one fully connected layer and a ReLU."""

from passat.ir.analysis import free_vars
from passat.ir.expr import Function, var
from passat.relay import nn
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import input_of


def get_net(input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wshape: tuple[int, int] = (128, 864)) -> Function:
    """The data flattened, times a weight of the given shape."""
    data = input_of(input_shape[0], input_shape[1:], dtype)
    net = nn.relu(nn.dense(nn.batch_flatten(data), var("dense1_weight", shape=wshape, dtype=dtype)))
    return Function(free_vars(net), net)


def get_workload(input_shape: tuple[int, ...] = (1, 3, 24, 12), dtype: str = "float32", wshape: tuple[int, int] = (128, 864)) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(input_shape, dtype, wshape))
