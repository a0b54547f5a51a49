"""Relay's functions of networks that training uses: losses, and the gradient of a convolution's weight. Composed of other operators."""

from passat.ir.expr import Call, Expr
from passat.ir.gradients.windows import laid_out_as, weight_gradient
from passat.ir.op import call_op
from passat.ir.ops.windows import begins_ends, per_axis
from passat.ir.types import TensorType
from passat.relay.building import Numbers, call, known_type, numbers, only, only_dtype, operand
from passat.relay.names import explain_arguments

__all__ = ["conv2d_backward_weight", "cross_entropy", "cross_entropy_with_logits"]


def cross_entropy(predictions: Expr, targets: Expr) -> Call:
    """The mean over the rows of the cross entropy between two matrices of probabilities."""
    logits = call("log", operand("nn.cross_entropy", "predictions", predictions))
    return cross_entropy_with_logits(logits, operand("nn.cross_entropy", "targets", targets))


def cross_entropy_with_logits(predictions: Expr, targets: Expr) -> Call:
    """The mean over the rows of the cross entropy between a matrix of probabilities and one of logarithms of predicted ones."""
    products = call("multiply", predictions, targets)
    return call_op("negative", call_op("mean", call_op("sum", products, axis=(1,))))


def conv2d_backward_weight(
    grad: Expr,
    data: Expr,
    strides: Numbers = (1, 1),
    padding: Numbers = (0, 0),
    dilation: Numbers = (1, 1),
    groups: int = 1,
    channels: int | None = None,
    kernel_size: Numbers | None = None,
    grad_layout: str = "NCHW",
    data_layout: str = "NCHW",
    kernel_layout: str = "OIHW",
    out_dtype: str = "",
) -> Expr:
    """The gradient of a convolution's weight, given that of its result: a convolution of the data with `grad`.

    `kernel_size` is the window of the convolution. The shape of the data must be known.
    """
    name = "nn.conv2d_backward_weight"
    type_, result = known_type(operand(name, "data", data)), known_type(operand(name, "grad", grad))
    if not isinstance(type_, TensorType) or not isinstance(result, TensorType) or not type_.is_static or type_.ndim != 4:
        raise ValueError(f"relay.{name}: data and grad must have known shapes of 4 dimensions, not {type_} and {result}")
    if kernel_size is None:
        raise ValueError(f"relay.{name}: kernel_size is missing")
    only_dtype(name, out_dtype, data)
    only(name, "channels", channels, None, result.shape[grad_layout.index("C")])
    attrs = {
        "strides": per_axis(numbers(name, "strides", strides), 2, "strides"),
        "padding": tuple(number for part in begins_ends(numbers(name, "padding", padding), 2) for number in part),
        "dilation": per_axis(numbers(name, "dilation", dilation), 2, "dilation"),
        "groups": groups,
    }
    shape = tuple(type_.concrete_shape[data_layout.index(letter)] for letter in "NCHW")
    window = per_axis(numbers(name, "kernel_size", kernel_size), 2, "kernel_size")
    found = weight_gradient(laid_out_as(data, data_layout, "NCHW"), shape, laid_out_as(grad, grad_layout, "NCHW"), window, attrs)
    return laid_out_as(found, "OIHW", kernel_layout)


explain_arguments(globals(), __all__, "nn.")
