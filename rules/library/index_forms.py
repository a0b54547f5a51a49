"""Short forms of index expressions, the inverses of normal forms in `index_arithmetic` and `index_logic`; extraction chooses.

Operators: add subtract multiply floor_divide floor_mod divide fmod minimum maximum less less_equal equal not_equal logical_not where.

Index arithmetic is assumed not to overflow; only passes over loops use these sets.
"""

from typing import Any as AnyValue
from typing import Final

from passat.ir.shape import Dim, SymDim
from passat.rules.guards import Term, Tree, computed, guard
from passat.rules.holes import cases
from passat.rules.library.index_arithmetic import NO_OVERFLOW, is_above_zero, is_index
from passat.rules.library.index_logic import is_truth
from passat.rules.pattern import constants, expression, op, tensors
from passat.rules.polynomials import apply, constant_in, polynomial, terms_of, tree_of
from passat.rules.rule_set import RuleSet

x, y, z, v = tensors("x y z v")
c, d, e = constants("c d e")
rounding = cases("rounding", "floor", "trunc")
least = cases("least", "minimum", "maximum")


def _quotient(x: AnyValue, c: AnyValue) -> AnyValue:
    return rounding(floor=op.floor_divide(x, c), trunc=op.divide(x, c))


def _remainder(x: AnyValue, c: AnyValue) -> AnyValue:
    return rounding(floor=op.floor_mod(x, c), trunc=op.fmod(x, c))


@guard
def multiply_to(c: Term, d: Term, e: Term) -> bool | str:
    """The third constant is the product of the others."""
    p, q, r = (polynomial(each) for each in (c, d, e))
    return p * q == r or f"{p}*{q} is not {r}"


class IndexRemainders(RuleSet):
    """Writes `x - x//c*c`, also scaled or shifted, as a remainder."""

    remainder = (x - _quotient(x, c) * c >> _remainder(x, c)).when(is_index(x), is_index(c)).finite(NO_OVERFLOW).exploring()
    negated = (_quotient(x, c) * c - x >> 0 - _remainder(x, c)).when(is_index(x), is_index(c)).finite(NO_OVERFLOW).exploring()
    shifted = (
        (x - _quotient(x + y, c) * c >> _remainder(x + y, c) - y)
        .when(is_index(x), is_index(y), is_index(c))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    shifted_back = (
        (x - _quotient(x - y, c) * c >> _remainder(x - y, c) + y)
        .when(is_index(x), is_index(y), is_index(c))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    shifted_negated = (
        (_quotient(x + y, c) * c - x >> y - _remainder(x + y, c))
        .when(is_index(x), is_index(y), is_index(c))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    scaled = (
        (x * d - _quotient(x, c) * e >> _remainder(x, c) * d)
        .when(is_index(x), is_index(c), is_index(d), is_index(e), multiply_to(c, d, e))
        .finite(NO_OVERFLOW)
        .exploring()
    )


class IndexShortForms(RuleSet):
    """Moves terms into minima, maxima and selections, and a common factor out of a sum."""

    into_minimum = (y + op.minimum(x, 0) >> op.minimum(x + y, y)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring().budget(50)
    into_maximum = (y - op.minimum(x, 0) >> op.maximum(y - x, y)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring().budget(50)
    into_scaled_minimum = (
        (y + op.minimum(x, 0) * c >> op.minimum(x * c + y, y))
        .when(is_index(x), is_index(y), is_index(c), is_above_zero(c))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    into_scaled_maximum = (
        (y - op.minimum(x, 0) * c >> op.maximum(y - x * c, y))
        .when(is_index(x), is_index(y), is_index(c), is_above_zero(c))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    common_term = (
        (
            least(minimum=op.minimum(x + y, x + z), maximum=op.maximum(x + y, x + z))
            >> x + least(minimum=op.minimum(y, z), maximum=op.maximum(y, z))
        )
        .when(is_index(x), is_index(y), is_index(z))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    shifted_extremum = (
        (
            least(minimum=op.minimum(x, y), maximum=op.maximum(x, y)) + c
            >> least(minimum=op.minimum(x + c, y + c), maximum=op.maximum(x + c, y + c))
        )
        .when(is_index(x), is_index(y), is_index(c))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    selections = (
        (op.where(v, x, 0) + op.where(v, y, 0) >> op.where(v, x + y, 0))
        .when(is_truth(v), is_index(x), is_index(y))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    into_selection = (
        (y + op.where(v, x, 0) >> op.where(v, x + y, y))
        .when(is_truth(v), is_index(x), is_index(y))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    into_selection_negated = (
        (y - op.where(v, x, 0) >> op.where(v, y - x, y))
        .when(is_truth(v), is_index(x), is_index(y))
        .finite(NO_OVERFLOW)
        .exploring()
        .budget(50)
    )
    factor_one = (x * y + x >> x * (y + 1)).when(is_index(x), is_index(y)).finite(NO_OVERFLOW).exploring()


def _sides(dim: Dim) -> tuple[Dim, Dim]:
    """A polynomial as a difference of polynomials without negative terms; the constant goes where nothing else is."""
    constant = constant_in(dim)
    left: Dim = 0
    right: Dim = 0
    for names, factor in terms_of(dim - constant):
        term = SymDim([(names, abs(factor))])
        left, right = (left + term, right) if factor > 0 else (left, right + term)
    if right == 0 or (left != 0 and constant < 0):
        return left, right - constant
    return left + constant, right


@computed
def solved_below(x: Term) -> Tree:
    """`p < 0` with the negative terms on the other side."""
    left, right = _sides(polynomial(x))
    return apply("less", tree_of(left, x), tree_of(right, x))


@computed
def solved_at_least(x: Term) -> Tree:
    """`p >= 0` with the negative terms on the other side: `r <= l`."""
    left, right = _sides(polynomial(x))
    return apply("less_equal", tree_of(right, x), tree_of(left, x))


@computed
def solved_zero(x: Term) -> Tree:
    """`p == 0` with the negative terms on the other side."""
    left, right = _sides(polynomial(x))
    return apply("equal", tree_of(left, x), tree_of(right, x))


_PARTS: Final = ("add", "subtract", "multiply")


class IndexSolved(RuleSet):
    """Writes comparisons with 0 as comparisons of two sides."""

    less = (op.less(x, 0) >> expression(solved_below(x), "less", *_PARTS)).when(is_index(x)).finite(NO_OVERFLOW).exploring()
    at_least = (
        (op.logical_not(op.less(x, 0)) >> expression(solved_at_least(x), "less_equal", *_PARTS))
        .when(is_index(x))
        .finite(NO_OVERFLOW)
        .exploring()
    )
    equal = (op.equal(x, 0) >> expression(solved_zero(x), "equal", *_PARTS)).when(is_index(x)).finite(NO_OVERFLOW).exploring()
