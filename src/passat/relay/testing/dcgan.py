"""The generator of DCGAN: images of 64 by 64 pixels from noise (Radford and others, 2015)."""

from passat.ir.analysis import free_vars
from passat.ir.expr import Expr, Function, var
from passat.relay import nn
from passat.relay.derived import tanh
from passat.relay.tensor import reshape
from passat.relay.testing.init import Workload, create_workload
from passat.relay.testing.layers import batch_norm_infer, conv2d_transpose, input_of


def get_net(
    batch_size: int, random_len: int = 100, oshape: tuple[int, ...] = (3, 64, 64), ngf: int = 128, dtype: str = "float32"
) -> Function:
    """A fully connected layer and four transposed convolutions, which each double the sides. Raises ValueError for another size."""
    if oshape[-2:] != (64, 64):
        raise ValueError(f"DCGAN makes images of 64 by 64 pixels, not {oshape}")
    dense = nn.dense(input_of(batch_size, (random_len,), dtype), var("dense_weight"), 4 * 4 * ngf * 8)
    body: Expr = reshape(nn.relu(dense), (-1, ngf * 8, 4, 4))
    for number, channels in enumerate((ngf * 4, ngf * 2, ngf, oshape[0]), 2):
        body = conv2d_transpose(
            body, name=f"g{number}_deconv", channels=channels, kernel_size=(4, 4), strides=(2, 2), padding=(1, 1), kernel_layout="IOHW"
        )
        if number < 5:
            body = nn.relu(batch_norm_infer(body, name=f"g{number}_batch_norm", epsilon=1e-5 + 1e-12, scale=False))
    net = tanh(body)
    return Function(free_vars(net), net)


def get_workload(
    batch_size: int, oshape: tuple[int, ...] = (3, 64, 64), ngf: int = 128, random_len: int = 100, dtype: str = "float32"
) -> Workload:
    """The network as a module, and its parameters."""
    return create_workload(get_net(batch_size, random_len, oshape, ngf, dtype))
