"""Commutes views and transposes with other operators, so that they reach other views and cancel. Operators: transpose reshape concatenate,
every elementwise operator, nn.softmax nn.log_softmax nn.bias_add nn.batch_norm nn.instance_norm nn.group_norm nn.lrn nn.lp_normalize nn.pad
nn.prelu strided_slice split elemwise_sum squeeze where reverse argmax argmin, poolings, reductions.

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
from passat.rules.library.views import is_view, new_shape
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet

x, y, z, gamma, beta, mean, var = tensors("x y z gamma beta mean var")
(c,) = constants("c")
a, b, p, q = attributes("a b p q")
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
unscaled = operator("h", *_ARITHMETIC)  # scalars that are factors are left to `Weights`
extremum = operator("extremum", "maximum", "minimum")
_TURNED, _VIEWED = op.transpose(x, axes=p), op.reshape(x, attrs=a)
_NUMBER = op.reshape(c, newshape=no_axes(c))


def _passage(rule: Rule) -> Rule:
    return rule.exploring().budget(BUDGET)


def _transposes(of: OperatorHole) -> Rule:
    return _passage((of(_TURNED, op.transpose(y, axes=p)) >> op.transpose(of(x, y), axes=p)).when(same_rank(x, y)))


def _reshapes(of: OperatorHole) -> Rule:
    other = op.reshape(y, attrs=b)
    return _passage((of(_VIEWED, other) >> op.reshape(of(x, y), attrs=a)).when(same_shape(x, y), same_shape(_VIEWED, other)))


def _transpose_and_number(of: OperatorHole) -> Rule:
    return _passage((of(_TURNED, c) >> op.transpose(of(x, _NUMBER), axes=p)).when(is_scalar(c, x)))


def _reshape_and_number(of: OperatorHole) -> Rule:
    return _passage((of(_VIEWED, c) >> op.reshape(of(x, _NUMBER), attrs=a)).when(is_scalar(c, _VIEWED)))


def _transpose_and_constant(of: OperatorHole) -> Rule:
    back = op.transpose(op.reshape(c, newshape=padded_shape(c, x)), axes=transposed_back(p, x))
    return _passage((of(_TURNED, c) >> op.transpose(of(x, back), axes=p)).when(has_several(c)))


class CommuteBinary(RuleSet):
    """Sinks a view below a binary operator if both operands have it or the other operand is constant."""

    transposes = _transposes(arithmetic)
    reshapes = _reshapes(arithmetic)
    transpose_and_number = _transpose_and_number(unscaled)
    reshape_and_number = _reshape_and_number(unscaled)
    transpose_and_constant = _transpose_and_constant(arithmetic)
    transposes_extremum = _transposes(extremum).inexact(TIES)
    reshapes_extremum = _reshapes(extremum).inexact(TIES)
    transpose_and_number_extremum = _transpose_and_number(extremum).inexact(TIES)
    reshape_and_number_extremum = _reshape_and_number(extremum).inexact(TIES)
    transpose_and_constant_extremum = _transpose_and_constant(extremum).inexact(TIES)


@computed
def axis_before(axis: int | None, axes: Sequence[int] | None, x: Term) -> int:
    """The axis of the tensor that corresponds to an axis of its transpose. Rejects axis=None."""
    if not isinstance(axis, int):
        raise Reject(f"axis={axis} is not a single axis")
    return permutation(x.type.ndim, axes)[x.type.axis(axis)]


softmax = operator("softmax", "nn.softmax", "nn.log_softmax")
_SUMS: Final = "sums in another order"
_BEFORE, _BEHIND = axis_before(q, p, x), axis_behind(q, p, x)


class CommuteUnary(RuleSet):
    """Sinks a view below a unary elementwise operator, and a transpose below an operator along one axis."""

    transpose = (f(_TURNED, attrs=b) >> op.transpose(f(x, attrs=b), axes=p)).exploring().budget(BUDGET)
    reshape = (f(op.reshape(x, attrs=a), attrs=b) >> op.reshape(f(x, attrs=b), attrs=a)).exploring().budget(BUDGET)
    softmax = (softmax(_TURNED, axis=q) >> op.transpose(softmax(x, axis=_BEFORE), axes=p)).inexact(_SUMS).exploring()
    bias = (op.nn.bias_add(_TURNED, y, axis=q) >> op.transpose(op.nn.bias_add(x, y, axis=_BEFORE), axes=p)).exploring()
    concat = op.concatenate((_TURNED, op.transpose(y, axes=p)), axis=q) >> op.transpose(op.concatenate((x, y), axis=_BEFORE), axes=p)


MOST: Final = 4
"""Maximum number of parts of a concatenation or sum through which transposes move in both directions."""
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)
zs, many = tensors_of("zs", least=1, most=MOST - 1), tensors_of("many", least=MOST, most=31)
parts = tensors_of("parts", least=1, most=many.most)
params = tensors_of("params", most=2)
pool = operator("pool", *POOLINGS)
norm = operator("norm", "nn.instance_norm", "nn.group_norm", "nn.lp_normalize")
along = operator("along", "nn.bias_add", "nn.lrn", "reverse")
quantifier = operator("quantifier", "all", "any", "max", "min")
_EXACT: Final = (*quantifier.choices, "argmax", "argmin")
total = operator(
    "total", *(of.name for of in list_ops() if {"axis", "keepdims", "exclude"} <= set(of.attr_params) and of.name not in _EXACT)
)
"""Reductions whose result depends on the order of the elements."""
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


def _turned(of: Pattern) -> PCall:
    """The tensor with the transpose."""
    return op.transpose(of, axes=p)


def _widened(of: Pattern) -> PCall:
    """The tensor, expanded to the rank of the other operand."""
    return op.expand_dims(of, axis=0, num_newaxis=missing_axes(of, x))


def _normalized(data: Pattern, axis: AnyValue) -> Pattern:
    return op.nn.batch_norm(data, gamma, beta, mean, var, attrs=a, axis=axis)[0]


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
_KEPT: Final = kept_order(p, a, x)
_AXES: Final = reduced_before(p, a, x)
_SOME, _SOME_BEFORE = (*xs, _TURNED, *ys), (*map(_back, xs), x, *map(_back, ys))
_SHUFFLED: Final = op.reshape(_TURNED, ...)


def _reduces(left: Pattern, right: Pattern) -> Rule:
    """Sinks a transpose below a reduction."""
    return (left >> op.transpose(right, axes=_KEPT)).exploring()


class MoveTransposes(RuleSet):
    """Moves transposes between operands and results (for wide concatenations, only past the first part) and past reshapes that split or
    join channels. Rewrites transposes that move no elements as reshapes."""

    to_reshape = (_TURNED >> op.reshape(x, newshape=new_shape(x, _TURNED))).when(is_view(p, x)).exploring()
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
    sink_along = _sinks(along(_TURNED, *params, attrs=a, axis=q), along(x, *params, attrs=a, axis=_BEFORE))
    sink_batch_norm = _sinks(_normalized(_TURNED, q), _normalized(x, _BEFORE))
    sink_split = _sinks(_split(_TURNED, q), _split(x, _BEFORE)).when(_has_part(_TURNED))
    sink_norm = (
        _sinks(norm(_TURNED, *params, attrs=a, axis=q), norm(x, *params, attrs=a, axis=_BEFORE))
        .when(keeps_samples(norm, p, x))
        .inexact(_SUMS)
    )
    sink_pool = _sinks(pool(_TURNED, attrs=a, layout=q), pool(x, attrs=a, layout=permuted_back(q, p, x)))
    sink_pad = _sinks(op.nn.pad(_TURNED, attrs=a, pad_width=q), op.nn.pad(x, attrs=a, pad_width=permuted_back(q, p, x)))
    sink_slice = _sinks(op.strided_slice(_TURNED, attrs=a), _sliced(x, False))
    sink_quantifier = _reduces(quantifier(_TURNED, attrs=a), quantifier(x, attrs=a, axis=_AXES, exclude=False))
    sink_place = _reduces(place(_TURNED, attrs=a, axis=q), place(x, attrs=a, axis=_BEFORE))
    sink_squeeze = _reduces(op.squeeze(_TURNED, attrs=a), op.squeeze(x, attrs=a, axis=_AXES))
    sink_total = _reduces(total(_TURNED, attrs=a), total(x, attrs=a, axis=_AXES, exclude=False)).inexact(_SUMS)
    sink_left = _sinks(g(_TURNED, y), g(x, _Y_BEFORE)).when(lays_out(p, x), *_FITS)
    sink_right = _sinks(h(y, _TURNED), h(_Y_BEFORE, x)).when(lays_out(p, x), *_FITS)
    sink_extremum = _sinks(extremum(_TURNED, y), extremum(x, _Y_BEFORE)).when(lays_out(p, x), *_FITS).inexact(TIES)
    sink_prelu = _sinks(op.nn.prelu(_TURNED, y), op.nn.prelu(x, _Y_BEFORE)).when(*_FITS)
    sink_concat = _sinks(op.concatenate(_SOME, axis=q), op.concatenate(_SOME_BEFORE, axis=_BEFORE)).when(lays_out(p, x))
    sink_wide_concat = _sinks(op.concatenate((_TURNED, *many), axis=q), op.concatenate((x, *map(_back, many)), axis=_BEFORE)).when(
        lays_out(p, x)
    )
    sink_sum = _sinks(op.elemwise_sum(_SOME), op.elemwise_sum(_SOME_BEFORE)).when(lays_out(p, x), same_rank(x, xs), same_rank(x, ys))
    sink_where = (
        _sinks(_chosen(y, _TURNED, z), _chosen(_back(y), x, _back(z)))
        .when(lays_out(p, x), same_rank(x, y), same_rank(x, z))
        .inexact(CHOSEN_ZERO)
    )
    hoist_along = _hoists(along(x, *params, attrs=a, axis=q), along(_TURNED, *params, attrs=a, axis=_BEHIND))
    hoist_batch_norm = _hoists(_normalized(x, q), _normalized(_TURNED, _BEHIND))
    hoist_split = _hoists(_split(x, q), _split(_TURNED, _BEHIND)).when(_has_part(x))
    hoist_norm = (
        _hoists(norm(x, *params, attrs=a, axis=q), norm(_TURNED, *params, attrs=a, axis=_BEHIND))
        .when(keeps_samples(norm, p, x))
        .inexact(_SUMS)
    )
    hoist_pool = _hoists(pool(x, attrs=a, layout=q), pool(_TURNED, attrs=a, layout=permuted(q, p, x)))
    hoist_pad = _hoists(op.nn.pad(x, attrs=a, pad_width=q), op.nn.pad(_TURNED, attrs=a, pad_width=permuted(q, p, x)))
    hoist_slice = _hoists(op.strided_slice(x, attrs=a), _sliced(_TURNED, True))
    hoist_left = _hoists(g(x, y), g(_TURNED, _Y_BEHIND)).when(*_FITS_BOTH)
    hoist_right = _hoists(h(y, x), h(_Y_BROADCAST, _TURNED)).when(
        *broadcast.only("wider", has_fewer_axes(y, x)), *broadcast.only("number", is_scalar(y, x))
    )
    hoist_extremum = _hoists(extremum(x, y), extremum(_TURNED, _Y_BEHIND)).when(*_FITS_BOTH).inexact(TIES)
    hoist_concat = _hoists(op.concatenate((x, *parts), axis=q), op.concatenate((_TURNED, *map(_turned, parts)), axis=_BEHIND))
    hoist_sum = _hoists(op.elemwise_sum((x, *zs)), op.elemwise_sum((_TURNED, *map(_turned, zs)))).when(same_rank(x, zs))
