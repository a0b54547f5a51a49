"""Products of products: weights that meet become one, products are grouped by what they cost. Operators: nn.matmul nn.dense nn.bias_add
add subtract multiply divide transpose.

Linear maps compose: (x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2), and x W + (x A) B = x (W + A B), which is what is left of a LoRA
adapter. Where a sum that is grouped anew holds infinities of both signs it is no number, and may be infinite in the other grouping. What
takes factors out, as these two do, leaves infinities as they are. In chains of products none of which is a weight they may get lost.
"""

import math
from typing import Final

from passat.ir.bounds import at_least
from passat.ir.shape import same_dim
from passat.rules.case_hole import CaseHole, cases
from passat.rules.conditions import Term, condition, has_rank, is_axis, is_finite, is_float, same_shape
from passat.rules.library.batch_norm import is_not, products_stay_finite, stays_finite, sum_stays_finite
from passat.rules.library.factoring import is_not_constant
from passat.rules.library.linear import is_product_bias, is_scalar
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import MIXED, RESOLVED, RuleSet

x, y, z = tensors("x y z")
w, v, b, c = constants("w v b c")
a, p = attributes("a p")
_GROUPED: Final = "sums and products in other groups"
_NOTE: Final = "scales the weights instead of the operand"
_MOST: Final = 4e9
"""Multiplications that the product of two weights may take: it is computed when the program is optimised."""


def product(left: Pattern, right: Pattern) -> PCall:
    """The product of `numpy.matmul`, operands as they are."""
    return op.nn.matmul(left, right, transpose_a=False, transpose_b=False)


def _weighted(kind: CaseHole, left: Pattern, weight: Pattern) -> Pattern:
    """The product with a weight, however it is written."""
    return kind(matmul=product(left, weight), dense=op.nn.dense(left, weight))


def _right(kind: CaseHole, weight: Pattern) -> Pattern:
    """The weight as the right operand of a product."""
    return kind(matmul=weight, dense=op.transpose(weight, axes=(1, 0)))


first, second = cases("first", "matmul", "dense"), cases("second", "matmul", "dense")


@condition
def is_modest(w: Term, v: Term) -> bool | str:
    """The product of two weights does not take long to compute: the last axis of the first one is summed over."""
    sizes = [dim for dim in (*w.type.shape, v.type.shape[-1]) if isinstance(dim, int)]
    return math.prod(sizes) <= _MOST or f"the product of {w.type!r} and {v.type!r} takes {math.prod(sizes):.2g} multiplications"


@condition
def has_entries(y: Term) -> bool | str:
    """The matrices certainly have entries: a sum of nothing is 0, whatever is infinite beside it."""
    return all(at_least(dim, 1) for dim in y.type.shape[-2:]) or f"matrices of {y.type!r} may be empty"


@condition
def are_stacks(x: Term, y: Term, z: Term) -> bool | str:
    """All are matrices, or stacks of matrices of one shape: nothing is broadcast."""
    ranks = {term.type.ndim for term in (x, y, z)}
    if len(ranks) != 1 or min(ranks) < 2:
        return f"the ranks are {sorted(ranks)}"
    stacks = [term.type.shape[:-2] for term in (x, y, z)]
    same = all(same_dim(m, n) for other in stacks[1:] for m, n in zip(stacks[0], other, strict=True))
    return same or f"the stacks have shapes {stacks}"


@condition
def is_row_scale(c: Term, w: Term, axis: int) -> bool | str:
    """The constant is a vector with one number for each index of an axis of the weight."""
    return (c.type.ndim == 1 and c.type.shape[0] == w.type.shape[axis]) or f"{c.type!r} does not scale axis {axis} of {w.type!r}"


_INNER, _RIGHT_W, _RIGHT_V = _weighted(first, x, w), _right(first, w), _right(second, v)
_BOTH: Final = product(x, product(_RIGHT_W, _RIGHT_V))
_SHIFTED: Final = _BOTH + product(b, _RIGHT_V)
bias = cases("bias", "none", "added", "biased")
_MEETING: Final = bias(none=_INNER, added=_INNER + b, biased=op.nn.bias_add(_INNER, b, axis=p))


class MatmulChains(RuleSet):
    """Linear maps by constant weights that follow each other become one, where that is cheaper."""

    meet = (
        (_weighted(second, _MEETING, v) >> bias(none=_BOTH, added=_SHIFTED, biased=_SHIFTED))
        .when(has_rank(w, 2), has_rank(v, 2), has_entries(w), is_modest(_RIGHT_W, _RIGHT_V), products_stay_finite(w, v, _RIGHT_V, 0))
        .when(*bias.only("added", is_product_bias(b, _INNER)), *bias.only("biased", is_axis(p, -1, _INNER)))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )


biases = cases("biases", "none", "shifted", "left", "both")
_LEFT, _OTHER = _weighted(first, x, w), _weighted(second, x, v)
_SUM: Final = product(x, _RIGHT_W + _RIGHT_V)


class MatmulSums(RuleSet):
    """Products of one operand with several weights, summed, are one product: what merges a LoRA adapter into its weight."""

    add = (
        (
            biases(none=_LEFT, shifted=_LEFT + y, left=op.nn.bias_add(_LEFT, b, axis=p), both=op.nn.bias_add(_LEFT, b, axis=p))
            + biases(none=_OTHER, shifted=_OTHER, left=_OTHER, both=op.nn.bias_add(_OTHER, c, axis=p))
            >> biases(none=_SUM, shifted=_SUM + y, left=op.nn.bias_add(_SUM, b, axis=p), both=op.nn.bias_add(_SUM, b + c, axis=p))
        )
        .when(has_rank(w, 2), has_rank(v, 2), same_shape(_RIGHT_W, _RIGHT_V), sum_stays_finite(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )
    subtract = (
        (_LEFT - _OTHER >> product(x, _RIGHT_W - _RIGHT_V))
        .when(has_rank(w, 2), has_rank(v, 2), same_shape(_RIGHT_W, _RIGHT_V), sum_stays_finite(w, v))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
    )


class Grouping(RuleSet):
    """Chains of products that are no constants, in the order that costs least; with budgets, since there are exponentially many."""

    regroup = (
        (product(product(x, y), z) >> product(x, product(y, z)))
        .when(are_stacks(x, y, z), has_entries(y))
        .inexact(_GROUPED, nonfinite=MIXED)
        .and_back()
        .budget(64)
    )
    common_left = (
        (product(x, y) + product(x, z) >> product(x, y + z))
        .when(same_shape(y, z), is_not_constant(y))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
        .budget(64)
    )
    common_right = (
        (product(x, z) + product(y, z) >> product(x + y, z))
        .when(same_shape(x, y))
        .inexact(_GROUPED, nonfinite=RESOLVED)
        .exploring()
        .budget(64)
    )


class AffineBefore(RuleSet):
    """Scales and shifts before a product with a constant weight go into the weight and behind the product."""

    scaled = (
        (_weighted(first, x * c, w) >> product(x, _RIGHT_W * op.reshape(c, newshape=())))
        .when(has_rank(w, 2), is_scalar(c, x), is_not(c, 1), stays_finite(w, c))
        .inexact(_NOTE)
        .exploring()
        .budget(64)
    )
    scaled_rows = (
        (_weighted(first, x * c, w) >> product(x, _RIGHT_W * op.reshape(c, newshape=(-1, 1))))
        .when(has_rank(w, 2), is_row_scale(c, _RIGHT_W, 0), is_product_bias(c, x), stays_finite(w, c))
        .inexact(_NOTE)
        .exploring()
        .budget(64)
    )
    shifted_rows = (
        (_weighted(first, x + c, w) >> product(x, _RIGHT_W) + product(c, _RIGHT_W))
        .when(has_rank(w, 2), is_row_scale(c, _RIGHT_W, 0), is_product_bias(c, x), is_float(x), products_stay_finite(w, c, _RIGHT_W, 0))
        .inexact(_NOTE)
        .exploring()
        .budget(64)
    )


@condition
def is_regular_divisor(c: Term) -> bool | str:
    """The divisor and its reciprocal are finite and far from 0."""
    value = c.value().uniform()
    size = abs(float(value)) if value is not None else 0.0
    return 1e-4 < size < 1e4 or f"the divisor is {value}"


side = cases("side", "left", "right")
_NUMBER: Final = op.reshape(c, newshape=())


class AttentionScale(RuleSet):
    """The scale of attention: it moves from the scores to the queries and on into their weights (see `Scales`), where it costs nothing."""

    quotient = (
        (product(x, y) / c >> product(x, y) * (1.0 / c))
        .when(is_float(x), is_scalar(c, product(x, y)), is_regular_divisor(c))
        .inexact("two roundings")
        .exploring()
    )
    scores = (
        (product(x, y) * c >> product(side(left=x * _NUMBER, right=x), side(left=y, right=y * _NUMBER)))
        .when(is_float(x), is_scalar(c, product(x, y)), is_not(c, 1), is_finite(c), stays_finite(side(left=x, right=y), c))
        .inexact(_NOTE)
        .exploring()
    )
