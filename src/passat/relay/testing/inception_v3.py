"""Inception v3: branches of several kernel sizes, joined (Szegedy and others, 2015)."""

from collections.abc import Sequence

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.derived import concatenate
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import conv_bn_relu, dense_add_bias, input_of

Step = tuple[int, int | tuple[int, int], int]
"""A convolution: its channels, kernel and stride; padded if the stride is 1."""


def _chain(data: Expr, steps: Sequence[Step], name: str) -> Expr:
    body = data
    for number, (channels, kernel, stride) in enumerate(steps):
        size = (kernel, kernel) if isinstance(kernel, int) else kernel
        padding = (size[0] // 2, size[1] // 2) if stride == 1 else (0, 0)
        body = conv_bn_relu(body, channels, size, f"{name}_{number}", epsilon=1e-3, strides=(stride, stride), padding=padding)
    return body


def _mean(data: Expr) -> Expr:
    return nn.avg_pool2d(data, (3, 3), (1, 1), padding=(1, 1))


def _block(data: Expr, branches: Sequence[Sequence[Step]], pooled: int, name: str) -> Expr:
    """Parallel branches, and one with a pooling: with a convolution of `pooled` channels, or of half the size if that is 0."""
    parts = [_chain(data, branch, f"{name}_branch{i}") for i, branch in enumerate(branches)]
    parts.append(_chain(_mean(data), [(pooled, 1, 1)], f"{name}_pool") if pooled else nn.max_pool2d(data, (3, 3), (2, 2)))
    return concatenate(parts, 1)


def _forked(data: Expr, before: Sequence[Step], channels: int, name: str) -> Expr:
    """A branch that ends in two parallel convolutions: a row and a column."""
    body = _chain(data, before, name)
    return concatenate([_chain(body, [(channels, kernel, 1)], f"{name}_{kernel[0]}x{kernel[1]}") for kernel in ((1, 3), (3, 1))], 1)


def _wide(data: Expr, name: str) -> Expr:
    parts = [
        _chain(data, [(320, 1, 1)], f"{name}_branch0"),
        _forked(data, [(384, 1, 1)], 384, f"{name}_branch1"),
        _forked(data, [(448, 1, 1), (384, 3, 1)], 384, f"{name}_branch2"),
        _chain(_mean(data), [(192, 1, 1)], f"{name}_pool"),
    ]
    return concatenate(parts, 1)


def get_net(batch_size: int, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 299, 299), dtype: str = "float32") -> Function:
    """The network for images of 299 by 299 pixels."""
    row, column = (1, 7), (7, 1)
    body = _chain(input_of(batch_size, image_shape, dtype), [(32, 3, 2)], "conv")
    body = conv_bn_relu(body, 32, 3, "conv_1", epsilon=1e-3)
    body = _chain(body, [(64, 3, 1)], "conv_2")
    body = _chain(nn.max_pool2d(body, (3, 3), (2, 2)), [(80, 1, 1)], "conv_3")
    body = nn.max_pool2d(conv_bn_relu(body, 192, 3, "conv_4", epsilon=1e-3), (3, 3), (2, 2))
    for number, pooled in enumerate((32, 64, 64)):
        body = _block(body, [[(64, 1, 1)], [(48, 1, 1), (64, 5, 1)], [(64, 1, 1), (96, 3, 1), (96, 3, 1)]], pooled, f"mixed_{number}")
    body = _block(body, [[(384, 3, 2)], [(64, 1, 1), (96, 3, 1), (96, 3, 2)]], 0, "mixed_3")
    for number, c in enumerate((128, 160, 160, 192), 4):
        long: list[Step] = [(c, 1, 1), (c, column, 1), (c, row, 1), (c, column, 1), (192, row, 1)]
        body = _block(body, [[(192, 1, 1)], [(c, 1, 1), (c, row, 1), (192, column, 1)], long], 192, f"mixed_{number}")
    narrow: list[Step] = [(192, 1, 1), (192, row, 1), (192, column, 1), (192, 3, 2)]
    body = _block(body, [[(192, 1, 1), (320, 3, 2)], narrow], 0, "mixed_8")
    body = _wide(_wide(body, "mixed_9"), "mixed_10")
    pooled_ = nn.batch_flatten(nn.global_avg_pool2d(body))
    net = nn.softmax(dense_add_bias(nn.dropout(pooled_, 0.5), units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 299, 299), dtype: str = "float32"
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, image_shape, dtype))
