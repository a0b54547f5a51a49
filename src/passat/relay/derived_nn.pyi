from collections.abc import Sequence

from passat.ir.expr import Call, Expr

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "attention",
    "batch_flatten",
    "batch_norm",
    "bias_add",
    "celu",
    "contrib_avg_pool2d_nchwc",
    "contrib_conv3d_nchwc",
    "contrib_global_avg_pool2d_nchwc",
    "contrib_global_max_pool2d_nchwc",
    "contrib_max_pool2d_nchwc",
    "elu",
    "fast_softmax",
    "gelu",
    "global_lp_pool",
    "hard_sigmoid",
    "hard_swish",
    "l2_normalize",
    "leaky_relu",
    "log_softmax",
    "lp_normalize",
    "lp_pool",
    "lrn",
    "mish",
    "relu",
    "rms_norm",
    "rotary_embedding",
    "selu",
    "shrink",
    "softmax",
    "softplus",
    "softsign",
    "swish",
    "thresholded_relu",
]

def adaptive_avg_pool1d(data: Expr, output_size: int | Sequence[int] | None = None, layout: str = "NCW") -> Call: ...
def adaptive_avg_pool2d(data: Expr, output_size: int | Sequence[int] | None = None, layout: str = "NCHW") -> Call: ...
def adaptive_avg_pool3d(data: Expr, output_size: int | Sequence[int] | None = None, layout: str = "NCDHW") -> Call: ...
def attention(
    query: Expr, key: Expr, value: Expr, mask: Expr, q_num_heads: int, kv_num_heads: int, scale: float, is_causal: bool = False
) -> Call: ...
def batch_flatten(data: Expr, axis: int = 1) -> Call: ...
def batch_norm(
    data: Expr,
    gamma: Expr,
    beta: Expr,
    moving_mean: Expr,
    moving_var: Expr,
    axis: int = 1,
    epsilon: float = 1e-05,
    center: bool = True,
    scale: bool = True,
) -> Call: ...
def bias_add(data: Expr, bias: Expr, axis: int = 1) -> Call: ...
def celu(data: Expr, alpha: float = 1.0) -> Call: ...
def contrib_avg_pool2d_nchwc(
    data: Expr,
    layout: str,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0, 0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Call: ...
def contrib_conv3d_nchwc(
    data: Expr,
    weight: Expr,
    data_layout: str,
    kernel_layout: str,
    strides: int | Sequence[int] = (1, 1, 1),
    padding: int | Sequence[int] = (0, 0, 0, 0, 0, 0),
    dilation: int | Sequence[int] = (1, 1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: int | Sequence[int] | None = None,
    out_dtype: str = "",
) -> Call: ...
def contrib_global_avg_pool2d_nchwc(data: Expr, layout: str) -> Call: ...
def contrib_global_max_pool2d_nchwc(data: Expr, layout: str) -> Call: ...
def contrib_max_pool2d_nchwc(
    data: Expr,
    layout: str,
    pool_size: int | Sequence[int] = (1, 1),
    strides: int | Sequence[int] = (1, 1),
    padding: int | Sequence[int] = (0, 0, 0, 0),
    dilation: int | Sequence[int] = (1, 1),
    ceil_mode: bool = False,
) -> Call: ...
def elu(data: Expr, alpha: float = 1.0) -> Call: ...
def fast_softmax(data: Expr, axis: int = -1) -> Call: ...
def gelu(data: Expr, approximate: str = "none") -> Call: ...
def global_lp_pool(data: Expr, p: int = 2) -> Call: ...
def hard_sigmoid(data: Expr, alpha: float = 0.2, beta: float = 0.5) -> Call: ...
def hard_swish(data: Expr) -> Call: ...
def l2_normalize(data: Expr, eps: float, axis: int | Sequence[int] | None = None) -> Call: ...
def leaky_relu(data: Expr, alpha: float = 0.01) -> Call: ...
def log_softmax(data: Expr, axis: int = -1) -> Call: ...
def lp_normalize(data: Expr, axis: int = -1, p: int = 2) -> Call: ...
def lp_pool(
    data: Expr,
    pool_size: int | Sequence[int],
    p: int = 2,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> Call: ...
def lrn(data: Expr, size: int = 5, axis: int = 1, bias: float = 2, alpha: float = 1e-05, beta: float = 0.75) -> Call: ...
def mish(data: Expr) -> Call: ...
def relu(data: Expr) -> Call: ...
def rms_norm(data: Expr, gamma: Expr, axis: int = -1, epsilon: float = 1e-05) -> Call: ...
def rotary_embedding(data: Expr, cos: Expr, sin: Expr, num_heads: int, interleaved: bool = False) -> Call: ...
def selu(data: Expr, alpha: float = 1.6732632, gamma: float = 1.050701) -> Call: ...
def shrink(data: Expr, lambd: float = 0.5, bias: float = 0.0) -> Call: ...
def softmax(data: Expr, axis: int = -1) -> Call: ...
def softplus(data: Expr) -> Call: ...
def softsign(data: Expr) -> Call: ...
def swish(data: Expr, alpha: float = 1.0) -> Call: ...
def thresholded_relu(data: Expr, alpha: float = 1.0) -> Call: ...
