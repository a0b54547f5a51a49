"""A multilayer perceptron for images of 28 by 28 pixels."""

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import dense_add_bias, input_of


def get_net(batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32") -> Function:
    """Two hidden layers of 128 and 64 units, and a softmax."""
    hidden: Expr = nn.batch_flatten(input_of(batch_size, image_shape, dtype))
    for number, units in enumerate((128, 64), 1):
        hidden = nn.relu(dense_add_bias(hidden, units=units, name=f"fc{number}"))
    net = nn.softmax(dense_add_bias(hidden, units=num_classes, name="fc3"))
    return Function(free_vars(net), net)


def get_workload(batch_size: int, num_classes: int = 10, image_shape: tuple[int, ...] = (1, 28, 28), dtype: str = "float32") -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
