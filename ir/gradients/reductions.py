"""Gradients of reductions, softmax, and of broadcasting."""

from passat.ir.expr import Call, Expr
from passat.ir.gradients.elementwise import scalar
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op
from passat.ir.ops.reduction import reduced_axes
from passat.ir.types import tensor_type


def _axes(call: Call) -> tuple[int, ...]:
    attrs = call.attrs
    return reduced_axes(tensor_type(call.args[0].checked_type).ndim, attrs.axis, attrs.exclude)


def _kept(call: Call, value: Expr) -> Expr:
    """A value of the shape of a reduction's result, with the reduced axes kept with size 1."""
    return value if call.attrs.keepdims else call_op("expand_dims", value, axis=_axes(call))


@built_in("sum")
def sum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for each element that was summed."""
    x = call.args[0]
    return [call_op("broadcast_to_like", _kept(call, grad), x)]


@built_in("mean")
def mean_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """As for a sum, divided by the number of elements."""
    x = call.args[0]
    type_ = tensor_type(x.checked_type)
    count = 1
    for axis in _axes(call):
        size = type_.shape[axis]
        if not isinstance(size, int):
            raise GradientError(f"the gradient of mean needs axes of known sizes, but the operand is {type_}")
        count *= size
    return [call_op("broadcast_to_like", _kept(call, grad) * scalar(1 / max(count, 1), x), x)]


@built_in("max", "min")
def extremum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient goes to the greatest (or least) element; several equal ones share it equally."""
    x = call.args[0]
    chosen = call_op("equal", x, _kept(call, call)).astype(tensor_type(x.checked_type).dtype)
    return [chosen * _kept(call, grad) / call_op("sum", chosen, axis=_axes(call) or None, keepdims=True)]


@built_in("prod")
def prod_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The product of the other elements, which is 0 if one of them is."""
    x, axes = call.args[0], _axes(call) or None  # a scalar has no axis to name
    nothing = scalar(0, x)
    zero = call_op("equal", x, nothing)
    factors = call_op("where", zero, scalar(1, x), x)
    count = zero.astype(tensor_type(x.checked_type).dtype)
    others = call_op("sum", count, axis=axes, keepdims=True) - count
    product = call_op("prod", factors, axis=axes, keepdims=True) / factors
    return [_kept(call, grad) * call_op("where", call_op("equal", others, nothing), product, nothing)]


@built_in("reduce_l1")
def l1_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sign of each element."""
    return [_kept(call, grad) * call_op("sign", call.args[0])]


@built_in("reduce_l2")
def l2_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The elements divided by the norm. NaN where the norm is 0."""
    return [_kept(call, grad / call) * call.args[0]]


@built_in("reduce_log_sum")
def log_sum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient divided by the sum, for each element."""
    return [call_op("broadcast_to_like", _kept(call, grad * call_op("exp", -call)), call.args[0])]


@built_in("reduce_sum_square")
def sum_square_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """Twice the elements."""
    x = call.args[0]
    return [_kept(call, grad) * x * scalar(2, x)]


@built_in("logsumexp")
def logsumexp_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """Softmax times the gradient."""
    x = call.args[0]
    return [_kept(call, grad) * call_op("exp", x - _kept(call, call))]


@built_in("nn.softmax", "nn.fast_softmax")
def softmax_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """y (g - sum(g y))."""
    return [(grad - call_op("sum", grad * call, axis=call.attrs.axis, keepdims=True)) * call]


@built_in("nn.log_softmax")
def log_softmax_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """g - sum(g) exp(y)."""
    return [grad - call_op("sum", grad, axis=call.attrs.axis, keepdims=True) * call_op("exp", call)]


@built_in("broadcast_to", "broadcast_to_like", "dyn.broadcast_to")
def broadcast_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """Sums over the axes along which the operand was broadcast."""
    rest: list[Expr | None] = [None] * (len(call.args) - 1)
    return [call_op("collapse_sum_like", grad, call.args[0]), *rest]


@built_in("collapse_sum_like")
@built_in("collapse_sum_to")
def collapse_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for each element that was summed."""
    return [call_op("broadcast_to_like", grad, call.args[0]), *[None] * (len(call.args) - 1)]


@built_in("cumsum")
def cumsum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """Running sums from the other end."""
    attrs = call.attrs
    return [call_op("cumsum", grad, axis=attrs.axis, exclusive=attrs.exclusive, reverse=not attrs.reverse)]


@built_in("full", "dyn.full")
def full_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum of the gradient."""
    return [call_op("sum", grad), *[None] * (len(call.args) - 1)]


@built_in("full_like")
def full_like_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum of the gradient; None for the operand that only gives the shape."""
    return [None, call_op("sum", grad)]
