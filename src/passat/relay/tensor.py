"""Relay's functions of tensors whose parameters differ from those of Passat's operators; the others are derived (`passat.relay.derived`).
If a size is an expression computed at run time, the dynamic form of the operator is built, as in Relay.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from passat.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, const
from passat.ir.global_functions import register_func
from passat.ir.op import OpTypeError
from passat.ir.ops.blocked_layouts import in_layout
from passat.ir.ops.indexing import clipped_indices
from passat.ir.ops.newshape import reshaped, static_newshape
from passat.ir.ops.slicing import END, completed_slice, ends_of_sizes
from passat.ir.types import TensorType
from passat.relay.building import Numbers, call, int_vector, is_dynamic, known_type, numbers, only, operand, rank
from passat.relay.names import explain_arguments
from passat.runtime import NDArray, array

__all__ = [
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "broadcast_to",
    "clip",
    "cumsum",
    "debug",
    "full",
    "full_like",
    "gather",
    "gather_nd",
    "layout_transform",
    "log10",
    "mod",
    "ndarray_size",
    "one_hot",
    "ones",
    "reshape",
    "reshape_like",
    "reverse_reshape",
    "scatter_elements",
    "scatter_nd",
    "shape_of",
    "sort",
    "strided_slice",
    "take",
    "tile",
    "topk",
    "where",
    "zeros",
]

_BEYOND = np.iinfo(np.int32).max
"""An index that is larger than any axis."""
_REDUCTIONS = {"update": "none", "add": "add", "mul": "mul", "max": "max", "min": "min"}


def reshape(data: Expr, newshape: Numbers | Expr, allowzero: bool = False) -> Call:
    """The elements of `data` in another shape; the entries 0, -1, -2, -3 and -4 have Relay's meaning."""
    if is_dynamic(newshape):
        return call("dyn.reshape", data, newshape, allowzero=allowzero)
    return call("reshape", data, newshape=numbers("reshape", "newshape", newshape), allowzero=allowzero)


def reverse_reshape(data: Expr, newshape: Numbers) -> Call:
    """`reshape` with the entries 0, -1, -2 and -3 counted from the last axis. The shape of `data` must be known."""
    type_ = known_type(data)
    if not isinstance(type_, TensorType):
        raise ValueError("relay.reverse_reshape: the shape of data must be known here; give its variables types")
    wanted = numbers("reverse_reshape", "newshape", newshape)
    if -4 in wanted:
        raise ValueError(f"relay.reverse_reshape: newshape={wanted} splits a size; write the two sizes")
    found = static_newshape(type_.shape, reshaped(type_.shape[::-1], wanted[::-1])[::-1])
    if found is None:
        raise ValueError(f"relay.reverse_reshape: newshape={wanted} of {type_!r} has no static form; use reshape")
    return call("reshape", data, **found)


def debug(expr: Expr, debug_func: Callable[[NDArray], object] | None = None) -> Call:
    """The value of `expr`; evaluation calls `debug_func` with the value. Optimizations keep the call and its place."""
    if debug_func is None:
        return call("debug", expr)
    name = f"debug_func{next(_NUMBERS)}"
    register_func(name, lambda value: debug_func(array(value)))
    return call("debug", expr, debug_func=name)


_NUMBERS: Final = itertools.count()
"""Numbers of the functions that `debug` registers."""


def broadcast_to(data: Expr, shape: Numbers | Expr) -> Call:
    """`data` repeated to a shape to which it broadcasts."""
    if is_dynamic(shape):
        return call("dyn.broadcast_to", data, shape)
    return call("broadcast_to", data, shape=numbers("broadcast_to", "shape", shape))


def tile(data: Expr, reps: Numbers | Expr) -> Call:
    """`data` tiled `reps` times along its axes."""
    return call("dyn.tile", data, reps) if is_dynamic(reps) else call("tile", data, reps=numbers("tile", "reps", reps))


def full(fill_value: Expr, shape: Numbers | Expr = (), dtype: str = "") -> Call:
    """A tensor filled with one value, optionally cast to another element type."""
    value = operand("full", "fill_value", fill_value)
    if dtype and getattr(known_type(value), "dtype", None) != dtype:
        value = value.astype(dtype)
    if is_dynamic(shape):
        return call("dyn.full", value, shape, dtype=dtype or None)
    return call("full", value, shape=numbers("full", "shape", shape), dtype=dtype or None)


def full_like(data: Expr, fill_value: Expr) -> Call:
    """A tensor filled with one value, with the shape and element type of another tensor; the value is cast if its type is known to
    differ."""
    value, like, own = operand("full_like", "fill_value", fill_value), known_type(data), known_type(fill_value)
    if isinstance(like, TensorType) and isinstance(own, TensorType) and like.dtype != own.dtype:
        value = value.astype(like.dtype)
    return call("full_like", data, value)


def zeros(shape: Numbers | Expr, dtype: str = "float32") -> Call:
    """A tensor of zeros."""
    if is_dynamic(shape):
        return call("dyn.full", const(0, dtype), shape)
    return call("zeros", shape=numbers("zeros", "shape", shape), dtype=dtype)


def ones(shape: Numbers | Expr, dtype: str = "float32") -> Call:
    """A tensor of ones."""
    if is_dynamic(shape):
        return call("dyn.full", const(1, dtype), shape)
    return call("ones", shape=numbers("ones", "shape", shape), dtype=dtype)


def arange(start: Expr | float, stop: Expr | float | None = None, step: Expr | float | None = None, dtype: str = "float32") -> Call:
    """The numbers from `start` up to, but excluding `stop`, in steps; a single argument is `stop`."""
    first, last = (0, start) if stop is None else (start, stop)
    values = [value if isinstance(value, Expr) else const(value, dtype) for value in (first, last, 1 if step is None else step)]
    return call("arange", *values, dtype=dtype)


def layout_transform(data: Expr, src_layout: str, dst_layout: str) -> Expr:
    """`data` with its axes reordered; capital letters name axes. A lowercase letter names blocks of the axis of its capital, of the size
    before it, as in NCHW4c. Builds a transpose, with reshapes for blocks; returns `data` itself if the layouts are equal.

    Raises ValueError for layouts of different axes.
    """
    try:
        return in_layout(data, src_layout, dst_layout)
    except OpTypeError as error:
        raise ValueError(f"relay.layout_transform: {error}") from None


def clip(a: Expr, a_min: float, a_max: float) -> Call:
    """`a` with its elements clamped between two bounds."""
    return call("clip", a, a_min=a_min, a_max=a_max)


def log10(data: Expr) -> Call:
    """The decimal logarithm: the natural one times a constant, of float32 if the element type is not known here."""
    type_ = known_type(operand("log10", "data", data))
    dtype = type_.dtype if isinstance(type_, TensorType) else "float32"
    return call("multiply", call("log", data), const(1 / math.log(10), dtype))


def mod(lhs: Expr, rhs: Expr) -> Call:
    """The remainder with the sign of the dividend, as in C: Passat's operator `fmod`."""
    return call("fmod", lhs, rhs)


def strided_slice(
    data: Expr,
    begin: Numbers | Sequence[int | None] | Expr,
    end: Numbers | Sequence[int | None] | Expr,
    strides: Numbers | Expr | None = None,
    axes: Numbers | None = None,
    slice_mode: str = "end",
) -> Call:
    """A part of `data`: from `begin` up to, but excluding `end`, in steps. Missing steps are 1; missing bounds, or None, those of the whole
    axis. With `slice_mode="size"`, `end` is the number of elements (-1: the rest)."""
    only("strided_slice", "slice_mode", slice_mode, "end", "size")
    along = None if axes is None else numbers("strided_slice", "axes", axes)
    if any(map(is_dynamic, (begin, end, strides))):
        if slice_mode == "size":
            end, strides = _dynamic_ends(int_vector(begin), int_vector(end)), None
        return _dynamic_slice(data, begin, end, strides, along)
    if slice_mode == "size":
        first, sizes = numbers("strided_slice", "begin", begin), numbers("strided_slice", "end", end)
        if len(first) != len(sizes):
            raise ValueError(f"relay.strided_slice: begin={first} and end={sizes} name different numbers of axes")
        ends = ends_of_sizes(first, sizes)
        if ends is None:
            raise ValueError(f"relay.strided_slice: begin={first} with slice_mode='size' is not supported; count from the front")
        return call("strided_slice", data, begin=first, end=ends, axes=along)
    steps = None if strides is None else numbers("strided_slice", "strides", strides)
    if along is not None:  # Relay completes nothing if axes are named
        first, last = numbers("strided_slice", "begin", begin), numbers("strided_slice", "end", end)
        return call("strided_slice", data, begin=first, end=last, strides=None if steps == (1,) else steps, axes=along)
    first, last, steps = completed_slice(_bounds("begin", begin), _bounds("end", end), steps or ())
    return call("strided_slice", data, begin=first, end=last, strides=None if set(steps) == {1} and strides is None else steps)


def _bounds(what: str, value: object) -> tuple[int | None, ...]:
    """The bounds of a slice, each of which may be None."""
    values = value if isinstance(value, (list, tuple)) else numbers("strided_slice", what, value)
    return tuple(None if bound is None else numbers("strided_slice", what, bound)[0] for bound in values)


def _dynamic_ends(begin: Expr, sizes: Expr) -> Expr:
    """The ends of slices that are given by their computed numbers of elements; negative numbers mean all remaining ones."""
    wide = (begin.astype("int64"), sizes.astype("int64"))
    rest = call("less", wide[1], const(0, "int64"))
    return call("where", rest, const(END, "int64"), call("add", *wide))


def _dynamic_slice(data: Expr, begin: object, end: object, strides: Numbers | Expr | None, axes: tuple[int, ...] | None) -> Call:
    if axes is None:
        static = next((numbers("strided_slice", "bounds", bound) for bound in (begin, end) if not is_dynamic(bound)), None)
        axes = tuple(range(rank("strided_slice", "data", data) if static is None else len(static)))
    steps = strides if isinstance(strides, Expr) else () if strides is None else numbers("strided_slice", "strides", strides)
    steps = (*steps, *(1,) * (len(axes) - len(steps))) if isinstance(steps, tuple) else steps
    return call("dyn.strided_slice", data, int_vector(begin), int_vector(end), int_vector(steps), int_vector(axes))


def take(data: Expr, indices: Expr, axis: int | None = None, batch_dims: int = 0, mode: str = "clip") -> Call:
    """The slices of `data` along `axis` at `indices`. Indices outside of the axis select its first and last slice, with `mode="wrap"` they
    go around. (Passat's operator counts negative indices from the back and rejects others, so a call on the indices is built, too; where
    the size of the axis is not known here, indices that are too large are still rejected.)"""
    only("take", "batch_dims", batch_dims, 0)
    only("take", "mode", mode, "clip", "wrap", "fast")
    type_ = known_type(data)
    size: object = None
    if isinstance(type_, TensorType) and (axis is None or -type_.ndim <= axis < type_.ndim):
        size = type_.size if axis is None else type_.shape[axis]
    return call("take", data, _inside(indices, size if isinstance(size, int) else None, mode), axis=axis)


def _inside(indices: Expr, size: int | None, mode: str) -> Expr:
    """Indices of an axis of that size, without those outside of it."""
    if mode == "fast" or size == 0:
        return indices
    if mode == "clip":
        return clipped_indices(indices, size)
    if size is None:
        return indices
    if isinstance(indices, Constant):
        return Constant(indices.data.numpy() % size)
    type_ = known_type(indices)
    return call("floor_mod", indices, const(size, type_.dtype)) if isinstance(type_, TensorType) else indices


def one_hot(indices: Expr, on_value: Expr, off_value: Expr, depth: int | Expr, axis: int = -1, dtype: str | None = None) -> Call:
    """A new axis of size `depth`: `on_value` where its position equals the index, otherwise `off_value`. Negative indices select nothing;
    Passat's operator counts them from the back, so calls that replace them are built, too, if the type of the indices is known here."""
    type_ = known_type(indices)
    places = indices
    if isinstance(type_, TensorType) and not type_.dtype.startswith("uint"):
        if type_.dtype not in ("int32", "int64"):  # may be too narrow for an index beyond the depth
            places, type_ = indices.astype("int64"), type_.with_dtype("int64")
        nothing = const(_BEYOND, type_.dtype)
        if not isinstance(indices, Constant):
            places = call("where", call("less", places, const(0, type_.dtype)), nothing, places)
        elif (indices.data.numpy() < 0).any():
            given = indices.data.numpy().astype(type_.dtype)
            places = Constant(np.where(given < 0, nothing.data.numpy(), given))
    if is_dynamic(depth):
        return call("dyn.one_hot", places, depth, on_value, off_value, axis=axis, dtype=dtype)
    return call("one_hot", places, on_value, off_value, depth=numbers("one_hot", "depth", depth)[0], axis=axis, dtype=dtype)


def gather(data: Expr, axis: int, indices: Expr) -> Call:
    """The elements of `data` at `indices` along `axis`, in the shape of `indices`."""
    return call("gather", data, indices, axis=axis)


def gather_nd(data: Expr, indices: Expr, batch_dims: int = 0, index_rank: int | None = None) -> Call:
    """The slices of `data` at positions along the first axis of `indices`. Passat's operator has positions along the last axis, so a
    transpose is built too."""
    only("gather_nd", "batch_dims", batch_dims, 0)
    return call("gather_nd", data, _places_last("gather_nd", indices))


def scatter_elements(data: Expr, indices: Expr, updates: Expr, axis: int = 0, reduction: str = "update") -> Call:
    """`data` with the elements at `indices` along `axis` replaced by, or combined with, updates."""
    only("scatter_elements", "reduction", reduction, *_REDUCTIONS)
    return call("scatter_elements", data, indices, updates, axis=axis, reduction=_REDUCTIONS[reduction])


def scatter_nd(data: Expr, indices: Expr, updates: Expr, mode: str = "update") -> Call:
    """`data` with the slices at positions along the first axis of `indices` (see `gather_nd`) replaced by, or combined with, updates."""
    only("scatter_nd", "mode", mode, *_REDUCTIONS)
    return call("scatter_nd", data, _places_last("scatter_nd", indices), updates, reduction=_REDUCTIONS[mode])


def _places_last(name: str, indices: Expr) -> Expr:
    if isinstance(indices, Constant):
        return Constant(np.ascontiguousarray(np.moveaxis(indices.data.numpy(), 0, -1)))
    count = rank(name, "indices", indices)
    return indices if count == 1 else call("transpose", indices, axes=(*range(1, count), 0))


def topk(data: Expr, k: int | Expr = 1, axis: int = -1, ret_type: str = "both", is_ascend: bool = False, dtype: str = "int32") -> Expr:
    """The `k` largest or smallest elements along an axis, their indices, or both. (Passat's operator returns int64 indices, which are cast
    to other types.)"""
    only("topk", "ret_type", ret_type, "both", "values", "indices")
    if is_dynamic(k):
        found = call("dyn.topk", data, k, axis=axis, largest=not is_ascend)
    else:
        found = call("topk", data, k=numbers("topk", "k", k)[0], axis=axis, largest=not is_ascend)
    if ret_type == "values":
        return found[0]
    if ret_type == "both" and dtype == "int64":
        return found
    indices = found[1] if dtype == "int64" else found[1].astype(dtype)
    return indices if ret_type == "indices" else Tuple([TupleGetItem(found, 0), indices])


def where(condition: Expr, x: Expr, y: Expr) -> Call:
    """The elements of `x` where the condition is true, otherwise those of `y`. Conditions that are known to be numbers hold if they are not
    zero."""
    chosen = operand("where", "condition", condition)
    type_ = known_type(chosen)
    if isinstance(type_, TensorType) and type_.dtype != "bool":
        chosen = chosen.astype("bool")
    return call("where", chosen, x, y)


def argsort(data: Expr, axis: int = -1, is_ascend: bool = True, dtype: str = "int32") -> Expr:
    """The indices that sort the elements along an axis. Raises ValueError if the size of the axis is unknown."""
    return topk(data, _whole("argsort", data, axis), axis, "indices", is_ascend, dtype)


def sort(data: Expr, axis: int = -1, is_ascend: bool = True) -> Expr:
    """The elements along an axis, sorted. Raises ValueError if the size of the axis is unknown."""
    return topk(data, _whole("sort", data, axis), axis, "values", is_ascend)


def _whole(name: str, data: Expr, axis: int) -> int:
    type_ = known_type(data)
    size = type_.shape[axis] if isinstance(type_, TensorType) and -type_.ndim <= axis < type_.ndim else None
    if not isinstance(size, int):
        raise ValueError(f"relay.{name}: the size of axis {axis} must be known, but the type of the data is {type_!r}")
    return size


def argmax(
    data: Expr,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Call:
    """The index (int64) of the first (or last) greatest element along an axis, or in the flattened tensor."""
    return _place("argmax", data, axis, keepdims, exclude, select_last_index)


def argmin(
    data: Expr,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
    exclude: bool = False,
    select_last_index: bool = False,
) -> Call:
    """The index (int64) of the first (or last) smallest element along an axis, or in the flattened tensor."""
    return _place("argmin", data, axis, keepdims, exclude, select_last_index)


def _place(name: str, data: Expr, axis: int | Sequence[int] | None, keepdims: bool, exclude: bool, last: bool) -> Call:
    only(name, "exclude", bool(exclude), False)
    if axis is None:
        only(name, "keepdims", bool(keepdims), False)
        return call(name, reshape(operand(name, "data", data), -1), axis=0, select_last_index=last)
    axes = numbers(name, "axis", axis)
    if len(axes) != 1:
        raise ValueError(f"relay.{name}: axis={axis} is not supported; one axis is, or None for all")
    return call(name, data, axis=axes[0], keepdims=keepdims, select_last_index=last)


def cumsum(data: Expr, axis: int | None = None, dtype: str | None = None, exclusive: bool | None = None) -> Call:
    """Cumulative sums along an axis, or in the flattened tensor, of elements cast to `dtype` if given."""
    summed = operand("cumsum", "data", data)
    if dtype is not None:
        summed = summed.astype(dtype)
    return call("cumsum", reshape(summed, -1) if axis is None else summed, axis=axis or 0, exclusive=bool(exclusive))


def shape_of(data: Expr, dtype: str = "int32") -> Call:
    """The shape as a tensor."""
    return _counted("shape_of", data, dtype)


def reshape_like(
    data: Expr, shape_like: Expr, lhs_begin: int = 0, lhs_end: int | None = None, rhs_begin: int = 0, rhs_end: int | None = None
) -> Call:
    """`data` in the shape of another tensor. With bounds, the axes from `lhs_begin` up to, but excluding `lhs_end` get the shape of the
    other tensor's axes from `rhs_begin` up to, but excluding `rhs_end`; raises ValueError unless both shapes are known."""
    if (lhs_begin, lhs_end, rhs_begin, rhs_end) == (0, None, 0, None):
        return call("reshape_like", data, shape_like)
    types = known_type(data), known_type(shape_like)
    ours, theirs = (type_.shape if isinstance(type_, TensorType) and type_.is_static else None for type_ in types)
    if ours is None or theirs is None:
        raise ValueError(f"relay.reshape_like: parts of shapes need known shapes, not {types[0]!r} and {types[1]!r}")
    rest = () if lhs_end is None else ours[lhs_end:]
    return call("reshape", data, newshape=(*ours[:lhs_begin], *theirs[rhs_begin:rhs_end], *rest))


def ndarray_size(data: Expr, dtype: str = "int32") -> Call:
    """The number of elements; 1 for a scalar."""
    return _counted("ndarray_size", data, dtype)


def _counted(name: str, data: Expr, dtype: str) -> Call:
    """Sizes as a tensor of an integer type; other types need a cast."""
    if dtype in ("int32", "int64"):
        return call(name, data, dtype=dtype)
    return call("cast", call(name, data, dtype="int64"), dtype=dtype)


explain_arguments(globals(), __all__)
