"""Rules for equivalent forms, by which certificates prove how programs change when they are written to ONNX and read again, and in passes
without rules. No pass runs them."""

from typing import Any as AnyValue

from passat.ir.attrs import Attrs
from passat.ir.op import get_op
from passat.rules.guards import Reject, Term, computed
from passat.rules.holes import cases, operator, tensors_of
from passat.rules.library.views import keeps_shape
from passat.rules.pattern import Pattern, TermLike, attributes, op, tensors
from passat.rules.rule_set import RuleSet

_MOST = 4
"""The most parts of a split for which there are rules."""


@computed
def column(axis: int, data: Term) -> tuple[int, ...]:
    """The shape of a bias that is added to the data along an axis."""
    rank = data.type.ndim
    return (-1, *(1,) * (rank - axis % rank - 1))


@computed
def from_the_front(attrs: Attrs, of: Term) -> Attrs:
    """The attributes with a nonnegative axis of a tensor. Rejects an axis that is already nonnegative, and none."""
    if attrs["axis"] is None or attrs["axis"] >= 0:
        raise Reject("the axis is not counted from the back")
    return Attrs({**attrs, "axis": attrs["axis"] + of.type.ndim})


@computed
def cut(attrs: Attrs, data: Term) -> Attrs:
    """The attributes of a slice of one axis in one form. Rejects slices of several axes, of axes of unknown size, and with steps."""
    axes, strides = attrs.axes, attrs.strides or (1,)
    if axes is None or len(axes) != 1 or strides != (1,):
        raise Reject("the slice does not cut one axis")
    axis = data.type.axis(axes[0])
    span = range(_size(data, axis))[slice(attrs.begin[0], attrs.end[0])]
    return _slice(axis, span.start, span.stop)


@computed
def cut_of_part(attrs: Attrs, data: Term, index: int) -> Attrs:
    """The attributes of the slice that is a part of a split. Rejects axes of unknown size."""
    axis, places = data.type.axis(attrs.axis), attrs.indices_or_sections
    size = _size(data, axis)
    if isinstance(places, int):
        places = tuple(size // places * part for part in range(1, places))
    bounds = (0, *places, size)
    return _slice(axis, bounds[index], bounds[index + 1])


def _size(data: Term, axis: int) -> int:
    size: AnyValue = data.type.shape[axis]
    if not isinstance(size, int):
        raise Reject(f"the size of axis {axis} of {data.type!r} is not known")
    return size


def _slice(axis: int, begin: int, end: int) -> Attrs:
    return get_op("strided_slice").bind_attrs({"begin": (begin,), "end": (end,), "strides": (1,), "axes": (axis,)})


x, b, shape = tensors("x b shape")
(a,) = attributes("a")
xs = tensors_of("xs", least=1)
rest = tensors_of("rest", most=2)
outer, inner = cases("outer", "static", "computed", "expanded", "squeezed"), cases("inner", "none", "static", "computed")
part = cases("part", *(f"part_{i}" for i in range(_MOST)))
copied = cases("copied", "copy", "unknown")
along = operator("along", "cumsum", "gather", "nn.log_softmax", "nn.softmax", "scatter_elements", "take", "topk")
_VIEWED = inner(none=x, static=op.reshape(x, ...), computed=op.dyn.reshape(x, b, ...))
_VIEW = outer(
    static=op.reshape(_VIEWED, ...),
    computed=op.dyn.reshape(_VIEWED, shape, ...),
    expanded=op.expand_dims(_VIEWED, ...),
    squeezed=op.squeeze(_VIEWED, ...),
)
_JOINED = op.concatenate((*xs,), attrs=a)
_INDEX = part(**{f"part_{i}": i for i in range(_MOST)})


weights, recurrence, bias, lengths, hidden = tensors("weights recurrence bias lengths hidden")
layer = cases("layer", "rnn", "gru", "lstm")
last = cases("last", "bias", "lengths", "hidden", "cell")
_OPERANDS = (x, weights, recurrence, bias, lengths, hidden)
_ONE_HOT = op.one_hot(x, b, shape, attrs=a)
counted = cases("counted", "operand", "result")


def _layer(*operands: TermLike) -> Pattern:
    return layer(rnn=op.onnx.RNN(*operands, attrs=a), gru=op.onnx.GRU(*operands, attrs=a), lstm=op.onnx.LSTM(*operands, attrs=a))


def _layers(*absent: tuple[()]) -> Pattern:
    """A recurrent layer with all operands before one; an absent one behind them means nothing."""
    named = {name: _layer(*_OPERANDS[:count], *absent) for count, name in enumerate(("bias", "lengths", "hidden"), 3)}
    return last(cell=op.onnx.LSTM(*_OPERANDS, *absent, attrs=a), **named)


class EquivalentForms(RuleSet):
    """Equivalent forms: how programs change when written to ONNX and read again, and in passes without rules."""

    identity = copied(copy=op.copy(x), unknown=op.onnx.Identity(x, attrs=a)) >> x
    two = (op.elemwise_sum((x, b)) >> x + b).exploring()
    unequal = (op.not_equal(x, b) >> op.logical_not(op.equal(x, b))).exploring()
    bias = (op.nn.bias_add(x, b, axis=a) >> op.add(x, op.reshape(b, newshape=column(a, x)))).exploring()
    joined = (_JOINED >> op.concatenate((*xs,), attrs=from_the_front(a, _JOINED))).exploring()
    axis = (
        counted(operand=along(x, *rest, attrs=a), result=_ONE_HOT)
        >> counted(operand=along(x, *rest, attrs=from_the_front(a, x)), result=op.one_hot(x, b, shape, attrs=from_the_front(a, _ONE_HOT)))
    ).exploring()
    view = (_VIEW >> op.dyn.reshape(x, op.shape_of(_VIEW), allowzero=True)).exploring()
    same = (op.dyn.reshape(x, shape, ...) >> x).when(keeps_shape(x, op.dyn.reshape(x, shape, ...)))
    absent = (_layers(()) >> _layers()).exploring()
    slice = (op.strided_slice(x, attrs=a) >> op.strided_slice(x, attrs=cut(a, x))).exploring()
    part = (op.split(x, attrs=a)[_INDEX] >> op.strided_slice(x, attrs=cut_of_part(a, x, _INDEX))).exploring()
