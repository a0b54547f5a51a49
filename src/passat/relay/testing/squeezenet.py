"""SqueezeNet: narrow convolutions before wide ones (Iandola and others, 2016)."""

from typing import Final

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.derived import concatenate
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import conv_relu, input_of

_FIRES: Final = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
"""Channels of the narrow and of the wide convolutions of each module."""
_POOLED: Final = {"1.0": (0, 3, 7), "1.1": (0, 2, 4)}
"""The modules with a pooling before them, by version."""


def _fire(data: Expr, squeeze: int, expand: int, name: str) -> Expr:
    narrow = conv_relu(data, squeeze, 1, f"{name}_input_conv")
    wide = [conv_relu(narrow, expand, 1, f"{name}_left_conv"), conv_relu(narrow, expand, 3, f"{name}_right_conv", padding=(1, 1))]
    return concatenate(wide, 1)


def get_net(
    batch_size: int, image_shape: tuple[int, ...] = (3, 224, 224), num_classes: int = 1000, version: str = "1.0", dtype: str = "float32"
) -> Function:
    """Version 1.0 or 1.1. Raises ValueError for other versions."""
    if version not in _POOLED:
        raise ValueError(f"SqueezeNet has the versions {' and '.join(_POOLED)}, not {version!r}")
    channels, kernel = (96, 7) if version == "1.0" else (64, 3)
    padding = (kernel // 2, kernel // 2)
    body: Expr = conv_relu(input_of(batch_size, image_shape, dtype), channels, kernel, "conv1", strides=(2, 2), padding=padding)
    for number, (squeeze, expand) in enumerate(_FIRES):
        if number in _POOLED[version]:
            body = nn.max_pool2d(body, (3, 3), (2, 2))
        body = _fire(body, squeeze, expand, f"fire{number + 1}")
    body = conv_relu(nn.dropout(body, 0.5), num_classes, 1, "conv_final")
    net = nn.softmax(nn.batch_flatten(nn.global_avg_pool2d(body)))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, version: str = "1.0", image_shape: tuple[int, ...] = (3, 224, 224), dtype: str = "float32"
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, image_shape, num_classes, version, dtype))
