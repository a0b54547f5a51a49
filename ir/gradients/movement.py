"""Gradients of operators that move elements: views, slices, joins, lookups."""

import math
from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.gradients.adjoints import reshaped
from passat.ir.gradients.elementwise import scalar
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op, get_op
from passat.ir.ops.movement import inverse_permutation, permutation
from passat.ir.ops.slicing import slice_parts, taken_places
from passat.ir.types import TensorType, TupleType, tensor_type


@built_in("reshape", "nn.batch_flatten", "squeeze", "expand_dims", "dyn.reshape", "reshape_like")
def reshape_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient in the shape of the operand."""
    rest: list[Expr | None] = [None] * (len(call.args) - 1)
    return [call_op("reshape_like", grad, call.args[0]), *rest]


@built_in("transpose")
def transpose_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient transposed back."""
    rank = tensor_type(call.args[0].checked_type).ndim
    return [call_op("transpose", grad, axes=inverse_permutation(permutation(rank, call.attrs.axes)))]


def _fields(call: Call) -> list[TensorType]:
    type_ = call.args[0].checked_type
    assert isinstance(type_, TupleType)  # of a type-checked call
    return [tensor_type(field) for field in type_.fields]


def _static_shape(value: Expr, call: Call) -> tuple[int, ...]:
    type_ = tensor_type(value.checked_type)
    if not type_.is_static:
        raise GradientError(f"the gradient of {call.op!r} needs an operand of known sizes, but it is {type_}")
    return type_.concrete_shape


@built_in("concatenate")
def concatenate_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The parts of the gradient."""
    axis = call.attrs.axis
    sizes = [field.shape[axis] for field in _fields(call)]
    ends = []
    total = 0
    for size in sizes[:-1]:
        if not isinstance(size, int):
            raise GradientError(f"the gradient of concatenate needs known sizes along axis {axis}, but one is {size!r}")
        total += size
        ends.append(total)
    if not ends:
        return [Tuple([grad])]
    parts = call_op("split", grad, indices_or_sections=tuple(ends), axis=axis)
    return [Tuple([TupleGetItem(parts, i) for i in range(len(sizes))])]


@built_in("stack")
def stack_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The slices of the gradient."""
    axis = call.attrs.axis
    count = len(_fields(call))
    parts = call_op("split", grad, indices_or_sections=count, axis=axis)
    return [Tuple([call_op("squeeze", TupleGetItem(parts, i), axis=(axis,)) for i in range(count)])]


@built_in("split")
def split_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradients of the parts, joined."""
    return [call_op("concatenate", grad, axis=call.attrs.axis)]


@built_in("elemwise_sum", "elemwise_mean")
def elemwise_sum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for each summand, divided by their number for a mean."""
    count = len(_fields(call))
    part = grad if call.op.same_as(get_op("elemwise_sum")) else grad * scalar(1 / count, call)
    return [Tuple([call_op("collapse_sum_like", part, TupleGetItem(call.args[0], i)) for i in range(count)])]


@built_in("elemwise_max", "elemwise_min")
def elemwise_extremum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient goes to the operand that equals the result; to the first one if several do."""
    operands = [TupleGetItem(call.args[0], i) for i in range(len(_fields(call)))]
    nothing, found = scalar(0, call), []
    for operand in operands:
        part = call_op("where", call_op("equal", operand, call), grad, nothing)
        found.append(call_op("collapse_sum_like", part, operand))
        grad = grad - part
    return [Tuple(found)]


def _added_at(grad: Expr, indices: Expr, shape: Sequence[int], axis: int, dtype: str) -> Expr:
    """A tensor of a shape with slices added at indices (a vector) along an axis, zeros elsewhere."""
    rank = len(shape)
    front = (axis, *(i for i in range(rank) if i != axis))
    empty = call_op("zeros", shape=tuple(shape[i] for i in front), dtype=dtype)
    places = call_op("expand_dims", indices, axis=1)
    moved = grad if axis == 0 else call_op("transpose", grad, axes=front)
    found = call_op("scatter_nd", empty, places, moved, reduction="add")
    return found if axis == 0 else call_op("transpose", found, axes=inverse_permutation(front))


@built_in("strided_slice")
def slice_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient at the selected positions, zeros elsewhere."""
    data = call.args[0]
    shape = _static_shape(data, call)
    dtype = tensor_type(data.checked_type).dtype
    current = list(tensor_type(call.checked_type).concrete_shape)
    attrs = call.attrs
    widths = [(0, 0)] * len(shape)
    for axis, (begin, end, stride) in slice_parts(len(shape), attrs.begin, attrs.end, attrs.strides, attrs.axes).items():
        places = taken_places(shape[axis], begin, end, stride)
        if stride == 1 and len(places):
            widths[axis] = (places[0], shape[axis] - 1 - places[-1])
        elif len(places) != shape[axis] or stride != 1:
            current[axis] = shape[axis]
            grad = _added_at(grad, Constant(np.array(places, np.int64)), current, axis, dtype)
    return [call_op("nn.pad", grad, pad_width=tuple(widths)) if any(map(any, widths)) else grad]


@built_in("nn.pad")
def pad_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The part of the gradient that belongs to the operand."""
    attrs, shape = call.attrs, _static_shape(call.args[0], call)
    if attrs.pad_mode != "constant" or any(width < 0 for pair in attrs.pad_width for width in pair):
        raise GradientError("the gradient of nn.pad supports only pad_mode='constant' without negative widths")
    begin = tuple(before for before, _ in attrs.pad_width)
    end = tuple(before + size for before, size in zip(begin, shape, strict=True))
    return [call_op("strided_slice", grad, begin=begin, end=end)]


@built_in("reverse")
def reverse_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient reversed along the axis."""
    return [call_op("reverse", grad, axis=call.attrs.axis)]


@built_in("trilu")
def trilu_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The triangle of the gradient."""
    return [call_op("trilu", grad, k=call.attrs.k, upper=call.attrs.upper)]


@built_in("layout_transform")
def layout_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient in the layout of the operand."""
    return [call_op("layout_transform", grad, src_layout=call.attrs.dst_layout, dst_layout=call.attrs.src_layout)]


@built_in("nn.depth_to_space")
def depth_to_space_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The inverse movement."""
    return [call_op("nn.space_to_depth", grad, block_size=call.attrs.block_size, mode=call.attrs.mode)]


@built_in("nn.space_to_depth")
def space_to_depth_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The inverse movement."""
    return [call_op("nn.depth_to_space", grad, block_size=call.attrs.block_size, mode=call.attrs.mode)]


@built_in("nn.space_to_batch_nd")
def space_to_batch_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The inverse movement, which crops the padding."""
    return [call_op("nn.batch_to_space_nd", grad, block_shape=call.attrs.block_shape, crops=call.attrs.paddings)]


@built_in("nn.batch_to_space_nd")
def batch_to_space_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The inverse movement, with zeros for cropped elements."""
    return [call_op("nn.space_to_batch_nd", grad, block_shape=call.attrs.block_shape, paddings=call.attrs.crops)]


@built_in("tile")
def tile_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum over the copies."""
    data = call.args[0]
    shape, reps = _static_shape(data, call), call.attrs.reps
    rank = max(len(shape), len(reps))
    sizes = [(1,) * (rank - len(part)) + tuple(part) for part in (reps, shape)]
    if rank == 0:
        return [grad]
    parts = reshaped(grad, [size for pair in zip(*sizes, strict=True) for size in pair])
    return [reshaped(call_op("sum", parts, axis=tuple(range(0, 2 * rank, 2))), shape)]


@built_in("repeat")
def repeat_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum over the copies."""
    shape, attrs = _static_shape(call.args[0], call), call.attrs
    flat = attrs.axis is None
    axis, sizes = (0, (math.prod(shape),)) if flat else (attrs.axis % len(shape), shape)
    parts = reshaped(grad, (*sizes[: axis + 1], attrs.repeats, *sizes[axis + 1 :]))
    found = call_op("sum", parts, axis=axis + 1)
    return [reshaped(found, shape) if flat else found]


@built_in("take")
def take_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient added up at the indices."""
    data, indices = call.args
    shape, axis = _static_shape(data, call), call.attrs.axis
    flat = axis is None
    axis = 0 if flat else axis % len(shape)
    sizes = (int(np.prod(shape)),) if flat else shape
    places = tensor_type(indices.checked_type)
    spread = reshaped(grad, (*sizes[:axis], math.prod(places.concrete_shape) if places.is_static else -1, *sizes[axis + 1 :]))
    vector = call_op("reshape", indices, newshape=(-1,))
    found = _added_at(spread, vector, sizes, axis, tensor_type(data.checked_type).dtype)
    return [reshaped(found, shape) if flat else found, None]


@built_in("gather")
def gather_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient added up at the indices."""
    data, indices = call.args
    return [call_op("scatter_elements", call_op("zeros_like", data), indices, grad, axis=call.attrs.axis, reduction="add"), None]


@built_in("gather_nd")
def gather_nd_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient added up at the indices."""
    data, indices = call.args
    if call.attrs.batch_dims:
        raise GradientError("the gradient of gather_nd supports only batch_dims=0")
    return [call_op("scatter_nd", call_op("zeros_like", data), indices, grad, reduction="add"), None]


@built_in("one_hot")
def one_hot_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum of the gradient over the elements with the first value, and over those with the second."""
    indices, on, _ = call.args
    values = [Constant(np.array(value)) for value in (True, False)]
    attrs = call.attrs
    chosen = call_op("one_hot", indices, *values, depth=attrs.depth, axis=attrs.axis)
    nothing = call_op("zeros_like", grad)
    gradients = (call_op("where", chosen, grad, nothing), call_op("where", chosen, nothing, grad))
    return [None, *(call_op("sum", part).astype(tensor_type(on.checked_type).dtype) for part in gradients)]


@built_in("arange")
def arange_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The sum of the gradient for the start, and that of its products with the positions for the step."""
    position = call_op("cumsum", call_op("ones_like", grad), axis=0, exclusive=True)
    start, _, step = (tensor_type(arg.checked_type).dtype for arg in call.args)
    return [call_op("sum", grad).astype(start), None, call_op("sum", grad * position).astype(step)]
