"""Selections: calls that read some positions of an axis of a tensor, and the same positions of other tensors.

Either all entries of a batch share the positions (`x[:, 0]`, `x[:, -1:]`), or each selects one of its own, such as the end of each text
(`x[arange(batch), end]`). Exporters write the latter as GatherND, as GatherElements, or as a Gather of rows of the flattened tensor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any as AnyValue
from typing import Final

import numpy as np

from passat.ir.aligned_axes import Place
from passat.ir.expr import Call, Constant, Expr, Tuple
from passat.ir.known import known_value
from passat.ir.op import Op, call_op, get_op
from passat.ir.ops.reshaping import new_axes
from passat.ir.ops.slicing import slice_parts, taken_places
from passat.ir.shape import Dim, product, same_dim
from passat.ir.tensor import Tensor
from passat.ir.types import TensorType, tensor_type

_EXPANDING: Final = ("expand_dims", "squeeze", "reshape")
"""What keeps a vector, up to axes of size 1."""
_REPEATING: Final = ("broadcast_to", "dyn.broadcast_to", "tile", "expand_dims")


@dataclass(frozen=True, eq=False)
class Selection:
    """A call that selects positions of an axis."""

    call: Call
    whole: Expr
    """The tensor that it selects from."""
    place: Place
    size: Dim
    """The number of positions."""
    index: Expr | None = None
    """The positions: a scalar or a vector, which may be copied along further axes. None for a slice."""
    view: Expr | None = None
    """The matrix of the rows of the tensor, if the call reads that."""
    count: Expr | None = None
    """The number of positions, if the index counts the rows of all entries of the batch, so that each may select from another entry."""
    parts: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Which of the positions a call reads, by identity, if several calls read different ones."""

    @property
    def constants(self) -> tuple[int, ...] | None:
        """The positions, if they are constant and not of a slice whose size is not known."""
        size = tensor_type(self.whole.checked_type).shape[self.place.axis]
        if isinstance(self.index, Constant) and self.place.batch is None:
            found = self.index.data.numpy().reshape(-1).tolist()
            return tuple(at + size if at < 0 and isinstance(size, int) else at for at in found)
        if self.index is None and isinstance(size, int):
            return tuple(taken_places(size, *self._bounds()))
        return None

    def _bounds(self) -> tuple[int, int, int]:
        attrs = self.call.attrs
        return slice_parts(tensor_type(self.whole.checked_type).ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)[self.place.axis]

    def select(self, part: Expr, place: Place, made: Expr, index: Expr | None, entries: Expr | None = None) -> Expr:
        """The positions of another tensor, which keeps the axis: a call on what replaces the tensor, the positions and the entries."""
        if index is None:
            begin, end, stride = self._bounds()
            return self._call("strided_slice", made, begin=(begin,), end=(end,), strides=(stride,), axes=(place.axis,))
        if place.batch is None:
            return self._call("take", made, index, axis=place.axis)
        shape = tensor_type(part.checked_type).shape
        if place.shared:
            return self._select_shared(len(shape), place, made, index)
        return self._select_each(shape, place, made, index, entries)

    def select_entries(self, made: Expr, batch: int, entries: Expr) -> Expr:
        """The entries of another tensor whose positions are all read."""
        return self._call("take", made, entries, axis=batch)

    def _select_shared(self, rank: int, place: Place, made: Expr, index: Expr) -> Expr:
        """One position for each entry of the batch, of a tensor that they share: the positions are an axis, which becomes the batch."""
        assert place.batch is not None
        missing = max(-place.batch, 0)
        axis, batch = place.axis + missing, place.batch + missing
        order = list(range(rank + missing))
        order[axis], order[batch] = batch, axis
        whole = self._call("expand_dims", made, axis=0, num_newaxis=missing) if missing else made
        return self._call("transpose", self._call("take", whole, index, axis=axis), axes=tuple(order))

    def _select_each(self, shape: tuple[Dim, ...], place: Place, made: Expr, index: Expr, entries: Expr | None) -> Expr:
        """One position for each entry of the batch, of a tensor that has the batch."""
        assert place.batch is not None
        axis, batch, rank = place.axis, place.batch, len(shape)
        order = list(range(rank))
        if batch > axis or any(size != 1 or entries is not None for at, size in enumerate(shape[:axis]) if at != batch):
            order = [batch, axis, *(at for at in order if at not in (batch, axis))]
            made, axis, batch = self._call("transpose", made, axes=tuple(order)), 1, 0
        if entries is None:
            places = self._call("expand_dims", index, axis=tuple(at for at in range(axis + 2) if at != batch))
            found = self._call("gather_nd", made, places, batch_dims=axis)
        else:
            pairs = self._call("concatenate", Tuple([self._call("expand_dims", each, axis=(1,)) for each in (entries, index)]), axis=1)
            found = self._call("expand_dims", self._call("gather_nd", made, pairs), axis=(1,))
        back = tuple(order.index(at) for at in range(rank))
        return found if back == tuple(range(rank)) else self._call("transpose", found, axes=back)

    def vectors(self, made: Mapping[int, Expr]) -> tuple[Expr | None, Expr | None]:
        """The positions, None for a slice, and the entries of the batch that they are of, None if each is of its own: from what replaces
        the nodes of the program, by identity."""
        if self.index is None:
            return None, None
        index = made.get(id(self.index), self.index)
        if self.count is None:
            return self._integers(self._vector(index)), None
        count = made.get(id(self.count), self.count)
        if not isinstance(count, Constant):  # ONNX Runtime ends the process where an integer is divided by 0
            count = self._call("maximum", count, Constant(Tensor.dense(1, tensor_type(self.index.checked_type).dtype)))
        positions = self._call("floor_mod", index, count)
        entries = self._call("divide", self._call("subtract", index, positions), count)
        return self._integers(positions), self._integers(entries)

    def _integers(self, made: Expr) -> Expr:
        """The positions as GatherND takes them."""
        assert self.index is not None
        is_cast = self.place.batch is not None and tensor_type(self.index.checked_type).dtype != "int64"
        return self._call("cast", made, dtype="int64") if is_cast else made

    def _vector(self, made: Expr) -> Expr:
        """The positions as a vector."""
        assert self.index is not None
        type_ = tensor_type(self.index.checked_type)
        if type_.ndim == 1:
            return made
        if isinstance(made, Constant) and not type_.ndim:
            return Constant(Tensor.dense(made.data.numpy().reshape(1)), made.span)
        copied = tuple(at for at, size in enumerate(type_.shape) if at and size != 1)
        if copied:
            first, last = (0,) * len(copied), (1,) * len(copied)
            made = self._call("strided_slice", made, begin=first, end=last, strides=last, axes=copied)
        return self._call("squeeze", made, axis=tuple(range(1, type_.ndim))) if type_.ndim else self._call("expand_dims", made, axis=0)

    def result(self, selected: Expr, call: Call) -> Expr:
        """The result of one of the calls, from the selected positions."""
        axis, part = self.place.axis, self.parts.get(id(call))
        is_scalar = tensor_type(call.checked_type).ndim < tensor_type(self.whole.checked_type).ndim
        if part is not None:
            places = Tensor.dense(part[0] if is_scalar else part, "int64")
            return self._call("take", selected, Constant(places), axis=axis)
        return self._call("squeeze", selected, axis=(axis,)) if is_scalar else selected

    def _call(self, name: str, *args: Expr, **attrs: AnyValue) -> Call:
        return call_op(name, *args, span=self.call.span, **attrs)


def selection(node: Expr, of_each: bool = True) -> Selection | None:
    """The selection of a call that selects at most half of the positions of an axis; None for other calls.

    With `of_each`, also of calls that select one position of each entry of a batch.
    """
    if not isinstance(node, Call) or not isinstance(node.op, Op):
        return None
    finders = _FINDERS.get(node.op.name)
    if finders is None:
        return None
    found = next((made for find in finders if (made := find(node)) is not None and (of_each or made.place.batch is None)), None)
    if found is None:
        return None
    size = tensor_type(found.whole.checked_type).shape[found.place.axis]
    if isinstance(found.size, int) and not 1 <= found.size <= (size // 2 if isinstance(size, int) else 1):
        return None
    return found


def joined(selections: Sequence[Selection]) -> Selection | None:
    """One selection of the positions of several ones, along an axis of one tensor; None if some are not constant, or all of them are more
    than half."""
    places = [selected.constants for selected in selections]
    known = [place for place in places if place is not None]
    every = sorted({at for place in known for at in place})
    first = selections[0]
    size = tensor_type(first.whole.checked_type).shape[first.place.axis]
    if len(known) < len(places) or (isinstance(size, int) and len(every) > size // 2):
        return None
    parts = {id(one.call): tuple(map(every.index, place)) for one, place in zip(selections, known, strict=True)}
    return Selection(first.call, first.whole, first.place, len(every), Constant(Tensor.dense(every, "int64")), parts=parts)


def _taken(call: Call) -> Selection | None:
    """A take at a scalar, or at a vector of known size."""
    data, index = (tensor_type(arg.checked_type) for arg in call.args)
    if call.attrs.axis is None or index.ndim > 1 or not index.is_static:
        return None
    return Selection(call, call.args[0], Place(data.axis(call.attrs.axis)), index.shape[0] if index.ndim else 1, call.args[1])


def _sliced(call: Call) -> Selection | None:
    """A slice along one axis. If the number of positions is not known, it is at most 1."""
    data, result, attrs = tensor_type(call.args[0].checked_type), tensor_type(call.checked_type), call.attrs
    cut = slice_parts(data.ndim, attrs.begin, attrs.end, attrs.strides, attrs.axes)
    if len(cut) != 1:
        return None
    axis, (begin, end, stride) = next(iter(cut.items()))
    count = result.shape[axis]
    if not isinstance(count, int) and not (stride > 0 and (end == begin + 1 or begin == -1)):
        return None
    return Selection(call, call.args[0], Place(axis), count)


def _gathered_pairs(call: Call) -> Selection | None:
    """`gather_nd` at pairs of an entry of the batch and a position, or at a position with a batch dimension."""
    data, index = call.args
    shape, at = tensor_type(data.checked_type).shape, tensor_type(index.checked_type).shape
    if call.attrs.batch_dims == 1:
        is_vector = same_dim(at[0], shape[0]) and all(size == 1 for size in at[1:]) and len(at) <= 3
        return Selection(call, data, Place(1, batch=0), 1, index) if is_vector else None
    pair = index.args[0] if isinstance(index, Call) and index.op is get_op("concatenate") and len(at) == 2 else None
    if (
        call.attrs.batch_dims
        or not isinstance(pair, Tuple)
        or any(tensor_type(part.checked_type).shape[1:] != (1,) for part in pair.fields)
    ):
        return None
    if at[1] != 2 or len(pair.fields) != 2:
        return None
    for batch, axis in ((0, 1), (1, 0)):
        counted, position = pair.fields[batch], pair.fields[axis]
        length = tensor_type(position.checked_type).shape[0]
        if same_dim(length, shape[batch]) and _is_count(counted, shape[batch]):
            return Selection(call, data, Place(axis, batch), 1, position)
    return None


def _gathered_elements(call: Call) -> Selection | None:
    """`gather` at positions that are equal in all axes but the first one."""
    data, index = call.args
    type_ = tensor_type(data.checked_type)
    shape, wanted, axis = type_.shape, tensor_type(call.checked_type).shape, type_.axis(call.attrs.axis)
    if axis == 0 or wanted[axis] != 1 or not all(at == axis or same_dim(size, shape[at]) for at, size in enumerate(wanted)):
        return None
    if not all(_repeats(index, at) for at in range(1, len(wanted))):
        return None
    while isinstance(index, Call) and isinstance(index.op, Op) and index.op.name in _REPEATING:
        rest, rank = tensor_type(index.args[0].checked_type).shape, tensor_type(index.checked_type).ndim
        if not rest or not same_dim(rest[0], wanted[0]) or (index.op.name != "expand_dims" and len(rest) < rank):
            break
        index = index.args[0]
    if any(not isinstance(size, int) or size < 1 for size in tensor_type(index.checked_type).shape[1:]):
        return None
    return Selection(call, data, Place(axis, batch=0), 1, index)


def _repeats(expr: Expr, axis: int) -> bool:
    """True if all positions along an axis are equal."""
    while True:
        rank = tensor_type(expr.checked_type).ndim
        if tensor_type(expr.checked_type).shape[axis] == 1:
            return True
        op = expr.op if isinstance(expr, Call) and isinstance(expr.op, Op) else None
        if not isinstance(expr, Call) or op is None or op.stateful:
            return False
        if op.name == "expand_dims":
            new = new_axes(tensor_type(expr.args[0].checked_type).ndim, expr.attrs.axis, expr.attrs.num_newaxis)
            expr, axis = expr.args[0], axis - sum(at < axis for at in new)
            continue
        if not op.elementwise and op.name not in _REPEATING:
            return False
        parts = expr.args if op.elementwise else expr.args[:1]
        if not all(isinstance(part.checked_type, TensorType) for part in parts):
            return False
        places = [(part, axis - rank + tensor_type(part.checked_type).ndim) for part in parts]
        varying = [(part, at) for part, at in places if at >= 0 and tensor_type(part.checked_type).shape[at] != 1]
        if len(varying) != 1:
            return not varying
        expr, axis = varying[0]


def _taken_rows(call: Call) -> Selection | None:
    """A take of rows of a flattened tensor, at a position plus a multiple of the number of positions. If the position is not known to be in
    range, the row may be one of another entry of the batch."""
    flat, row = call.args
    if call.attrs.axis is None or not isinstance(flat, Call) or not isinstance(flat.op, Op) or flat.op.name not in _FLATTENING:
        return None
    whole, rows = flat.args[0], tensor_type(flat.checked_type)
    shape = tensor_type(whole.checked_type).shape
    if len(shape) < 2:
        return None
    flattened = (product(shape[:2]), *shape[2:])
    if rows.axis(call.attrs.axis) or len(flattened) != rows.ndim or not all(map(same_dim, flattened, rows.shape)):
        return None
    if not isinstance(row, Call) or row.op is not get_op("add") or tensor_type(row.checked_type).ndim != 1:
        return None
    for position, start in (row.args, row.args[::-1]):
        vector = tensor_type(position.checked_type)
        if vector.ndim != 1 or not same_dim(vector.shape[0], shape[0]) or not _is_count(start, shape[0], shape[1]):
            continue
        if _is_position(position, shape[1]):
            return Selection(call, whole, Place(1, batch=0), 1, position, view=flat)
        count = _step(start, shape[1])
        if count is not None:
            return Selection(call, whole, Place(1, batch=0), 1, row, view=flat, count=count)
    return None


def _step(start: Expr, size: Dim) -> Expr | None:
    """The number of positions, of which the starts are multiples."""
    dtype = tensor_type(start.checked_type).dtype
    if isinstance(size, int):
        return Constant(Tensor.dense(size, dtype))
    parts = start.args if isinstance(start, Call) and start.op is get_op("multiply") else ()
    return next((part for part in parts if _is_scalar(part, size) and tensor_type(part.checked_type).ndim <= 1), None)


_FLATTENING: Final = ("nn.batch_flatten", "reshape", "dyn.reshape")
_FINDERS: Final[dict[str, tuple[Callable[[Call], Selection | None], ...]]] = {
    "take": (_taken_rows, _taken),
    "strided_slice": (_sliced,),
    "gather_nd": (_gathered_pairs,),
    "gather": (_gathered_elements,),
}
SELECTING: Final = tuple(_FINDERS)
"""The operators whose calls may be selections."""


def _plain(expr: Expr) -> Expr:
    """The operand of calls that only change axes of size 1 or the integer type of a vector."""
    while isinstance(expr, Call) and isinstance(expr.op, Op):
        names = (*_EXPANDING, "cast")
        own, whole = expr.checked_type, expr.args[0].checked_type if expr.args else None
        if expr.op.name not in names or not isinstance(own, TensorType) or not isinstance(whole, TensorType):
            break
        if own.dtype not in ("int32", "int64") or whole.dtype not in ("int32", "int64"):
            break
        expr = expr.args[0]
    return expr


def _is_count(expr: Expr, size: Dim, step: Dim = 1) -> bool:
    """True if the elements are 0, `step`, `2 * step` ..., as many as an axis has positions."""
    type_ = tensor_type(expr.checked_type)
    if not type_.ndim or not same_dim(type_.shape[0], size) or any(other != 1 for other in type_.shape[1:]):
        return False
    value = expr.data.numpy() if isinstance(expr, Constant) else known_value(expr)
    if isinstance(value, np.ndarray):
        return all(same_dim(found, step * at) for at, found in enumerate(value.reshape(-1).tolist()))
    found = _plain(expr)
    if not isinstance(found, Call) or not isinstance(found.op, Op):
        return False
    if found.op.name == "multiply" and step != 1:
        return any(_is_count(count, size) and _is_scalar(scale, step) for count, scale in (found.args, found.args[::-1]))
    return found.op.name == "arange" and step == 1 and _is_scalar(found.args[0], 0) and _is_scalar(found.args[2], 1)


def _is_scalar(expr: Expr, wanted: Dim) -> bool:
    """True if the only element is a size."""
    value = known_value(expr)
    return isinstance(value, np.ndarray) and value.size == 1 and same_dim(value.reshape(-1).tolist()[0], wanted)


def _is_position(expr: Expr, size: Dim) -> bool:
    """True if all elements are positions of an axis: places of extrema, or remainders."""
    found = _plain(expr)
    if isinstance(found, Call) and found.op is get_op("floor_mod"):
        return _is_scalar(found.args[1], size)
    if not isinstance(found, Call) or found.op not in (get_op("argmax"), get_op("argmin")):
        return False
    data = tensor_type(found.args[0].checked_type)
    return same_dim(data.shape[data.axis(found.attrs.axis)], size)
