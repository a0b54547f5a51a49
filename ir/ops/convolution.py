"""Convolutions and transposed convolutions over one, two and three spatial dimensions."""

from collections.abc import Iterable, Sequence
from typing import Any as AnyValue

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.cost import Cost, nbytes
from passat.ir.counting import counted
from passat.ir.dtypes import to_numpy
from passat.ir.expr import Call, Expr
from passat.ir.onnx_mapping import Emitter, OnnxNode, OnnxVersionError, from_onnx, need_opset, to_onnx
from passat.ir.op import Op, OpTypeError, define_op
from passat.ir.ops.accumulate import BYTES, Array, check_dtypes, narrow, summed, sums_dtype, wide
from passat.ir.ops.emitting import only, part, unsqueeze
from passat.ir.ops.linear import bias_add
from passat.ir.ops.reshaping import int64
from passat.ir.ops.windows import (
    SPATIAL,
    arranged,
    arranged_shape,
    arranged_value,
    begins_ends,
    pad_spatial,
    per_axis,
    positions,
    read_numbers,
    read_padding,
    spans,
    windows,
)
from passat.ir.shape import ANY, Dim, Shape, may_equal, static_size
from passat.ir.types import TensorType, Type, tensor_type

Numbers = int | tuple[int, ...]


def _operands(data: TensorType, weight: TensorType, rank: int, layouts: tuple[str, str], first: str) -> tuple[Shape, Shape, Shape]:
    """Returns the shape of data (N, C, spatial ...), the shape of weight without its window (`first`: OI or IO), and the window."""
    for name, operand in (("data", data), ("weight", weight)):
        if operand.ndim != rank + 2:
            raise OpTypeError(f"{name} must have {counted(rank + 2, 'dimension')}, but has {operand.ndim}")
    shape = arranged_shape(data.shape, layouts[0], "NC" + SPATIAL[rank])
    kernel = arranged_shape(weight.shape, layouts[1], first + SPATIAL[rank])
    return shape, kernel[:2], kernel[2:]


def _window(found: Shape, wanted: Numbers | None, rank: int) -> Shape:
    """Combines the window in the shape of a weight with the attribute that may repeat it."""
    if wanted is None:
        return found
    given = per_axis(wanted, rank, "kernel_size")
    if not all(map(may_equal, found, given)):
        raise OpTypeError(f"kernel_size={wanted}, but the window of weight is {found}")
    return given


def _channels(found: Dim, wanted: int | None) -> Dim:
    if wanted is None:
        return found
    if not may_equal(found, wanted):
        raise OpTypeError(f"channels={wanted}, but weight has {found!r}")
    return wanted


def _check_groups(what: str, channels: Dim, groups: int) -> None:
    if type(channels) is int and channels % groups:
        raise OpTypeError(f"{counted(channels, f'{what} channel')} cannot be divided into {counted(groups, 'group')}")


def _as_operand(shape: Sequence[Dim], dtype: str, layout: str, rank: int) -> TensorType:
    return TensorType(arranged_shape(tuple(shape), "NC" + SPATIAL[rank], layout), dtype)


def _convolve(
    data: Array,
    weight: Array,
    *,
    strides: Numbers,
    padding: Numbers,
    dilation: Numbers,
    groups: int,
    channels: int | None,
    kernel_size: Numbers | None,
    data_layout: str,
    kernel_layout: str,
    out_dtype: str = "",
) -> Array:
    """Computes one matrix product per sample and group, with windows as columns (im2col), one sample at a time to save memory."""
    rank = data.ndim - 2
    x, w = (
        arranged(summed(data, out_dtype), data_layout, "NC" + SPATIAL[rank]),
        arranged(summed(weight, out_dtype), kernel_layout, "OI" + SPATIAL[rank]),
    )
    view = windows(
        pad_spatial(x, *begins_ends(padding, rank)),
        w.shape[2:],
        per_axis(strides, rank, "strides"),
        per_axis(dilation, rank, "dilation"),
    )
    places, inner = view.shape[2 : 2 + rank], w.shape[1]
    order = (0, *range(1 + rank, 1 + 2 * rank), *range(1, 1 + rank))  # (C, positions ..., window ...) to (C, window ..., positions ...)
    rows = w.reshape(groups, w.shape[0] // groups, inner * int(np.prod(w.shape[2:])))
    result = np.empty((x.shape[0], w.shape[0], *places), x.dtype)
    for sample, out in zip(view, result, strict=True):
        columns = sample.transpose(order).reshape(groups, rows.shape[2], int(np.prod(places)))
        out[...] = np.matmul(rows, columns).reshape(out.shape)
    return narrow(arranged(result, "NC" + SPATIAL[rank], data_layout), to_numpy(out_dtype) if out_dtype else data.dtype)


def _convolution_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    weight, rank = tensor_type(args[1]), tensor_type(args[1]).ndim - 2
    window = arranged_shape(weight.shape, attrs["kernel_layout"], "OI" + SPATIAL[rank])[1:]
    moved = sum(map(nbytes, args)) + nbytes(result)
    return Cost(2.0 * static_size(tensor_type(result).shape) * static_size(window), moved)


def _declare_convolution(rank: int) -> Op:
    letters, ones = SPATIAL[rank], (1,) * rank

    def relation(
        data: TensorType,
        weight: TensorType,
        *,
        strides: Numbers = ones,
        padding: Numbers = (0,) * (2 * rank),
        dilation: Numbers = ones,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        data_layout: str = "NC" + letters,
        kernel_layout: str = "OI" + letters,
        out_dtype: str = "",
    ) -> TensorType:
        dtype = sums_dtype("data", data, "weight", weight, out_dtype)
        shape, (outputs, inputs), found = _operands(data, weight, rank, (data_layout, kernel_layout), "OI")
        if groups < 1:
            raise OpTypeError(f"groups={groups} must be at least 1")
        if not may_equal(shape[1], inputs * groups):
            shared = f" in each of {groups} groups, {inputs * groups!r} in total" if groups > 1 else ""
            raise OpTypeError(f"weight has {counted(inputs, 'input channel')}{shared}, but data has {shape[1]!r}")
        _check_groups("output", outputs, groups)
        begins, ends = begins_ends(padding, rank)
        steps, gaps = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
        sizes = (
            positions(size, gap * (length - 1) + 1, step, begin + end)
            for size, length, step, gap, begin, end in zip(
                shape[2:], _window(found, kernel_size, rank), steps, gaps, begins, ends, strict=True
            )
        )
        return _as_operand((shape[0], _channels(outputs, channels), *sizes), dtype, data_layout, rank)

    relation.__doc__ = f"""The convolution of data (N, C, {", ".join(letters)}) with a weight (O, C / groups, {", ".join(letters)}).

    Layouts may reorder the dimensions. `padding` is one number, one number per spatial dimension, or all begins followed by all
    ends. `channels` and `kernel_size`, if given, must match the weight. `out_dtype` is the element type of the result, int32 or int64 for
    narrower integers. ONNX: Conv (1, 11, 22), whose bias becomes `nn.bias_add`; ConvInteger (10) with `out_dtype`.
    """
    return define_op(f"nn.conv{rank}d", kernel=_convolve, cost=_convolution_cost, pattern=4)(relation)


def _convolve_transposed(
    data: Array,
    weight: Array,
    *,
    strides: Numbers,
    padding: Numbers,
    output_padding: Numbers,
    dilation: Numbers,
    groups: int,
    channels: int | None,
    kernel_size: Numbers | None,
    data_layout: str,
    kernel_layout: str,
) -> Array:
    """Adds each element of the data times the weight to a window of the result; one step per position in the window."""
    rank = data.ndim - 2
    x, w = (
        arranged(wide(data), data_layout, "NC" + SPATIAL[rank]),
        arranged(wide(weight), kernel_layout, "IO" + SPATIAL[rank]),
    )
    steps, gaps = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
    begins, ends = begins_ends(padding, rank)
    batch, inner, places, window, outer = x.shape[0], x.shape[1] // groups, x.shape[2:], w.shape[2:], w.shape[1]
    columns = x.reshape(batch, groups, inner, int(np.prod(places)))
    rows = w.reshape(groups, inner, outer, *window)
    reach = [step * (size - 1) + span for step, size, span in zip(steps, places, spans(window, gaps), strict=True)]
    extra = per_axis(output_padding, rank, "output_padding", 0)
    full = np.zeros((batch, groups, outer, *(max(size + more, 0) for size, more in zip(reach, extra, strict=True))), x.dtype)
    if x.size:
        for place in np.ndindex(*window):
            added = np.matmul(rows[_last(place)].swapaxes(1, 2), columns).reshape(batch, groups, outer, *places)
            at = (slice(gap * i, gap * i + step * size, step) for gap, i, step, size in zip(gaps, place, steps, places, strict=True))
            full[_last(at)] += added
    result = full[_last(slice(begin, size - end) for begin, size, end in zip(begins, full.shape[3:], ends, strict=True))]
    result = result.reshape(batch, groups * outer, *result.shape[3:])
    return narrow(arranged(result, "NC" + SPATIAL[rank], data_layout), data.dtype)


def _last(index: Iterable[AnyValue]) -> tuple[AnyValue, ...]:
    """Indexes the last axes of an array."""
    return (..., *index)


def _transposed_cost(args: Sequence[Type], result: Type, attrs: Attrs) -> Cost:
    weight, rank = tensor_type(args[1]), tensor_type(args[1]).ndim - 2
    window = arranged_shape(weight.shape, attrs["kernel_layout"], "IO" + SPATIAL[rank])[1:]
    moved = sum(map(nbytes, args)) + nbytes(result)
    return Cost(2.0 * static_size(tensor_type(args[0]).shape) * static_size(window), moved)


def _declare_transposed(rank: int) -> Op:
    letters, ones = SPATIAL[rank], (1,) * rank

    def relation(
        data: TensorType,
        weight: TensorType,
        *,
        strides: Numbers = ones,
        padding: Numbers = (0,) * (2 * rank),
        output_padding: Numbers = (0,) * rank,
        dilation: Numbers = ones,
        groups: int = 1,
        channels: int | None = None,
        kernel_size: Numbers | None = None,
        data_layout: str = "NC" + letters,
        kernel_layout: str = "IO" + letters,
    ) -> TensorType:
        check_dtypes("data", data, "weight", weight)
        shape, (inputs, outputs), found = _operands(data, weight, rank, (data_layout, kernel_layout), "IO")
        if groups < 1:
            raise OpTypeError(f"groups={groups} must be at least 1")
        if not may_equal(shape[1], inputs):
            raise OpTypeError(f"weight has {counted(inputs, 'input channel')}, but data has {shape[1]!r}")
        _check_groups("input", inputs, groups)
        begins, ends = begins_ends(padding, rank)
        steps, gaps = per_axis(strides, rank, "strides"), per_axis(dilation, rank, "dilation")
        extra = per_axis(output_padding, rank, "output_padding", 0)
        sizes = [
            step * (size - 1) + gap * (length - 1) + 1 + more - begin - end
            for size, length, step, gap, more, begin, end in zip(
                shape[2:], _window(found, kernel_size, rank), steps, gaps, extra, begins, ends, strict=True
            )
        ]
        if any(type(size) is int and size < 0 for size in sizes):
            raise OpTypeError(f"padding={padding} crops more elements than the result has")
        return _as_operand((shape[0], _channels(outputs * groups, channels), *sizes), data.dtype, data_layout, rank)

    relation.__doc__ = f"""The transposed convolution of data (N, C, {", ".join(letters)}) with a weight of the window (C, O / groups, ...).

    `padding` crops the result, `output_padding` extends it at the ends. ONNX: ConvTranspose (1, 11, 22) with
    explicit padding; its bias becomes `nn.bias_add`.
    """
    return define_op(f"nn.conv{rank}d_transpose", kernel=_convolve_transposed, cost=_transposed_cost, pattern=4)(relation)


CONVOLUTIONS = {rank: _declare_convolution(rank) for rank in SPATIAL}
"""`nn.conv1d`, `nn.conv2d`, `nn.conv3d`, by the number of spatial dimensions."""
TRANSPOSED = {rank: _declare_transposed(rank) for rank in SPATIAL}
"""`nn.conv1d_transpose`, `nn.conv2d_transpose`, `nn.conv3d_transpose`, by the number of spatial dimensions."""


def _read_window(node: OnnxNode) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None] | None:
    """Returns the window, if known, and the attribute that specifies it if the weight does not. None if they contradict each
    other."""
    found = node.type(1).shape[2:]
    given = node.attrs.get("kernel_shape")
    static = tuple(size for size in found if isinstance(size, int))
    if not given:
        return (static, None) if len(static) == len(found) else (None, None)
    if len(given) != len(found) or not all(map(may_equal, found, given)):
        return None
    return tuple(given), None if len(static) == len(found) else tuple(given)


def _with_bias(node: OnnxNode, op: Op, attrs: dict[str, AnyValue]) -> Expr:
    operands = (node.input(0), node.input(1))
    if not node.has(2):
        return op(*operands, span=node.span, **attrs)
    return bias_add(op(*operands, span=part(node.span), **attrs), node.input(2), axis=1, span=node.span)


@from_onnx("Conv")
def _read_convolution(node: OnnxNode) -> Expr | None:
    data, weight = node.type(0), node.type(1)
    rank = data.ndim - 2
    if rank not in SPATIAL or weight.ndim != data.ndim:
        return None
    window = _read_window(node)
    if window is None or not only(node, "auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"):
        return None
    strides, dilation = read_numbers(node, "strides", rank), read_numbers(node, "dilations", rank)
    if node.attrs.get("auto_pad", "NOTSET").startswith("SAME") and window[0] is None:
        return None
    padding = read_padding(node, data.shape[2:], window[0] or (1,) * rank, strides, dilation, clipped=True)
    if padding is None:
        return None
    attrs = {"strides": strides, "padding": padding, "dilation": dilation, "groups": node.attrs.get("group", 1), "kernel_size": window[1]}
    return _with_bias(node, CONVOLUTIONS[rank], attrs)


@from_onnx("ConvTranspose")
def _read_transposed(node: OnnxNode) -> Expr | None:
    data, weight = node.type(0), node.type(1)
    rank = data.ndim - 2
    if rank not in SPATIAL or weight.ndim != data.ndim:
        return None
    window = _read_window(node)
    names = ("auto_pad", "dilations", "group", "kernel_shape", "output_padding", "output_shape", "pads", "strides")
    if window is None or not only(node, *names):
        return None
    strides, dilation = read_numbers(node, "strides", rank), read_numbers(node, "dilations", rank)
    extra = tuple(node.attrs.get("output_padding") or (0,) * rank)
    padding = _read_cropping(node, window[0], strides, dilation, extra)
    if padding is None:
        return None
    attrs = {"strides": strides, "padding": padding, "output_padding": extra, "dilation": dilation, "groups": node.attrs.get("group", 1)}
    return _with_bias(node, TRANSPOSED[rank], {**attrs, "kernel_size": window[1]})


def _read_cropping(
    node: OnnxNode, window: tuple[int, ...] | None, strides: Sequence[int], dilation: Sequence[int], extra: Sequence[int]
) -> tuple[int, ...] | None:
    """Returns the padding of a ConvTranspose.

    None if runtimes disagree: if `output_shape` or SAME crops an odd number of elements.
    """
    sizes, wanted = node.type(0).shape[2:], node.attrs.get("output_shape")
    mode = node.attrs.get("auto_pad", "NOTSET")
    if not wanted and mode in ("NOTSET", "VALID"):
        return read_padding(node, sizes, (1,) * len(sizes), strides, dilation, clipped=False)
    if window is None or (wanted and mode not in ("NOTSET", "SAME_UPPER", "SAME_LOWER")):
        return None
    goals: Sequence[Dim] = wanted or [size * step for size, step in zip(sizes, strides, strict=False)]
    if any(len(numbers) != len(sizes) for numbers in (strides, dilation, window, extra, goals)):
        return None
    halves: list[int] = []
    for size, step, span, more, goal in zip(sizes, strides, spans(window, dilation), extra, goals, strict=True):
        total = ANY if size is ANY else step * (size - 1) + span + more - goal
        if type(total) is not int or total < 0 or total % 2:
            return None
        halves.append(total // 2)
    return (*halves, *halves)


def _write(call: Call, inputs: Sequence[str], emit: Emitter, op_type: str, first: str) -> str:
    attrs = call.attrs
    weight = tensor_type(call.args[1].checked_type)
    rank = weight.ndim - 2
    letters = SPATIAL[rank]
    begins, ends = begins_ends(attrs.padding, rank)
    window = _window(arranged_shape(weight.shape, attrs.kernel_layout, first + letters)[2:], attrs.kernel_size, rank)
    given: dict[str, AnyValue] = {
        "dilations": per_axis(attrs.dilation, rank, "dilation"),
        "group": attrs.groups,
        "kernel_shape": window if all(isinstance(size, int) for size in window) else None,
        "pads": (*begins, *ends),
        "strides": per_axis(attrs.strides, rank, "strides"),
    }
    rest: list[int] = [0] * rank
    if op_type == "ConvTranspose":
        # ONNX Runtime takes output paddings below the strides only. The others crop less at the end, or are zeros behind it.
        cropped, extra = list(ends), list(per_axis(attrs.output_padding, rank, "output_padding", 0))
        for axis, limit in enumerate(given["strides"]):
            if extra[axis] >= limit:
                less = min(extra[axis], cropped[axis])
                cropped[axis] -= less
                extra[axis], rest[axis] = 0, extra[axis] - less
        given["pads"] = (*begins, *cropped)
        given["output_padding"] = extra if any(extra) else None
    operands = [
        arranged_value(emit, inputs[0], attrs.data_layout, "NC" + letters),
        arranged_value(emit, inputs[1], attrs.kernel_layout, first + letters),
        *inputs[2:],
    ]
    behind = operands[2:] if any(rest) else []
    result = emit.node(op_type, operands[:2] if behind else operands, {name: value for name, value in given.items() if value is not None})
    if any(rest):
        need_opset(emit, 11, TRANSPOSED[rank])
        result = emit.node("Pad", [result, int64(emit, (0,) * (rank + 4) + tuple(rest))])
    for bias in behind:
        result = emit.node("Add", [result, unsqueeze(emit, bias, list(range(1, rank + 1)))])
    return arranged_value(emit, result, "NC" + letters, attrs.data_layout)


def _write_convolution(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    data, weight, result = (tensor_type(type_).dtype for type_ in (*(arg.checked_type for arg in call.args), call.checked_type))
    if result == data:
        return _write(call, inputs, emit, "Conv", "OI")
    if result != "int32" or not {data, weight} <= BYTES:
        raise OnnxVersionError(
            f"{call.op!r} of {data} and {weight} with out_dtype={result!r} has no ONNX form; int8 or uint8 with int32 has"
        )
    need_opset(emit, 10, CONVOLUTIONS[tensor_type(call.args[1].checked_type).ndim - 2])
    return _write(call, inputs, emit, "ConvInteger", "OI")


def _write_transposed(call: Call, inputs: Sequence[str], emit: Emitter) -> str:
    return _write(call, inputs, emit, "ConvTranspose", "IO")


for _rank in SPATIAL:
    to_onnx(CONVOLUTIONS[_rank])(_write_convolution)
    to_onnx(TRANSPOSED[_rank])(_write_transposed)
