"""Gathers with known indices, and slices: the guards of `data_movement.Concatenations` about them."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from passat.ir.attrs import Attrs
from passat.ir.bounds import FAR, at_least
from passat.ir.dtypes import to_numpy
from passat.ir.ops.movement import permutation
from passat.ir.ops.slicing import slice_parts, taken_places
from passat.ir.shape import Dim
from passat.ir.tensor import Array, Tensor
from passat.rules.guards import Reject, Term, computed, guard

PARAMETERS: Final = ("axes", "begin", "end", "strides")


def parameter(slices: Mapping[int, tuple[int, int, int]], which: str) -> tuple[int, ...]:
    """A parameter of a slice, given its begin, end and stride along each axis."""
    return tuple(slices) if which == "axes" else tuple([each[PARAMETERS.index(which) - 1] for each in slices.values()])


def _place(axis: int | None, x: Term) -> int:
    """The nonnegative axis of a gather. Rejects gathers from the flattened tensor."""
    if axis is None:
        raise Reject("gathers from the flattened tensor")
    return x.type.axis(axis)


@computed
def axis_within(outer: int | None, inner: int | None, x: Term, indices: Term, whole: Term) -> int:
    """The axis of the indices that another gather, from the gathered tensor, is along. Rejects axes of the data."""
    at = _place(outer, whole) - _place(inner, x)
    if not 0 <= at < indices.type.ndim:
        raise Reject(f"axis {outer} of {whole.type!r} is not an axis of the indices {indices.type!r}")
    return at


@computed
def axis_before(axis: int | None, axes: Sequence[int] | None, x: Term) -> int:
    """The axis of a tensor that a gather from its transpose is along."""
    return permutation(x.type.ndim, axes)[_place(axis, x)]


@computed
def order_behind(axis: int | None, axes: Sequence[int] | None, x: Term, indices: Term) -> tuple[int, ...]:
    """The permutation for what a gather takes of a tensor before the transpose: that of the transpose, without the axis of a gather of one
    position."""
    order = list(permutation(x.type.ndim, axes))
    if indices.type.ndim:
        return tuple(order)
    gone = order.pop(_place(axis, x))
    return tuple(each - (each > gone) for each in order)


@computed
def within(inner: int | None, cut: Attrs, x: Term, indices: Term, whole: Term, part: str) -> tuple[int, ...]:
    """A parameter of the slice of the indices that equals the slice of the gathered tensor. Rejects slices along axes of the data."""
    first = _place(inner, x)
    slices = slice_parts(whole.type.ndim, cut.begin, cut.end, cut.strides, cut.axes)
    if not all(0 <= axis - first < indices.type.ndim for axis in slices):
        raise Reject(f"the slice along axes {tuple(slices)} of {whole.type!r} is not along axes of the indices {indices.type!r}")
    return parameter({axis - first: each for axis, each in slices.items()}, part)


@guard
def are_along_one_axis(axis: int | None, cut: Attrs, x: Term, c: Term) -> bool | str:
    """A gather is along the only axis that a slice cuts."""
    at, axes = _place(axis, x), tuple(slice_parts(x.type.ndim, cut.begin, cut.end, cut.strides, cut.axes))
    return axes == (at,) or f"the slice is along axes {axes}, the gather along axis {at}"


@computed
def before_slice(c: Term, axis: int | None, cut: Attrs, x: Term) -> Tensor:
    """The indices into a tensor that select the same elements as indices into its slice along that axis.

    If the size is unknown, indices from an end that the slice keeps at a known distance remain: from the front if it begins at a
    nonnegative position, from the back if its stride is 1 and it ends at a position relative to the end."""
    at, given = _place(axis, x), c.value()
    indices = given.numpy().astype(np.int64)
    found = _positions(indices, x.type.shape[at], *slice_parts(x.type.ndim, cut.begin, cut.end, cut.strides, cut.axes)[at])
    return Tensor.dense(found.astype(to_numpy(given.dtype)), given.dtype)


def _positions(indices: Array, size: Dim, begin: int, end: int, stride: int) -> Array:
    """The positions in an axis of elements of a slice. Rejects unknown positions."""
    if isinstance(size, int):
        taken = np.asarray(taken_places(size, begin, end, stride), np.int64)
        if np.any(indices >= len(taken)) or np.any(indices < -len(taken)):
            raise Reject(f"an index is out of range for a slice of size {len(taken)}")
        return np.asarray(taken[indices])
    if begin >= 0 and stride > 0 and np.all(indices >= 0):
        return begin + stride * indices
    if stride == 1 and (end < 0 or end >= FAR) and np.all(indices < 0):
        return indices + min(end, 0)
    raise Reject(f"the position of an index in an axis of size {size} is unknown")


@guard
def stays_within(x: Term, whole: Term, axis: int | None, z: Term) -> bool | str:
    """Indices are in range, as the gather requires unless it gathers nothing: the tensor has elements, or the indices are known."""
    if all(at_least(dim, 1) for dim in x.type.shape):
        return True
    size = whole.type.shape[_place(axis, whole)]
    if z.constant is None or not isinstance(size, int):
        return f"{x.type!r} may be empty, and an index out of range"
    indices = z.constant.numpy()
    return bool(np.all((-size <= indices) & (indices < size))) or f"an index is out of range for an axis of size {size}"


@guard
def are_single(c: Term, d: Term) -> bool | str:
    """The first index is a scalar or a vector, for several axes, and the second a scalar."""
    return (c.type.ndim < 2 and d.type.ndim == 0) or f"{c.type!r} or {d.type!r} is not a single index"


@computed
def index_of_both(c: Term, d: Term) -> Tensor:
    """The index of the element at the second index within the element at the first one."""
    return Tensor.dense(np.append(c.value().numpy(), d.value().numpy()).astype(np.int64), "int64")


@guard
def is_run(c: Term, x: Term, axis: int | None) -> bool | str:
    """The constant is a run of consecutive indices within the axis."""
    if axis is None or c.type.ndim != 1:
        return "the indices are not a vector along an axis"
    size = x.type.shape[_place(axis, x)]
    if not isinstance(size, int):
        return f"the size of axis {axis} of {x.type!r} is unknown"
    indices = _from_start(c, size)
    run = len(indices) > 0 and bool(np.all(np.diff(indices) == 1)) and indices[0] >= 0 and indices[-1] < size
    return bool(run) or "the indices are not consecutive within the axis"


@computed
def run_bound(c: Term, x: Term, axis: int, end: bool) -> tuple[int, ...]:
    """The begin or end of consecutive indices."""
    size = x.type.shape[_place(axis, x)]
    assert isinstance(size, int), "is_run has seen it"
    indices = _from_start(c, size)
    return (int(indices[-1]) + 1 if end else int(indices[0]),)


def _from_start(c: Term, size: int) -> Array:
    """The indices, those that count from the end as those that count from the start."""
    indices = c.value().numpy().astype(np.int64)
    return np.asarray(np.where(indices < 0, indices + size, indices))


@computed
def axis_of_slice(axis: int, x: Term) -> tuple[int, ...]:
    """The axis of a slice."""
    return (x.type.axis(axis),)
