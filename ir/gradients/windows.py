"""Gradients of convolutions and poolings, by convolutions."""

import math
from typing import Any as AnyValue

import numpy as np

from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Constant, Expr, Tuple
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op
from passat.ir.ops.windows import SPATIAL, begins_ends, per_axis
from passat.ir.types import tensor_type


def laid_out_as(value: Expr, layout: str, wanted: str) -> Expr:
    """A value transposed to another layout."""
    return value if layout == wanted else call_op("transpose", value, axes=tuple(layout.index(letter) for letter in wanted))


def _shape(value: Expr, layout: str, wanted: str, call: Call) -> tuple[int, ...]:
    type_ = tensor_type(value.checked_type)
    if not type_.is_static:
        raise GradientError(f"the gradient of {call.op!r} needs operands of known sizes, but one is {type_}")
    shape = type_.concrete_shape
    return tuple(shape[layout.index(letter)] for letter in wanted)


def _spread(
    grad: Expr, weight: Expr, data: tuple[int, ...], result: tuple[int, ...], window: tuple[int, ...], attrs: dict[str, AnyValue]
) -> Expr:
    """The transposed convolution with a weight, of the shape of the convolution's data."""
    rank = len(window)
    begins, ends = begins_ends(attrs["padding"], rank)
    steps, gaps = per_axis(attrs["strides"], rank, "strides"), per_axis(attrs["dilation"], rank, "dilation")
    extra = tuple(
        size - (step * (places - 1) + gap * (length - 1) + 1 - begin - end)
        for size, places, step, gap, length, begin, end in zip(data[2:], result[2:], steps, gaps, window, begins, ends, strict=True)
    )
    return call_op(f"nn.conv{rank}d_transpose", grad, weight, **attrs, output_padding=extra)


def weight_gradient(data: Expr, shape: tuple[int, ...], grad: Expr, window: tuple[int, ...], attrs: dict[str, AnyValue]) -> Expr:
    """The gradient of a convolution's weight: the convolution of the data with the gradient, with channels in place of the batch."""
    rank, groups = len(window), attrs["groups"]
    batch, channels = shape[:2]
    rest = tuple(range(3, 3 + rank))
    if groups == 1:
        turned = _swapped(data, rank)
    else:
        grouped = call_op("reshape", data, newshape=(batch, groups, channels // groups, *shape[2:]))
        turned = call_op("transpose", grouped, axes=(2, 1, 0, *rest))
        turned = call_op("reshape", turned, newshape=(channels // groups, groups * batch, *shape[2:]))
    inner = {"padding": attrs["padding"], "strides": attrs["dilation"], "dilation": attrs["strides"], "groups": groups}
    found = call_op(f"nn.conv{rank}d", turned, _swapped(grad, rank), **inner)
    cropped = call_op("strided_slice", found, begin=(0,) * rank, end=window, axes=tuple(range(2, 2 + rank)))
    return _swapped(cropped, rank)


def _swapped(value: Expr, rank: int) -> Expr:
    return call_op("transpose", value, axes=(1, 0, *range(2, 2 + rank)))


def _window_attrs(call: Call) -> dict[str, AnyValue]:
    return {name: call.attrs[name] for name in ("strides", "padding", "dilation", "groups")}


@built_in(*(f"nn.conv{rank}d" for rank in SPATIAL))
def convolution_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The transposed convolution for the data; for the weight, a convolution of the data with the gradient."""
    data, weight = call.args
    attrs = call.attrs
    spatial = SPATIAL[tensor_type(data.checked_type).ndim - 2]
    plain, kernel = "NC" + spatial, "OI" + spatial
    shape, sizes = _shape(data, attrs.data_layout, plain, call), _shape(weight, attrs.kernel_layout, kernel, call)
    result = _shape(call, attrs.data_layout, plain, call)
    grad = laid_out_as(grad, attrs.data_layout, plain)
    window = _window_attrs(call)
    of_data = _spread(grad, laid_out_as(weight, attrs.kernel_layout, kernel), shape, result, sizes[2:], window)
    of_weight = weight_gradient(laid_out_as(data, attrs.data_layout, plain), shape, grad, sizes[2:], window)
    return [laid_out_as(of_data, plain, attrs.data_layout), laid_out_as(of_weight, kernel, attrs.kernel_layout)]


@built_in(*(f"nn.conv{rank}d_transpose" for rank in SPATIAL))
def transposed_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The convolution for the data; for the weight, a convolution of the gradient with the data."""
    data, weight = call.args
    attrs = call.attrs
    spatial = SPATIAL[tensor_type(data.checked_type).ndim - 2]
    plain, kernel = "NC" + spatial, "IO" + spatial
    sizes = _shape(weight, attrs.kernel_layout, kernel, call)
    result, shape = _shape(call, attrs.data_layout, plain, call), _shape(data, attrs.data_layout, plain, call)
    grad = laid_out_as(grad, attrs.data_layout, plain)
    window = _window_attrs(call)
    found = call_op(f"nn.conv{len(spatial)}d", grad, laid_out_as(weight, attrs.kernel_layout, kernel), **window)
    places = tuple(range(2, 2 + len(spatial)))  # extended ends may contain another window
    of_data = call_op("strided_slice", found, begin=(0,) * len(places), end=shape[2:], axes=places)
    of_weight = weight_gradient(grad, result, laid_out_as(data, attrs.data_layout, plain), sizes[2:], window)
    return [laid_out_as(of_data, plain, attrs.data_layout), laid_out_as(of_weight, kernel, attrs.kernel_layout)]


def _pooled(call: Call) -> tuple[str, str, tuple[int, ...], tuple[int, ...], tuple[int, ...], dict[str, AnyValue]]:
    """Layouts, shapes of data and result, window, and the attributes of the convolution of each channel with the window."""
    data, attrs = call.args[0], call.attrs
    spatial = SPATIAL[tensor_type(data.checked_type).ndim - 2]
    plain = "NC" + spatial
    if attrs.ceil_mode:
        raise GradientError(f"the gradient of {call.op!r} supports only ceil_mode=False")
    shape, result = _shape(data, attrs.layout, plain, call), _shape(call, attrs.layout, plain, call)
    window = per_axis(attrs.pool_size, len(spatial), "pool_size")
    return attrs.layout, plain, shape, result, window, _window_attrs_of_pool(call, shape[1])


def _window_attrs_of_pool(call: Call, channels: int) -> dict[str, AnyValue]:
    return {**{name: call.attrs[name] for name in ("strides", "padding", "dilation")}, "groups": channels}


@built_in(*(f"nn.avg_pool{rank}d" for rank in SPATIAL))
def avg_pool_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient divided by the number of elements, for each element of the window."""
    layout, plain, shape, result, window, attrs = _pooled(call)
    dtype = to_numpy(tensor_type(call.checked_type).dtype)
    ones = Constant(np.ones((shape[1], 1, *window), dtype))
    if call.attrs.count_include_pad:
        counts: Expr = Constant(np.array(math.prod(window), dtype))
    else:
        counts = call_op(f"nn.conv{len(window)}d", call_op("ones", shape=shape, dtype=dtype.name), ones, **attrs)
    found = _spread(laid_out_as(grad, layout, plain) / counts, ones, shape, result, window, attrs)
    return [laid_out_as(found, plain, layout)]


@built_in(*(f"nn.max_pool{rank}d" for rank in SPATIAL))
def max_pool_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for the first greatest element of each window."""
    layout, plain, shape, result, window, attrs = _pooled(call)
    rank, dtype = len(window), to_numpy(tensor_type(call.checked_type).dtype)
    begins, ends = begins_ends(attrs["padding"], rank)
    steps, gaps = per_axis(attrs["strides"], rank, "strides"), per_axis(attrs["dilation"], rank, "dilation")
    x = laid_out_as(call.args[0], layout, plain)
    if any((*begins, *ends)):
        x = call_op("nn.pad", x, pad_width=((0, 0), (0, 0), *zip(begins, ends, strict=True)), pad_value=-math.inf)
    members = []
    for offset in np.ndindex(*window):
        first = tuple(gap * place for gap, place in zip(gaps, offset, strict=True))
        last = tuple(begin + step * (count - 1) + 1 for begin, step, count in zip(first, steps, result[2:], strict=True))
        members.append(call_op("strided_slice", x, begin=first, end=last, strides=steps, axes=tuple(range(2, 2 + rank))))
    first_greatest = call_op("argmax", call_op("stack", Tuple(members), axis=2), axis=2)
    on, off = (Constant(np.array(value, dtype)) for value in (1, 0))
    chosen = call_op("one_hot", first_greatest, on, off, depth=len(members), axis=2)
    spread = chosen * call_op("expand_dims", laid_out_as(grad, layout, plain), axis=2)
    count = shape[1] * len(members)
    joined = call_op("reshape", spread, newshape=(shape[0], count, *result[2:]))
    kernel = np.tile(np.eye(len(members), dtype=dtype).reshape(len(members), 1, *window), (shape[1], *(1,) * (rank + 1)))
    return [laid_out_as(_spread(joined, Constant(kernel), shape, result, window, attrs), plain, layout)]


@built_in(*(f"nn.global_max_pool{rank}d" for rank in SPATIAL))
def global_max_pool_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for the greatest element; several equal ones share it equally."""
    data = call.args[0]
    type_ = tensor_type(data.checked_type)
    axes = tuple(call.attrs.layout.index(letter) for letter in SPATIAL[type_.ndim - 2])
    chosen = call_op("equal", data, call).astype(type_.dtype)
    return [chosen * grad / call_op("sum", chosen, axis=axes, keepdims=True)]


@built_in(*(f"nn.global_avg_pool{rank}d" for rank in SPATIAL))
def global_avg_pool_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient divided by the number of elements, for each element."""
    data = call.args[0]
    spatial = SPATIAL[tensor_type(data.checked_type).ndim - 2]
    count = math.prod(_shape(data, call.attrs.layout, spatial, call))
    dtype = to_numpy(tensor_type(data.checked_type).dtype)
    return [call_op("broadcast_to_like", grad / Constant(np.array(count, dtype)), data)]
