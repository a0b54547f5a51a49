"""DenseNet: each layer reads the results of all layers before it (Huang and others, 2017)."""

from typing import Final

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.derived import concatenate
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import batch_norm_infer, conv2d, dense_add_bias, input_of

_PLANS: Final = {
    121: (64, 32, (6, 12, 24, 16)),
    161: (96, 48, (6, 12, 36, 24)),
    169: (64, 32, (6, 12, 32, 32)),
    201: (64, 32, (6, 12, 48, 32)),
}
"""Channels of the first convolution, channels that each layer adds, and layers of each block, by number of layers."""


def _normal(data: Expr, name: str) -> Expr:
    return nn.relu(batch_norm_infer(data, name=name))


def _layer(data: Expr, growth: int, name: str) -> Expr:
    narrow = conv2d(_normal(data, f"{name}_bn1"), name=f"{name}_conv1", channels=4 * growth, kernel_size=(1, 1))
    added = conv2d(_normal(narrow, f"{name}_bn2"), name=f"{name}_conv2", channels=growth, kernel_size=(3, 3), padding=(1, 1))
    return concatenate([data, added], 1)


def get_net(
    batch_size: int,
    densenet_size: int = 121,
    classes: int = 1000,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Function:
    """A network of 121, 161, 169 or 201 layers. Raises ValueError for another number."""
    if densenet_size not in _PLANS:
        raise ValueError(f"a DenseNet has one of {', '.join(map(str, _PLANS))} layers, not {densenet_size}")
    channels, growth, blocks = _PLANS[densenet_size]
    body: Expr = input_of(batch_size, image_shape, dtype)
    body = conv2d(body, name="conv1", channels=channels, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3))
    body = nn.max_pool2d(_normal(body, "bn1"), (3, 3), (2, 2), padding=(1, 1))
    for block, layers in enumerate(blocks, 1):
        for layer in range(1, layers + 1):
            body = _layer(body, growth, f"block{block}_layer{layer}")
        channels += layers * growth
        if block < len(blocks):
            channels //= 2
            body = conv2d(_normal(body, f"transition{block}_bn"), name=f"transition{block}_conv", channels=channels, kernel_size=(1, 1))
            body = nn.avg_pool2d(body, (2, 2), (2, 2))
    pooled = nn.batch_flatten(nn.global_avg_pool2d(_normal(body, "bn_last")))
    net = dense_add_bias(pooled, units=classes, name="fc")
    return Function(free_vars(net), net)


def get_workload(
    densenet_size: int = 121,
    classes: int = 1000,
    batch_size: int = 4,
    image_shape: tuple[int, ...] = (3, 224, 224),
    dtype: str = "float32",
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, densenet_size, classes, image_shape, dtype))
