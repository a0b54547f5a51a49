"""Comparisons, logic and selections of scalar integers.

Operators: less less_equal greater greater_equal equal not_equal logical_and logical_or logical_not where.

Index arithmetic is assumed not to overflow; only passes over loops use these sets. Every comparison becomes `p < 0` or `p == 0` for a
polynomial p (`passat.rules.polynomials`) without a common factor.
"""

import math
from typing import Final

import numpy as np

from passat.ir.shape import Dim, SymDim, divide
from passat.ir.tensor import Tensor
from passat.rules.guards import Term, Tree, computed, guard
from passat.rules.holes import operator
from passat.rules.library.index_arithmetic import NO_OVERFLOW, is_index
from passat.rules.pattern import constants, expression, op, tensors, value
from passat.rules.polynomials import (
    apply,
    atom_in,
    bounds_of,
    bounds_of_term,
    class_of,
    constant_in,
    in_order,
    integer,
    leads_negative,
    polynomial,
    terms_of,
    tree_of,
)
from passat.rules.rule_set import RuleSet

x, y, z, v, w = tensors("x y z v w")
(c,) = constants("c")
_PARTS: Final = ("add", "subtract", "multiply")


_MOST_STEPS: Final = 16
"""Maximum number of steps of the normalization of one comparison."""


def _truth(found: bool) -> Tensor:
    return Tensor.dense(np.asarray(found))


def _content(dim: Dim) -> int:
    """The common factor of all terms but the constant."""
    return math.gcd(*(factor for names, factor in terms_of(dim) if names))


def _without_constant(dim: Dim) -> Dim:
    return dim - constant_in(dim)


def below_zero(dim: Dim, x: Term) -> Tree:
    """The comparison of a polynomial with 0: a constant where bounds decide, otherwise `p < 0` without a common factor, and without a
    quotient or a minimum at the top."""
    for _ in range(_MOST_STEPS):  # an e-class may contain a quotient of itself
        bounds = bounds_of(dim, x)
        if bounds.high < 0 or bounds.low >= 0:
            return _truth(bounds.high < 0)
        by = _content(dim)
        if by > 1:  # g*p + c < 0 is p + floor(c/g) < 0
            dim = divide(_without_constant(dim), by) + constant_in(dim) // by
            continue
        found = _opened(dim, x)
        if found is None:
            break
        dim = found
    return apply("less", tree_of(dim, x), integer(0, x))


def _opened(dim: Dim, x: Term) -> Dim | None:
    """For the comparison of a quotient or a minimum with a constant: the polynomial of the equivalent comparison of its operands."""
    found = atom_in(dim)
    if found is None or abs(found[1]) != 1:
        return _opened_difference(dim, x)
    atom, sign, constant = x.of_class(class_of(found[0])), found[1], found[2]
    for dividend, divisor in atom.calls("floor_divide"):
        p, c = polynomial(dividend), polynomial(divisor)
        if isinstance(c, int) and c > 0:  # p//c < -k is p < -k*c;  p//c > k is p >= (k + 1)*c
            return p + constant * c if sign > 0 else (constant + 1) * c - 1 - p
    for dividend, divisor in atom.calls("divide"):
        p, c = polynomial(dividend), polynomial(divisor)
        if isinstance(c, int) and c > 0:
            if sign < 0:
                p = -p  # the quotient of -p is the negative quotient
            # q < -k: with -k > 0, p < -k*c; otherwise q <= -k - 1 < 0, so p <= (-k - 1)*c
            return p + constant * c if constant < 0 else p + (constant + 1) * c - 1
    for one, other in atom.calls("minimum"):
        if polynomial(other) == 0:
            # min(p, 0) < -k for k >= 0 is p < -k;  min(p, 0) > k for k < 0 is p > k
            return polynomial(one) + constant if sign > 0 else constant - polynomial(one)
    return None


def _opened_difference(dim: Dim, x: Term) -> Dim | None:
    """For `min(p, 0) - p + k`, which is `min(-p, 0) + k`, and its negative: the polynomial of the equivalent comparison."""
    for names, factor in terms_of(dim):
        for one, other in x.of_class(class_of(names[0])).calls("minimum") if len(names) == 1 and abs(factor) == 1 else ():
            p = polynomial(one)
            constant = dim - (SymDim.named(names[0]) - p) * factor
            if polynomial(other) == 0 and isinstance(constant, int):
                if (constant < 0) == (factor > 0):  # min(-p, 0) is at most 0, which decides
                    return constant
                return constant - p if factor > 0 else constant + p
    return None


@computed
def is_below(x: Term, y: Term) -> Tree:
    """The canonical form of `x < y`."""
    one, other = bounds_of_term(x), bounds_of_term(y)
    if one.high < other.low or one.low >= other.high:
        return _truth(one.high < other.low)
    return below_zero(polynomial(x) - polynomial(y), x)


@computed
def is_same(x: Term, y: Term) -> Tree:
    """The canonical form of `x == y`."""
    one, other = bounds_of_term(x), bounds_of_term(y)
    if one.high < other.low or other.high < one.low:
        return _truth(False)
    dim = polynomial(x) - polynomial(y)
    bounds = bounds_of(dim, x)
    if bounds.low > 0 or bounds.high < 0 or bounds == (0, 0):
        return _truth(bounds == (0, 0))
    by = _content(dim)
    if constant_in(dim) % by:
        return _truth(False)
    dim = divide(-dim if leads_negative(dim) else dim, by)
    terms = terms_of(dim)
    if len(terms) == 1 and len(terms[0][0]) > 1:  # a product is 0 if one of its factors is
        found: Tree = _zero(terms[0][0][0], x)
        for name in dict.fromkeys(terms[0][0][1:]):
            found = apply("logical_or", found, _zero(name, x))
        return found
    return apply("equal", tree_of(dim, x), integer(0, x))


def _zero(name: str, x: Term) -> Tree:
    return apply("equal", tree_of(SymDim.named(name), x), integer(0, x))


class IndexComparisons(RuleSet):
    """Normalizes comparisons: to `p < 0`, `p == 0` or a constant."""

    less = (op.less(x, y) >> expression(is_below(x, y), "less", *_PARTS)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring()
    greater = (op.greater(x, y) >> op.less(y, x)).when(is_index(x)).exploring()
    less_equal = (op.less_equal(x, y) >> op.logical_not(op.less(y, x))).when(is_index(x)).exploring()
    greater_equal = (op.greater_equal(x, y) >> op.logical_not(op.less(x, y))).when(is_index(x)).exploring()
    equal = (
        (op.equal(x, y) >> expression(is_same(x, y), "equal", "logical_or", *_PARTS))
        .when(is_index(x), is_index(y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    not_equal = (op.not_equal(x, y) >> op.logical_not(op.equal(x, y))).when(is_index(x), is_index(y)).exploring()


@computed
def complement(x: Term, y: Term) -> Tree:
    """The comparison that holds where `x < y` does not: `y - 1 < x`."""
    return below_zero(polynomial(y) - polynomial(x) - 1, x)


@guard
def never_negative_together(x: Term, y: Term) -> bool | str:
    """The two polynomials are not negative together."""
    return bounds_of(polynomial(x) + polynomial(y), x).low >= -1 or "both may be negative"


@guard
def one_is_negative(x: Term, y: Term) -> bool | str:
    """One of two polynomials is always negative."""
    return bounds_of(polynomial(x) + polynomial(y), x).high < 0 or "neither need be negative"


@guard
def is_not_zero(x: Term) -> bool | str:
    """The term is not the constant 0."""
    return x.constant is None or bool(x.value().numpy() != 0) or "the term is 0"


@guard
def is_at_most(x: Term, y: Term) -> bool | str:
    """The first polynomial is at most the second, so that it is negative where the second is."""
    return bounds_of(polynomial(x) - polynomial(y), x).high <= 0 or "the first may be larger"


@guard
def never_meet(x: Term, y: Term) -> bool | str:
    """The two polynomials are never 0 together."""
    p, q = polynomial(x), polynomial(y)
    for dim in (p - q, p + q):
        bounds = bounds_of(dim, x)
        if bounds.low > 0 or bounds.high < 0:
            return True
    return "both may be 0"


@guard
def is_truth(x: Term) -> bool | str:
    """The term is a scalar truth value."""
    type_ = x.type
    return (type_.dtype == "bool" and not type_.shape) or f"{type_!r} is not the type of a truth value"


_LESS_X, _LESS_Y = op.less(x, 0), op.less(y, 0)
_EQUAL_X, _EQUAL_Y = op.equal(x, 0), op.equal(y, 0)


@computed
def opposite(c: Term) -> Tensor:
    """The negation of a constant truth value."""
    return _truth(not c.value().numpy())


class IndexLogic(RuleSet):
    """Simplifies conjunctions and disjunctions, also of comparisons that exclude or imply each other. Rules for all types are elsewhere
    (`Arithmetic.unit`, `Arithmetic.same_operands`, `Arithmetic.involution_twice`)."""

    complement = (
        (op.logical_not(op.less(x, y)) >> expression(complement(x, y), "less", *_PARTS))
        .when(is_index(x), is_index(y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    opposite = (op.logical_not(c) >> value(opposite(c))).when(is_truth(c))
    both_false = (op.logical_and(x, False) >> False).when(is_truth(x))
    both_opposite = (op.logical_and(x, op.logical_not(x)) >> False).when(is_truth(x))
    either_true = (op.logical_or(x, True) >> True).when(is_truth(x))
    either_opposite = (op.logical_or(x, op.logical_not(x)) >> True).when(is_truth(x))
    both_below = (
        (op.logical_and(_LESS_X, _LESS_Y) >> False)
        .when(is_index(x), is_index(y), never_negative_together(x, y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    either_below = (
        (op.logical_or(_LESS_X, _LESS_Y) >> True).when(is_index(x), is_index(y), one_is_negative(x, y)).finite(NO_OVERFLOW).exploring()
    )
    both_implied = (
        (op.logical_and(_LESS_X, _LESS_Y) >> _LESS_Y).when(is_index(x), is_index(y), is_at_most(x, y)).finite(NO_OVERFLOW).exploring()
    )
    either_implied = (
        (op.logical_or(_LESS_X, _LESS_Y) >> _LESS_X).when(is_index(x), is_index(y), is_at_most(x, y)).finite(NO_OVERFLOW).exploring()
    )
    both_zero = (
        (op.logical_and(_EQUAL_X, _EQUAL_Y) >> False).when(is_index(x), is_index(y), never_meet(x, y)).finite(NO_OVERFLOW).exploring()
    )
    zero_and_not = (
        (op.logical_and(_EQUAL_X, op.logical_not(_EQUAL_Y)) >> _EQUAL_X)
        .when(is_index(x), is_index(y), never_meet(x, y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    not_zero_or = (
        (op.logical_or(op.logical_not(_EQUAL_X), _EQUAL_Y) >> op.logical_not(_EQUAL_X))
        .when(is_index(x), is_index(y), never_meet(x, y))
        .finite(NO_OVERFLOW)
        .exploring()
    )


# ---- selections


@computed
def selected(v: Term, x: Term) -> Tree:
    """`where(v, p, 0)` as a sum over the terms of the polynomial p."""
    dim = polynomial(x)
    parts: list[Tree] = []
    for names, factor in in_order(dim):
        part: Tree = apply("where", v, tree_of(SymDim([(names, 1)]) if names else 1, x), integer(0, x))
        parts.append(part if factor == 1 else apply("multiply", part, integer(factor, x)))
    total: Tree = parts[0] if parts else integer(0, x)
    for each in parts[1:]:
        total = apply("add", total, each)
    return total


def follows(given: Term, asked: Term, depth: int = 4) -> bool | None:
    """Whether a truth value holds where another does; None if it is not known."""
    if asked.constant is not None:
        return bool(asked.value().numpy())
    if given.cls == asked.cls:
        return True
    for (inverse,) in asked.calls("logical_not"):
        if inverse.cls == given.cls:
            return False
    for one, other in given.calls("logical_and") if depth else ():
        for part in (one, other):
            found = follows(part, asked, depth - 1)
            if found is not None:
                return found
    for one, zero in given.calls("less"):
        for other, also in asked.calls("less"):
            if polynomial(zero) == polynomial(also) == 0:
                p, q = polynomial(one), polynomial(other)
                if bounds_of(q - p, one).high <= 0:
                    return True
                if bounds_of(p + q, one).low > -2:
                    return False
    return None


@guard
def follows_from(v: Term, w: Term) -> bool | str:
    """The second truth value holds where the first does."""
    return follows(v, w) is True or "it does not follow"


@guard
def contradicts(v: Term, w: Term) -> bool | str:
    """The second truth value does not hold where the first does."""
    return follows(v, w) is False or "it does not contradict"


extremum = operator("extremum", "minimum", "maximum")
_CHOSEN: Final = op.where(v, op.where(w, x, y), z)
_INDICES: Final = (is_truth(v), is_truth(w), is_index(x), is_index(y), is_index(z))


class IndexSelections(RuleSet):
    """Normalizes selections: `where(v, x, y)` is `y + where(v, x - y, 0)`, term by term; drops decided ones."""

    true = (op.where(True, x, y) >> x).when(is_index(x), is_index(y))
    false = (op.where(False, x, y) >> y).when(is_index(x), is_index(y))
    difference = (
        (op.where(v, x, y) >> y + op.where(v, x - y, 0))
        .when(is_truth(v), is_index(x), is_index(y), is_not_zero(y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    terms = (
        (op.where(v, x, 0) >> expression(selected(v, x), "where", *_PARTS)).when(is_truth(v), is_index(x)).finite(NO_OVERFLOW).exploring()
    )
    extrema = (
        (extremum(op.where(v, x, y), op.where(v, z, w)) >> op.where(v, extremum(x, z), extremum(y, w)))
        .when(is_truth(v), is_index(x), is_index(y), is_index(z), is_index(w))
        .exploring()
    )
    chosen = (_CHOSEN >> op.where(v, x, z)).when(*_INDICES, follows_from(v, w)).exploring()
    dropped = (_CHOSEN >> op.where(v, y, z)).when(*_INDICES, contradicts(v, w)).exploring()
