"""Gradients of normalizations, from the gradient of the standardized data."""

from collections.abc import Sequence
from functools import reduce

from passat.ir.expr import Call, Expr
from passat.ir.gradients.adjoints import field_of
from passat.ir.gradients.elementwise import scalar
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op
from passat.ir.types import TupleType, tensor_type

Axes = Sequence[int]


def _rank(call: Call) -> int:
    return tensor_type(call.args[0].checked_type).ndim


def _mean(value: Expr, axes: Axes) -> Expr:
    return call_op("mean", value, axis=tuple(axes), keepdims=True)


def _total(value: Expr, axes: Axes | None) -> Expr:
    return call_op("sum", value, axis=None if axes is None else tuple(axes), keepdims=True)


def _standardized(x: Expr, epsilon: Expr, axes: Axes) -> tuple[Expr, Expr]:
    """The data with zero mean and unit variance over some axes, and its factor: the inverse deviation."""
    centered = x - _mean(x, axes)
    factor = call_op("rsqrt", _mean(centered * centered, axes) + epsilon)
    return centered * factor, factor


def _through(found: Expr, factor: Expr, grad: Expr, axes: Axes) -> Expr:
    """The gradient of the data, given that of the standardized data."""
    return factor * (grad - _mean(grad, axes) - found * _mean(grad * found, axes))


def _along(vector: Expr, axis: int, rank: int) -> Expr:
    """A vector that broadcasts along an axis of data of some rank."""
    behind = rank - axis % rank - 1
    return call_op("expand_dims", vector, axis=1, num_newaxis=behind) if behind else vector


def _per_channel(value: Expr, axis: int, rank: int) -> Expr:
    """The sums over all axes but the one of the channels."""
    others = tuple(place for place in range(rank) if place != axis % rank)
    return call_op("sum", value, axis=others) if others else value


@built_in("nn.batch_norm")
def batch_norm_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradients of an affine function of the data, since the mean and the variance are operands."""
    data, gamma, _, mean, variance = call.args
    attrs, rank = call.attrs, _rank(call)
    of_data = field_of(grad, 0)
    root = call_op("rsqrt", variance + scalar(attrs.epsilon, data))
    centered = data - _along(mean, attrs.axis, rank)
    factor = root * gamma if attrs.scale else root
    total, products = _per_channel(of_data, attrs.axis, rank), _per_channel(of_data * centered, attrs.axis, rank)
    return [
        of_data * _along(factor, attrs.axis, rank),
        products * root if attrs.scale else None,
        total if attrs.center else None,
        field_of(grad, 1) - total * factor,
        field_of(grad, 2) - products * factor * root * root * scalar(0.5, data),
    ]


@built_in("nn.layer_norm")
def layer_norm_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the standardization over the axes from `axis` on."""
    data, gamma, beta = call.args
    rank = _rank(call)
    axes = range(call.attrs.axis % rank, rank)
    found, factor = _standardized(data, scalar(call.attrs.epsilon, data), axes)
    absent = isinstance(beta.checked_type, TupleType)
    return [
        _through(found, factor, grad * gamma, axes),
        call_op("collapse_sum_like", grad * found, gamma),
        None if absent else call_op("collapse_sum_like", grad, beta),
    ]


@built_in("nn.instance_norm")
def instance_norm_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the standardization over all axes but those of the batch and the channels."""
    data, gamma, _ = call.args
    rank, axis = _rank(call), call.attrs.axis
    axes = tuple(place for place in range(1, rank) if place != axis % rank)
    found, factor = _standardized(data, scalar(call.attrs.epsilon, data), axes)
    scaled = grad * _along(gamma, axis, rank)
    return [_through(found, factor, scaled, axes), _per_channel(grad * found, axis, rank), _per_channel(grad, axis, rank)]


@built_in("nn.group_norm")
def group_norm_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the standardization of each group of channels."""
    data, gamma, _ = call.args
    rank, attrs = _rank(call), call.attrs
    swapped = list(range(rank))
    swapped[1], swapped[attrs.axis % rank] = swapped[attrs.axis % rank], 1
    first = swapped == sorted(swapped)

    def turned(value: Expr) -> Expr:
        """The value with its channels at axis 1, or back at their place."""
        return value if first else call_op("transpose", value, axes=tuple(swapped))

    def grouped(value: Expr) -> Expr:
        return call_op("reshape", turned(value), newshape=(0, attrs.num_groups, -1))

    def whole(value: Expr) -> Expr:
        return turned(call_op("reshape_like", value, turned(data)))

    found, factor = _standardized(grouped(data), scalar(attrs.epsilon, data), (2,))
    of_data = _through(found, factor, grouped(grad * _along(gamma, attrs.axis, rank)), (2,))
    return [whole(of_data), _per_channel(grad * whole(found), attrs.axis, rank), _per_channel(grad, attrs.axis, rank)]


@built_in("nn.rms_norm")
def rms_norm_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the quotient by the root of the mean square."""
    data, gamma = call.args
    rank = _rank(call)
    axes = range(call.attrs.axis % rank, rank)
    factor = call_op("rsqrt", _mean(data * data, axes) + scalar(call.attrs.epsilon, data))
    found, scaled = data * factor, grad * gamma
    return [factor * (scaled - found * _mean(scaled * found, axes)), call_op("collapse_sum_like", grad * found, gamma)]


@built_in("nn.l2_normalize")
def l2_normalize_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the quotient by the norm; the norm is constant where `eps` replaces it."""
    data, attrs = call.args[0], call.attrs
    axes = (attrs.axis,) if isinstance(attrs.axis, int) else attrs.axis
    square, least = _total(data * data, axes), scalar(attrs.eps, data)
    along = call_op("where", call_op("greater", square, least), _total(grad * call, axes), scalar(0, data))
    return [(grad - call * along) * call_op("rsqrt", call_op("maximum", square, least))]


@built_in("nn.lp_normalize")
def lp_normalize_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the quotient by the norm; 0 where the norm is 0."""
    data, axes = call.args[0], (call.attrs.axis,)
    along = _total(grad * call, axes)
    first = call.attrs.p == 1
    norm = _total(call_op("abs", data), axes) if first else call_op("sqrt", _total(data * data, axes))
    part = (grad - (call_op("sign", data) if first else call) * along) / norm
    return [call_op("where", call_op("equal", norm, scalar(0, data)), scalar(0, data), part)]


@built_in("nn.lrn")
def lrn_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient through the quotient by the power of the sums over neighboring channels."""
    data, attrs = call.args[0], call.attrs
    rank, axis = _rank(call), attrs.axis % _rank(call)
    channels = tensor_type(data.checked_type).shape[axis]
    if not isinstance(channels, int):
        raise GradientError(f"the gradient of nn.lrn needs a known number of channels, but the operand is {data.checked_type}")
    before, after = (attrs.size - 1) // 2, attrs.size // 2

    def neighbors(value: Expr, before: int, after: int) -> Expr:
        """The sums over the neighbors of each channel."""
        widths = tuple((before, after) if place == axis else (0, 0) for place in range(rank))
        wide = call_op("nn.pad", value, pad_width=widths)
        parts: list[Expr] = [call_op("strided_slice", wide, begin=(at,), end=(at + channels,), axes=(axis,)) for at in range(attrs.size)]
        return reduce(lambda a, b: a + b, parts)

    factor = attrs.alpha / attrs.size
    base = neighbors(data * data, before, after) * scalar(factor, data) + scalar(attrs.bias, data)
    power = call_op("power", base, scalar(-attrs.beta, data))
    spread = neighbors(grad * call / base, after, before)
    return [grad * power - data * spread * scalar(2 * factor * attrs.beta, data)]


@built_in("nn.dropout")
def dropout_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient itself: in inference nothing is dropped."""
    return [field_of(grad, 0)]
