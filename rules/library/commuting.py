"""Views that move behind what is computed from them, where they meet other views, and transposes that move through what does not care for
the order of axes. Operators: transpose reshape concatenate, every elementwise operator, nn.softmax nn.log_softmax nn.bias_add nn.batch_norm
nn.instance_norm nn.group_norm nn.lrn nn.lp_normalize nn.pad nn.prelu strided_slice split elemwise_sum squeeze where reverse argmax argmin,
poolings, reductions.

Elementwise operators do not care where elements are: f(transpose(x)) = transpose(f(x)). By itself neither is better, so the rules explore;
what makes them pay are `Transposes` and `Views`, where two views meet.

The equations of `MoveTransposes` are read both ways: `sink_` moves a transpose from an operand to the result, `hoist_` from the result to
the operands. Where a transpose comes to other operands too, only those move that lay an image out otherwise: others, as those of attention,
meet no convolution.
"""

from collections.abc import Sequence
from typing import Any as AnyValue
from typing import Final

from passat.ir.op import list_ops
from passat.rules.case_hole import cases
from passat.rules.conditions import (
    Condition,
    Refuse,
    Term,
    computed,
    condition,
    same_rank,
    same_shape,
)
from passat.rules.library.arithmetic import CHOSEN_ZERO, TIES
from passat.rules.library.layouts import (
    POOLINGS,
    axis_behind,
    has_fewer_axes,
    has_part,
    has_several,
    inner_order,
    inner_shape,
    is_one_element,
    keeps_batch,
    keeps_order,
    kept_order,
    layout_before,
    layout_behind,
    lays_out,
    missing_axes,
    moves_blocks,
    one_axis_before,
    outer_order,
    reduced_before,
    sliced,
    widths_before,
    widths_behind,
)
from passat.rules.library.products import is_scalar, no_axes
from passat.rules.library.views import is_view, new_shape
from passat.rules.operator_hole import OperatorHole, operator
from passat.rules.parts_hole import PartsHole, tensors_of
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet

x, y, z, gamma, beta, mean, var = tensors("x y z gamma beta mean var")
(c,) = constants("c")
a, b, p, q = attributes("a b p q")
BUDGET: Final = 200
_OF_TUPLES: Final = ("elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum")
"""Elementwise operators whose one operand is a tuple."""
f = operator("f", arity=1, elementwise=True, but=("copy", *_OF_TUPLES))


@computed
def transposed_back(axes: Sequence[int] | None, x: Term) -> tuple[int, ...]:
    """The permutation that undoes a transpose."""
    rank = x.type.ndim
    order = tuple(reversed(range(rank))) if axes is None else tuple(axis % rank for axis in axes)
    return tuple(order.index(axis) for axis in range(rank))


@computed
def padded_shape(c: Term, x: Term) -> tuple[int, ...]:
    """The shape of a constant with as many axes as another tensor. Refuses where it has more."""
    missing = x.type.ndim - c.type.ndim
    if missing < 0 or 0 in c.type.shape:
        raise Refuse(f"{c.type!r} has more axes than {x.type!r}, or no elements")
    return (1,) * missing + tuple(int(dim) for dim in c.type.shape)  # type: ignore[arg-type]  # constants are static


@condition
def is_no_scalar(c: Term) -> bool | str:
    """The constant has several elements."""
    return c.type.size != 1 or f"{c.type!r} is one number"


_ARITHMETIC: Final = ("add", "subtract", "divide", "power", "equal", "greater", "less", "logical_and", "logical_or")
arithmetic = operator("g", "multiply", *_ARITHMETIC)
unscaled = operator("h", *_ARITHMETIC)  # numbers that are factors: see `Weights`
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
    return _passage((of(_TURNED, c) >> op.transpose(of(x, back), axes=p)).when(is_no_scalar(c)))


class CommuteBinary(RuleSet):
    """A view that both operands have, or the one that is no constant, may as well be behind the operator."""

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
def axis_before(axis: int, axes: Sequence[int] | None, x: Term) -> int:
    """Which axis of a tensor an axis of its transpose is."""
    rank = x.type.ndim
    return rank - 1 - axis % rank if axes is None else axes[axis % rank] % rank


class CommuteUnary(RuleSet):
    """A view before an elementwise operator of one operand may as well be behind it; transposes move behind what works along one axis."""

    transpose = (f(op.transpose(x, axes=p), attrs=b) >> op.transpose(f(x, attrs=b), axes=p)).exploring().budget(BUDGET)
    reshape = (f(op.reshape(x, attrs=a), attrs=b) >> op.reshape(f(x, attrs=b), attrs=a)).exploring().budget(BUDGET)
    softmax = (
        (op.nn.softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    log_softmax = (
        (op.nn.log_softmax(op.transpose(x, axes=p), axis=q) >> op.transpose(op.nn.log_softmax(x, axis=axis_before(q, p, x)), axes=p))
        .inexact("sums in another order")
        .exploring()
    )
    bias = (
        op.nn.bias_add(op.transpose(x, axes=p), y, axis=q) >> op.transpose(op.nn.bias_add(x, y, axis=axis_before(q, p, x)), axes=p)
    ).exploring()
    concat = op.concatenate((op.transpose(x, axes=p), op.transpose(y, axes=p)), axis=q) >> op.transpose(
        op.concatenate((x, y), axis=axis_before(q, p, x)), axes=p
    )


MOST: Final = 4
"""Parts of a concatenation, a sum or a split through which transposes move in both directions."""
xs, ys = tensors_of("xs", most=MOST - 1), tensors_of("ys", most=MOST - 1)
zs = tensors_of("zs", least=1, most=MOST - 1)
many = tensors_of("many", least=MOST, most=31)
_SUMS: Final = "sums in another order"
pool = operator("pool", *POOLINGS)
norm = operator("norm", "nn.instance_norm", "nn.group_norm")
along = operator("along", "nn.lrn", "reverse")
"""Operators that work along one axis, which need not be the last."""
quantifier = operator("quantifier", "all", "any", "max", "min")
_EXACT: Final = (*quantifier.choices, "argmax", "argmin")
total = operator(
    "total", *(of.name for of in list_ops() if {"axis", "keepdims", "exclude"} <= set(of.attr_params) and of.name not in _EXACT)
)
"""Reductions whose result depends on the order of the elements."""
place = operator("place", "argmax", "argmin")
g = operator("g", "add", "subtract", "multiply", "divide", "power", "equal", "greater", "less")
h = operator("h", "subtract", "divide", "power", "greater", "less")  # those that are not commutative


def _back(of: Pattern) -> PCall:
    """A tensor with the inverse of the transpose."""
    return op.transpose(of, axes=transposed_back(p, x))


def _widened(of: Pattern) -> PCall:
    """A tensor with as many axes as the other one."""
    return op.expand_dims(of, axis=0, num_newaxis=missing_axes(of, x))


_BEFORE, _BEHIND = axis_before(q, p, x), axis_behind(q, p, x)
_PARTS: Final = ("begin", "end", "strides", "axes")
one = cases("one", "bias_add", "batch_norm", "along", "split")
part = cases("part", "first", "second", "third", "fourth")
_PART: Final = part(first=0, second=1, third=2, fourth=3)
window = cases("window", "pool", "pad")


def _along_one(data: Pattern, axis: AnyValue) -> Pattern:
    """An operator that works along one axis, on data, or on each place along it."""
    return one(
        bias_add=op.nn.bias_add(data, beta, attrs=a, axis=axis),
        batch_norm=op.nn.batch_norm(data, gamma, beta, mean, var, attrs=a, axis=axis)[0],
        along=along(data, attrs=a, axis=axis),
        split=op.split(data, attrs=a, axis=axis)[_PART],
    )


def _summing(data: Pattern, axis: AnyValue) -> Pattern:
    """An operator that sums what is not along one axis, or along it."""
    return sums(lp_normalize=op.nn.lp_normalize(data, attrs=a, axis=axis), norm=norm(data, gamma, beta, attrs=a, axis=axis))


def _in_windows(data: Pattern, layout: AnyValue, widths: AnyValue) -> Pattern:
    return window(pool=pool(data, attrs=a, layout=layout), pad=op.nn.pad(data, attrs=a, pad_width=widths))


def _sliced(data: Pattern, behind: bool | None = None) -> PCall:
    moved = {} if behind is None else {each: sliced(a, p, x, each, behind) for each in _PARTS}
    return op.strided_slice(data, attrs=a, **moved)


def _has_part(data: Pattern) -> Condition:
    return has_part(op.split(data, attrs=a, axis=q), a, x, _PART)


sums = cases("sums", "lp_normalize", "norm")
side = cases("side", "left", "right")
other = cases("other", "alike", "wider", "number")
_Y_BEFORE: Final = other(alike=_back(y), wider=_back(_widened(y)), number=y)
_Y_BEHIND: Final = other(alike=op.transpose(y, axes=p), wider=op.transpose(_widened(y), axes=p), number=y)
_FITS: Final = (
    *other.only("alike", same_rank(x, y), has_several(y)),
    *other.only("wider", has_fewer_axes(y, x)),
    *other.only("number", is_one_element(y, x)),
)


def _binary(of: Pattern, with_: Pattern) -> Pattern:
    return side(left=g(of, with_), right=h(with_, of))


def _either(of: Pattern, with_: Pattern) -> Pattern:
    """The operands are told apart where they are not alike."""
    return other(alike=g(of, with_), wider=_binary(of, with_), number=_binary(of, with_))


left = cases("left", "in_order", "turned")
what = cases("what", "quantifier", "place", "squeeze")
_AXES, _AXIS = reduced_before(p, a, x), one_axis_before(q, p, x)
_REDUCED: Final = what(
    quantifier=quantifier(x, attrs=a, axis=_AXES, exclude=False),
    place=place(x, attrs=a, axis=_AXIS),
    squeeze=op.squeeze(x, attrs=a, axis=_AXES),
)
_TOTAL: Final = total(x, attrs=a, axis=_AXES, exclude=False)
_ORDER: Final = (*left.only("in_order", keeps_order(p, a, x, False)), *left.only("turned", keeps_order(p, a, x, True)))


def _what_is_left(of: Pattern) -> Pattern:
    return left(in_order=of, turned=op.transpose(of, axes=kept_order(p, a, x)))


choice = cases("choice", "then", "otherwise")


def _chosen(where: Pattern, of: Pattern, with_: Pattern) -> PCall:
    return op.where(where, choice(then=of, otherwise=with_), choice(then=with_, otherwise=of))


def _concat_down(turned: tuple[Pattern, ...], inner: tuple[Pattern, ...]) -> Rule:
    """A concatenation of which one part is transposed."""
    rule = op.concatenate(turned, axis=q) >> op.transpose(op.concatenate(inner, axis=_BEFORE), axes=p)
    return rule.when(lays_out(p, x)).exploring()


def _concat_up(others: PartsHole) -> Rule:
    """A concatenation that is transposed."""
    parts = op.concatenate((_TURNED, *(op.transpose(part, axes=p) for part in others)), axis=_BEHIND)
    return (op.transpose(op.concatenate((x, *others), axis=q), axes=p) >> parts).when(lays_out(p, x)).exploring()


_SOME: Final = (*xs, _TURNED, *ys)
_SOME_BEFORE: Final = (*map(_back, xs), x, *map(_back, ys))

_SHUFFLED: Final = op.reshape(_TURNED, ...)


class MoveTransposes(RuleSet):
    """Transposes move between operands and result; of a concatenation of many parts the first may be transposed. Those that move no
    elements are reshapes; reshapes that take channels apart, or together, let transposes pass."""

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
    sink_along = (
        (_along_one(_TURNED, q) >> op.transpose(_along_one(x, _BEFORE), axes=p)).when(*one.only("split", _has_part(_TURNED))).exploring()
    )
    sink_sums = (
        (_summing(_TURNED, q) >> op.transpose(_summing(x, _BEFORE), axes=p))
        .when(*sums.only("norm", keeps_batch(p, x)))
        .inexact(_SUMS)
        .exploring()
    )
    sink_windows = (
        _in_windows(_TURNED, q, q) >> op.transpose(_in_windows(x, layout_before(q, p, x), widths_before(q, p, x)), axes=p)
    ).exploring()
    sink_slice = (_sliced(_TURNED) >> op.transpose(_sliced(x, False), axes=p)).exploring()
    sink_reduction = (
        (
            what(quantifier=quantifier(_TURNED, attrs=a), place=place(_TURNED, attrs=a, axis=q), squeeze=op.squeeze(_TURNED, attrs=a))
            >> _what_is_left(_REDUCED)
        )
        .when(*_ORDER)
        .exploring()
    )
    sink_total = (total(_TURNED, attrs=a) >> _what_is_left(_TOTAL)).when(*_ORDER).inexact(_SUMS).exploring()
    sink_binary = (_binary(_TURNED, y) >> op.transpose(_binary(x, _Y_BEFORE), axes=p)).when(lays_out(p, x), *_FITS).exploring()
    sink_extremum = (
        (extremum(_TURNED, y) >> op.transpose(extremum(x, _Y_BEFORE), axes=p)).when(lays_out(p, x), *_FITS).inexact(TIES).exploring()
    )
    sink_prelu = (op.nn.prelu(_TURNED, y) >> op.transpose(op.nn.prelu(x, _Y_BEFORE), axes=p)).when(*_FITS).exploring()
    sink_concat = _concat_down(_SOME, _SOME_BEFORE)
    sink_sum = (
        (op.elemwise_sum(_SOME) >> op.transpose(op.elemwise_sum(_SOME_BEFORE), axes=p))
        .when(lays_out(p, x), same_rank(x, xs), same_rank(x, ys))
        .exploring()
    )
    sink_where = (
        (_chosen(y, _TURNED, z) >> op.transpose(_chosen(_back(y), x, _back(z)), axes=p))
        .when(lays_out(p, x), same_rank(x, y), same_rank(x, z))
        .inexact(CHOSEN_ZERO)
        .exploring()
    )
    sink_wide_concat = _concat_down((_TURNED, *many), (x, *map(_back, many)))
    hoist_along = (
        (op.transpose(_along_one(x, q), axes=p) >> _along_one(_TURNED, _BEHIND))
        .when(*one.only("split", _has_part(x)), lays_out(p, x))
        .exploring()
    )
    hoist_sums = (
        (op.transpose(_summing(x, q), axes=p) >> _summing(_TURNED, _BEHIND))
        .when(*sums.only("norm", keeps_batch(p, x)), lays_out(p, x))
        .inexact(_SUMS)
        .exploring()
    )
    hoist_windows = (
        (op.transpose(_in_windows(x, q, q), axes=p) >> _in_windows(_TURNED, layout_behind(q, p, x), widths_behind(q, p, x)))
        .when(lays_out(p, x))
        .exploring()
    )
    hoist_slice = (op.transpose(_sliced(x), axes=p) >> _sliced(_TURNED, True)).when(lays_out(p, x)).exploring()
    hoist_binary = (
        (op.transpose(_either(x, y), axes=p) >> _either(_TURNED, _Y_BEHIND))
        .when(lays_out(p, x), *_FITS, *other.only("alike", has_several(x)))
        .exploring()
    )
    hoist_extremum = (
        (op.transpose(extremum(x, y), axes=p) >> extremum(_TURNED, _Y_BEHIND))
        .when(lays_out(p, x), *_FITS, *other.only("alike", has_several(x)))
        .inexact(TIES)
        .exploring()
    )
    hoist_concat = _concat_up(zs)
    hoist_sum = (
        (op.transpose(op.elemwise_sum((x, *zs)), axes=p) >> op.elemwise_sum((_TURNED, *(op.transpose(part, axes=p) for part in zs))))
        .when(lays_out(p, x), same_rank(x, zs))
        .exploring()
    )
    hoist_wide_concat = _concat_up(many)
