"""Gradients of operators that move elements: views, slices, joins, lookups."""

from collections.abc import Sequence

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem
from passat.ir.gradients.registry import GradientError, built_in
from passat.ir.op import call_op
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


@built_in("elemwise_sum")
def elemwise_sum_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient for each summand."""
    fields = _fields(call)
    return [Tuple([call_op("collapse_sum_like", grad, TupleGetItem(call.args[0], i)) for i in range(len(fields))])]


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


@built_in("take")
def take_gradient(call: Call, grad: Expr) -> list[Expr | None]:
    """The gradient added up at the indices."""
    data, indices = call.args
    shape, axis = _static_shape(data, call), call.attrs.axis
    flat = axis is None
    axis = 0 if flat else axis % len(shape)
    sizes = (int(np.prod(shape)),) if flat else shape
    spread = call_op("reshape", grad, newshape=(*sizes[:axis], -1, *sizes[axis + 1 :]))
    vector = call_op("reshape", indices, newshape=(-1,))
    found = _added_at(spread, vector, sizes, axis, tensor_type(data.checked_type).dtype)
    return [call_op("reshape", found, newshape=shape) if flat else found, None]


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
