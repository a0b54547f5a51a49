"""Simplifies tensors created from shapes, and their views and gathers. Operators: zeros_like ones_like full_like full zeros ones,
arithmetic on them, cast_like reshape_like broadcast_to_like collapse_sum_like dyn.* take gather_nd arange reshape expand_dims squeeze
nn.batch_flatten concatenate where onnx.LSTM onnx.GRU onnx.RNN.

The result is often known without static sizes: a reshape only inserts axes of size 1, a copy is redundant because the next operator
broadcasts, consecutive indices select all elements in order. The last occurs in padding masks that torch's vmap gathers at (sample,
position), flat or as pairs, and in adaptive pooling to size 1.

From Relay's SimplifyExpr: the Concretize...Like rewrites, FullElementwise, and the part of EliminateIdentity that handles `zeros(...)` and
`ones(...)`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np

from passat.ir.ops.like import collapsed_axes
from passat.ir.shape import Dim, same_dim, same_dims
from passat.rules.guards import (
    Guard,
    Reject,
    Term,
    computed,
    dtype_of,
    guard,
    is_axis,
    is_finite,
    is_float,
    same_type,
    shape_of,
)
from passat.rules.holes import cases, operator
from passat.rules.library.arithmetic import CHOSEN_ZERO
from passat.rules.library.views import new_axes, new_shape
from passat.rules.pattern import Pattern, PCall, TermLike, attributes, constants, op, tensors
from passat.rules.range_guards import lies_between, never_nan, never_signed
from passat.rules.rule_set import RuleSet

x, y, z, v, w, k, m = tensors("x y z v w k m")
b, c, d, s, t = constants("b c d s t")
a, p = attributes("a p")


def _long_axes(term: Term, rank: int) -> list[int]:
    """The axes of a tensor of the given rank along which the term is not broadcast."""
    return [axis + rank - term.type.ndim for axis, dim in enumerate(term.type.shape) if dim != 1]


@guard
def names_all_in_order(c: Term, x: Term, axis: int | None) -> bool | str:
    """The indices, of rank other than 1, list all indices of the axis in row-major order. (`masks.Masks` handles vectors.)"""
    if axis is None or not -x.type.ndim <= axis < x.type.ndim or c.type.ndim == 1:
        return f"{c.type!r} does not gather the elements of {x.type!r} along axis={axis} into another shape"
    size = x.type.shape[axis]
    if not isinstance(size, int) or c.type.size != size:
        return f"{c.type!r} does not contain each index of axis {axis} of {x.type!r} once"
    given = c.value().numpy().reshape(-1).astype(np.int64)
    return bool(np.all(np.where(given < 0, given + size, given) == np.arange(size))) or "the indices are in a different order"


@guard
def is_number(k: Term) -> bool | str:
    """The tensor is one integer of rank 0 or 1, known as an expression over sizes; a product with a vector stays a vector."""
    return (k.type.ndim <= 1 and k.type.size == 1 and k.known is not None) or f"{k.type!r} is not a number that is known before run time"


def _strides(shape: Sequence[Dim]) -> list[Dim]:
    """The row-major stride of each axis, then the number of elements."""
    found: list[Dim] = [1]
    for dim in reversed(shape):
        found.insert(0, found[0] * dim)
    return [*found[1:], found[0]]


@guard
def counts_rows(index: Term, flat: Term, far: Term, step: Term, near: Term) -> bool | str:
    """The indices of all rows in order: an arange along one axis times a step, plus offsets along the inner axes."""
    shape = index.type.shape
    *strides, count = _strides(shape)
    if not same_dim(count, flat.type.shape[0]):
        return f"{index.type!r} does not contain the index of each row of {flat.type!r} once"
    outer, inner = (_long_axes(term, len(shape)) for term in (far, near))
    if len(outer) != 1 or outer + inner != [axis for axis, dim in enumerate(shape) if dim != 1]:
        return f"{far.type!r} and {near.type!r} do not enumerate the axes of {index.type!r}"
    if step.type.size != 1 or step.known is None or not same_dim(step.known[0], strides[outer[0]]):
        return f"indices increase by {step.known}, not by {strides[outer[0]]}"
    if near.constant is None:
        return len(inner) == 1 or f"{near.type!r} does not enumerate a single axis"
    return bool(np.array_equal(near.constant.numpy().reshape(-1), np.arange(near.constant.size))) or "the constant is not 0, 1, 2, ..."


@guard
def counts_pairs(x: Term, whole: Term, rows: Term, columns: Term) -> bool | str:
    """Two counters (arange) along the axes of the result, which are the indices of all rows and columns of a matrix."""
    if x.type.ndim != 2:
        return f"{x.type!r} is not a matrix"
    shape = whole.type.shape
    axes = [_long_axes(term, len(shape)) for term in (rows, columns)]
    along = [axis for axis, dim in enumerate(shape) if dim != 1]
    if axes != [[axis] for axis in along] or len(along) != 2:
        return f"{rows.type!r} and {columns.type!r} do not enumerate the axes of {whole.type!r}"
    counted = [term.type.shape[axis - len(shape)] for term, (axis,) in zip((rows, columns), axes, strict=True)]
    fits = all(same_dim(shape[axis], dim) for (axis,), dim in zip(axes, x.type.shape, strict=True)) and all(
        map(same_dim, counted, x.type.shape)  # a broadcast scalar does not enumerate an axis
    )
    return fits or f"{whole.type!r} does not have the sizes of {x.type!r}"


@guard
def is_column(column: Term, copy: Term, whole: Term) -> bool | str:
    """One number per element of the result, with a trailing axis of size 1."""
    if not same_dims(copy.type.shape, whole.type.shape):
        return f"{copy.type!r} does not have the shape of {whole.type!r}"
    return column.type.shape[-1] == 1 or f"{column.type!r} is not a column"


_NUMBERS = op.arange(b, x, c, ...)
_SPREAD = op.expand_dims(_NUMBERS, ...)
_SPREAD_STEPS = op.expand_dims(_NUMBERS * k, ...)


def _counted(stop: Pattern) -> PCall:
    return op.reshape(op.arange(0, stop, 1, ...), ...)


_ROWS = op.reshape(x, ...)
_WITHIN = cases("within", "counted", "constant")(counted=_counted(y), constant=c)
_AT = _counted(z) * k + _WITHIN
_OF = op.take(_ROWS, _AT, axis=0)
_TAKEN = op.take(x, c, axis=p)
_COPIES = (op.dyn.broadcast_to(_counted(y), k), op.dyn.broadcast_to(_counted(z), m))
_PLACES = tuple([op.expand_dims(copy, ...) for copy in _COPIES])
_PAIRS = op.gather_nd(x, op.concatenate(_PLACES, axis=p), batch_dims=0)


@guard
def counts_from(start: Term, step: Term, least: Term) -> bool | str:
    """The values of an arange are never below a bound."""
    first, by, bound = (term.value().uniform() for term in (start, step, least))
    return (first is not None and by is not None and bound is not None and by > 0 and first >= bound) or (
        f"numbers from {first} in steps of {by} may be below {bound}"
    )


_TRUE = op.greater_equal(op.reshape(_NUMBERS, ...), d)
_MASKED = z + op.where(op.logical_and(_TRUE, y), s, t)


@guard
def is_one_number(c: Term, whole: Term, shape: Term) -> bool | str:
    """The constant is a scalar, and the result has exactly the requested shape."""
    known = shape.known
    if c.type.size != 1:
        return f"{c.type!r} is not a single number"
    return (known is not None and same_dims(tuple(known), whole.type.shape)) or (f"{whole.type!r} does not have the shape {known}")


@guard
def chooses_numbers(x: Term, c: Term, d: Term) -> bool | str:
    """A mask selects between two scalars."""
    return c.type.size == d.type.size == 1 or f"{c.type!r} and {d.type!r} are not single numbers, as `where` over {x.type!r} needs"


g = operator("g", "add", "multiply", "minimum", "maximum", "subtract", "divide")
h = operator("h", "subtract", "divide")  # the non-commutative ones
side, copy = cases("side", "left", "right"), cases("copy", "broadcast", "full")


def _arithmetic(of: Pattern) -> Pattern:
    """Arithmetic with another operand on either side."""
    return side(left=g(of, y), right=h(y, of))


_COPIED: Final = copy(broadcast=op.dyn.broadcast_to(x, z), full=op.dyn.full(x, z, ...))
_CHOSEN, _CHOICE = op.where(op.dyn.broadcast_to(x, z), c, d), op.where(x, c, d)
_COPY = op.dyn.broadcast_to(c, y)
_FULL = op.dyn.full(op.reshape(c, newshape=()), y)


@computed
def summed_axes(x: Term, whole: Term) -> tuple[int, ...]:
    """The summed axes; at least one."""
    axes = collapsed_axes(x.type, whole.type)
    if not axes:
        raise Reject(f"{x.type!r} does not sum to {whole.type!r}")
    return axes


@computed
def full_shape(x: Term) -> tuple[int, ...]:
    """The shape of a static, nonempty tensor; in a newshape, 0 would stand for another size."""
    if not x.type.is_static or 0 in x.type.shape:
        raise Reject(f"{x.type!r} is not static, or empty")
    return x.type.concrete_shape


form = cases("form", "full", "full_like", "zeros", "ones", "zeros_like", "ones_like")
_FILLED: Final = form(
    full=op.full(y, ...),
    full_like=op.full_like(z, y),
    zeros=op.zeros(...),
    ones=op.ones(...),
    zeros_like=op.zeros_like(z),
    ones_like=op.ones_like(z),
)
_VALUE: Final = form(full=y, full_like=y, zeros=0, ones=1, zeros_like=0, ones_like=1)
filled = operator("f", "add", "multiply", "subtract")  # which of 0.0 and -0.0 is the larger depends on shapes in ONNX Runtime
filled_first = operator("g", "subtract", "divide")


def _with(uniform: Pattern) -> Pattern:
    """Arithmetic with a uniform tensor on either side."""
    return side(left=filled(x, uniform), right=filled_first(uniform, x))


filling, fitting = cases("filling", "zeros", "ones", "full"), cases("fitting", "broadcast", "sum")
_OF_X: Final = {"shape": shape_of(x), "dtype": dtype_of(x)}


_COLLAPSED: Final = op.collapse_sum_to(x, ...)
weights, recurrence, bias, lengths, hidden, cell, peepholes = tensors("weights recurrence bias lengths hidden cell peepholes")
layer = cases("layer", "rnn", "gru", "lstm", "lstm_with_cell", "lstm_with_peepholes")
memory = cases("memory", "plain", "with_peepholes")
_RNN, _GRU, _LSTM = (partial(of, x, weights, recurrence, bias, lengths, attrs=a) for of in (op.onnx.RNN, op.onnx.GRU, op.onnx.LSTM))


def _layer(state: TermLike) -> Pattern:
    """A recurrent layer with an initial state; `()` is none."""
    with_cell = {"lstm_with_cell": _LSTM(state, cell), "lstm_with_peepholes": _LSTM(state, cell, peepholes)}
    return layer(rnn=_RNN(state), gru=_GRU(state), lstm=_LSTM(state), **with_cell)


def _lstm(state: TermLike) -> Pattern:
    """A layer with an initial state of its cells."""
    return memory(plain=_LSTM(hidden, state), with_peepholes=_LSTM(hidden, state, peepholes))


def _are_zero(state: Pattern) -> tuple[Guard, ...]:
    return lies_between(state, 0, 0), never_signed(state), never_nan(state)


view = cases("view", "reshape_like", "flatten", "arange", "taken")
_SAME_ORDER: Final = view(reshape_like=op.reshape_like(x, y), flatten=op.nn.batch_flatten(x, ...), arange=_SPREAD, taken=_TAKEN)
_ORDERED: Final = view(reshape_like=x, flatten=x, arange=_NUMBERS, taken=x)


class CreationOps(RuleSet):
    """Creates uniform tensors without the tensor whose shape they have, and replaces them by scalars in arithmetic. Drops explicit
    broadcasts before arithmetic that broadcasts, and initial states of recurrent layers that are 0. Rewrites gathers of all elements in
    order as reshapes. Drops masks of indices that are always in range."""

    filled_like = filling(zeros=op.zeros_like(x), ones=op.ones_like(x), full=op.full_like(x, y)) >> filling(
        zeros=op.zeros(**_OF_X), ones=op.ones(**_OF_X), full=op.full(y, **_OF_X)
    )
    cast_like = op.cast_like(x, y) >> op.cast(x, dtype=dtype_of(y))
    shaped_like = fitting(broadcast=op.broadcast_to_like(x, y), sum=op.collapse_sum_like(x, y)) >> fitting(
        broadcast=op.broadcast_to(x, shape=shape_of(y)), sum=op.collapse_sum_to(x, shape=shape_of(y))
    )
    collapse_sum_to = (
        (_COLLAPSED >> op.reshape(op.sum(x, axis=summed_axes(x, _COLLAPSED), keepdims=True), newshape=full_shape(_COLLAPSED)))
        .inexact("a sum of nothing but -0.0 is 0.0")
        .lowering()  # one unknown operator becomes two known ones
    )
    collapse_nothing = (_COLLAPSED >> x).when(same_type(x, _COLLAPSED))
    filled = (_with(_FILLED) >> _with(_VALUE)).when(same_type(x, _with(_FILLED)))
    # ONNX Runtime does not load a quotient by an integer 0, even an empty one.
    filled_divisor = (x / _FILLED >> x / _VALUE).when(same_type(x, x / _FILLED), *form.only("full full_like zeros zeros_like", is_float(x)))
    always_true = (
        (_MASKED >> z + op.where(y, s, t)).when(counts_from(b, c, d), same_type(z + op.where(y, s, t), _MASKED)).inexact(CHOSEN_ZERO)
    )
    arange_steps = (op.reshape(_NUMBERS * k, ..., newshape=p) >> op.reshape(_NUMBERS, newshape=p) * k).when(is_number(k)).exploring()
    arange_spread_steps = (_SPREAD_STEPS >> op.reshape(_NUMBERS, newshape=new_shape(_NUMBERS, _SPREAD_STEPS)) * k).when(is_number(k))
    as_reshape = (_SAME_ORDER >> op.reshape(_ORDERED, newshape=new_shape(_ORDERED, _SAME_ORDER))).when(
        *view.only("taken", names_all_in_order(c, x, p))
    )
    taken_rows = (_OF >> op.expand_dims(x, axis=new_axes(x, _OF))).when(counts_rows(_AT, _ROWS, _counted(z), k, _WITHIN))
    gathered_pairs = (_PAIRS >> op.expand_dims(x, axis=new_axes(x, _PAIRS))).when(
        counts_pairs(x, _PAIRS, _counted(y), _counted(z)),
        *(is_column(column, copy, _PAIRS) for column, copy in zip(_PLACES, _COPIES, strict=True)),
        is_axis(p, -1, _PLACES[0]),
    )
    copied_operand = (_arithmetic(_COPIED) >> _arithmetic(x)).when(same_type(_arithmetic(x), _arithmetic(_COPIED)))
    copied_mask = (y + _CHOSEN >> y + _CHOICE).when(chooses_numbers(x, c, d), same_type(y + _CHOICE, y + _CHOSEN)).inexact(CHOSEN_ZERO)
    # ONNX Runtime does not multiply an absent state by the weights, which may be infinite.
    hidden_zeros = (_layer(hidden) >> _layer(())).when(*_are_zero(hidden), is_finite(recurrence))
    cell_zeros = (_lstm(cell) >> _lstm(())).when(*_are_zero(cell))
    copied_number = (_COPY >> _FULL).when(is_one_number(c, _COPY, y))
