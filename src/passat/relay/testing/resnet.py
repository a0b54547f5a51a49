"""Residual networks with normalization before each convolution (He and others, Identity Mappings in Deep Residual Networks, 2016)."""

from typing import Final

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function
from passat.relay import nn
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import batch_norm_infer, conv2d, dense_add_bias, input_of

_UNITS: Final = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Units of the four stages, by number of layers."""
_EPSILON: Final = 2e-5


def _normal(data: Expr, name: str) -> Expr:
    return nn.relu(batch_norm_infer(data, name=name, epsilon=_EPSILON))


def _unit(data: Expr, channels: int, stride: int, first: bool, bottleneck: bool, name: str) -> Expr:
    """Two convolutions of 3 by 3, or three around a narrower one, added to their input."""
    normal = _normal(data, f"{name}_bn1")
    inner = channels // 4 if bottleneck else channels
    plan = [(inner, 1, stride), (inner, 3, 1), (channels, 1, 1)] if bottleneck else [(inner, 3, stride), (inner, 3, 1)]
    body = normal
    for number, (width, kernel, step) in enumerate(plan, 1):
        before = body if number == 1 else _normal(body, f"{name}_bn{number}")
        padding = (kernel // 2, kernel // 2)
        body = conv2d(
            before,
            name=f"{name}_conv{number}",
            channels=width,
            kernel_size=(kernel, kernel),
            strides=(step, step),
            padding=padding,
        )
    if not first:
        return body + data
    return body + conv2d(normal, name=f"{name}_sc", channels=channels, kernel_size=(1, 1), strides=(stride, stride))


def get_net(
    batch_size: int,
    num_classes: int,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Function:
    """A network of 18, 34, 50, 101 or 152 layers for large images. Raises ValueError for other numbers and layouts."""
    if num_layers not in _UNITS:
        raise ValueError(f"a ResNet has one of {', '.join(map(str, _UNITS))} layers, not {num_layers}")
    if layout != "NCHW":
        raise ValueError(f"layout={layout!r} is not supported; convert the network with relay.transform.ConvertLayout")
    bottleneck = num_layers >= 50
    body: Expr = batch_norm_infer(input_of(batch_size, image_shape, dtype), name="bn_data", epsilon=_EPSILON, scale=False)
    body = conv2d(body, name="conv0", channels=64, kernel_size=(7, 7), strides=(2, 2), padding=(3, 3))
    body = nn.max_pool2d(_normal(body, "bn0"), (3, 3), (2, 2), padding=(1, 1))
    for stage, units in enumerate(_UNITS[num_layers]):
        channels = (256 if bottleneck else 64) << stage
        for unit in range(units):
            stride = 2 if stage and not unit else 1
            body = _unit(body, channels, stride, not unit, bottleneck, f"stage{stage + 1}_unit{unit + 1}")
    pooled = nn.batch_flatten(nn.global_avg_pool2d(_normal(body, "bn1")))
    net = nn.softmax(dense_add_bias(pooled, units=num_classes, name="fc1"))
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int = 1,
    num_classes: int = 1000,
    num_layers: int = 18,
    image_shape: tuple[int, ...] = (3, 224, 224),
    layout: str = "NCHW",
    dtype: str = "float32",
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, num_classes, num_layers, image_shape, layout, dtype))
