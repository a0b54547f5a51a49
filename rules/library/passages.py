"""Views that move behind what is computed from them, where they meet other views. Operators: transpose reshape, every elementwise operator,
nn.softmax nn.log_softmax nn.bias_add concatenate.

Elementwise operators do not care where elements are: f(transpose(x)) = transpose(f(x)). By itself neither is better, so the rules explore;
what makes them pay are `Transposes` and `Views`, where two views meet.
"""

from collections.abc import Sequence
from typing import Final

from passat.rules.conditions import Refuse, Term, computed, condition, same_rank, same_shape
from passat.rules.library.arithmetic import TIES
from passat.rules.library.linear import is_scalar, no_axes
from passat.rules.operator_hole import OperatorHole, operator
from passat.rules.pattern import attributes, constants, op, tensors
from passat.rules.rule import Rule, RuleSet

x, y = tensors("x y")
(c,) = constants("c")
a, b, p, q = attributes("a b p q")
BUDGET: Final = 200
_OF_TUPLES: Final = ("elemwise_max", "elemwise_mean", "elemwise_min", "elemwise_sum")
"""Elementwise operators whose one operand is a tuple."""
f = operator("f", arity=1, elementwise=True, but=("copy", *_OF_TUPLES))


class UnaryPassages(RuleSet):
    """A view before an elementwise operator of one operand may as well be behind it."""

    transpose = (f(op.transpose(x, axes=p), attrs=b) >> op.transpose(f(x, attrs=b), axes=p)).exploring().budget(BUDGET)
    reshape = (f(op.reshape(x, attrs=a), attrs=b) >> op.reshape(f(x, attrs=b), attrs=a)).exploring().budget(BUDGET)


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
g = operator("g", "multiply", *_ARITHMETIC)
h = operator("h", *_ARITHMETIC)  # numbers that are factors: see `Scales`
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


class BinaryPassages(RuleSet):
    """A view that both operands have, or the one that is no constant, may as well be behind the operator."""

    transposes = _transposes(g)
    reshapes = _reshapes(g)
    transpose_and_number = _transpose_and_number(h)
    reshape_and_number = _reshape_and_number(h)
    transpose_and_constant = _transpose_and_constant(g)
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


class RowPassages(RuleSet):
    """Transposes move behind what works along one axis."""

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
