"""MobileNet: depthwise convolutions, and convolutions of 1 by 1 (Howard and others, 2017)."""

from typing import Final

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function, var
from passat.relay import nn
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import batch_norm_infer, conv2d, conv_bn_relu, input_of

_BLOCKS: Final = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1))
"""Channels and stride of each block."""


def mobile_net(num_classes: int = 1000, data_shape: tuple[int, ...] = (1, 3, 224, 224), dtype: str = "float32") -> Function:
    """The network of 28 layers."""
    width = 32
    body: Expr = input_of(data_shape[0], data_shape[1:], dtype)
    body = conv_bn_relu(body, width, 3, "conv_block_1", strides=(2, 2), padding=(1, 1))
    for number, (channels, stride) in enumerate(_BLOCKS, 1):
        name = f"separable_conv_block_{number}"
        depthwise = conv2d(body, name=name, channels=width, kernel_size=(3, 3), strides=(stride, stride), padding=(1, 1), groups=width)
        body = nn.relu(batch_norm_infer(depthwise, name=f"{name}_bn1"))
        pointwise = conv2d(body, name=f"{name}_conv2", channels=channels, kernel_size=(1, 1))
        body = nn.relu(batch_norm_infer(pointwise, name=f"{name}_bn2"))
        width = channels
    pooled = nn.batch_flatten(nn.global_avg_pool2d(body))
    net = nn.softmax(nn.bias_add(nn.dense(pooled, var("fc_weight"), num_classes), var("fc_bias")))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1, num_classes: int = 1000, image_shape: tuple[int, ...] = (3, 224, 224), dtype: str = "float32"
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(mobile_net(num_classes, (batch_size, *image_shape), dtype))
