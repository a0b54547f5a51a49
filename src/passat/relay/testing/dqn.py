"""The network of deep Q-learning, which plays by looking at four frames (Mnih and others, 2015)."""

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import conv_relu, dense_add_bias, input_of


def get_net(batch_size: int, num_actions: int = 18, image_shape: tuple[int, ...] = (4, 84, 84), dtype: str = "float32") -> Function:
    """Three convolutions and two fully connected layers: a value for each action."""
    body: Expr = input_of(batch_size, image_shape, dtype)
    for number, (channels, kernel, stride) in enumerate(((32, 8, 4), (64, 4, 2), (64, 3, 1)), 1):
        body = conv_relu(body, channels, kernel, f"conv{number}", strides=(stride, stride))
    body = nn.relu(dense_add_bias(nn.batch_flatten(body), units=512, name="dense1"))
    net = dense_add_bias(body, units=num_actions, name="dense2")
    return Function(free_vars(net), net)


def get_workload(batch_size: int, num_actions: int = 18, image_shape: tuple[int, ...] = (4, 84, 84), dtype: str = "float32") -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, num_actions, image_shape, dtype))
