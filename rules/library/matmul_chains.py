"""Products of products: weights that meet become one, products are grouped by what they cost. Operators: nn.matmul nn.dense nn.bias_add
add subtract multiply divide transpose.

Linear maps compose: (x W1 + b1) W2 + b2 = x (W1 W2) + (b1 W2 + b2), and x W + (x A) B = x (W + A B), which is what is left of a LoRA
adapter. Where a sum that is grouped anew holds infinities of both signs it is no number, and may be infinite in the other grouping. What
takes factors out, as these two do, leaves infinities as they are. In chains of products none of which is a weight they may get lost.
"""

import math
from collections.abc import Callable
from typing import Final

from passat.ir.bounds import at_least
from passat.ir.shape import same_dim
from passat.rules.conditions import Term, condition, has_rank, is_axis, is_finite, is_float, same_shape
from passat.rules.library.batch_norm import is_not, products_stay_finite, stays_finite
from passat.rules.library.factoring import is_not_constant
from passat.rules.library.linear import is_product_bias, is_scalar
from passat.rules.pattern import Pattern, PCall, attributes, constants, op, tensors
from passat.rules.rule import MIXED, RESOLVED, Rule, RuleSet, RuleSetMeta

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


def _dense(left: Pattern, right: Pattern) -> PCall:
    return op.nn.dense(left, right)


def _turned(weight: Pattern) -> PCall:
    return op.transpose(weight, axes=(1, 0))


KINDS: Final[dict[str, tuple[Callable[[Pattern, Pattern], PCall], Callable[[Pattern], Pattern]]]] = {
    "matmul": (product, lambda weight: weight),
    "dense": (_dense, _turned),
}
"""How a product with a weight is written, and the weight as the right operand of a product."""


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


def _chains() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for first, (inner, right_w) in KINDS.items():
        for second, (outer, right_v) in KINDS.items():
            guards = (
                *(has_rank(w, 2), has_rank(v, 2), has_entries(w), is_modest(right_w(w), right_v(v))),
                products_stay_finite(w, v, right_v(v), 0),
            )
            name, both = f"{first}_{second}", product(right_w(w), right_v(v))
            rules[f"{name}"] = (outer(inner(x, w), v) >> product(x, both)).when(*guards)
            rules[f"{name}_shifted"] = (outer(inner(x, w) + b, v) >> product(x, both) + product(b, right_v(v))).when(
                *guards, is_product_bias(b, inner(x, w))
            )
            biased = op.nn.bias_add(inner(x, w), b, axis=p)
            rules[f"{name}_biased"] = (outer(biased, v) >> product(x, both) + product(b, right_v(v))).when(
                *guards, is_axis(p, -1, inner(x, w))
            )
    doc = "Linear maps by constant weights that follow each other become one, where that is cheaper."
    chains = {name: rule.inexact(_GROUPED, nonfinite=RESOLVED).exploring() for name, rule in rules.items()}
    return RuleSetMeta("MatmulChains", (RuleSet,), {"__doc__": doc, **chains})


MatmulChains = _chains()


def _sums() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for first, (left, right_w) in KINDS.items():
        for second, (right, right_v) in KINDS.items():
            guards = (has_rank(w, 2), has_rank(v, 2), same_shape(right_w(w), right_v(v)))
            summed = product(x, right_w(w) + right_v(v))
            if (first, second) != ("dense", "matmul"):  # sums are matched in both orders
                rules[f"{first}_add_{second}"] = (left(x, w) + right(x, v) >> summed).when(*guards)
                both = op.nn.bias_add(left(x, w), b, axis=p) + op.nn.bias_add(right(x, v), c, axis=p)
                rules[f"{first}_add_{second}_biased"] = (both >> op.nn.bias_add(summed, b + c, axis=p)).when(*guards)
            rules[f"{first}_shifted_add_{second}"] = ((left(x, w) + y) + right(x, v) >> summed + y).when(*guards)
            one = op.nn.bias_add(left(x, w), b, axis=p) + right(x, v)
            rules[f"{first}_biased_add_{second}"] = (one >> op.nn.bias_add(summed, b, axis=p)).when(*guards)
            rules[f"{first}_subtract_{second}"] = (left(x, w) - right(x, v) >> product(x, right_w(w) - right_v(v))).when(*guards)
    doc = "Products of one operand with several weights, summed, are one product: what merges a LoRA adapter into its weight."
    sums = {name: rule.inexact(_GROUPED, nonfinite=RESOLVED).exploring() for name, rule in rules.items()}
    return RuleSetMeta("MatmulSums", (RuleSet,), {"__doc__": doc, **sums})


MatmulSums = _sums()


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


def _before() -> RuleSetMeta:
    rules: dict[str, Rule] = {}
    for name, (of, right) in KINDS.items():
        column = op.reshape(c, newshape=(-1, 1))
        one = op.reshape(c, newshape=())
        rules[f"{name}_scaled"] = (of(x * c, w) >> product(x, right(w) * one)).when(
            has_rank(w, 2), is_scalar(c, x), is_not(c, 1), is_finite(c), stays_finite(w, c)
        )
        rules[f"{name}_scaled_rows"] = (of(x * c, w) >> product(x, right(w) * column)).when(
            has_rank(w, 2), is_row_scale(c, right(w), 0), is_product_bias(c, x), is_finite(c), stays_finite(w, c)
        )
        rules[f"{name}_shifted_rows"] = (of(x + c, w) >> product(x, right(w)) + product(c, right(w))).when(
            has_rank(w, 2), is_row_scale(c, right(w), 0), is_product_bias(c, x), is_finite(c), is_float(x)
        )
    doc = "Scales and shifts before a product with a constant weight go into the weight and behind the product."
    before = {name: rule.inexact(_NOTE).exploring().budget(64) for name, rule in rules.items()}
    return RuleSetMeta("AffineBefore", (RuleSet,), {"__doc__": doc, **before})


AffineBefore = _before()


@condition
def is_regular_divisor(c: Term) -> bool | str:
    """The divisor and its reciprocal are finite and far from 0."""
    value = c.value().uniform()
    size = abs(float(value)) if value is not None else 0.0
    return 1e-4 < size < 1e4 or f"the divisor is {value}"


class AttentionScale(RuleSet):
    """The scale of attention: it moves from the scores to the queries and on into their weights (see `Scales`), where it costs nothing."""

    quotient = (
        (product(x, y) / c >> product(x, y) * (1.0 / c))
        .when(is_float(x), is_scalar(c, product(x, y)), is_regular_divisor(c))
        .inexact("two roundings")
        .exploring()
    )
    scores_left = (
        (product(x, y) * c >> product(x * op.reshape(c, newshape=()), y))
        .when(is_float(x), is_scalar(c, product(x, y)), is_not(c, 1), is_finite(c), stays_finite(x, c))
        .inexact(_NOTE)
        .exploring()
    )
    scores_right = (
        (product(x, y) * c >> product(x, y * op.reshape(c, newshape=())))
        .when(is_float(x), is_scalar(c, product(x, y)), is_not(c, 1), is_finite(c), stays_finite(y, c))
        .inexact(_NOTE)
        .exploring()
    )
