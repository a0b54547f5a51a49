"""Commutes views and transposes with other operators, so that they reach other views and cancel. Operators: transpose reshape concatenate,
every elementwise operator, nn.softmax nn.log_softmax nn.bias_add nn.batch_norm nn.instance_norm nn.group_norm nn.lrn nn.lp_normalize nn.pad
nn.prelu strided_slice split elemwise_sum squeeze where reverse argmax argmin, poolings, reductions,
qnn.requantize qnn.add qnn.subtract qnn.mul qnn.avg_pool2d qnn.concatenate.

Elementwise operators commute with permutations: f(transpose(x)) = transpose(f(x)). Neither side is cheaper by itself, so the rules explore.
They pay off when `Transposes` and `Views` cancel two adjacent views.

`MoveTransposes` uses its equations in both directions: `sink_` moves a transpose from an operand to the result, `hoist_` from the result to
the operands. A transpose that would be added to other operands moves only if it changes an image layout; transposes of attention do not
lead to convolutions.
"""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.op import list_ops
from passat.ir.ops.movement import permutation
from passat.rules.guards import (
    Guard,
    Reject,
    Term,
    computed,
    guard,
    same_rank,
    same_shape,
)
from passat.rules.holes import OperatorHole, cases, operator, tensors_of
from passat.rules.library.arithmetic import CHOSEN_ZERO, TIES
from passat.rules.library.layouts import (
    POOLINGS,
    axis_behind,
    has_fewer_axes,
    has_part,
    has_several,
    inner_order,
    inner_shape,
    keeps_samples,
    kept_order,
    lays_out,
    missing_axes,
    moves_blocks,
    outer_order,
    permuted,
    permuted_back,
    reduced_before,
    sliced,
)
from passat.rules.library.products import is_scalar, no_axes
from passat.rules.pattern import Pattern, PCall, PCase, attributes, constants, op, tensors
from passat.rules.rule import Rule
from passat.rules.rule_set import RuleSet

x, y, z, gamma, beta, mean, var = tensors("x y z gamma beta mean var")
s, t, u, v, w = tensors("s t u v w")
(c,) = constants("c")
a, b, p, q, r = attributes("a b p q r")
BUDGET: Final = 200
_OF_TUPLES: Final = ("elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum")
"""Elementwise operators with a single tuple operand."""
f = operator("f", arity=1, elementwise=True, but=("copy", *_OF_TUPLES))


@computed
def transposed_back(axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The inverse permutation."""
    order = permutation(x.type.ndim, axes)
    return tuple(order.index(axis) for axis in range(len(order)))


@computed
def padded_shape(c: Term, x: Term) -> tuple[int, ...]:
    """The shape of a constant, padded with leading 1s to the rank of another tensor. Rejects constants of higher rank."""
    missing = x.type.ndim - c.type.ndim
    if missing < 0 or 0 in c.type.shape:
        raise Reject(f"{c.type!r} has more axes than {x.type!r}, or no elements")
    return (1,) * missing + c.type.concrete_shape


_ARITHMETIC: Final = ("add", "subtract", "divide", "power", "equal", "greater", "less", "logical_and", "logical_or")
arithmetic = operator("g", "multiply", *_ARITHMETIC)
unscaled = operator("h", *_ARITHMETIC)  # scalars that are factors are left to `Products`
extremum = operator("extremum", "maximum", "minimum")
_TURNED, _VIEWED = op.transpose(x, axes=p), op.reshape(x, attrs=a)
view = cases("view", "transpose", "reshape", "squeeze")
_VIEW: Final = view(transpose=_TURNED, reshape=_VIEWED, squeeze=op.squeeze(x, attrs=a))
_NUMBER = op.reshape(c, newshape=no_axes(c))


def _turned(of: Pattern) -> PCall:
    """The tensor with the transpose."""
    return op.transpose(of, axes=p)


def _passage(rule: Rule) -> Rule:
    return rule.exploring().budget(BUDGET)


def _viewed(of: Pattern) -> PCase:
    """The tensor with the view."""
    return view(transpose=_turned(of), reshape=op.reshape(of, attrs=a), squeeze=op.squeeze(of, attrs=a))


def _views(of: OperatorHole) -> Rule:
    other = view(transpose=_turned(y), reshape=op.reshape(y, attrs=b), squeeze=op.squeeze(y, attrs=b))
    rule = of(_VIEW, other) >> _viewed(of(x, y))
    alike = (same_shape(x, y), same_shape(_VIEW, other))
    return _passage(rule.when(*view.only("transpose", same_rank(x, y)), *view.only("reshape squeeze", *alike)))


def _view_and_number(of: OperatorHole) -> Rule:
    smaller = view(transpose=x, reshape=_VIEW, squeeze=_VIEW)
    return _passage((of(_VIEW, c) >> _viewed(of(x, _NUMBER))).when(is_scalar(c, smaller)))


def _transpose_and_constant(of: OperatorHole) -> Rule:
    back = op.transpose(op.reshape(c, newshape=padded_shape(c, x)), axes=transposed_back(p, x))
    return _passage((of(_TURNED, c) >> op.transpose(of(x, back), axes=p)).when(has_several(c)))


@computed
def axis_before(axis: int | None, axes: Sequence[int] | None, x: Term) -> int:
    """The axis of the tensor that corresponds to an axis of its transpose. Rejects axis=None."""
    if not isinstance(axis, int):
        raise Reject(f"axis={axis} is not a single axis")
    return permutation(x.type.ndim, axes)[x.type.axis(axis)]


softmax = operator("softmax", "nn.softmax", "nn.log_softmax")
_SUMS: Final = "sums in another order"
_BEFORE, _BEHIND = axis_before(q, p, x), axis_behind(q, p, x)
joined = tensors_of("joined", least=1, most=3)
"""The other parts of a concatenation. `Concatenations` merges nested ones to four parts and more, and none of two are left to match."""


class Commute(RuleSet):
    """Sinks a view below a unary elementwise operator, or below a binary one if both operands have it or the other operand is constant, and
    a transpose below an operator along one axis. Hoists a transpose above a padding, whose operand is smaller."""

    unary = _passage(f(_VIEW, attrs=b) >> _viewed(f(x, attrs=b)))
    softmax = (softmax(_TURNED, axis=q) >> op.transpose(softmax(x, axis=_BEFORE), axes=p)).inexact(_SUMS).exploring()
    bias = (op.nn.bias_add(_TURNED, y, axis=q) >> op.transpose(op.nn.bias_add(x, y, axis=_BEFORE), axes=p)).exploring()
    pad = _passage(op.transpose(op.nn.pad(x, attrs=a, pad_width=q), axes=p) >> op.nn.pad(_TURNED, attrs=a, pad_width=permuted(q, p, x)))
    concat = op.concatenate((_TURNED, *map(_turned, joined)), axis=q) >> op.transpose(op.concatenate((x, *joined), axis=_BEFORE), axes=p)
    binary = _views(arithmetic)
    view_and_number = _view_and_number(unscaled)
    transpose_and_constant = _transpose_and_constant(arithmetic)
    binary_extremum = _views(extremum).inexact(TIES)
    view_and_number_extremum = _view_and_number(extremum).inexact(TIES)
    transpose_and_constant_extremum = _transpose_and_constant(extremum).inexact(TIES)


MOST: Final = 4
"""Maximum number of parts of a concatenation or sum through which transposes move in both directions."""
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)
zs, many = tensors_of("zs", least=1, most=MOST - 1), tensors_of("many", least=MOST, most=31)
parts = tensors_of("parts", least=1, most=many.most)
params = tensors_of("params", most=2)
pool = operator("pool", *POOLINGS)
norm = operator("norm", "nn.instance_norm", "nn.group_norm", "nn.lp_normalize")
along = operator("along", "nn.bias_add", "nn.lrn", "reverse")
quantifier = operator("quantifier", "all", "any")
_EXACT: Final = (*quantifier.choices, "argmax", "argmin")
total = operator(
    "total", *(of.name for of in list_ops() if {"axis", "keepdims", "exclude"} <= set(of.attr_params) and of.name not in _EXACT)
)
"""Reductions whose result depends on the order of the elements; that of extrema does if zeros have both signs."""
place = operator("place", "argmax", "argmin")
g = operator("g", "add", "subtract", "multiply", "divide", "power", "equal", "greater", "less")
h = operator("h", "subtract", "divide", "power", "greater", "less")  # the non-commutative ones
_PARTS: Final = ("begin", "end", "strides", "axes")
part = cases("part", "first", "second", "third", "fourth")
_PART: Final = part(first=0, second=1, third=2, fourth=3)


def _sinks(left: Pattern, right: Pattern) -> Rule:
    """Sinks a transpose below an operator."""
    return (left >> op.transpose(right, axes=p)).exploring()


def _hoists(left: Pattern, right: Pattern) -> Rule:
    """Hoists a transpose above an operator, where it changes an image layout."""
    return (op.transpose(left, axes=p) >> right).when(lays_out(p, x)).exploring()


def _back(of: Pattern) -> PCall:
    """The tensor with the inverse transpose."""
    return op.transpose(of, axes=transposed_back(p, x))


def _widened(of: Pattern) -> PCall:
    """The tensor, expanded to the rank of the other operand."""
    return op.expand_dims(of, axis=0, num_newaxis=missing_axes(of, x))


def _along(data: Pattern, axis: AnyValue) -> PCase:
    """An operator along one axis of the data."""
    normalized = op.nn.batch_norm(data, gamma, beta, mean, var, attrs=a, axis=axis)[0]
    return channelwise(along=along(data, *params, attrs=a, axis=axis), batch_norm=normalized)


def _windows(data: Pattern, given: AnyValue) -> PCase:
    """A pooling or padding of the data, whose layout or widths are given."""
    return windows(pool=pool(data, attrs=a, layout=given), pad=op.nn.pad(data, attrs=a, pad_width=given))


def _split(data: Pattern, axis: AnyValue) -> Pattern:
    return op.split(data, attrs=a, axis=axis)[_PART]


def _has_part(data: Pattern) -> Guard:
    return has_part(op.split(data, attrs=a, axis=q), a, x, _PART)


def _sliced(data: Pattern, behind: bool) -> PCall:
    return op.strided_slice(data, attrs=a, **{each: sliced(a, p, x, each, behind) for each in _PARTS})


def _chosen(where: Pattern, of: Pattern, with_: Pattern) -> PCall:
    return op.where(where, choice(then=of, otherwise=with_), choice(then=with_, otherwise=of))


other, broadcast = cases("other", "alike", "wider", "number"), cases("other", "wider", "number")
_Y_BEFORE: Final = other(alike=_back(y), wider=_back(_widened(y)), number=y)
_Y_BEHIND: Final = other(alike=_turned(y), wider=_turned(_widened(y)), number=y)
_Y_BROADCAST: Final = broadcast(wider=_turned(_widened(y)), number=y)
_FITS: Final = (
    *other.only("alike", same_rank(x, y), has_several(y)),
    *other.only("wider", has_fewer_axes(y, x)),
    *other.only("number", is_scalar(y, x)),
)
_FITS_BOTH: Final = (*_FITS, *other.only("alike", has_several(x)))
choice = cases("choice", "then", "otherwise")
width, channelwise, windows = cases("width", "few", "many"), cases("channelwise", "along", "batch_norm"), cases("windows", "pool", "pad")
_KEPT: Final = kept_order(p, a, x)
_AXES: Final = reduced_before(p, a, x)
_SOME, _SOME_BEFORE = (*xs, _TURNED, *ys), (*map(_back, xs), x, *map(_back, ys))
_SHUFFLED: Final = op.reshape(_TURNED, ...)


def _reduces(left: Pattern, right: Pattern) -> Rule:
    """Sinks a transpose below a reduction."""
    return (left >> op.transpose(right, axes=_KEPT)).exploring()


@guard
def is_no_scalar(x: Term) -> bool | str:
    """The tensor has at least one axis."""
    return x.type.ndim > 0 or "a scalar has no axes"


@computed
def channel_before(axis: int, axes: Sequence[int] | None, x: Term, scale: Term) -> int:
    """The axis of the tensor that corresponds to the axis of scales of its transpose; unchanged for a single scale."""
    return axis if scale.type.size == 1 else permutation(x.type.ndim, axes)[x.type.axis(axis)]


quantized_sum = operator("sum", "qnn.add", "qnn.subtract", "qnn.mul")
_OTHER_TURNED: Final = _turned(y)
_QUANTIZERS: Final = (s, z, t, u)


class MoveTransposes(RuleSet):
    """Moves transposes between operands and results (for wide concatenations, only past the first part) and past reshapes that split or
    join channels. Sinks transposes below quantized operators, with the axis of per-channel scales."""

    before_reshape = (
        (
            _SHUFFLED
            >> op.transpose(
                op.reshape(op.transpose(x, axes=inner_order(p, x, _SHUFFLED)), newshape=inner_shape(p, x, _SHUFFLED)),
                axes=outer_order(p, x, _SHUFFLED),
            )
        )
        .when(moves_blocks(p, x, _SHUFFLED))
        .exploring()
    )
    sink_along = _sinks(_along(_TURNED, q), _along(x, _BEFORE))
    sink_split = _sinks(_split(_TURNED, q), _split(x, _BEFORE)).when(_has_part(_TURNED))
    sink_norm = (
        _sinks(norm(_TURNED, *params, attrs=a, axis=q), norm(x, *params, attrs=a, axis=_BEFORE))
        .when(keeps_samples(norm, p, x))
        .inexact(_SUMS)
    )
    sink_windows = _sinks(_windows(_TURNED, q), _windows(x, permuted_back(q, p, x)))
    sink_slice = _sinks(op.strided_slice(_TURNED, attrs=a), _sliced(x, False))
    sink_quantifier = _reduces(quantifier(_TURNED, attrs=a), quantifier(x, attrs=a, axis=_AXES, exclude=False))
    sink_place = _reduces(place(_TURNED, attrs=a, axis=q), place(x, attrs=a, axis=_BEFORE))
    sink_squeeze = _reduces(op.squeeze(_TURNED, attrs=a), op.squeeze(x, attrs=a, axis=_AXES))
    sink_total = _reduces(total(_TURNED, attrs=a), total(x, attrs=a, axis=_AXES, exclude=False)).inexact(f"{_SUMS}, or {TIES}")
    sink_left = _sinks(g(_TURNED, y), g(x, _Y_BEFORE)).when(lays_out(p, x), *_FITS)
    sink_right = _sinks(h(y, _TURNED), h(_Y_BEFORE, x)).when(lays_out(p, x), *_FITS)
    sink_extremum = _sinks(extremum(_TURNED, y), extremum(x, _Y_BEFORE)).when(lays_out(p, x), *_FITS).inexact(TIES)
    sink_prelu = _sinks(op.nn.prelu(_TURNED, y), op.nn.prelu(x, _Y_BEFORE)).when(*_FITS)
    sink_concat = _sinks(
        op.concatenate(width(few=_SOME, many=(_TURNED, *many)), axis=q),
        op.concatenate(width(few=_SOME_BEFORE, many=(x, *map(_back, many))), axis=_BEFORE),
    ).when(lays_out(p, x))
    sink_sum = _sinks(op.elemwise_sum(_SOME), op.elemwise_sum(_SOME_BEFORE)).when(lays_out(p, x), same_rank(x, xs), same_rank(x, ys))
    sink_where = (
        _sinks(_chosen(y, _TURNED, z), _chosen(_back(y), x, _back(z)))
        .when(lays_out(p, x), same_rank(x, y), same_rank(x, z))
        .inexact(CHOSEN_ZERO)
    )
    sink_requantize = _sinks(
        op.qnn.requantize(_TURNED, *_QUANTIZERS, attrs=a, axis=q), op.qnn.requantize(x, *_QUANTIZERS, attrs=a, axis=_BEFORE)
    ).when(is_no_scalar(x))
    sink_quantized_sum = _sinks(
        quantized_sum(_TURNED, _OTHER_TURNED, *_QUANTIZERS, v, w, lhs_axis=q, rhs_axis=r),
        quantized_sum(x, y, *_QUANTIZERS, v, w, lhs_axis=channel_before(q, p, x, s), rhs_axis=channel_before(r, p, y, t)),
    ).when(is_no_scalar(x), same_rank(x, y))
    sink_quantized_pool = _sinks(
        op.qnn.avg_pool2d(_TURNED, *_QUANTIZERS, attrs=a, layout=q),
        op.qnn.avg_pool2d(x, *_QUANTIZERS, attrs=a, layout=permuted_back(q, p, x)),
    ).when(is_no_scalar(x))
    sink_quantized_concat = _sinks(
        op.qnn.concatenate((_TURNED, _OTHER_TURNED), (s, z), (t, u), v, w, axis=q),
        op.qnn.concatenate((x, y), (s, z), (t, u), v, w, axis=_BEFORE),
    ).when(is_no_scalar(x))
    hoist_along = _hoists(_along(x, q), _along(_TURNED, _BEHIND))
    hoist_split = _hoists(_split(x, q), _split(_TURNED, _BEHIND)).when(_has_part(x))
    hoist_norm = (
        _hoists(norm(x, *params, attrs=a, axis=q), norm(_TURNED, *params, attrs=a, axis=_BEHIND))
        .when(keeps_samples(norm, p, x))
        .inexact(_SUMS)
    )
    hoist_windows = _hoists(_windows(x, q), _windows(_TURNED, permuted(q, p, x)))
    hoist_slice = _hoists(op.strided_slice(x, attrs=a), _sliced(_TURNED, True))
    hoist_left = _hoists(g(x, y), g(_TURNED, _Y_BEHIND)).when(*_FITS_BOTH)
    hoist_right = _hoists(h(y, x), h(_Y_BROADCAST, _TURNED)).when(
        *broadcast.only("wider", has_fewer_axes(y, x)), *broadcast.only("number", is_scalar(y, x))
    )
    hoist_extremum = _hoists(extremum(x, y), extremum(_TURNED, _Y_BEHIND)).when(*_FITS_BOTH).inexact(TIES)
    hoist_concat = _hoists(op.concatenate((x, *parts), axis=q), op.concatenate((_TURNED, *map(_turned, parts)), axis=_BEHIND))
    hoist_sum = _hoists(op.elemwise_sum((x, *zs)), op.elemwise_sum((_TURNED, *map(_turned, zs)))).when(same_rank(x, zs))
